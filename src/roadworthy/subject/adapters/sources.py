"""The files of the user's own that a Python file depends on: what it imports, and what that imports, wherever in the text.

Imports inside functions count (they run when the subject is asked), as do folders without ``__init__.py``. Installed packages do
not: they are known by their version. A file that imports by a name which only running would tell depends on every Python file
of its folder.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp()).resolve()
>>> _ = (folder / "subject.py").write_text("def predict(x):\\n    from parts.scale import by\\n    return by * x")
>>> (folder / "parts").mkdir()
>>> _ = (folder / "parts" / "scale.py").write_text("by = 2")
>>> [f.relative_to(folder).as_posix() for f in reached([folder / "subject.py"], folder)]
['parts/scale.py', 'subject.py']
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from roadworthy.subject.captured import is_installed
from roadworthy.subject.module import SubjectError

MOST_FILES = 2000
"""More files than this are not the neighbours of a subject but a whole installation."""
NOT_SOURCES = {
    "__pycache__",
    "node_modules",
    "site-packages",
    "runs",
    "venv",
    "env",
    "build",
    "dist",
}
"""Folders in which nothing lies that a subject imports."""
BY_NAME = {"import_module", "__import__"}


def reached(starts: Iterable[Path], folder: Path) -> tuple[Path, ...]:
    """The files that `starts` depend on, themselves included, sorted; `folder` is where imports are looked for first."""
    found: set[Path] = set()
    waiting = [p.resolve() for p in starts]
    while waiting:
        file = waiting.pop()
        if file in found or file.suffix != ".py" or not file.is_file():
            continue
        found.add(file)
        if len(found) > MOST_FILES:
            raise SubjectError(
                f"the subject imports more than {MOST_FILES} files of its own, the last one {file}; "
                "install what it imports as a package, and name the package's version under version"
            )
        waiting += _imported(file, folder.resolve())
    return tuple(sorted(found))


def everything_in(folder: Path) -> Iterator[Path]:
    """The Python files under a folder that could be imported."""
    for path in sorted(folder.iterdir()):
        if (
            path.is_dir()
            and not path.is_symlink()
            and path.name.isidentifier()
            and path.name not in NOT_SOURCES
        ):
            if not (path / "pyvenv.cfg").exists():
                yield from everything_in(path)
        elif path.suffix == ".py" and path.stem.isidentifier():
            yield path


def _imported(file: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name, folder, file)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(node, file, folder)
        elif isinstance(node, ast.Call) and _called(node) in BY_NAME:
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield from _files(name.value.lstrip("."), folder, file)
            else:
                yield from everything_in(folder)


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _from(node: ast.ImportFrom, file: Path, folder: Path) -> Iterator[Path]:
    """``from a.b import c``: a.b, and c where it is a module of it."""
    if node.level:
        base = file.parents[node.level - 1] if node.level <= len(file.parents) else file.parent
        parts = node.module.split(".") if node.module else []
        yield from _along(base, parts)
        for alias in node.names:
            yield from _along(base.joinpath(*parts), [alias.name])
        return
    assert node.module is not None
    for alias in node.names:
        yield from _files(f"{node.module}.{alias.name}", folder, file)


def _files(name: str, folder: Path, file: Path) -> Iterator[Path]:
    """The files of a dotted name: of its packages, and of the last part where that is a module."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names or parts[0] == "roadworthy":
        return
    # A file in a package of another folder finds its own package first there.
    for root in (folder, file.parent, *_elsewhere(parts[0])):
        here = list(_along(root, parts))
        if here or (root / parts[0]).is_dir():
            yield from here
            return


def _along(root: Path, parts: list[str]) -> Iterator[Path]:
    for depth in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:depth])
        package = place / "__init__.py"
        if package.is_file():
            yield package
        elif place.with_name(f"{place.name}.py").is_file():
            yield place.with_name(f"{place.name}.py")


def _elsewhere(top: str) -> list[Path]:
    """The folder from which a name outside the subject's folder would be imported, unless it is installed."""
    try:
        spec = importlib.util.find_spec(top)
    except (ValueError, ImportError, AttributeError):
        return []
    if spec is None:
        return []
    places = list(spec.submodule_search_locations or ()) or ([spec.origin] if spec.origin else [])
    return [Path(p).resolve().parent for p in places if not is_installed(p)]
