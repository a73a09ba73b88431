"""The files that loaders read: found by name, as text, JSON, tables or images, at once or when they
are asked for.

Paths are relative to the folder of the assessment file. What is not there, or cannot be read, is
refused with its place; a broken file among many costs its own case, not the run.

>>> located("no-such-file.gz", base=Path("here"), what="the images")
Traceback (most recent call last):
roadworthy.data.samples.DataError: the images: here/no-such-file.gz does not exist; paths are relative to the folder of
the assessment file (here): correct the path, or put the file there
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.data.values import Unreadable
from roadworthy.registry import did_you_mean, not_installed


def located(path: str | Path, *, base: Path, what: str, folder: bool = False) -> Path:
    """The file (or folder) of that name; one that is not there is refused."""
    found = base / path
    if not found.exists():
        raise DataError(
            f"{what}: {found} does not exist; paths are relative to the folder of the assessment file ({base}): "
            f"correct the path, or put the {'folder' if folder else 'file'} there"
        )
    if folder and not found.is_dir():
        raise DataError(
            f"{what}: {found} is a file, a folder was expected; name the folder that holds the files"
        )
    if not folder and found.is_dir():
        raise DataError(f"{what}: {found} is a folder, a file was expected; name the file in it")
    return found


def read_text(file: Path) -> str:
    """The text of a file in UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error


def read_json(file: Path) -> Any:
    """The document of a .json file, or the list of the lines' documents of a .jsonl file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "goals.jsonl"
    >>> _ = file.write_text('{"id": 1}\\n{"id": \\n')
    >>> read_json(file)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    roadworthy.data.samples.DataError: ...goals.jsonl, line 2: is not JSON (Expecting value at column 8); correct it there
    """
    text = read_text(file)
    if file.suffix != ".jsonl":
        return _parsed(text, file)
    lines = enumerate(text.split("\n"), start=1)
    return [_parsed(line, file, at) for at, line in lines if line.strip()]


def _parsed(text: str, file: Path, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file}, line {error.lineno + line - 1}: is not JSON ({error.msg} at column {error.colno}); correct it there"
        ) from error
    except RecursionError as error:
        raise DataError(
            f"{file}, line {line}: is nested too deeply to be read; save it flat"
        ) from error


WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[-+]?\d+)?|nan", re.IGNORECASE)


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV or TSV file as text, by column, and the line each row ends on.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "cases.csv"
    >>> _ = file.write_text("image,site,age\\na.png,B,61\\nb.png,A,\\n")
    >>> table = CsvTable.read(file)
    >>> table["site"], typed(table["age"]).tolist()
    (['B', 'A'], [61.0, nan])
    >>> table["sites"]
    Traceback (most recent call last):
    roadworthy.data.samples.DataError: cases.csv has no column 'sites' (did you mean 'site'?); it has: image, site, age
    """

    file: Path
    columns: Mapping[str, list[str]]
    lines: tuple[int, ...]

    @classmethod
    def read(cls, file: Path) -> CsvTable:
        """A CSV file (or TSV, by its name); every row must have a cell for each column."""
        content = read_text(file)
        reader = csv.reader(
            io.StringIO(content, newline=""), delimiter=_delimiter(file, content), strict=True
        )
        rows, lines, header = [], [], None
        try:
            for row in reader:
                if header is None:
                    header = [cell.strip() for cell in row]
                    _refuse_bad_header(file, header)
                elif row:
                    if len(row) != len(header):
                        raise DataError(
                            f"{file}, line {reader.line_num}: has {len(row)} cells for {len(header)} columns; "
                            "fill or quote the cells of that line"
                        )
                    rows.append(row)
                    lines.append(reader.line_num)
        except csv.Error as error:
            raise DataError(
                f"{file}, line {reader.line_num}: {error}; correct the quotes of that line"
            ) from error
        if header is None or not rows:
            raise DataError(
                f"{file}: has no rows; a first line of column names and one line a sample were expected"
            )
        columns = {
            name: list(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)
        }
        columns.pop("", None)  # the row numbers that pandas writes first, without a name
        return cls(file, columns, tuple(lines))

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> list[str]:
        if name not in self.columns:
            raise DataError(
                f"{self.file.name} has no column {name!r}{did_you_mean(name, self.columns)}; "
                f"it has: {', '.join(self.columns)}"
            )
        return self.columns[name]

    def without(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The other columns."""
        return {name: column for name, column in self.columns.items() if name not in names}

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """Some columns as float64 (rows, columns); a cell that is no finite number is refused by
        line and column."""
        values = np.empty((len(self), len(names)))
        for at, name in enumerate(names):
            for row, cell in enumerate(self[name]):
                try:
                    values[row, at] = float(cell)
                except ValueError:
                    values[row, at] = np.nan
                if not np.isfinite(values[row, at]):
                    raise DataError(
                        f"{self.file}, line {self.lines[row]}: column {name!r} holds {cell!r}, not a finite number; "
                        "fill the cell or leave the row out"
                    )
        return values


