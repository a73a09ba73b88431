"""Finding what a path such as ``subject.py:predict`` or ``package.module:predict`` names, in the user's own code.

A file is imported under a name of its own. Its folder is importable while it loads, so that it finds the files beside it, and
those files are loaded afresh: two subjects that each have a ``layers.py`` do not see each other's.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "subject.py").write_text("def predict(image): return [0.0, 1.0]")
>>> resolve("subject.py:predict", folder).target("an image")
[0.0, 1.0]
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from roadworthy.registry import did_you_mean
from roadworthy.subject.adapters.sources import NOT_SOURCES, everything_in, reached
from roadworthy.subject.captured import is_installed
from roadworthy.subject.module import SubjectError

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


def existing_file(path: str, base: Path, *, what: str) -> Path:
    """The file that `path` names, seen from `base`; a sentence if it is not there."""
    file = base / Path(path).expanduser()
    if file.is_file():
        return file
    beside = sorted(p.name for p in file.parent.iterdir()) if file.parent.is_dir() else []
    raise SubjectError(
        f"there is no {what} {file}{did_you_mean(file.name, beside)}; the path is read from the folder {base}"
    )


def resolve(path: str, base: Path) -> Found:
    """The object that ``file.py:name`` or ``package.module:name`` names, with the file read from `base`."""
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


def files_of(modules: Iterable[Any]) -> tuple[Path, ...]:
    """The files that a system's modules were loaded from, each once: their `files`, or the file of their function."""
    found: dict[Path, None] = {}
    for module in modules:
        files = getattr(module, "files", ()) or _source_files(getattr(module, "function", None))
        found.update(dict.fromkeys(files))
    return tuple(found)


def _source_files(function: Any) -> tuple[Path, ...]:
    try:
        source = inspect.getsourcefile(function)
    except TypeError:
        return ()
    return (Path(source),) if source and Path(source).is_file() else ()


class _FromText(SourceFileLoader):
    """Compiles the text each time: byte code files miss an edit within one second, and litter the user's folder."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_file(file: Path) -> tuple[ModuleType, tuple[Path, ...]]:
    name = f"roadworthy_subject_{file.stem}_{digest_of(str(file))[:12]}"
    loader = _FromText(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with _importable(file.parent) as helpers:
        # Dataclasses look their own module up by name while the file is executed.
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            raise _import_error(file, file.parent, error) from error
    return module, _depended_on([file, *helpers], file.parent)


def _load_package(name: str, base: Path) -> tuple[ModuleType, tuple[Path, ...]]:
    with _importable(base) as helpers:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                raise SubjectError(
                    f"there is no module {name!r}, neither installed nor in the folder {base}; "
                    "for a file write its name with .py, as in subject.py:predict"
                ) from error
            raise _import_error(None, base, error) from error
        except (Exception, SystemExit) as error:
            raise _import_error(None, base, error) from error
    own = [Path(module.__file__)] if module.__file__ else []
    if own and not is_installed(str(own[0])):
        return module, _depended_on([*own, *helpers], own[0].resolve().parents[name.count(".")])
    return module, tuple(
        dict.fromkeys([*own, *_package_of(module, name), *_depended_on(helpers, base)])
    )


def _depended_on(files: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """The files, first the one that was named, then all that they import, now or when they are called."""
    first = files[:1]
    return tuple(dict.fromkeys([*(f.resolve() for f in first), *reached(files, folder)]))


def _package_of(module: ModuleType, name: str) -> list[Path]:
    """All files of the installed package that a module belongs to."""
    top = sys.modules.get(name.split(".")[0], module)
    return [file for place in getattr(top, "__path__", ()) for file in everything_in(Path(place))]


@contextmanager
def _importable(folder: Path) -> Iterator[list[Path]]:
    """Make a folder's files importable, load them afresh, and list them afterwards; others' modules are put back."""
    helpers: list[Path] = []
    own = (
        {n for p in folder.iterdir() if (n := _import_name(p))}
        - sys.stdlib_module_names
        - {"roadworthy"}
    )
    # A folder of data called torch hides no installed torch, so that one stays.
    own -= {
        n
        for n in own
        if not _lies_in(sys.modules.get(n), folder)
        and not _is_regular(folder, n)
        and n in sys.modules
    }
    aside = {n: m for n, m in sys.modules.items() if n.split(".")[0] in own}
    for name in aside:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    # From now on: what functions import when they are called must not be taken from a byte code file either.
    sys.dont_write_bytecode = True
    try:
        yield helpers
    finally:
        sys.path.remove(str(folder))
        _keep_importable(folder)
        loaded = {n: m for n, m in sys.modules.items() if n.split(".")[0] in own}
        inside = [m for m in loaded.values() if _lies_in(m, folder)]
        helpers.extend(sorted(Path(f) for m in inside if (f := getattr(m, "__file__", None))))
        for name, module in aside.items():
            # One of this folder's that was not loaded again is imported when a function asks for it, as it is then; one of
            # another subject's must not be found in its place.
            if not any(_lies_in(module, Path(place)) for place in [str(folder), *_SUBJECTS]):
                sys.modules[name] = module


def _keep_importable(folder: Path) -> None:
    """For imports that functions make when they are called: after all else, the subject that was loaded last first."""
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
    holds_code = path.is_dir() and path.name.isidentifier() and path.name not in NOT_SOURCES
    return (
        path.name
        if holds_code and any(p.suffix == ".py" or p.is_dir() for p in path.iterdir())
        else None
    )


def _is_regular(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def _lies_in(module: ModuleType | None, folder: Path) -> bool:
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return any(place and Path(place).resolve().is_relative_to(folder) for place in places)


def _import_error(file: Path | None, folder: Path, error: Exception | SystemExit) -> SubjectError:
    """The last line of the user's own code that was reached, and what went wrong there."""
    place = str(file or folder)
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            f
            for f in frames
            if Path(f.filename).is_relative_to(folder) and "site-packages" not in f.filename
        ]
        if own:
            place = f"{own[-1].filename}, line {own[-1].lineno}"
    reason = str(error).split("\n")[0]
    raised = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return SubjectError(f"{place}: importing the subject raised {raised}")
