"""Finding what a path such as ``subject.py:predict`` or ``package.module:predict`` names, in the
user's own code.

A file is imported under a name of its own. Its folder is importable while it loads, so that it
finds the files beside it, and those files are loaded afresh: two subjects that each have a
``layers.py`` do not see each other's. The hash of a subject covers the file, and the files of its
folder that the text imports, directly or through one another, also inside functions.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "subject.py").write_text("def predict(image): return [0.0, 1.0]")
>>> resolve_path("subject.py:predict", folder).target("an image")
[0.0, 1.0]
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from roadworthy.registry import did_you_mean
from roadworthy.subject.module import ClassNames, SubjectError

_SUBJECTS: set[str] = set()
"""Folders of subjects that stay importable."""


@dataclass(frozen=True)
class Found:
    """What a path names, and the files of the user's that stand behind it."""

    target: Any
    name: str
    files: tuple[Path, ...]

    @property
    def digest(self) -> str:
        """A hash of the name and of the files' names and contents, wherever they lie."""
        return digest_of(self.name, *digest_parts(self.files))


def digest_of(*parts: str | bytes) -> str:
    """A hash of texts and bytes in order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def digest_parts(files: Iterable[Path]) -> Iterator[str]:
    """The name of each file and the hash of its content."""
    for file in files:
        with file.open("rb") as content:
            yield f"{file.name} {hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16)).hexdigest()}"


def named_files(paths: Sequence[str], base: Path) -> tuple[Path, ...]:
    """The files that `paths` name, seen from `base`; a folder stands for all files in it."""
    found: dict[Path, None] = {}
    for path in paths:
        folder = base / Path(path).expanduser()
        if folder.is_dir():
            found.update(dict.fromkeys(p for p in sorted(folder.rglob("*")) if p.is_file()))
        else:
            found[existing_file(path, base, what="file")] = None
    return tuple(found)


CLASS_KEYS = ("names", "classes", "class_names", "labels", "id2label")
"""Where exporters write the names of classes."""


def classes_in(stored: Mapping[str, Any], where: str) -> ClassNames | None:
    """Names of classes in metadata: a list, or a mapping from position to name, as values or as text.

    >>> classes_in({"names": "{0: 'cat', 1: 'dog'}"}, "metadata of pets.onnx")
    ClassNames(names=('cat', 'dog'), source='metadata of pets.onnx, key names')
    """
    for key in (k for k in CLASS_KEYS if k in stored):
        found = stored[key]
        if isinstance(found, str):
            try:
                found = ast.literal_eval(found)
            except (ValueError, SyntaxError):
                continue
        if isinstance(found, Mapping):
            places = {int(k): v for k, v in found.items() if str(k).isdecimal()}
            whole = sorted(places) == list(range(len(found)))
            found = [places[i] for i in sorted(places)] if whole else None
        if isinstance(found, list | tuple) and found:
            return ClassNames(tuple(map(str, found)), f"{where}, key {key}")
    return None


def existing_file(path: str, base: Path, *, what: str) -> Path:
    """The file that `path` names, seen from `base`; a sentence if it is not there."""
    file = base / Path(path).expanduser()
    if file.is_file():
        return file
    beside = sorted(p.name for p in file.parent.iterdir()) if file.parent.is_dir() else []
    raise SubjectError(
        f"there is no {what} {file}{did_you_mean(file.name, beside)}; the path is read from the folder {base}"
    )


def resolve_path(path: str, base: Path) -> Found:
    """The object that ``file.py:name`` or ``package.module:name`` names, with the file read from
    `base`."""
    place, colon, name = path.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise SubjectError(
            f"{path!r} names no function; write the file and the function, as in subject.py:predict, "
            "or the module and the function, as in package.module:predict"
        )
    if place.endswith(".py"):
        file = existing_file(place, base, what="file")
        module, files = _load_file(file.resolve())
    else:
        module, files = _load_package(place, base.resolve())
    if not hasattr(module, name):
        own = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise SubjectError(
            f"{place} has no {name!r}{did_you_mean(name, own)}; it has: {', '.join(own) or 'no functions'}"
        )
    return Found(getattr(module, name), name, files)


class _FromText(SourceFileLoader):
    """Compiles the text each time: byte code files miss an edit within one second, and litter the
    user's folder."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_file(file: Path) -> tuple[ModuleType, tuple[Path, ...]]:
    name = f"roadworthy_subject_{file.stem}_{digest_of(str(file))[:12]}"
    loader = _FromText(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with _importable(file.parent):
        # Dataclasses look their own module up by name while the file is executed.
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            raise _import_error(error, file.parent, file) from error
    return module, imported_files(file, file.parent)


def _load_package(name: str, base: Path) -> tuple[ModuleType, tuple[Path, ...]]:
    with _importable(base):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                raise SubjectError(
                    f"there is no module {name!r}, neither installed nor in the folder {base}; "
                    "for a file write its name with .py, as in subject.py:predict"
                ) from error
            raise _import_error(error, base, base) from error
        except (Exception, SystemExit) as error:
            raise _import_error(error, base, base) from error
    if not module.__file__:
        return module, ()
    file = Path(module.__file__).resolve()
    if _is_installed(file):
        return module, (file,)
    package = file.name == "__init__.py"
    return module, imported_files(file, file.parents[name.count(".") + package])


def _is_installed(file: Path) -> bool:
    """Whether a file belongs to the standard library or to an installed package: those are known by
    their version."""
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return bool(installed) or file.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())


