"""Pictures inside the page: pairs as ``data:`` URIs within a budget of bytes.

>>> mime(b"\\x89PNG...")
'image/png'
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from .run_parts import Pair
from .run_view import ReportError, RunView

MOST_PAIRS = 120
"""More pairs than this are not looked at in a page."""
LONGEST_TEXT = 600
PIXEL_ART = 96
"""Below this many pixels a side a picture is enlarged with hard edges, so that what the subject saw is seen."""


@dataclass(frozen=True)
class Shown:
    """A pair ready for the page."""

    pair: Pair
    original: str
    made: str

    @property
    def pixelated(self) -> bool:
        """Whether the picture is so small that it is enlarged with hard edges."""
        return 0 < max(self.pair.width, self.pair.height) <= PIXEL_ART

    @property
    def texts(self) -> tuple[str, str]:
        """Original and case as text, shortened."""
        return _short(self.pair.original_text), _short(self.pair.made_text)


@dataclass(frozen=True)
class Media:
    """What is shown, and how many pairs there was no room for."""

    pairs: tuple[Shown, ...] = ()
    worst: tuple[Shown, ...] = ()
    dropped: int = 0


def embed(view: RunView, budget: int) -> Media:
    """The pairs whose pictures fit into the budget (bytes in the page).

    Worst failures and gallery take turns, and every circumstance gets its first pair before any gets its second.
    """
    left = budget
    chosen: dict[tuple[str, int], Shown] = {}
    worst, pairs = view.worst, view.pairs
    first = [("worst", i, p) for i, p in enumerate(worst)]
    second = [("pairs", i, p) for i, p in _in_turn(pairs)]
    queue = [entry for turn in zip_longest(first, second) for entry in turn if entry is not None]
    for kind, i, pair in queue[:MOST_PAIRS]:
        cost = sum(_cost(view, name) for name in (pair.original, pair.made))
        if cost <= left:
            left -= cost
            chosen[kind, i] = Shown(pair, _uri(view, pair.original), _uri(view, pair.made))
    return Media(
        tuple(chosen["pairs", i] for i in range(len(pairs)) if ("pairs", i) in chosen),
        tuple(chosen["worst", i] for i in range(len(worst)) if ("worst", i) in chosen),
        len(queue) - len(chosen),
    )


def mime(content: bytes) -> str | None:
    """The kind of picture by its first bytes; None for what a report does not embed (SVG can carry script)."""
    kinds = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
    for start, kind in kinds.items():
        if content.startswith(start):
            return kind
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def _in_turn(pairs: Sequence[Pair]) -> Iterable[tuple[int, Pair]]:
    """One of each circumstance, then the second of each, and so on."""
    seen: dict[str, int] = {}
    turns = []
    for i, pair in enumerate(pairs):
        seen[pair.circumstance] = seen.get(pair.circumstance, 0) + 1
        turns.append((seen[pair.circumstance], i, pair))
    return [(i, pair) for _, i, pair in sorted(turns, key=lambda t: t[:2])]


def _file(view: RunView, name: str) -> Path:
    path = (view.folder / name).resolve()
    if not path.is_relative_to(view.folder.resolve()):
        raise ReportError(
            f"media/gallery.json names {name!r}, which lies outside the run folder. Assess again."
        )
    if not path.is_file():
        raise ReportError(
            f"{view.folder / name} is missing, media/gallery.json names it. Copy the whole run folder."
        )
    return path


def _cost(view: RunView, name: str | None) -> int:
    return 0 if name is None else math.ceil(_file(view, name).stat().st_size / 3) * 4


def _uri(view: RunView, name: str | None) -> str:
    if name is None:
        return ""
    content = _file(view, name).read_bytes()
    kind = mime(content)
    if kind is None:
        raise ReportError(
            f"{view.folder / name} is no PNG, JPEG, GIF or WebP picture. Assess again to write it anew."
        )
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
