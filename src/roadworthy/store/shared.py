"""Runs and chunks under a URL that a team shares.

An assessment works in a folder of its own on this machine, the store's mirror: a chunk is looked for
there, then in the store; what is computed goes to both. A finished run is copied into the store, its
record last, so that who lists runs sees whole ones.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roadworthy.store.cache import ChunkCache
from roadworthy.store.files import Folder, Remote, SharedFiles
from roadworthy.store.runs import RUN, RunFolder, StoreError
from roadworthy.subject.trace import Trace, whole_folder

MIRRORS = "ROADWORTHY_MIRRORS"
"""The environment variable that says where mirrors lie; by default in the user's cache folder."""
LISTED_S = 2.0
"""For so long a listing of chunks counts as fresh, or for twenty times as long as it took."""


@dataclass(frozen=True)
class SharedCache(ChunkCache):
    """Chunks of a store, by way of the mirror on this machine."""

    files: Any = None
    _listed: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    """The keys in the store; under "" when to list them again."""

    @property
    def address(self) -> str:
        """What another process opens it by."""
        return str(self.files.url)

    @property
    def claimed(self) -> SharedFiles:
        """Where claims on chunks stand."""
        return self.files  # type: ignore[no-any-return]

    def has(self, key: str, *, now: bool = False) -> bool:
        """Whether it is here, or in the store and can be brought."""
        if self._is_here(key):
            return True
        return (now or self._in_store(key)) and self._brought(key) and self._is_here(key)

    def bring(self, key: str) -> None:
        """From the store, unless it is here for good."""
        self.has(key, now=True)

    def write(self, key: str, trace: Trace, *, passing: int = 0, **noted: Any) -> None:
        """Here, then in the store; also what failed for a passing reason, for the driver of a worker elsewhere."""
        if self.files.read(_object(key)) is None:
            super().drop(key)  # it was dropped from the store by another machine
        super().write(key, trace, passing=passing, **noted)
        self.files.write(_object(key), _packed(self.folder(key)))
        if not passing:
            self._listed[key] = 0.0

    def read(self, key: str) -> Trace:
        """Brought if it is not here."""
        if not self.folder(key).is_dir():
            self._brought(key)
        return super().read(key)

    def link_into(self, key: str, folder: Path) -> None:
        """Brought if it is not here."""
        if not self.folder(key).is_dir():
            self._brought(key)
        super().link_into(key, folder)

    def keep_under(self, old: str, new: str) -> None:
        """In both places."""
        super().keep_under(old, new)
        if old != new and self._is_here(new):
            self.files.write(_object(new), _packed(self.folder(new)))
            self._listed[new] = 0.0

    def drop(self, key: str) -> None:
        """In both places."""
        super().drop(key)
        self._listed.pop(key, None)
        self.files.delete(_object(key))

    def subject_files(self, subject: str) -> dict[str, list[str]]:
        """As the store has them."""
        content = self.files.read(f".cache/subjects/{subject}.json")
        if content is not None:
            Folder(self.root).write(f"subjects/{subject}.json", content)
        return super().subject_files(subject)

    def keep_subject_files(self, subject: str, files: list[str], unseen: list[str]) -> None:
        """In both places."""
        super().keep_subject_files(subject, files, unseen)
        content = (self.root / "subjects" / f"{subject}.json").read_bytes()
        self.files.write(f".cache/subjects/{subject}.json", content)

    def _in_store(self, key: str) -> bool:
        if key in self._listed:
            return True
        started = time.monotonic()
        if started >= self._listed.get("", 0.0):
            names = self.files.names(".cache/chunks")
            self._listed.update((n.rsplit("/", 1)[-1].removesuffix(".tar"), 0.0) for n in names)
            now = time.monotonic()
            self._listed[""] = now + max(LISTED_S, 20 * (now - started))
        return key in self._listed

    def _brought(self, key: str) -> bool:
        """Bring a chunk from the store; whether it was there."""
        content = self.files.read(_object(key))
        if content is None:
            self._listed.pop(key, None)
            return False
        self._forget_scores(key)
        self.checked.discard(key)
        try:
            with (
                tarfile.open(fileobj=io.BytesIO(content)) as packed,
                whole_folder(self.folder(key)) as partial,
            ):
                packed.extractall(partial, filter="data")
        except tarfile.TarError:  # damaged: it is computed again
            self._listed.pop(key, None)
            return False
        return True


def open_cache(address: str) -> ChunkCache:
    """The chunks of a runs folder or of a store, by the address that its cache gives."""
    if "://" not in address:
        return ChunkCache(Path(address))
    return SharedCache(mirror(address) / ".cache", files=Remote(address))


def mirror(url: str) -> Path:
    """The folder on this machine that stands for a store."""
    home = Path(os.environ.get(MIRRORS) or Path.home() / ".cache" / "roadworthy")
    found = home / hashlib.blake2b(url.rstrip("/").encode(), digest_size=8).hexdigest()
    found.mkdir(parents=True, exist_ok=True)
    return found


def publish(folder: Path, files: SharedFiles) -> None:
    """Copy a finished run into the store, its record last; its chunks are there already."""
    names = [p.relative_to(folder) for p in sorted(folder.rglob("*")) if p.is_file()]
    for name in sorted(names, key=lambda n: n == Path(RUN)):
        if name.parts[0] != "trace":
            files.write(f"{folder.name}/{name.as_posix()}", (folder / name).read_bytes())


def bring_run(url: str, name: str, into: Path) -> RunFolder:
    """Copy a run of a store into a folder of this machine."""
    files = Remote(url)
    names = files.names(name)
    if f"{name}/{RUN}" not in names:
        raise StoreError(f"the store {url} has no run {name!r}; `roadworthy runs {url}` lists them")
    for one in sorted(names, key=lambda n: n == f"{name}/{RUN}"):
        content = files.read(one)
        if content is not None:
            Folder(into).write(one, content)
    return RunFolder.open(into / name)


def records(url: str) -> Iterator[tuple[str, bytes]]:
    """The folder and the record of each run of a store."""
    files = Remote(url)
    for name in files.folders():
        content = None if name.startswith(".") else files.read(f"{name}/{RUN}")
        if content is not None:
            yield name, content


def _object(key: str) -> str:
    return f".cache/chunks/{key[:2]}/{key}.tar"


def _packed(folder: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as packed:
        for path in sorted(folder.rglob("*")):
            packed.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return content.getvalue()
