"""Video with tracked objects in the layout of MOTChallenge: a folder a sequence, with ``img1/*.jpg`` and ``gt/gt.txt``.

A line of gt.txt is ``frame, id, x, y, width, height, counts, class, visibility``; the file counts frames and pixels from 1,
steps and corners here count from 0. A line whose `counts` is 0 is one that the benchmark ignores, and so is left out.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "gt.txt"
>>> _ = file.write_text("1,7,11,21,5,5,1,1,1\\n2,7,12,21,5,5,0,1,1\\n")
>>> tracks = read_tracks(file, steps=2)
>>> tracks.ids.tolist(), tracks.xyxy.tolist()
([7], [[10.0, 20.0, 15.0, 25.0]])
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from roadworthy.data.loaders.files import (
    Files,
    Sequences,
    image_files,
    located,
    read_image,
    read_text,
)
from roadworthy.data.loaders.joining import Samples, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import FRAMES, TRACKS, Tracks
from roadworthy.registry import register


@register(
    "loaders", "frames", keys=("frames",), gives={"inputs": ("frames",), "targets": ("tracks",)}
)
@reads
def frames(
    *,
    path: str,
    of: list[int] | None = None,
    base: Path = Path(),
) -> Samples:
    """Sequences of frames with tracks (MOTChallenge); `of` keeps only objects of these class numbers."""
    folder = located(path, base=base, what="frames", folder=True)
    sequences = sorted(d for d in folder.iterdir() if (d / "img1").is_dir())
    if not sequences:
        raise DataError(
            f"{folder}: holds no sequence (a folder with img1/ and gt/gt.txt); name the folder above them"
        )
    pictures = [_frames(sequence) for sequence in sequences]
    tracks = [
        read_tracks(located("gt/gt.txt", base=sequence, what="frames"), steps=len(files), of=of)
        for sequence, files in zip(sequences, pictures, strict=True)
    ]
    return Samples(
        source=folder,
        input_kind=FRAMES,
        inputs=Sequences(tuple(pictures)),
        target_kind=TRACKS,
        targets=tracks,
        ids=[sequence.name for sequence in sequences],
        columns={"frames": np.array([len(p) for p in pictures])},
    )


def read_tracks(file: Path, *, steps: int, of: list[int] | None = None) -> Tracks:
    """The objects of one sequence that count."""
    kept: list[tuple[int, int, float, float, float, float]] = []
    seen: set[tuple[int, int]] = set()
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            frame, identity, x, y, width, height, *rest = (float(cell) for cell in line.split(","))
        except ValueError:
            raise DataError(
                f"{where}: is {line!r}; frame, id, x, y, width, height, … as numbers were expected"
            ) from None
        if (
            not all(map(math.isfinite, (frame, identity, x, y, width, height)))
            or width <= 0
            or height <= 0
        ):
            raise DataError(
                f"{where}: a box of {width:g} x {height:g} pixels; both must be above 0: correct or drop it"
            )
        if not 1 <= frame <= steps:
            raise DataError(
                f"{where}: is of frame {frame:g}, but img1 has the frames 1 to {steps}; restore the frames"
            )
        if (rest and rest[0] == 0) or (
            of is not None and (len(rest) < 2 or int(rest[1]) not in of)
        ):
            continue
        if (int(frame), int(identity)) in seen:
            raise DataError(
                f"{where}: object {identity:g} is in frame {frame:g} twice; an object has one box a frame"
            )
        seen.add((int(frame), int(identity)))
        kept.append((int(frame) - 1, int(identity), x - 1, y - 1, x - 1 + width, y - 1 + height))
    kept.sort(key=lambda row: row[:2])
    return Tracks.of([k[0] for k in kept], [k[1] for k in kept], [k[2:] for k in kept])


def _frames(sequence: Path) -> Files:
    files = image_files(sequence / "img1")
    if not files:
        raise DataError(
            f"{sequence / 'img1'}: holds no images; put the frames there as 000001.jpg, 000002.jpg, …"
        )
    numbered = [int(f.stem) for f in files if f.stem.isdigit()]
    if len(numbered) == len(files) and numbered != list(range(1, len(files) + 1)):
        missing = next(i for i in range(1, len(files) + 2) if i not in set(numbered))
        raise DataError(
            f"{sequence / 'img1'}: frame {missing} is missing; the frames must run from 1 without gaps"
        )
    return Files(tuple(files), read_image)
