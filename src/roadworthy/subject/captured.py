"""What a Python function's answers depend on: its code, and the values that it holds on to.

A function handed in carries more than its source: the model in its closure, its defaults, the object it is a method of, the
globals it reads. All of them are hashed by content, so that two models wrapped by one closure are two subjects. What cannot be
read (a handle into a C library, an open session) raises `Opaque`, unless the caller vouches for it.

>>> def scaled(by):
...     return lambda x: by * x
>>> content_of(scaled(2)) == content_of(scaled(2)), content_of(scaled(2)) == content_of(scaled(3))
(True, False)
>>> content_of(scaled(object()))
Traceback (most recent call last):
roadworthy.subject.captured.Opaque: a value of the type object cannot be hashed by its content
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import re
import sys
import sysconfig
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

SCALARS = (type(None), bool, int, float, complex, bytes, type(Ellipsis), type(NotImplemented))
MOST_VALUES = 200_000
"""A graph of values larger than this is taken as one that cannot be read."""
LONGEST_REPR = 10_000
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


class Opaque(ValueError):
    """A value that cannot be hashed by its content."""


def content_of(function: Callable[..., Any], *, vouched: bool = False) -> str:
    """A hash of a function and of all that it holds; where `vouched`, what cannot be read counts by its type alone."""
    reader = _Reader(vouched, _folder_of(function))
    try:
        reader.add(function)
    except Opaque:
        raise
    except Exception as error:
        # A value of another's making may raise when it is looked at; then it is one that cannot be read.
        raise Opaque(f"what {type(function).__name__} holds cannot be hashed: {type(error).__name__}") from error
    return reader.digest.hexdigest()


@functools.cache
def is_installed(path: str) -> bool:
    """Whether a file belongs to the standard library, an installed package or this one: those are known by version."""
    file = Path(path).resolve()
    if {"site-packages", "dist-packages"} & set(file.parts):
        return True
    own = Path(__file__).resolve().parents[1]
    return any(file.is_relative_to(place) for place in (own, Path(sysconfig.get_path("stdlib")).resolve()))


class _Plain:
    """What an object looks like that keeps nothing outside its __dict__."""


class _Reader:
    """Feeds values into a hash, each with its type and length, each object once."""

    def __init__(self, vouched: bool, folder: str) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self.vouched = vouched
        self.folder = folder
        # Objects are kept here while they are read, so that no address is used twice.
        self.seen: dict[int, tuple[int, Any]] = {}

    def put(self, kind: str, *parts: str | bytes) -> None:
        for part in (kind, *parts):
            content = part.encode(errors="surrogateescape") if isinstance(part, str) else part
            self.digest.update(len(content).to_bytes(8, "little"))
            self.digest.update(content)

    def add(self, value: Any) -> None:
        if isinstance(value, SCALARS):
            self.put(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if type(value) is str or isinstance(value, PurePath):
            # A folder that was moved is still the same subject.
            self.put("text", str(value).replace(self.folder, ".") if self.folder else str(value))
            return
        if id(value) in self.seen:
            self.put("again", str(self.seen[id(value)][0]))
            return
        if len(self.seen) > MOST_VALUES:
            raise Opaque(f"the function holds more than {MOST_VALUES:,} values")
        self.seen[id(value)] = (len(self.seen), value)
        for types, read in READERS:
            if isinstance(value, types):
                read(self, value)
                return
        self._object(value)

    def all(self, kind: str, values: Iterable[Any]) -> None:
        listed = list(values)
        self.put(kind, str(len(listed)))
        for value in listed:
            self.add(value)

    def unordered(self, values: Iterable[Any]) -> None:
        """A set, by the sorted hashes of what is in it."""
        digests = []
        for value in values:
            one = _Reader(self.vouched, self.folder)
            one.add(value)
            digests.append(one.digest.digest())
        self.put("set", *sorted(digests))

    def file_of(self, thing: Any) -> bool:
        """The whole file a thing is written in, since it depends on what stands beside it; False if it is installed."""
        path = _source_file(thing)
        if path is None:
            return True
        if is_installed(path):
            return False
        self.put("file", Path(path).read_bytes())
        return True

    def _object(self, value: Any) -> None:
        kind = type(value)
        tensor = getattr(sys.modules.get("torch"), "Tensor", ())
        if tensor and isinstance(value, tensor):
            self.put("tensor", *_tensor_parts(value))
        elif hasattr(value, "__wrapped__"):
            self.all("wrapped", [value.__wrapped__])
        elif callable(getattr(value, "state_dict", None)):
            self._with_state(value)
        elif dataclasses.is_dataclass(kind):
            self.add(kind)
            self.all("fields", [getattr(value, f.name, None) for f in dataclasses.fields(kind)])
        elif kind.__basicsize__ == _Plain.__basicsize__ and hasattr(value, "__dict__"):
            self.add(kind)
            self.add(vars(value))
        else:
            self._shown(value)

    def _with_state(self, value: Any) -> None:
        """A torch module or its like: all its attributes, or at least its weights and what it prints."""
        whole = _Reader(False, self.folder)
        try:
            whole.add(type(value))
            whole.add(vars(value))
            self.put("module", whole.digest.digest())
        except (Opaque, TypeError):
            self.add(type(value))
            self.put("module", _ADDRESS.sub("", repr(value)))
            self.add(dict(value.state_dict()))

    def _shown(self, value: Any) -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        text = repr(value)
        if not _ADDRESS.search(text) and "..." not in text and len(text) <= LONGEST_REPR:
            self.put("shown", kind, text)
        elif self.vouched:
            self.put("unread", kind)
        else:
            raise Opaque(f"a value of the type {type(value).__qualname__} cannot be hashed by its content")


def _function(reader: _Reader, function: FunctionType) -> None:
    reader.put("function", function.__qualname__)
    own = reader.file_of(function)
    reader.add(function.__code__)
    reader.add(function.__defaults__)
    reader.add(function.__kwdefaults__)
    reader.all("closure", [_cell(c) for c in function.__closure__ or ()])
    if own:
        names = set(_names(function.__code__))
        _read_names(reader, names, function.__globals__)


def _read_names(reader: _Reader, names: set[str], known: dict[str, Any]) -> None:
    """The globals that a function names, and what it names inside modules of the user's own."""
    for name in sorted(names & known.keys()):
        reader.put("global", name)
        value = known[name]
        new = id(value) not in reader.seen
        reader.add(value)
        if new and isinstance(value, ModuleType) and not is_installed(_source_file(value) or __file__):
            _read_names(reader, names, vars(value))


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "not set yet"


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _code(reader: _Reader, code: CodeType) -> None:
    reader.put("code", code.co_code, *code.co_names, *code.co_varnames, *code.co_freevars)
    reader.all("constants", code.co_consts)


