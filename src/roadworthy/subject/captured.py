"""What a Python function's answers depend on: its code, and the values that it holds on to.

A function handed in carries more than its source: the model in its closure, its defaults, the object it is a method of, the
globals it reads. All of them are hashed by content, so that two models wrapped by one closure are two subjects. A class of the
user's own counts as it stands, not as its file says: methods and attributes can be replaced at run time. What cannot be read (a
handle into a C library, an open session) raises `Opaque`, unless the caller vouches for it.

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
import logging
import re
import struct
import sys
import sysconfig
import threading
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

SCALARS = (type(None), bool, int, float, complex, bytes, type(Ellipsis), type(NotImplemented))
MOST_VALUES = 200_000
"""A graph of values larger than this is taken as one that cannot be read."""
LONGEST_REPR = 10_000
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_HEAP_TYPE = 1 << 9
_IN_CELL = vars(types.CellType)["cell_contents"]
_SHOWN_WHOLE = (sys.stdlib_module_names - {"itertools"}) | {"numpy", "torch"}
"""Where types come from whose repr says all that they hold (an iterator's shows arrays rounded)."""
_BOOKKEEPING = frozenset(
    [
        "__dict__",
        "__weakref__",
        "__module__",
        "__annotations__",
        "__slotnames__",
        "__signature__",
        "_abc_impl",
    ]
)
"""What Python keeps in a class for itself, some of it only once the class was copied or looked at."""


class Opaque(ValueError):
    """A value that cannot be hashed by its content."""


def content_of(function: Any, *, vouched: bool = False, folder: str | None = None) -> str:
    """A hash of all that a function holds, paths as seen from its `folder`; where `vouched`, what is opaque counts by type."""
    reader = _Reader(vouched, _folder_of(function) if folder is None else folder)
    try:
        reader.add(function)
    except Opaque:
        raise
    except Exception as error:
        # A value of another's making may raise when it is looked at; then it is one that cannot be read.
        raise Opaque(
            f"what {type(function).__name__} holds cannot be hashed: {type(error).__name__}"
        ) from error
    return reader.digest.hexdigest()


@functools.cache
def is_installed(path: str) -> bool:
    """Whether a file belongs to the standard library, an installed package or this one: those are known by version."""
    file = Path(path).resolve()
    if {"site-packages", "dist-packages"} & set(file.parts):
        return True
    own = Path(__file__).resolve().parents[1]
    return any(
        file.is_relative_to(place) for place in (own, Path(sysconfig.get_path("stdlib")).resolve())
    )


_SIZES = {
    (bool(kind.__dictoffset__), bool(kind.__weakrefoffset__)): kind.__basicsize__
    for slots in ((), ("__dict__",), ("__weakref__",), ("__dict__", "__weakref__"))
    for kind in [type("_Layout", (), {"__slots__": slots})]
}
"""The size of an object that keeps nothing outside its __dict__ and slots."""


def _slots(kind: type) -> list[Any]:
    owners = [c for c in kind.__mro__ if "__slots__" in vars(c)]
    return [
        d
        for c in owners
        for _, d in sorted(vars(c).items())
        if isinstance(d, types.MemberDescriptorType)
    ]


def _is_open(kind: type) -> bool:
    """Whether all that an object of this type holds lies in its __dict__ and slots, nothing in a structure of C."""
    slots, has_dict = len(_slots(kind)), bool(kind.__dictoffset__)
    size = _SIZES[has_dict, bool(kind.__weakrefoffset__)] + slots * struct.calcsize("P")
    return bool(slots or has_dict) and kind.__basicsize__ == size and not kind.__itemsize__


class _Reader:
    """Feeds values into a hash, each with its type and length, each object once."""

    def __init__(self, vouched: bool, folder: str) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self.vouched = vouched
        self.folder = folder
        # Objects are kept here while they are read, so that no address is used twice.
        self.seen: dict[int, tuple[int, Any]] = {}
        self.files: dict[str, bytes] = {}

    def put(self, kind: str, *parts: str | bytes) -> None:
        for part in (kind, *parts):
            content = part.encode(errors="surrogateescape") if isinstance(part, str) else part
            self.digest.update(len(content).to_bytes(8, "little"))
            self.digest.update(content)

    def add(self, value: Any) -> None:
        if type(value) in SCALARS:
            self.put(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if type(value) is str or isinstance(value, PurePath):
            # A folder that was moved is still the same subject.
            self.put("text", str(value).replace(self.folder, ".") if self.folder else str(value))
            return
        if id(value) in self.seen:
            self.put("again", str(self.seen[id(value)][0]))
            return
        if type(value) is tuple and all(type(v) is str or type(v) in SCALARS for v in value):
            # Whether equal constants are one object is up to the compiler.
            self.all("tuple", value)
            return
        if len(self.seen) > MOST_VALUES:
            raise Opaque(f"the function holds more than {MOST_VALUES:,} values")
        self.seen[id(value)] = (len(self.seen), value)
        for kinds, read in READERS:
            if isinstance(value, kinds):
                read(self, value)
                return
        self._object(value)

    def all(self, kind: str, values: Iterable[Any]) -> None:
        listed = list(values)
        self.put(kind, str(len(listed)))
        for value in listed:
            self.add(value)

    def apart(self, values: Iterable[Any], vouched: bool) -> bytes:
        """The hash of values by themselves; what leads back to a value being read is still known, so that rings end."""
        one = _Reader(vouched, self.folder)
        one.seen, one.files = self.seen, self.files
        before = len(self.seen)
        try:
            one.all("apart", values)
        finally:
            while len(self.seen) > before:
                self.seen.popitem()
        return one.digest.digest()

    def state(self, value: Any) -> None:
        """What an object holds by its type, in its __dict__ and in its slots."""
        self.add(type(value))
        self.add(getattr(value, "__dict__", None) or None)
        self.all("slots", [_slot(d, value) for d in _slots(type(value))])

    def file_of(self, thing: Any) -> bool:
        """The whole file a thing is written in, since it depends on what stands beside it; False if it is installed."""
        path = _source_file(thing)
        if path is None:
            return True
        if is_installed(path):
            return False
        if path not in self.files:
            self.files[path] = hashlib.blake2b(Path(path).read_bytes()).digest()
        self.put("file", self.files[path])
        return True

    def _object(self, value: Any) -> None:
        kind = type(value)
        tensor = getattr(sys.modules.get("torch"), "Tensor", ())
        if tensor and isinstance(value, tensor):
            self.put("tensor", *_tensor_parts(value))
            self.state(value)
        elif hasattr(value, "__wrapped__") and (_is_open(kind) or _root(kind) in _SHOWN_WHOLE):
            self.all("wrapped", [value.__wrapped__])
            self.state(value)
        elif callable(getattr(value, "state_dict", None)):
            self._with_state(value)
        elif _is_open(kind) or dataclasses.is_dataclass(kind):
            self.state(value)
        else:
            self._shown(value)

    def _with_state(self, value: Any) -> None:
        """A torch module or its like: all its attributes, or at least its weights and what it prints."""
        try:
            self.put("module", self.apart([type(value), vars(value)], False))
        except (Opaque, TypeError):
            self.add(type(value))
            self.put("module", _ADDRESS.sub("", repr(value)))
            self.add(dict(value.state_dict()))

    def _shown(self, value: Any) -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        # A repr in angle brackets names a thing (an open file, a memory map) and does not say what is in it.
        text = repr(value) if _root(type(value)) in _SHOWN_WHOLE else "<"
        if (
            text[:1] != "<"
            and not _ADDRESS.search(text)
            and "..." not in text
            and len(text) <= LONGEST_REPR
        ):
            self.put("shown", kind, text)
        elif self.vouched:
            self.put("unread", kind)
        else:
            raise Opaque(
                f"a value of the type {type(value).__qualname__} cannot be hashed by its content"
            )


def _function(reader: _Reader, function: FunctionType) -> None:
    reader.put("function", function.__qualname__)
    own = reader.file_of(function)
    reader.add(function.__code__)
    reader.add(function.__defaults__)
    reader.add(function.__kwdefaults__)
    reader.all("closure", [_slot(_IN_CELL, c) for c in function.__closure__ or ()])
    reader.add(vars(function) or None)
    if own:
        _read_names(reader, set(_names(function.__code__)), function.__globals__)


def _read_names(reader: _Reader, names: set[str], known: dict[str, Any]) -> None:
    """The globals that a function names, and what it names inside modules of the user's own."""
    for name in sorted(names & known.keys()):
        reader.put("global", name)
        value = known[name]
        new = id(value) not in reader.seen
        reader.add(value)
        if (
            new
            and isinstance(value, ModuleType)
            and not is_installed(_source_file(value) or __file__)
        ):
            _read_names(reader, names, vars(value))


def _slot(descriptor: Any, value: Any) -> Any:
    try:
        return descriptor.__get__(value)
    except (AttributeError, ValueError):
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
    if not _is_users(kind):
        return reader.put("of", kind.__module__)
    reader.file_of(kind)
    reader.all("bases", [type(kind), *(b for b in kind.__bases__ if b is not object)])
    for name, value in sorted(vars(kind).items()):
        if name in _BOOKKEEPING or name.startswith("__pydantic_"):
            continue
        reader.put("attribute", name)
        if name.startswith("__") and name.endswith("__") and not callable(value):
            # What a framework leaves in a class of the user's is made from the rest of it.
            try:
                reader.put("read", reader.apart([value], reader.vouched))
            except Opaque:
                reader.put("unread", type(value).__qualname__)
        else:
            reader.add(value)


def _root(kind: type) -> str:
    """The package of a type; of one made by `exec` without a module, which calls itself a builtin, none."""
    module = str(kind.__module__)
    return "" if module == "builtins" and kind.__flags__ & _HEAP_TYPE else module.partition(".")[0]


def _is_users(kind: type) -> bool:
    """Whether a class is neither of Python nor of an installed package; one without a file (of a notebook) is the user's."""
    root = _root(kind)
    for name in (str(kind.__module__), root):
        path = getattr(sys.modules.get(name), "__file__", None)
        if root and path:
            return not is_installed(path)
    return root not in sys.stdlib_module_names


def _module(reader: _Reader, module: ModuleType) -> None:
    # A subject's file is imported under a name that says where it lies, which is no part of what it is.
    if not reader.file_of(module) or _source_file(module) is None:
        reader.put("installed", module.__name__, str(getattr(module, "__version__", "")))


def _array(reader: _Reader, array: Any) -> None:
    if array.dtype.hasobject:
        reader.all(f"array {array.shape}", array.ravel().tolist())
    else:
        reader.put("array", f"{array.dtype!r}{array.shape}", np.ascontiguousarray(array).tobytes())
    if isinstance(array, np.ndarray) and type(array) not in (np.ndarray, np.memmap):
        reader.state(array)


def _contents(reader: _Reader, value: Any) -> None:
    """A container, or a subclass of one or of a number or text: what the base holds, and what the subclass adds."""
    base: Any = next(t for t in BASES if isinstance(value, t))
    # The base's own methods: what a subclass makes of its contents follows from its class, which is read too.
    if base in (set, frozenset):
        reader.put("set", *sorted(reader.apart([v], reader.vouched) for v in base.__iter__(value)))
    elif base in (list, tuple, deque):
        reader.all(base.__name__, base.__iter__(value))
    elif hasattr(base, "items"):
        reader.all(base.__name__, [part for item in base.items(value) for part in item])
    else:
        reader.put(base.__name__, base.__repr__(value))
    if base in (deque, defaultdict):
        reader.add(value.maxlen if base is deque else value.default_factory)
    if type(value) is not base or base is OrderedDict:
        reader.state(value)


def _builtin(reader: _Reader, function: Any) -> None:
    reader.put("builtin", str(function.__module__), function.__qualname__)
    if not isinstance(function.__self__, ModuleType):
        reader.add(function.__self__)


def _ufunc(reader: _Reader, function: Any) -> None:
    if "(vectorized)" in function.__name__:
        raise Opaque(
            "a function made by numpy.frompyfunc cannot be hashed by its content; hand in the Python function"
        )
    reader.put("ufunc", function.__name__)


def _by(*names: str, state: bool = False) -> Callable[[_Reader, Any], None]:
    def read(reader: _Reader, value: Any) -> None:
        reader.all(type(value).__name__, [getattr(value, name) for name in names])
        if state:
            reader.state(value)

    return read


BASES = (
    *(list, tuple, deque, OrderedDict, defaultdict, dict, MappingProxyType, set, frozenset),
    *(int, float, complex, bytes, bytearray, str),
)
READERS: tuple[tuple[Any, Callable[[_Reader, Any], None]], ...] = (
    (FunctionType, _function),
    (MethodType, _by("__func__", "__self__")),
    (CodeType, _code),
    (type, _class),
    (ModuleType, _module),
    (Enum, _by("name", "_value_", state=True)),
    ((np.ndarray, np.generic), _array),
    (np.ufunc, _ufunc),
    (BASES, _contents),
    (functools.partial, _by("func", "args", "keywords", state=True)),
    (BuiltinFunctionType, _builtin),
    (property, _by("fget", "fset", "fdel")),
    ((classmethod, staticmethod), _by("__func__")),
    (dataclasses.Field, _by("name", "default", "default_factory", "metadata")),
    (types.SimpleNamespace, _by(state=True)),
    (slice, _by("start", "stop", "step")),
    (re.Pattern, _by("pattern", "flags")),
    # A slot or a method written in C is known by its name.
    ((types.MemberDescriptorType, types.GetSetDescriptorType), _by("__qualname__")),
    ((types.WrapperDescriptorType, types.MethodDescriptorType), _by("__qualname__")),
    (type(namedtuple("_Pair", "one").one), _by()),  # type: ignore[attr-defined]
    # No answer depends on a logger or a lock.
    ((logging.Logger, type(threading.Lock()), type(threading.RLock())), _by()),
)
"""How a value is read, by its type; the first that fits."""


def _tensor_parts(tensor: Any) -> tuple[str, bytes]:
    import torch

    try:
        values = tensor.detach().cpu().contiguous()
        content = values.reshape(-1).view(torch.uint8).numpy().tobytes()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise Opaque(
            f"a tensor of the layout {tensor.layout} cannot be hashed by its content"
        ) from error
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
