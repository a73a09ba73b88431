"""Which files stand behind a subject's answers: every file that it opens while it loads and while it answers.

Python reports each file that is opened, each folder that is listed, each connection and each program that is
started (PEP 578). One hook a process listens, only while a subject loads or answers; hooks of other tools are
untouched, as Python offers no way to remove one. What native code opens is not reported: such files are listed
under ``subject: files``, or `version` vouches for them.

>>> import tempfile
>>> weights = Path(tempfile.mkdtemp()) / "weights.txt"
>>> _ = weights.write_text("0.5")
>>> evidence = SubjectEvidence()
>>> with watching(evidence):
...     _ = weights.read_text()
>>> {Path(place).name: state[:8] for place, state in evidence.files.items()}
{'weights.txt': 'd2cbad71'}
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import os
import re
import stat
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

ABSENT = "absent"
"""The state of a file that was looked for and is not there: its appearance is a change."""
SPECIAL = "no regular file"
LISTING = "listing "
"""Before the hash of the names in a folder that was listed."""
SEEN = (
    *("charset-normalizer", "lightgbm", "markupsafe", "matplotlib", "numpy", "pandas", "pillow"),
    *("pydantic-core", "pyyaml", "regex", "roadworthy", "scikit-image", "scikit-learn", "scipy"),
    *("statsmodels", "torch", "torchvision"),
)
"""Distributions with native code that opens files through Python, or opens none."""
UNSEEN = ("ctypes", "torch.export", "torch.jit")
"""What opens files without Python's knowledge, although the rest of its library does not."""
HARMLESS = ("arch", "ldconfig", "lscpu", "nvidia-smi", "uname")
"""Programs that only describe the machine."""
CONNECTS, STARTS = "connects to", "starts"
_PROGRAMS = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec")
_LISTS = ("os.listdir", "os.scandir")
_PLAIN = (str, bytes, os.PathLike)
_OWN = str(Path(__file__).parents[1])
_DATA = os.path.join(_OWN, "data")


@dataclass
class SubjectEvidence:
    """What a subject was seen to depend on."""

    files: dict[str, str] = field(default_factory=dict)
    """By absolute path the SHA-256 of the content when it was first opened, or its state."""
    unseen: dict[str, None] = field(default_factory=dict)
    """What else its answers may depend on, as ends of the sentence "the subject …"."""
    ignored: tuple[str, ...] = ()
    """Folders whose files are none of the subject's: runs and cache."""
    _written: set[str] = field(default_factory=set, repr=False)

    def add(self, files: Mapping[str, str], unseen: Iterable[str]) -> bool:
        """Take over what was seen elsewhere or earlier; whether any of it is new."""
        before = len(self.files), len(self.unseen)
        self.files = {**files, **self.files}
        self.unseen.update(dict.fromkeys(unseen))
        return (len(self.files), len(self.unseen)) != before

    def changed(self) -> list[str]:
        """The files that are no longer as they were when they were first opened."""
        files = ((p, s) for p, s in self.files.items() if not s.startswith(LISTING))
        return [place for place, state in files if state_of_file(place) != state]

    def states(self, base: Path, *, since: int = 0) -> list[tuple[str, str]]:
        """Every path with its state, the first `since` left out; paths inside the folder of the assessment file are relative
        to it."""
        seen = itertools.islice(self.files.items(), since, None)
        return sorted((_relative(place, base), state) for place, state in seen)

    def _opened(self, place: Any, mode: Any, flags: int) -> None:
        if not isinstance(place, _PLAIN):
            return
        path = os.path.abspath(os.fsdecode(place))
        if path in self.files or _is_known(path) or path.startswith(self.ignored or ("\0",)):
            return
        if isinstance(mode, str):
            reads, writes = "r" in mode or "+" in mode, bool(set(mode) & set("wax+"))
        else:
            access = flags & os.O_ACCMODE
            reads, writes = access != os.O_WRONLY, access != os.O_RDONLY
        if path in self._written or not reads:
            self._written.add(path)
        elif writes and os.path.exists(path):
            self.unseen[f"reads and writes {os.path.basename(path)}"] = None
        elif not writes:
            self.files[path] = state_of_file(path)

    def _listed(self, place: Any) -> None:
        path = os.path.abspath(os.fsdecode(place)) if isinstance(place, _PLAIN) else os.getcwd()
        if not _is_known(path) and not path.startswith(self.ignored or ("\0",)):
            self.files.setdefault(path + os.sep, state_of_file(path + os.sep))


def _relative(place: str, base: Path) -> str:
    if not Path(place).is_relative_to(base):
        return place
    return os.path.relpath(place, base) + os.sep * place.endswith(os.sep)


@cache
def _known_folders() -> tuple[str, ...]:
    """Where files lie that are named by their package and version, or are none."""
    paths = sysconfig.get_paths()
    places = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {os.path.realpath(place) for place in places} | {_OWN}
    return (*(f"{place}{os.sep}" for place in sorted(places)), "/proc/", "/sys/", "/dev/")


