"""The report as one HTML file that works offline: everything is inside, nothing is fetched, no number is made here.

A strict content security policy allows only the page's own style, its one script (by hash) and pictures as ``data:`` URIs, within
a budget of bytes.

>>> mime(b"\\x89PNG...")
'image/png'
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy import numbers
from roadworthy.registry import register
from roadworthy.report import wording
from roadworthy.report.blocks import Block, Heading, Pictures, ReportError
from roadworthy.report.charts import palette
from roadworthy.report.page import page
from roadworthy.store.record import Pair, Record

if TYPE_CHECKING:
    import jinja2

HERE = Path(__file__).parent
LIMIT = 3_000_000
"""Bytes of a report: it must open on a phone and travel by mail."""
MEDIA_BUDGET = 2_000_000
LONGEST_TEXT = 600
PIXEL_ART = 96
"""Below this many pixels a side a picture is enlarged with hard edges, so that what the subject saw is seen."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""A report is a page of ours without foreign script; a container often has no sandbox."""
PATIENCE_S = 120


@register("reports", "html", file="report.html")
def html(run: Record, *, embed_media: bool = True) -> str:
    """One HTML file for readers: claims, sections, gallery, method; works offline."""
    blocks = page(run)
    shown = embed_media and run.media != "none"
    text = _rendered(run, blocks, _embedded(run, blocks, MEDIA_BUDGET) if shown else None)
    excess = len(text.encode("utf-8")) - LIMIT
    if excess > 0 and shown:
        text = _rendered(run, blocks, _embedded(run, blocks, max(MEDIA_BUDGET - excess, 0)))
    return text


@dataclass(frozen=True)
class ShownPair:
    """A pair ready for the page."""

    pair: Pair
    original: str
    made: str
    truth: str = ""

    @property
    def pixelated(self) -> bool:
        """Whether the picture is so small that it is enlarged with hard edges."""
        return 0 < max(self.pair.width, self.pair.height) <= PIXEL_ART

    @property
    def texts(self) -> tuple[str, str]:
        """Original and case as text, shortened."""
        return (
            wording.cut(self.pair.original_text or "", LONGEST_TEXT),
            wording.cut(self.pair.made_text or "", LONGEST_TEXT),
        )


def _rendered(run: Record, blocks: Sequence[Block], media: Mapping[int, ShownPair] | None) -> str:
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    parts: list[tuple[Heading, list[Block]]] = []
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            parts.append((block, []))
        elif parts:
            parts[-1][1].append(block)
    said = [*run.warnings, *run.notes]
    pairs = sum(len(b.pairs) for b in blocks if isinstance(b, Pictures))
    return _template().render(
        run=run,
        parts=parts,
        verdict=wording.verdict(run),
        facts=_facts(run),
        notes=wording.brief_notes(said),
        all_notes=said,
        most_notes=wording.MOST_NOTES,
        media=media,
        dropped=0 if media is None else pairs - len(media),
        legend=_legend(run),
        style=palette.css() + _asset("report.css") + _foot(run),
        script=script,
        script_hash=f"sha256-{digest}",
    )


def _foot(run: Record) -> str:
    """What stands at the foot of printed pages, in signs that mean nothing to CSS."""
    named = f"{run.name} {run.subject.version}".strip()
    words = re.sub(r"[^\w .,@+-]", " ", f"{named}, run {run.key[:12]}")
    return f'@page{{@bottom-left{{content:"{words}";font:8pt sans-serif;color:#56616e}}}}'


def _legend(run: Record) -> str:
    """The colours of masks; class 0 has none."""
    data = run.data.get("test")
    names = (data and data.classes) or [f"class {i}" for i in range(5)]
    return ", ".join(f"{n} {colour}" for n, colour in zip(names[1:], palette.MASKS, strict=False))


