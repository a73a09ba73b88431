"""Which code and which libraries stand behind a chunk, and behind a run.

A chunk depends on the code that makes cases and asks the subject; a run on the whole package, so that a change of bounds makes
a new run beside the old one and never overwrites it.

>>> code_version().split("+")[0] == trace_version().split("+")[0] == roadworthy.__version__
True
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import roadworthy
from roadworthy.registry import Component

ROOT = Path(roadworthy.__file__).parent
BEHIND_TRACES = ("cases", "data", "distances", "generative", "search", "subject")
"""Rooms whose code a trace depends on."""
LIBRARIES = (
    "numpy",
    "scipy",
    "torch",
    "onnxruntime",
    "onnxruntime-gpu",
    "opencv-python-headless",
    "opencv-python",
    "opencv-contrib-python-headless",
    "opencv-contrib-python",
    "pillow",
    "rapidfuzz",
    "sacrebleu",
    "soxr",
    "python-stretch",
)
"""Distributions whose version changes the last bits of a case or of an answer."""
MOST_FILES = 1000


@functools.cache
def code_version() -> str:
    """The package's version and a hash of all its code: names a run, and stands in its record."""
    return f"{roadworthy.__version__}+{_hash_of(_code(ROOT), ROOT)}"


@functools.cache
def trace_version() -> str:
    """The package's version and a hash of the code that a trace depends on: part of a chunk's key."""
    files = [p for room in BEHIND_TRACES for p in _code(ROOT / room)]
    return f"{roadworthy.__version__}+{_hash_of([*files, ROOT / 'registry.py'], ROOT)}"


@functools.cache
def installed() -> dict[str, str]:
    """Python and the libraries that are installed, with their versions."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name in LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def libraries() -> str:
    """The same as one text, for keys."""
    return ", ".join(f"{name} {version}" for name, version in installed().items())


def source_of(component: Component) -> str:
    """A hash of the code of a component: of its whole package where another package offers it."""
    module = inspect.getmodule(component.build)
    top = (module.__name__ if module else "").split(".")[0]
    if top == "roadworthy":
        return component.name  # its code is in `trace_version`
    places = (
        getattr(importlib.import_module(top), "__path__", ()) if top not in ("", "__main__") else ()
    )
    files = [p for place in places for p in Path(place).rglob("*.py")]
    if files and len(files) <= MOST_FILES:
        return _hash_of(files, Path(next(iter(places))))
    try:
        text = inspect.getsource(module or component.build)
    except (OSError, TypeError):
        text = component.name
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _code(folder: Path) -> list[Path]:
    """Python files, and the texts beside them (words that transforms read)."""
    return [p for ending in ("*.py", "*.txt") for p in folder.rglob(ending)]


def _hash_of(files: Iterable[Path], root: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()
