"""How exported inputs stand in files: images as PNG without loss (floats as .npy), frames as a folder of them, recordings
as float32 wav, texts, goals and vectors as JSON lines, or all of them as arrays of one npz.

>>> import tempfile
>>> from roadworthy.data.values import TEXT
>>> folder = Path(tempfile.mkdtemp())
>>> with writer_of(TEXT, folder) as store:
...     store.write("inputs/00-clean/000000", "a~typos@1", "a cheap hotle")
'inputs.jsonl'
>>> (folder / "inputs.jsonl").read_text()
'{"id": "a~typos@1", "text": "a cheap hotle"}\\n'
"""

from __future__ import annotations

import json
import shutil
import zipfile
from abc import abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from roadworthy.data.png import encode_png
from roadworthy.data.samples import DataError
from roadworthy.data.values import AUDIO, FRAMES, GOAL, IMAGE, TEXT, VECTOR, Kind


class Store(AbstractContextManager["Store"]):
    """Takes the cases one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def write(self, place: str, case: str, item: Any) -> str:
        """Write one input; the name of its file, seen from the folder."""

    def close(self) -> None:
        """All cases are there."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()

    def _new(self, name: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


class Images(Store):
    """One file an image."""

    def write(self, place: str, case: str, item: Any) -> str:
        """8 and 16 bit as PNG; floats, which PNG would round, as .npy."""
        pixels = np.asarray(item)
        if pixels.dtype in (np.uint8, np.uint16):
            name = f"{place}.png"
            self._new(name).write_bytes(encode_png(pixels))
        else:
            name = f"{place}.npy"
            np.save(self._new(name), pixels, allow_pickle=False)
        return name


class FrameFolders(Images):
    """One folder a case, one file a frame."""

    def write(self, place: str, case: str, item: Any) -> str:
        """The frames by number, in their order."""
        for step, frame in enumerate(item):
            super().write(f"{place}/{step:06d}", case, frame)
        return place


class Recordings(Store):
    """One wav a recording."""

    def write(self, place: str, case: str, item: Any) -> str:
        """float32, so that what is read again is what was written."""
        from scipy.io import wavfile

        name = f"{place}.wav"
        wavfile.write(self._new(name), item.rate, np.asarray(item.wave, dtype=np.float32))
        return name


class Lines(Store):
    """All cases in one file of JSON lines."""

    name = "inputs.jsonl"

    def __init__(self, folder: Path, key: str) -> None:
        super().__init__(folder)
        self._key = key
        self._stream = self._new(self.name).open("w", encoding="utf-8")

    def write(self, place: str, case: str, item: Any) -> str:
        """One line a case."""
        plain = item.tolist() if isinstance(item, np.ndarray) else item
        self._stream.write(json.dumps({"id": case, self._key: plain}, ensure_ascii=False) + "\n")
        return self.name

    def __exit__(self, *ending: Any) -> None:
        self._stream.close()


class Pack(Store):
    """All cases in ``cases.npz``: arrays ``id`` and ``input``, row by row. Rows go to disk as they come."""

    name = "cases.npz"

    def __init__(self, folder: Path, kind: Kind) -> None:
        super().__init__(folder)
        if kind not in (IMAGE, VECTOR):
            raise DataError(
                f"npz holds images and vectors of one shape; {kind.name} are exported with --format png"
            )
        self._rows = self._new(".rows").open("wb")
        self._ids: list[str] = []
        self._shape: tuple[Any, ...] | None = None

    def write(self, place: str, case: str, item: Any) -> str:
        """One row a case."""
        array = np.ascontiguousarray(item)
        self._shape = self._shape or (array.shape, array.dtype)
        if (array.shape, array.dtype) != self._shape:
            raise DataError(
                f"the case {case!r} has {array.dtype} of shape {array.shape}, the cases before it {self._shape[1]} of shape "
                f"{self._shape[0]}; npz needs one shape. Use --format png, one file a case"
            )
        self._rows.write(array.tobytes())
        self._ids.append(case)
        return self.name

    def close(self) -> None:
        """The rows behind a header that says how many there are, and the ids."""
        self._rows.close()
        shape, dtype = self._shape or ((), np.dtype(np.uint8))
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (len(self._ids), *shape),
        }
        rows = self.folder / ".rows"
        with zipfile.ZipFile(
            self.folder / self.name, "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as archive:
            with (
                archive.open("input.npy", "w", force_zip64=True) as stream,
                rows.open("rb") as source,
            ):
                np.lib.format.write_array_header_1_0(stream, header)
                shutil.copyfileobj(source, stream)
            with archive.open("id.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(
                    stream, np.array(self._ids, dtype=str), allow_pickle=False
                )
        rows.unlink()

    def __exit__(self, *ending: Any) -> None:
        super().__exit__(*ending)
        self._rows.close()


def writer_of(kind: Kind, folder: Path) -> Store:
    """The store for one kind of input."""
    if kind is IMAGE:
        return Images(folder)
    if kind is FRAMES:
        return FrameFolders(folder)
    if kind is AUDIO:
        return Recordings(folder)
    if kind in (TEXT, GOAL, VECTOR):
        return Lines(folder, kind.name)
    raise DataError(f"inputs of kind {kind.name} cannot be exported")