def _delimiter(file: Path, content: str) -> str:
    """A tab in TSV, a comma in CSV; a semicolon if the first line has only those."""
    if file.suffix == ".tsv":
        return "\t"
    header = content.partition("\n")[0]
    return ";" if ";" in header and "," not in header else ","


def typed(cells: Sequence[str]) -> np.ndarray:
    """A column as numbers where every cell is one (an empty cell is NaN), else as text; '007' stays
    text."""
    if all(WHOLE.fullmatch(cell) for cell in cells):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    numeric = all(cell == "" or NUMBER.fullmatch(cell) for cell in cells)
    if numeric and any(cells):
        return np.array([float(cell) if cell else np.nan for cell in cells])
    return np.array(cells, dtype=object)


def _refuse_bad_header(file: Path, header: list[str]) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice or "" in header[1:]:
        raise DataError(
            f"{file}: the first line names {', '.join(map(repr, twice)) or 'a column'} "
            f"{'twice' if twice else 'with nothing'}; every column needs a name of its own (found: {', '.join(header)})"
        )


SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff"})


def read_image(file: Path) -> np.ndarray:
    """The pixels of a PNG, JPEG or TIFF file, (h, w) or (h, w, 3 or 4), as they are stored: red, green,
    blue, 8 or 16 bits, no rotation by EXIF tags.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.png"
    >>> _ = file.write_bytes(b"not an image")
    >>> read_image(file)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    roadworthy.data.samples.DataError: ...a.png: 12 bytes that cannot be decoded as an image; the file is truncated or damaged:
    copy it again
    """
    return decode_image(file.read_bytes(), file)


def decode_image(data: bytes, file: Path) -> np.ndarray:
    """The pixels in the content of a file, as `read_image` gives them."""
    try:
        import cv2
    except ImportError as error:
        raise ImportError(not_installed("reading image files needs OpenCV", "vision")) from error
    try:
        with _silent(cv2):
            pixels = (
                cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None
            )
    except cv2.error as error:
        raise DataError(
            f"{file}: OpenCV refuses it ({error.err or error}); convert the file to PNG"
        ) from error
    if pixels is None:
        raise DataError(
            f"{file}: {len(data)} bytes that cannot be decoded as an image; the file is truncated or damaged: copy it again"
        )
    if pixels.ndim == 3 and pixels.shape[2] >= 3:
        # OpenCV stores blue first; alpha, where there is one, stays last
        pixels = pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]]
    return np.ascontiguousarray(pixels)


def image_size(file: Path) -> tuple[int, int]:
    """Width and height of an image; of PNG and JPEG only the header is read."""
    with file.open("rb") as content:
        start = content.read(24)
        if start[:8] == b"\x89PNG\r\n\x1a\n" and len(start) == 24:
            return int.from_bytes(start[16:20], "big"), int.from_bytes(start[20:24], "big")
        if start[:2] == b"\xff\xd8":
            content.seek(2)
            while len(mark := content.read(4)) == 4 and mark[0] == 0xFF:
                length = int.from_bytes(mark[2:], "big")
                if mark[1] in _JPEG_SIZES:
                    frame = content.read(5)
                    return int.from_bytes(frame[3:5], "big"), int.from_bytes(frame[1:3], "big")
                content.seek(length - 2, 1)
    height, width = read_image(file).shape[:2]
    return width, height