def imported_files(file: Path, folder: Path) -> tuple[Path, ...]:
    """The file, then the files under `folder` that it imports, directly or through one another,
    sorted.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()).resolve()
    >>> _ = (folder / "subject.py").write_text("def predict(x):\\n    from scale import by\\n    return by * x")
    >>> _ = (folder / "scale.py").write_text("by = 2")
    >>> [f.name for f in imported_files(folder / "subject.py", folder)]
    ['subject.py', 'scale.py']
    """
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += _imports_of(one, folder)
    return (file, *sorted(found - {file}))


def _imports_of(file: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _along(folder, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            root = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else folder
            parts = node.module.split(".") if node.module else []
            # ``from a import b`` imports a, and b if that is a module of it.
            for alias in node.names:
                yield from _along(root, [*parts, alias.name])


def _along(root: Path, parts: Sequence[str]) -> Iterator[Path]:
    """The files of a dotted name: of its packages, and of the last part if that is a module."""
    for depth in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:depth])
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                yield file
                break


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Make a folder's files importable and load them afresh; others' modules are put back."""
    own = {n for p in folder.iterdir() if (n := _import_name(p))} - sys.stdlib_module_names
    own.discard("roadworthy")
    # A folder of data called torch hides no installed torch, so that one stays.
    own -= {
        n
        for n in own
        if n in sys.modules and not _lies_in(sys.modules[n], folder) and not _is_regular(folder, n)
    }
    aside = {n: m for n, m in sys.modules.items() if n.split(".")[0] in own}
    for name in aside:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    # From now on: what functions import when they are called must not be taken from a byte code file either.
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        _keep_importable(folder)
        for name, module in aside.items():
            # One of this folder's that was not loaded again is imported when a function asks for it, as it is then; one of
            # another subject's must not be found in its place.
            if not any(_lies_in(module, Path(place)) for place in [str(folder), *_SUBJECTS]):
                sys.modules[name] = module


def _keep_importable(folder: Path) -> None:
    """For imports that functions make when they are called: after all else, the subject that was
    loaded last first."""
    if str(folder) in sys.path and str(folder) not in _SUBJECTS:
        return
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    others = [sys.path.index(place) for place in _SUBJECTS if place in sys.path]
    sys.path.insert(min(others, default=len(sys.path)), str(folder))
    _SUBJECTS.add(str(folder))


def _import_name(path: Path) -> str | None:
    if path.suffix == ".py" and path.stem.isidentifier():
        return path.stem
    if not path.is_dir() or not path.name.isidentifier():
        return None
    holds_code = any(p.suffix == ".py" or p.is_dir() for p in path.iterdir())
    return path.name if holds_code else None


def _is_regular(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def _lies_in(module: ModuleType | None, folder: Path) -> bool:
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return any(place and Path(place).resolve().is_relative_to(folder) for place in places)


def _import_error(error: BaseException, folder: Path, place: Path) -> SubjectError:
    return SubjectError(f"{raised_in(error, folder, place=str(place))} (importing the subject)")


def raised_in(error: BaseException, folder: Path, *, place: str = "") -> str:
    """What was raised, and the last line of the user's own code that was reached."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f
        for f in frames
        if Path(f.filename).is_relative_to(folder) and "site-packages" not in f.filename
    ]
    if own and not isinstance(error, SyntaxError):
        place = f"{own[-1].filename}, line {own[-1].lineno}"
    reason = str(error).strip().split("\n")[0]
    return f"{place}: {type(error).__name__}{f': {reason}' if reason else ''}"
