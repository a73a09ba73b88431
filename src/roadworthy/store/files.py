"""Small files that several assessments share: in a folder, or under any URL that fsspec knows, such as s3://team/runs.

A file is whole or not there: object stores put it at once, other places get it under a temporary name
that is then moved. A store that does not answer is asked again for a minute.

>>> import tempfile
>>> files = Folder(Path(tempfile.mkdtemp()))
>>> files.create("claims/a", b"me"), files.create("claims/a", b"you"), files.read("claims/a")
(True, False, b'me')
"""

from __future__ import annotations

import importlib.util
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from roadworthy.registry import not_installed
from roadworthy.store.runs import StoreError, StoreUnreachable
from roadworthy.subject.trace import partial_name

_T = TypeVar("_T")
PATIENCE_S = 60.0
"""How long a store that does not answer is asked again."""
OBJECT_STORES = frozenset({"s3", "gs", "gcs", "abfs", "az", "oci", "oss", "memory"})
"""Where a put is whole at once, by fsspec's names."""


class SharedFiles(Protocol):
    """Small files by name, seen by all who share the place."""

    def read(self, name: str) -> bytes | None:
        """The content; None if there is no such file."""

    def write(self, name: str, content: bytes) -> None:
        """Put a file there, whole or not at all, in place of an earlier one."""

    def create(self, name: str, content: bytes) -> bool:
        """Put a file there if there is none of that name; whether it was put."""

    def delete(self, name: str) -> None:
        """Remove it, if it is there."""

    def names(self, folder: str) -> list[str]:
        """The files anywhere under a folder."""


@dataclass(frozen=True)
class Folder:
    """SharedFiles in a folder of this machine, or a mounted one."""

    root: Path

    def read(self, name: str) -> bytes | None:
        """The content; None if there is no such file."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Under a temporary name first."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = partial_name(path)
        partial.write_bytes(content)
        partial.replace(path)

    def create(self, name: str, content: bytes) -> bool:
        """A link to a whole file exists at once or not at all; where there are no links, an empty file comes first."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = partial_name(path)
        partial.write_bytes(content)
        try:
            os.link(partial, path)
        except FileExistsError:
            # A mounted folder may ask twice for the same link, and finds its own file.
            return self.read(name) == content
        except OSError:
            with suppress(FileExistsError), path.open("xb") as stream:
                stream.write(content)
                return True
            return False
        finally:
            partial.unlink(missing_ok=True)
        return True

    def delete(self, name: str) -> None:
        """Remove it, if it is there."""
        (self.root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """The files anywhere under a folder."""
        found = (self.root / folder).rglob("*")
        return [p.relative_to(self.root).as_posix() for p in found if p.is_file()]


class Remote:
    """SharedFiles under a URL."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs

            self._fs, self._root = url_to_fs(url.rstrip("/"), use_listings_cache=False)
        except ImportError as error:
            if not importlib.util.find_spec("fsspec"):
                raise StoreError(
                    not_installed(f"a store at {url} needs fsspec", "store")
                ) from error
            raise StoreError(f"a store at {url} needs its driver: {error} (with pip)") from error
        except ValueError as error:
            raise StoreError(f"{url} is no store: {error}") from error
        self.url = url.rstrip("/")
        self._patience = PATIENCE_S
        names = self._fs.protocol
        self._puts_whole = not OBJECT_STORES.isdisjoint(
            [names] if isinstance(names, str) else names
        )

    def read(self, name: str) -> bytes | None:
        """The content; None if there is no such file."""
        try:
            return bytes(self._patiently(lambda: self._fs.cat_file(self._at(name))))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """At once, or under a temporary name first."""
        if self._puts_whole:
            self._patiently(lambda: self._fs.pipe_file(self._at(name), content))
            return

        def put() -> None:
            partial = self._at(f"{name}.{uuid.uuid4().hex[:8]}.partial")
            self._fs.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(partial, content)
            self._fs.mv(partial, self._at(name))

        self._patiently(put)

    def create(self, name: str, content: bytes) -> bool:
        """By a conditional put."""

        def put() -> bool:
            if not self._puts_whole:
                self._fs.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
            try:
                self._fs.pipe_file(self._at(name), content, mode="create")
            except FileExistsError:
                # A put whose answer was lost is tried again, and finds its own file.
                return self.read(name) == content
            return True

        return bool(self._patiently(put))

    def delete(self, name: str) -> None:
        """Remove it, if it is there."""

        def remove() -> None:
            try:
                self._fs.rm_file(self._at(name))
            except FileNotFoundError:
                return

        self._patiently(remove)

    def names(self, folder: str) -> list[str]:
        """The files anywhere under a folder."""

        def listed() -> list[str]:
            try:
                return list(self._fs.find(self._at(folder)))
            except FileNotFoundError:
                return []

        root = self._root.rstrip("/") + "/"
        return [name.removeprefix(root) for name in self._patiently(listed)]

    def folders(self) -> list[str]:
        """The names right under the URL."""
        found = self._patiently(lambda: self._fs.ls(self._root, detail=False))
        return [str(path).rstrip("/").rpartition("/")[2] for path in found]

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _patiently(self, use: Callable[[], _T]) -> _T:
        """Again and again for a while if the store does not answer."""
        until, pause = time.monotonic() + self._patience, 0.2
        while True:
            try:
                found = use()
                self._patience = PATIENCE_S
                return found
            except (FileNotFoundError, FileExistsError, PermissionError, StoreError):
                raise
            except Exception as error:
                if type(error).__name__ == "NoCredentialsError":
                    raise StoreError(f"the store {self.url}: {error}") from error
                if time.monotonic() + pause > until:
                    # What is left to do there, such as to release claims, is tried once.
                    self._patience = 0.0
                    raise StoreUnreachable(
                        f"the store {self.url} did not answer for {PATIENCE_S:.0f} s: {error}"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, 5.0)
