"""The trace: what every module saw and produced for the cases, in memory and as append-only chunks on disk.

A chunk is a folder, written under a temporary name and renamed, so that it is there whole or not at all. Dense columns are
``.npy`` (memory-mapped when read), ragged ones values and offsets, index and text Parquet. Failed rows stay, with their error.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from roadworthy.data.values import KINDS, VECTOR, Kind
from roadworthy.subject.module import SubjectError

SYSTEM = "system"
"""The name under which a case's final output stands, beside the modules' own traces."""
FORMAT = 1
MANIFEST = "chunk.json"
TRIES = 5
"""How often a chunk is put in place of another one, while other processes do the same."""


@dataclass
class ModuleTrace:
    """One module's rows: which case and step, how it went, and the columns it produced."""

    case: np.ndarray
    step: np.ndarray
    error: np.ndarray
    """None where the row is sound, else what went wrong."""
    seconds: np.ndarray
    kind: Kind
    output: Any
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    """Granted requests by column name: layers, passes, gradients."""

    @property
    def ok(self) -> np.ndarray:
        """Which rows have an answer."""
        return np.array([e is None for e in self.error], dtype=bool)

    def __len__(self) -> int:
        return len(self.case)


@dataclass
class Trace:
    """The modules' traces of some cases; ``trace[SYSTEM]`` has one row a case."""

    modules: dict[str, ModuleTrace]

    def __getitem__(self, name: str) -> ModuleTrace:
        return self.modules[name]

    def __contains__(self, name: str) -> bool:
        return name in self.modules

    def write(
        self, folder: Path, *, about: Mapping[str, Any] | None = None, replace: bool = False
    ) -> None:
        """Write a chunk, whole or not at all; one that is there already stays, unless it is to be replaced."""
        with whole_folder(folder, replace=replace) as partial:
            manifest = {name: self._write(partial, name) for name in self.modules}
            content = {
                "format": FORMAT,
                "modules": manifest,
                "sizes": {p.name: p.stat().st_size for p in partial.iterdir()},
                "hashes": {p.name: _hash_of(p) for p in partial.iterdir()},
                "about": dict(about or {}),
            }
            (partial / MANIFEST).write_text(json.dumps(content))

    def _write(self, folder: Path, name: str) -> dict[str, Any]:
        """One module. What the system answers is what one of its modules answered, and is written once.

        Its index is its own: a later module may have failed, and the system's time is that of all modules.
        """
        module = self.modules[name]
        owner = name
        for other, twin in self.modules.items():
            if name == SYSTEM and other != SYSTEM and twin.output is module.output:
                owner = other
        return _write_module(folder, name, module, output_of=owner)

    @classmethod
    def read(cls, folder: Path, *, check: bool = True) -> Trace:
        """Read a chunk; a missing, shortened or changed file is an error, which execution answers by computing it again."""
        content = read_manifest(folder, check=check)["modules"]
        return cls({name: _read_module(folder, name, m) for name, m in content.items()})


