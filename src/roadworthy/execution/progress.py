"""What long work says of itself: the stage it is in, how far it is, and notes. The faces show it; silence is the default."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told by execution, shown by a face."""

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` cases (or other units) begins."""
        ...

    def advance(self, n: int) -> None:
        """n more are done."""
        ...


class Silent:
    """Says nothing."""

    def stage(self, name: str, total: int) -> None:
        """Nothing."""

    def advance(self, n: int) -> None:
        """Nothing."""
