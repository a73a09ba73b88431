"""Where the state of a bundle stands, and to which process it belongs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from roadworthy.store import StoreError

ENDING = ".state.sqlite"
"""Of the file beside a bundle, where nobody names another."""


def beside(bundle: Path) -> Path:
    """The state of a bundle, where nobody names another.

    >>> str(beside(Path("runs/scores.bundle.json")))
    'runs/scores.bundle.state.sqlite'
    """
    return bundle.parent / f"{bundle.name.removesuffix('.json')}{ENDING}"


def locked(path: Path) -> int:
    """The lock of the one process that counts into this file; it goes with the process, however that ends."""
    lock = os.open(
        path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StoreError(
            f"{path} belongs to a monitor that is running; stop it, or give another --state"
        ) from None
    return lock