def _class(reader: _Reader, kind: type) -> None:
    reader.put("class", kind.__qualname__)
    if reader.file_of(kind):
        reader.all("bases", [b for b in kind.__bases__ if b is not object])
    else:
        reader.put("of", kind.__module__)


def _module(reader: _Reader, module: ModuleType) -> None:
    # A subject's file is imported under a name that says where it lies, which is no part of what it is.
    if not reader.file_of(module) or _source_file(module) is None:
        reader.put("installed", module.__name__, str(getattr(module, "__version__", "")))


def _array(reader: _Reader, array: Any) -> None:
    if array.dtype.hasobject:
        reader.all(f"array {array.shape}", array.ravel().tolist())
    else:
        reader.put("array", f"{array.dtype.str}{array.shape}", np.ascontiguousarray(array).tobytes())


def _mapping(reader: _Reader, mapping: dict[Any, Any]) -> None:
    reader.all(type(mapping).__name__, [part for item in mapping.items() for part in item])


def _partial(reader: _Reader, part: functools.partial[Any]) -> None:
    reader.all("partial", [part.func, part.args, part.keywords])


def _builtin(reader: _Reader, function: Any) -> None:
    reader.put("builtin", function.__qualname__)
    if not isinstance(function.__self__, ModuleType):
        reader.add(function.__self__)


def _silent(reader: _Reader, value: Any) -> None:
    """A logger or a lock: no answer depends on it."""
    reader.put(type(value).__name__)


def _silent_types() -> tuple[type, ...]:
    import logging
    import threading

    return (logging.Logger, type(threading.Lock()), type(threading.RLock()))


READERS: tuple[tuple[Any, Callable[[_Reader, Any], None]], ...] = (
    (FunctionType, _function),
    (MethodType, lambda reader, m: reader.all("method", [m.__func__, m.__self__])),
    (CodeType, _code),
    (type, _class),
    (ModuleType, _module),
    ((np.ndarray, np.generic), _array),
    ((list, tuple, deque), lambda reader, v: reader.all(type(v).__name__, v)),
    ((dict, OrderedDict, defaultdict), _mapping),
    ((set, frozenset), lambda reader, v: reader.unordered(v)),
    (functools.partial, _partial),
    (BuiltinFunctionType, _builtin),
    (Enum, lambda reader, v: reader.put("enum", type(v).__qualname__, v.name)),
    (_silent_types(), _silent),
)
"""How a value is read, by its type; the first that fits."""


def _tensor_parts(tensor: Any) -> tuple[str, bytes]:
    import torch

    try:
        values = tensor.detach().cpu().contiguous()
        content = values.reshape(-1).view(torch.uint8).numpy().tobytes()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise Opaque(f"a tensor of the layout {tensor.layout} cannot be hashed by its content") from error
    return f"{values.dtype}{tuple(values.shape)}", content


def _source_file(thing: Any) -> str | None:
    try:
        path = inspect.getsourcefile(thing)
    except (TypeError, OSError):
        return None
    return path if path and Path(path).is_file() else None


def _folder_of(function: Any) -> str:
    path = _source_file(inspect.unwrap(function) if callable(function) else function)
    return str(Path(path).resolve().parent) if path else ""