def _facts(run: Record) -> list[tuple[str, str, list[str], str]]:
    """Head, value, small lines and tooltip of each box at the top."""
    found = []
    for quantity in (run.measure.name, "failure_rate"):
        f = run.find(quantity)
        if f is not None:
            shown = numbers.estimate(f.value, f.interval, f.n, wording.style_of(run, quantity))
            ends = f"{shown.interval} at {shown.confidence}" if f.interval else ""
            name = f"{quantity.replace('_', ' ')}, clean"
            cases = wording.cases_of(f.n, f.groups, wording.unit_of(run))
            found.append((name, shown.value, [ends, cases], shown.title))
    circumstances = numbers.plural(len(run.circumstances), "circumstance")
    many = [f"{circumstances},", numbers.plural(len(run.slices), "slice")]
    found.append(("cases", numbers.count(run.cases.total), many, ""))
    failed = "counted as wrong" if run.cases.failed else "every case was answered"
    found.append(("cases without an answer", numbers.count(run.cases.failed), [failed], ""))
    day, _, time = numbers.moment(run.created).partition(", ")
    found.append(("date", day, [time, f"run {run.key[:12]}"], ""))
    return found


def _embedded(run: Record, blocks: Sequence[Block], budget: int) -> dict[int, ShownPair]:
    """The pairs, by id, whose pictures fit into the budget (bytes in the page).

    Galleries take turns, in the order of their pairs.
    """
    left, chosen = budget, {}
    galleries = [b.pairs for b in blocks if isinstance(b, Pictures)]
    queue = [pair for turn in zip_longest(*galleries) for pair in turn if pair is not None]
    for pair in queue:
        names = (pair.original, pair.made, pair.truth_overlay)
        cost = sum(_cost(run, name) for name in names)
        if cost <= left:
            left -= cost
            chosen[id(pair)] = ShownPair(pair, *(_uri(run, name) for name in names))
    return chosen


def mime(content: bytes) -> str | None:
    """The kind of picture by its first bytes; None for what a report does not embed (SVG can carry script)."""
    kinds = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
    for start, kind in kinds.items():
        if content.startswith(start):
            return kind
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def _file(run: Record, name: str) -> Path:
    path = (run.folder / name).resolve()
    if not path.is_relative_to(run.folder.resolve()):
        raise ReportError(
            f"run.json names {name!r}, which lies outside the run folder. Assess again."
        )
    if not path.is_file():
        raise ReportError(
            f"{run.folder / name} is missing, run.json names it. Copy the whole run folder."
        )
    return path


def _cost(run: Record, name: str | None) -> int:
    return 0 if name is None else math.ceil(_file(run, name).stat().st_size / 3) * 4


def _uri(run: Record, name: str | None) -> str:
    if name is None:
        return ""
    content = _file(run, name).read_bytes()
    kind = mime(content)
    if kind is None:
        raise ReportError(
            f"{run.folder / name} is no PNG, JPEG, GIF or WebP picture. Assess again to write it."
        )
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known = {"marks": wording.MARKS, "plural": numbers.plural, "sure": _sure, "kind": _kind}
    environment.globals.update(known, id=id)
    environment.filters.update(level=numbers.level, breakable=_breakable, ticked=_ticked)
    return environment.get_template("report.html.j2")


def _sure(confidence: float) -> str:
    """What a subject says of itself, no more exactly than is of use."""
    return ">99.9%" if confidence > 0.999 else numbers.value(confidence, "percent")


def printed(page: Path) -> bytes:
    """A page as PDF, by an installed Chromium that loads nothing else."""
    import subprocess
    import tempfile

    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    kept = f"The report is written as {page}: print it from any browser."
    if chromium is None:
        how = "apt install chromium, or brew install --cask chromium"
        raise ReportError(f"PDF needs Chromium or Chrome, and none is installed ({how}). {kept}")
    with tempfile.TemporaryDirectory(prefix="roadworthy-") as folder:
        target = Path(folder) / "report.pdf"
        flags = [*QUIET, f"--user-data-dir={folder}/profile", f"--print-to-pdf={target}"]
        command = [chromium, *flags, page.resolve().as_uri()]
        try:
            subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
            return target.read_bytes()
        except (subprocess.SubprocessError, OSError) as error:
            raise ReportError(f"No PDF: {error}. {kept}") from error


def _kind(block: Any) -> str:
    """The name of a block's macro."""
    return type(block).__name__.lower()


def _breakable(text: str) -> Any:
    """A name that may be broken behind underscores and before brackets."""
    from markupsafe import Markup, escape

    return Markup(str(escape(text)).replace("_", "_<wbr>").replace("(", "<wbr>("))


def _ticked(text: str) -> Any:
    """What stands between backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@functools.cache
def _asset(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")