def read_manifest(folder: Path, *, check: bool = False) -> dict[str, Any]:
    """What stands in a chunk; raises ValueError where a file is missing or has another size than was written.

    With `check`, also where a file has another content.
    """
    content: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    if content.get("format") != FORMAT:
        raise ValueError(
            f"{folder} was written in the format {content.get('format')}, not {FORMAT}"
        )
    for name, size in content["sizes"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise ValueError(f"{path} is missing or has not the {size} bytes that were written")
        if check and _hash_of(path) != content.get("hashes", {}).get(name):
            raise ValueError(f"{path} has not the content that was written")
    return content


def is_whole(folder: Path, *, check: bool = False) -> bool:
    """Whether a chunk is there and complete, and with `check` also as it was written."""
    try:
        read_manifest(folder, check=check)
    except (OSError, ValueError, KeyError):
        return False
    return True


def concatenate(parts: Sequence[ModuleTrace]) -> ModuleTrace:
    """Rows of several chunks, one after the other; of a chunk in which nobody answered, the columns are NaN."""
    first = parts[0]
    outputs: Any
    if all(isinstance(p.output, np.ndarray) for p in parts):
        outputs = np.concatenate(_of_one_width(first.kind, [p.output for p in parts]))
    else:
        outputs = [item for p in parts for item in p.output]
    answered = [p for p in parts if p.ok.any()] or list(parts)
    shared = set.intersection(*(set(p.columns) for p in answered))
    return ModuleTrace(
        np.concatenate([p.case for p in parts]),
        np.concatenate([p.step for p in parts]),
        np.concatenate([p.error for p in parts]),
        np.concatenate([p.seconds for p in parts]),
        first.kind,
        outputs,
        {name: _column(name, parts, answered[0].columns[name]) for name in sorted(shared)},
    )


def _column(name: str, parts: Sequence[ModuleTrace], like: np.ndarray) -> np.ndarray:
    def filled(part: ModuleTrace) -> np.ndarray:
        own = part.columns.get(name)
        fits = own is not None and (own.shape[1:] == like.shape[1:] or part.ok.any())
        return own if own is not None and fits else _nothing(len(part), like)

    return np.concatenate([filled(part) for part in parts])


def _nothing(rows: int, like: np.ndarray) -> np.ndarray:
    """As many rows of NaN, as wide and as exact as those of `like`."""
    dtype = like.dtype if like.dtype.kind == "f" else np.float64
    return np.full((rows, *like.shape[1:]), np.nan, dtype=dtype)


def _of_one_width(kind: Kind, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A chunk in which nobody answered does not know how wide an answer is; its rows are NaN, as wide as the others."""
    widest = max(columns, key=lambda c: c.shape[1:])
    filled = [
        c if c.size or c.shape[1:] == widest.shape[1:] else _nothing(len(c), widest)
        for c in columns
    ]
    _refuse_widths("the subject", kind, [c.shape[1:] for c in filled])
    return filled


def _refuse_widths(who: str, kind: Kind, shapes: Iterable[tuple[int, ...]]) -> None:
    widths = sorted({int(np.prod(shape)) for shape in shapes})
    if len(widths) > 1:
        raise SubjectError(
            f"{who} gave a {kind.name} of length {widths[0]} and one of length {widths[-1]}; every case must be answered at one "
            "length, so fill up the shorter ones"
        )


def _write_module(
    folder: Path, name: str, module: ModuleTrace, *, output_of: str
) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    index = pa.table(
        {
            "case": pa.array(module.case.tolist(), pa.string()),
            "step": module.step.astype(np.int32),
            "error": pa.array(module.error.tolist(), pa.string()),
            "seconds": module.seconds.astype(np.float32),
        }
    )
    pq.write_table(index, folder / f"{name}.index.parquet", compression="zstd")
    outputs = [
        None if e is not None else o for e, o in zip(module.error, module.output, strict=True)
    ]
    if module.kind.dense and not isinstance(module.output, np.ndarray):
        _refuse_widths(
            f"module {name!r}", module.kind, [np.shape(o) for o in outputs if o is not None]
        )
    packed: Any = module.output if isinstance(module.output, np.ndarray) else outputs
    parts = module.kind.pack(packed)
    for part, content in parts.items() if output_of == name else ():
        _write_part(folder, f"{name}.output.{part}", content)
    for column, array in module.columns.items():
        np.save(folder / _column_file(name, column), array)
    return {
        "kind": module.kind.name,
        "parts": list(parts),
        "columns": list(module.columns),
        "output_of": output_of,
    }


def _column_file(module: str, column: str) -> str:
    """A file name for a column; layer names of ONNX graphs hold slashes."""
    return f"{module}.{quote(column, safe='')}.npy"


def _write_part(folder: Path, name: str, content: Any) -> None:
    if isinstance(content, np.ndarray):
        np.save(folder / f"{name}.npy", content)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": pa.array(content, pa.string())}), folder / f"{name}.parquet")


def _read_module(folder: Path, name: str, manifest: Mapping[str, Any]) -> ModuleTrace:
    import pyarrow.parquet as pq

    index = pq.read_table(folder / f"{name}.index.parquet")
    kind = KINDS[manifest["kind"]]
    parts: dict[str, Any] = {}
    for part in manifest["parts"]:
        path = folder / f"{manifest['output_of']}.output.{part}.npy"
        if path.is_file():
            parts[part] = np.load(path, mmap_mode="r")
        else:
            parts[part] = pq.read_table(path.with_suffix(".parquet"))["text"].to_pylist()
    error = np.array(index["error"].to_pylist(), dtype=object)
    output = kind.unpack(parts)
    if not isinstance(output, np.ndarray):
        output = [None if e is not None else o for e, o in zip(error, output, strict=True)]
    return ModuleTrace(
        np.array(index["case"].to_pylist(), dtype=object),
        index["step"].to_numpy(),
        error,
        index["seconds"].to_numpy(),
        kind,
        output,
        {c: np.load(folder / _column_file(name, c), mmap_mode="r") for c in manifest["columns"]},
    )


def link_chunk(source: Path, target: Path) -> None:
    """Put a chunk into another folder: by hard links where the file system allows, else by copying."""
    if _same(source, target):
        return
    with whole_folder(target) as partial:
        for path in source.iterdir():
            try:
                os.link(path, partial / path.name)
            except OSError:
                shutil.copy2(path, partial / path.name)


@contextmanager
def whole_folder(folder: Path, *, replace: bool = True) -> Iterator[Path]:
    """A folder to fill that is there whole or not at all; one that is there already is replaced, or
    else stays if it is a whole chunk."""
    partial = partial_name(folder)
    partial.mkdir(parents=True)
    try:
        yield partial
        _put_in_place(partial, folder, replace=replace)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same chunk, by what their manifests say of the contents."""
    try:
        return is_whole(other) and (one / MANIFEST).read_bytes() == (other / MANIFEST).read_bytes()
    except FileNotFoundError:
        return False


def _put_in_place(partial: Path, folder: Path, *, replace: bool) -> None:
    """Give a finished chunk its name. If another process was first, its chunk stays, unless ours is to replace it."""
    for _ in range(TRIES):
        try:
            partial.rename(folder)
            return
        except OSError:
            if not folder.exists():
                raise
        if _same(partial, folder) or (not replace and is_whole(folder)):
            return
        old = partial_name(folder)
        try:
            folder.rename(old)
        except FileNotFoundError:
            continue
        shutil.rmtree(old, ignore_errors=True)


def _hash_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def partial_name(folder: Path) -> Path:
    """A temporary name that says which process of which machine writes there, so that what a dead one left can be swept away."""
    who = f"{os.getpid()}-{this_machine()}"
    return folder.with_name(f"{folder.name}.{who}-{uuid.uuid4().hex[:8]}.partial")


@cache
def this_machine() -> str:
    """Its name in eight letters."""
    return hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()


def one_row_a_case(ids: Sequence[str], table: np.ndarray, seconds: float) -> Trace:
    """What a search found, as a trace."""
    n = len(ids)
    rows = ModuleTrace(
        np.array(ids, dtype=object),
        np.zeros(n, dtype=np.int64),
        np.full(n, None, dtype=object),
        np.full(n, seconds / max(n, 1)),
        VECTOR,
        table,
    )
    return Trace({SYSTEM: rows})
