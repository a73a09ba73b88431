"""What supervisors that learn share: arrays by name, kept as ``supervisor.npz`` beside ``supervisor.json``, never as pickle.

The second file says which supervisor wrote it, with which parameters, for which subject, and what the arrays hash to: another
supervisor's, another subject's, a shortened or a changed file is refused.

>>> import tempfile
>>> class Mean(LearnedSupervisor):
...     name = "mean"
>>> one, other = Mean(), Mean()
>>> one._learned, one.meta = {"mean": np.array([2.0])}, {"subject": "a"}
>>> folder = Path(tempfile.mkdtemp())
>>> one.save(folder)
>>> other.load(folder)
>>> other._learned["mean"].tolist(), other.meta
([2.0], {'subject': 'a'})
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import zipfile
from collections.abc import Sized
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

FORMAT = 1
ARRAYS, ABOUT = "supervisor.npz", "supervisor.json"
MACHINE = ("device", "memory_mb")
"""Parameters that change how fast, not what."""


class LearnedSupervisor:
    """A supervisor whose knowledge is a dictionary of arrays, `_learned`; its parameters are attributes of the same names."""

    name: ClassVar[str]
    fitted = True

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What was done about data that the method's formula does not cover."""
        self.meta: dict[str, Any] = {}
        """What the caller wants to find again beside the arrays; ``subject`` is the fingerprint of what it was fitted on."""
        self._learned: dict[str, np.ndarray] = {}

    def save(self, folder: Path) -> None:
        """Write the arrays, then what they are."""
        self._refuse_unfitted()
        folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **self._learned)  # type: ignore[arg-type]
        content = buffer.getvalue()
        about = {
            "format": FORMAT,
            "supervisor": self.name,
            "parameters": self._parameters(),
            "notes": self.notes,
            "meta": self.meta,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        text = json.dumps(about, indent=1)
        (folder / ARRAYS).write_bytes(content)
        (folder / ABOUT).write_text(text)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote; refuses another supervisor's, another subject's, a shortened or a changed file."""
        about = self._read_about(folder / ABOUT)
        path = folder / ARRAYS
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != about.get("sha256"):
            raise ValueError(
                f"{path} is missing, shortened or not the file that was saved; fit and save again"
            )
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                self._learned = {key: arrays[key] for key in arrays.files}
        except (ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} holds no arrays that can be read: {error}") from error
        self.notes, self.meta = list(about.get("notes", [])), dict(about.get("meta", {}))
        self._forget()

    @property
    def kept_bytes(self) -> int:
        """How much memory what it learned takes."""
        return sum(array.nbytes for array in self._learned.values())

    def _read_about(self, path: Path) -> dict[str, Any]:
        try:
            about = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path} cannot be read as the description of a saved supervisor: {error}"
            ) from error
        own = {"format": FORMAT, "supervisor": self.name, "parameters": self._parameters()}
        for key, here in own.items():
            found = about.get(key) if isinstance(about, dict) else None
            if found != here:
                raise ValueError(f"{path} has the {key} {found!r}, and {here!r} was expected")
        subject, this = dict(about.get("meta", {})).get("subject"), self.meta.get("subject")
        if this and subject != this:
            raise ValueError(
                f"{path} was fitted on the subject {subject or 'of an unknown fingerprint'}, and this one is {this}; its scores "
                "would mean nothing here. Fit it on this subject"
            )
        return about

    def _parameters(self) -> dict[str, Any]:
        """What it was made with, but for what concerns the machine alone."""
        names = inspect.signature(type(self)).parameters
        return {name: _plain(getattr(self, name)) for name in names if name not in MACHINE}

    def _refuse_unfitted(self) -> None:
        if not self._learned:
            raise ValueError(f"{self.name} has not been fitted: call fit, or load what was saved")

    def _refuse_none(self, rows: np.ndarray, trace: Sized) -> None:
        """Refuse to be fitted on a trace of which no rows are left."""
        if not len(rows):
            raise ValueError(
                f"{self.name} is fitted on rows with an answer, and none of the {len(trace)} has one"
            )

    def _forget(self) -> None:
        """Drop what was derived from an earlier fit."""


def _plain(parameter: Any) -> Any:
    """As JSON gives it back, so that what was kept can be compared with what is here."""
    return list(parameter) if isinstance(parameter, tuple) else parameter