def _is_source(place: Any) -> bool:
    return isinstance(place, _PLAIN) and os.fsdecode(place).endswith(".py")


def _is_known(path: str) -> bool:
    return f"{path}{os.sep}".startswith(_known_folders()) or "__pycache__" in path


def _asked_by() -> str:
    """Which file of Python code is behind an event, libraries aside; "import" or "finder" if a module is sought."""
    paths = sysconfig.get_paths()
    library, others = paths["stdlib"], (paths["purelib"], paths["platlib"])
    finders = tuple(f"{library}/{name}" for name in ("importlib", "pkgutil", "linecache"))
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(("<frozen importlib", *finders)):
            return "import" if name.startswith("<") else "finder"
        if name != __file__ and not name.startswith((library, *others, "<frozen")):
            return str(name)
        frame = frame.f_back
    return ""


_hashes: dict[tuple[Any, ...], str] = {}


def state_of_file(place: str) -> str:
    """The SHA-256 of a file, of the names in a folder, or that there is none.

    A hash is remembered for as long as device, inode, size and both times (in ns) stay as they are.
    """
    try:
        if place.endswith(os.sep):
            names = sorted(
                n for n in os.listdir(place) if n != "runs" and not n.startswith((".", "__"))
            )
            return LISTING + hashlib.sha256("\n".join(names).encode()).hexdigest()
        about = os.stat(place)
        if not stat.S_ISREG(about.st_mode):
            return SPECIAL
        key = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        if key not in _hashes:
            with open(place, "rb") as content:
                _hashes[key] = hashlib.file_digest(content, "sha256").hexdigest()
        return _hashes[key]
    except OSError:
        return ABSENT


class _Hook:
    """The listener of this process, installed when it is first needed."""

    evidence: SubjectEvidence | None = None
    installed = False
    own = threading.local()

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        evidence = self.evidence
        if evidence is None or getattr(self.own, "busy", False):
            return
        if event == "open":
            # Data are read when a subject asks for them, and the text of modules when they are imported.
            asked_by = _asked_by()
            sought = asked_by == "finder" or (asked_by == "import" and not _is_source(args[0]))
            if not sought and not asked_by.startswith(_DATA):
                self._quietly(evidence._opened, args[0], args[1], args[2])
        elif event in _LISTS:
            if not _asked_by().startswith(("finder", "import", _OWN)):
                self._quietly(evidence._listed, args[0])
        elif event == "sqlite3.connect":
            evidence.unseen[f"uses the database {os.path.basename(os.fsdecode(args[0]))}"] = None
        elif event == "socket.connect":
            evidence.unseen[f"{CONNECTS} {_address(args[1])}"] = None
        elif event in _PROGRAMS and not _asked_by().startswith(_OWN):
            program = os.path.basename(os.fsdecode(args[0])) if isinstance(args[0], _PLAIN) else "?"
            if program not in HARMLESS:
                evidence.unseen[f"{STARTS} {program.split(' ')[0]}"] = None

    def _quietly(self, note: Any, *args: Any) -> None:
        """What is opened to make the hash is not the subject's."""
        self.own.busy = True
        try:
            note(*args)
        finally:
            self.own.busy = False


_hook = _Hook()


def _address(address: Any) -> str:
    return ":".join(map(str, address[:2])) if isinstance(address, tuple) else "a socket"


@contextlib.contextmanager
def watching(evidence: SubjectEvidence) -> Iterator[None]:
    """Note what is opened from here on, by any thread, until the end."""
    if not _hook.installed:
        sys.addaudithook(_hook)
        _hook.installed = True
    before, _hook.evidence = _hook.evidence, evidence
    try:
        yield
    finally:
        _hook.evidence = before


def native_libraries(files: Iterable[Path]) -> list[str]:
    """What these Python files use that may open files by itself: packages that have, or require, native code not `SEEN`."""
    found: set[str] = set()
    for file in files:
        if file.suffix != ".py":
            continue
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module if node.module in UNSEEN else node.module.split(".")[0])
            elif isinstance(node, ast.Attribute) and node.attr == "load":
                found.add(f"torch.{ast.unparse(node.value).rpartition('.')[2]}")
    return sorted(filter(_may_open_unseen, found))


@cache
def _may_open_unseen(name: str) -> bool:
    if name in UNSEEN or name in sys.stdlib_module_names or name in SEEN or "." in name:
        return name in UNSEEN
    sources = metadata.packages_distributions().get(name, ())
    return any(_has_native_code(source, set()) for source in sources)


def _has_native_code(distribution: str, asked: set[str]) -> bool:
    name = re.sub("[-_.]+", "-", distribution).lower()
    if name in SEEN or name in asked:
        return False
    asked.add(name)
    try:
        files, required = metadata.files(name) or (), metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return False
    needed = (re.split(r"[^\w.-]", one)[0] for one in required if "extra ==" not in one)
    native = any({".so", ".pyd", ".dylib"} & {*file.suffixes} for file in files)
    return native or any(_has_native_code(one, asked) for one in needed)