_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of a JPEG file whose segment begins with the size (ITU-T T.81, table B.1)."""


@contextmanager
def _silent(cv2: Any) -> Iterator[None]:
    """OpenCV tells standard error of a broken file; the case that failed says it already, by its
    name."""
    logging = getattr(cv2.utils, "logging", None)
    if logging is None:
        yield
        return
    before = logging.getLogLevel()
    logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(before)


def image_files(folder: Path) -> list[Path]:
    """The image files of a folder and its subfolders, by name; hidden files are left out."""
    found = (f for f in folder.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
    return sorted(
        f for f in found if not any(p.startswith(".") for p in f.relative_to(folder).parts)
    )


@dataclass(frozen=True, eq=False)
class Files:
    """One input a file, read when asked for: a broken file costs its own case, not the run.

    >>> files = Files((Path("no-such.txt"),), read=Path.read_text)
    >>> files[0]
    Unreadable(reason='no-such.txt: does not exist; restore the file or leave the sample out')
    >>> len(files.fingerprint())
    32
    """

    paths: tuple[Any, ...]
    read: Callable[[Any], Any]
    hint: str = ""
    """What to do about a file that is not there, besides restoring it."""
    form: str = ""
    """Not empty if `read` is not the usual one: the same file read in another way is another input."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Any) -> Any:
        chosen = np.arange(len(self))[rows]
        if np.ndim(chosen) == 0:
            return self._item(self.paths[chosen])
        return [self._item(self.paths[i]) for i in chosen]

    def pick(self, rows: Sequence[int] | np.ndarray) -> Files:
        """Some of the files, in the order given, still unread."""
        return replace(self, paths=tuple(self.paths[i] for i in np.arange(len(self))[rows]))

    def fingerprint(self) -> str:
        """A hash of names, sizes and contents, computed once."""
        return self._digest

    def contents(self) -> list[bytes | None]:
        """The hash of each file's bytes, None for one that cannot be read; read once, for the
        fingerprint as well."""
        return [content.hash for content in self._contents]

    def _item(self, path: Path) -> Any:
        try:
            return self.read(path)
        except FileNotFoundError:
            hint = f" ({self.hint})" if self.hint else ""
            return Unreadable(
                f"{path}: does not exist; restore the file or leave the sample out{hint}"
            )
        except (DataError, OSError) as error:
            return Unreadable(str(error))

    @functools.cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(self.form.encode(), digest_size=16)
        for content in self._contents:
            digest.update(content.line)
        return digest.hexdigest()

    @functools.cached_property
    def _contents(self) -> list[_Content]:
        return [_content(path) for path in self.paths]


@dataclass(frozen=True, eq=False)
class Sequences:
    """One input a sequence of files (frames), each of them read when it is reached."""

    items: tuple[Files, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, rows: Any) -> Any:
        chosen = np.arange(len(self))[rows]
        return self.items[chosen] if np.ndim(chosen) == 0 else [self.items[i] for i in chosen]

    def pick(self, rows: Sequence[int] | np.ndarray) -> Sequences:
        """Some of the sequences, in the order given."""
        return Sequences(tuple(self.items[i] for i in np.arange(len(self))[rows]))

    def fingerprint(self) -> str:
        """The fingerprints of the sequences in order."""
        return "|".join(files.fingerprint() for files in self.items)

    def contents(self) -> list[bytes | None]:
        """A hash of each sequence's frames, None where one of them cannot be read."""
        return [_joined(files.contents()) for files in self.items]


class _Content(NamedTuple):
    line: bytes
    """Name, size and hash of one file; a file that cannot be read counts by its name."""
    hash: bytes | None


def _content(path: Path) -> _Content:
    try:
        data = path.read_bytes()
    except OSError:
        return _Content(f"{path.name}|unreadable\n".encode(), None)
    digest = hashlib.blake2b(data, digest_size=16)
    return _Content(f"{path.name}|{len(data)}|{digest.hexdigest()}\n".encode(), digest.digest())


def _joined(hashes: Sequence[bytes | None]) -> bytes | None:
    known = [h for h in hashes if h is not None]
    return (
        hashlib.blake2b(b"".join(known), digest_size=16).digest()
        if len(known) == len(hashes)
        else None
    )
