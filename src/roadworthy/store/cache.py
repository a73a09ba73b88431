"""The chunk cache: what was computed once, under the hash of everything that it depends on.

It lies beside the runs (``runs/.cache``); a run folder holds hard links to its chunks, so it can be
moved away. A chunk in which cases failed for a reason that may pass (a server that was down) serves
the run that made it, and is computed again by the next. What a supervisor learned and scored lies
under ``supervisors``, the scores by chunk; scores go when their chunk goes.

>>> import tempfile
>>> cache = ChunkCache(Path(tempfile.mkdtemp()))
>>> cache.keep_scores("knn", "chunk", KeptScores(np.array([0.5, np.nan]), 0.25))
>>> cache.kept_scores("knn", "chunk", 2)
KeptScores(scores=array([0.5, nan]), seconds=0.25)
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from roadworthy.store.files import Folder, SharedFiles
from roadworthy.subject.trace import Trace, link_chunk, partial_name, read_manifest, this_machine

_T = TypeVar("_T")
PASSING, FILES, UNSEEN = "passing", "files", "unseen"
"""Under which names a chunk says how many of its cases failed for a reason that may pass, and what the subject
was first seen to depend on while it was computed."""
PAUSE_S = 0.05
"""How long a chunk may be away while another process puts a new one in its place."""


class KeptScores(NamedTuple):
    """One number a case, and how long they took."""

    scores: np.ndarray
    seconds: float


@dataclass(frozen=True)
class ChunkCache:
    """Chunks by key."""

    root: Path
    checked: set[str] = field(default_factory=set, compare=False, repr=False)
    """Chunks whose contents this process has compared with their hashes already."""

    @property
    def address(self) -> str:
        """What another process opens it by."""
        return str(self.root.resolve())

    @property
    def claimed(self) -> SharedFiles:
        """Where claims on chunks stand."""
        return Folder(self.root)

    @property
    def own_folders(self) -> tuple[str, ...]:
        """Where runs and cache lie: whatever is opened there is not the subject's."""
        return (f"{self.root.resolve().parent}{os.sep}",)

    def folder(self, key: str) -> Path:
        """Where a chunk lies, or will lie."""
        return self.root / key[:2] / key

    def supervisor(self, key: str) -> Path:
        """Where what a supervisor learned and scored lies."""
        return self.root / "supervisors" / key

    def has(self, key: str, *, now: bool = False) -> bool:
        """Whether it is there as it was written, and for good; a damaged one is replaced when written.

        With `now` nothing that was looked up a moment ago counts.
        """
        return self._is_here(key)

    def bring(self, key: str) -> None:
        """Have here what a worker has just written; it may have done so elsewhere."""

    def _is_here(self, key: str) -> bool:
        try:
            about = read_manifest(self.folder(key), check=key not in self.checked)["about"]
        except (OSError, ValueError, KeyError):
            return False
        self.checked.add(key)
        return not about.get(PASSING, 0)

    def keep_under(self, old: str, new: str) -> None:
        """Keep a chunk under another key too: more is known of what its answers depend on, and others may be reading it."""
        if old == new or not self.folder(old).is_dir():
            return
        self.drop(new)
        self.folder(new).parent.mkdir(parents=True, exist_ok=True)
        link_chunk(self.folder(old), self.folder(new))

    def noted(self, key: str) -> tuple[dict[str, str], list[str]]:
        """What the subject was first seen to open, and to depend on besides, while a chunk was computed."""
        about = _again_if_away(lambda: read_manifest(self.folder(key)))["about"]
        return dict(about.get(FILES, {})), list(about.get(UNSEEN, []))

    def subject_files(self, subject: str) -> dict[str, list[str]]:
        """What a subject was seen to open (`files`) and to depend on besides (`unseen`) in earlier runs."""
        try:
            found = json.loads((self.root / "subjects" / f"{subject}.json").read_text())
            return {name: [str(one) for one in found[name]] for name in ("files", "unseen")}
        except (OSError, ValueError, KeyError, TypeError):
            return {"files": [], "unseen": []}

    def keep_subject_files(self, subject: str, files: list[str], unseen: list[str]) -> None:
        """Remember it, whole or not at all, with what is remembered already."""
        known = self.subject_files(subject)
        files = sorted({*known["files"], *files})
        unseen = list(dict.fromkeys([*known["unseen"], *unseen]))
        path = self.root / "subjects" / f"{subject}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = partial_name(path)
        partial.write_text(json.dumps({"files": files, "unseen": unseen}))
        partial.replace(path)

    def drop(self, key: str) -> None:
        """Forget a chunk, so that it is computed again, and its scores."""
        self._forget_scores(key)
        self.checked.discard(key)
        shutil.rmtree(self.folder(key), ignore_errors=True)

    def _forget_scores(self, key: str) -> None:
        for path in self.root.glob(f"supervisors/*/scores/{key}.npz"):
            path.unlink(missing_ok=True)

    def write(
        self,
        key: str,
        trace: Trace,
        *,
        passing: int = 0,
        files: Mapping[str, str] | None = None,
        unseen: Sequence[str] = (),
    ) -> None:
        """Keep a chunk, whole or not at all; `passing` cases failed for a reason that may pass. `files` and `unseen` are
        what `noted` gives."""
        folder = self.folder(key)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.checked.discard(key)
        if self._is_here(key):
            return
        self._forget_scores(key)
        about = {PASSING: passing, FILES: dict(files or {}), UNSEEN: list(unseen)}
        trace.write(folder, about=about, replace=True)

    def read(self, key: str) -> Trace:
        """A chunk again."""
        check = key not in self.checked
        trace = _again_if_away(lambda: Trace.read(self.folder(key), check=check))
        self.checked.add(key)
        return trace

    def link_into(self, key: str, folder: Path) -> None:
        """Put a chunk into a run folder, in place of an earlier one of that key."""
        folder.mkdir(parents=True, exist_ok=True)
        _again_if_away(lambda: link_chunk(self.folder(key), folder / key))

    def keep_scores(self, supervisor: str, chunk: str, kept: KeptScores) -> None:
        """Keep the scores of a chunk's cases, whole or not at all."""
        path = self.supervisor(supervisor) / "scores" / f"{chunk}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = partial_name(path)
        try:
            with partial.open("wb") as stream:
                np.savez(stream, scores=kept.scores, seconds=kept.seconds)
            partial.replace(path)
        except FileNotFoundError:
            return  # another process has just put its own fit, without scores, in this place
        finally:
            partial.unlink(missing_ok=True)

    def kept_scores(self, supervisor: str, chunk: str, n: int) -> KeptScores | None:
        """The scores of a chunk's n cases; None if there are none, or not as they were written."""
        path = self.supervisor(supervisor) / "scores" / f"{chunk}.npz"
        try:
            with np.load(path, allow_pickle=False) as content:
                kept = KeptScores(content["scores"], float(content["seconds"]))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        return kept if kept.scores.shape == (n,) else None

    def sweep(self, *folders: Path) -> None:
        """Remove what processes of this machine that no longer live left half-written, here and in `folders`."""
        for place in (*folders, *self.root.glob("*"), *self.root.glob("supervisors/*/scores")):
            for partial in place.glob("*.partial"):
                pid, machine = [*partial.name.split(".")[-2].split("-"), ""][:2]
                if machine != this_machine() or (pid.isdigit() and is_alive(int(pid))):
                    continue
                if partial.is_dir():
                    shutil.rmtree(partial, ignore_errors=True)
                else:
                    partial.unlink(missing_ok=True)


def _again_if_away(use: Callable[[], _T]) -> _T:
    """Another process may be putting a new chunk in the place of the old one."""
    try:
        return use()
    except FileNotFoundError:
        time.sleep(PAUSE_S)
        return use()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
