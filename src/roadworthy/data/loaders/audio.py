"""Recordings and what was said in them.

Three forms: a CSV or TSV table with columns `audio` and `transcript` (every other column is metadata); a folder of .wav
files with a .txt of the same stem each; a folder of .wav files with one `transcription` file in the form of CMU Sphinx.
Recognisers take one channel, so the channels of a recording are averaged; ``stereo: true`` hands on all of them.

>>> sphinx_line("<s> he was not an ill disposed young man </s> (clip-0880)")
('clip-0880', 'he was not an ill disposed young man')
"""

from __future__ import annotations

import re
import struct
import warnings
from pathlib import Path

import numpy as np

from roadworthy.data.loaders.files import CsvTable, Files, located, read_text
from roadworthy.data.loaders.joining import Samples, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import AUDIO, TEXT, Audio
from roadworthy.registry import register

SPHINX = re.compile(r"(?:<s>)?\s*(?P<text>.*?)\s*(?:</s>)?\s*\((?P<id>[^()\s]+)\)")


@register("loaders", "audio", keys=("audio",), gives={"inputs": ("audio",), "targets": ("text",)})
@reads
def audio(
    *,
    path: str,
    folder: str | None = None,
    stereo: bool = False,
    base: Path = Path(),
) -> Samples:
    """Recordings (.wav) with transcripts: a folder, or a table with the columns audio and transcript."""
    place = base / path
    if place.is_dir():
        source, ids, said = _folder(place)
        files, columns, hint = [source / f"{i}.wav" for i in ids], {}, ""
    else:
        table = CsvTable.read(located(path, base=base, what="audio"))
        source = (
            place.parent
            if folder is None
            else located(folder, base=base, what="folder", folder=True)
        )
        files, said = [source / f for f in table["audio"]], table["transcript"]
        hint = (
            "recordings are sought beside the table"
            if folder is None
            else f"recordings are sought in folder: {folder}"
        )
        hint += "; folder: PATH says where they lie, seen from the assessment file"
        ids = table.columns.get("id", table["audio"])
        # a recording is the same sample in every table, but ids of a table's own may start again in the next
        source = table.file if "id" in table else source
        columns = table.without(["audio", "transcript", "id"])
    read, form = (read_stereo, "stereo") if stereo else (read_wav, "")
    return Samples(
        source=source,
        input_kind=AUDIO,
        inputs=Files(tuple(files), read, hint, form),
        target_kind=TEXT,
        targets=said,
        ids=ids,
        columns=columns,
    )


def read_wav(file: Path) -> Audio:
    """A wave, channels averaged, float32 in [-1, 1]."""
    audio = read_stereo(file)
    if audio.wave.ndim == 1:
        return audio
    return Audio(audio.wave.mean(axis=1, dtype=np.float32), audio.rate)


def read_stereo(file: Path) -> Audio:
    """A wave, float32 in [-1, 1]: mono as (samples,), several channels as (samples, channels)."""
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            # scipy only warns of a file that ends early; a wave cut short is not what was recorded
            warnings.filterwarnings("error", message="Reached EOF", category=wavfile.WavFileWarning)
            rate, samples = wavfile.read(file)
    except (ValueError, EOFError, struct.error, wavfile.WavFileWarning) as error:
        raise DataError(
            f"{file}: is not a whole wav file ({error}); record or copy it again"
        ) from error
    if samples.size == 0:
        raise DataError(f"{file}: has no samples; record it again or leave it out")
    return Audio(_scaled(samples), int(rate))


def _scaled(samples: np.ndarray) -> np.ndarray:
    """8-bit waves are stored without sign around 128; 24 bits arrive as the upper bytes of 32."""
    if samples.dtype.kind == "f":
        return samples.astype(np.float32)
    if samples.dtype == np.uint8:
        return (samples.astype(np.float32) - 128) / 128
    return (samples / float(1 << (8 * samples.dtype.itemsize - 1))).astype(np.float32)


def sphinx_line(line: str) -> tuple[str, str] | None:
    """Id and text of one line of a `transcription` file, or None where it is no such line."""
    match = SPHINX.fullmatch(line.strip())
    return (match["id"], match["text"]) if match else None


def _folder(folder: Path) -> tuple[Path, list[str], list[str]]:
    stems = sorted(f.stem for f in folder.iterdir() if f.suffix == ".wav")
    if not stems:
        raise DataError(
            f"{folder}: holds no .wav files; name the folder of the recordings, or a table of them"
        )
    said = _transcription(folder) if (folder / "transcription").is_file() else _texts(folder)
    missing = [s for s in stems if s not in said]
    extra = sorted(set(said) - set(stems))
    if missing or extra:
        which, what = (missing, "no transcript") if missing else (extra, "no recording")
        raise DataError(
            f"{folder}: {len(which)} sample(s) have {what}, the first is {which[0]!r}; every .wav needs a .txt of the same "
            "name, or a line in the file transcription"
        )
    return folder, stems, [said[s] for s in stems]


def _texts(folder: Path) -> dict[str, str]:
    return {f.stem: read_text(f).strip() for f in folder.iterdir() if f.suffix == ".txt"}


def _transcription(folder: Path) -> dict[str, str]:
    file, said = folder / "transcription", {}
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        if not line.strip():
            continue
        parsed = sphinx_line(line)
        if parsed is None:
            raise DataError(
                f"{file}, line {number}: is {line!r}; <s> words </s> (name of the recording) was expected"
            )
        if parsed[0] in said:
            raise DataError(
                f"{file}, line {number}: {parsed[0]!r} occurs twice; one line a recording is expected"
            )
        said[parsed[0]] = parsed[1]
    return said
