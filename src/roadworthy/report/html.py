"""The report as one HTML file that works offline: everything is inside, nothing is fetched, no number is made here.

A strict content security policy allows only the page's own style, its one script (by hash) and pictures as ``data:`` URIs.

>>> LIMIT
3000000
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.registry import register

from . import (
    glossary,
    media,
    notes,
    numbers,
    supervisor_figures,
    supervisor_tables,
    supervisor_wording,
    wording,
)
from .charts import palette
from .figure import place_name
from .figures import figures
from .run_parts import STATUSES, Claim
from .run_view import RunView
from .supervisor_parts import Supervisor

if TYPE_CHECKING:
    import jinja2

HERE = Path(__file__).parent
LIMIT = 3_000_000
"""Bytes of a report: it must open on a phone and travel by mail."""
MEDIA_BUDGET = 2_000_000
ROWS = 200
"""Rows of a table in the page; the rest stand in ``findings.json``, and the page says so."""


@register("reports", "html", file="report.html")
def html(view: RunView, *, embed_media: bool = True) -> str:
    """One HTML file for readers: claims, circumstances, slices, curves, gallery, supervisors, method; works offline."""
    shown = embed_media and view.run.get("media") != "none"
    page = _page(view, media.embed(view, MEDIA_BUDGET) if shown else None)
    excess = len(page.encode("utf-8")) - LIMIT
    if excess > 0 and shown:
        page = _page(view, media.embed(view, max(MEDIA_BUDGET - excess, 0)))
    return page


def _page(view: RunView, pictures: media.Media | None) -> str:
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return _template().render(
        view=view,
        run=view.run,
        verdict=wording.verdict(view),
        figures=figures(view),
        media=pictures,
        notes=notes.brief(supervisor_wording.other_notes(view)),
        all_notes=notes.folded(view.run.get("notes") or ()),
        most_notes=notes.MOST,
        glossary=glossary.explained(view),
        settle=functools.partial(wording.settle, view),
        claims_by_urgency=sorted(view.claims, key=_urgency),
        assumptions=_tally(view, lambda f: f.assumptions),
        corrections=_tally(view, lambda f: (f.corrected,) if f.corrected else ()),
        methods=_tally(view, lambda f: (_family(f.interval.method),) if f.interval else ()),
        reasons=_tally(view, lambda f: (f.reason,) if f.reason else ()),
        shown=lambda f: numbers.estimate(f.value, f.interval, f.n, view.style_of(f.quantity)),
        rows=ROWS,
        undrawn=supervisor_figures.undrawn(view),
        supervisor_words=supervisor_wording,
        supervisor_tables=supervisor_tables,
        style=palette.css() + _asset("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
    )


def _family(method: str) -> str:
    """A method without its numbers: "n = 812.4" and "n = 90.1" are one way to make an interval."""
    return re.sub(r"\d+(\.\d+)?", "…", method)


def _urgency(claim: Claim) -> int:
    return STATUSES.index(claim.status) if claim.status in STATUSES else len(STATUSES)


def _tally(view: RunView, of: Any) -> list[tuple[str, int, list[str]]]:
    """Each sentence that findings carry: how many carry it, and which quantities; the most frequent first."""
    counts: Counter[str] = Counter()
    quantities: dict[str, dict[str, None]] = {}
    for finding in view.findings:
        for sentence in of(finding):
            counts[sentence] += 1
            quantities.setdefault(sentence, {})[finding.quantity] = None
    return [(sentence, n, list(quantities[sentence])) for sentence, n in counts.most_common(40)]


def _unsaid(s: Supervisor) -> str:
    """The parameters that the name does not hold already."""
    return ", ".join(
        f"{k} {v}"
        for k, v in s.parameters.items()
        if not re.search(rf"[(,]\s*{re.escape(k)}=", s.name)
    )


def _file_name(path: str) -> str:
    """The last part of a path: a report travels, and where the files lay on one machine helps nobody elsewhere.

    >>> _file_name("/home/me/data/test.npz"), _file_name("bundled/fashion-mnist"), _file_name("D:\\\\data\\\\a.csv")
    ('test.npz', 'fashion-mnist', 'a.csv')
    """
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _relative(path: str) -> str:
    """The whole path, if it is not that of one machine: neither absolute nor with a drive, nor of somebody's home."""
    return "" if re.match(r"[/\\~]|[A-Za-z]:[/\\]|file:", path) else path


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
    environment.globals.update(
        value=numbers.value,
        estimate=numbers.estimate,
        NONE=numbers.NONE,
        marks=wording.MARKS,
        bound=numbers.bound,
        bound_note=wording.bound_note,
        limit=numbers.limit,
        plural=wording.plural,
        place_name=place_name,
        unsaid=_unsaid,
    )
    environment.filters.update(
        count=numbers.count,
        level=numbers.level,
        confidence=numbers.confidence,
        size=numbers.size,
        seconds=numbers.seconds,
        p_value=numbers.p_value,
        moment=numbers.moment,
        file_name=_file_name,
        relative=_relative,
    )
    return environment.get_template("report.html.j2")


@functools.cache
def _asset(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")
