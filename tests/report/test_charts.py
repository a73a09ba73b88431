"""Charts draw whatever numbers they get: one row or forty, no interval, NaN, values above 1 and below 0."""

from __future__ import annotations

import math
import re
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.report.charts import (
    MISSED,
    RANKING,
    ClaimRow,
    CurveLine,
    ForestRow,
    HeatCell,
    LevelPanel,
    LevelPoint,
    PriorityPoint,
    Ramp,
    claims_chart,
    curves_chart,
    forest,
    heat,
    levels_chart,
    palette,
    priority_chart,
)
from roadworthy.report.charts.svg import LinearScale, domain, fit, text_width, ticks

SVG = "{http://www.w3.org/2000/svg}"
AWKWARD = st.one_of(st.none(), st.just(math.nan), st.just(-math.inf), st.floats(-3, 40))
NAMES = st.text(max_size=60)
WIDTHS = st.sampled_from([336.0, 920.0])


def parsed(svg: str) -> ElementTree.Element:
    """The picture as XML: well formed, named, described, and without a number that is none."""
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title") is not None and root.find(f"{SVG}desc") is not None
    for element in root.iter():
        for key, content in element.attrib.items():
            assert not re.search(r"\b(nan|inf)\b", content), (element.tag, key, content)
    return root


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(NAMES, AWKWARD, AWKWARD, AWKWARD), max_size=12),
    AWKWARD,
    WIDTHS,
    st.sampled_from(["higher", "lower"]),
)
def test_a_forest_draws_any_rows(
    rows: list, reference: float | None, width: float, better: str
) -> None:
    drawn = forest(
        [ForestRow(*r) for r in rows],
        title="t",
        reference=reference,
        style="plain",
        width=width,
        better=better,
    )
    dots = len(parsed(drawn).findall(f".//{SVG}circle"))
    assert dots == sum(v is not None and math.isfinite(v) for _, v, *_ in rows)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(NAMES, st.lists(AWKWARD, max_size=4)), max_size=8), WIDTHS)
def test_names_at_the_ends_of_lines_do_not_overlap(lines: list, width: float) -> None:
    made = [CurveLine(name, tuple(enumerate(heights))) for name, heights in lines]
    drawn = curves_chart(
        made, title="t", across="a", up="u", named_at_end=True, mark=(1, "m"), width=width
    )
    names = parsed(drawn).findall(f".//{SVG}g[@class='legend']/{SVG}text")
    if width > 560:
        known = [one for _, one in lines if any(v is not None and math.isfinite(v) for v in one)]
        assert len(names) == len(known)
        heights = [float(name.get("y", 0)) for name in names]
        assert all(b - a >= 14.9 for a, b in pairwise(heights))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.tuples(AWKWARD, AWKWARD, AWKWARD), max_size=5), min_size=1, max_size=9),
    AWKWARD,
    WIDTHS,
)
def test_curves_are_drawn_for_any_values(panels: list, clean: float | None, width: float) -> None:
    made = [
        LevelPanel(f"c{i}", tuple(LevelPoint(j, *p) for j, p in enumerate(points)))
        for i, points in enumerate(panels)
    ]
    root = parsed(levels_chart(made, title="t", clean=clean, style="plain", width=width))
    finite = sum(v is not None and math.isfinite(v) for points in panels for v, _, _ in points)
    assert len(root.findall(f".//{SVG}circle")) == finite


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            NAMES,
            AWKWARD,
            AWKWARD,
            AWKWARD,
            AWKWARD,
            st.sampled_from(["met", "breached", "inconclusive"]),
        ),
        max_size=8,
    ),
    WIDTHS,
)
def test_claims_are_drawn_for_any_values(rows: list, width: float) -> None:
    made = [
        ClaimRow(n, "text", "q", v, lo, hi, limit, "min", s, "plain")
        for n, v, lo, hi, limit, s in rows
    ]
    parsed(claims_chart(made, title="t", width=width))


@pytest.mark.parametrize("count", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("width", [336.0, 920.0])
def test_labels_of_dots_never_overlap(count: int, width: float) -> None:
    points = [
        PriorityPoint(f"circumstance_{i}", 1 + (i * 37) % 125, (i * 17 % 40) / 50)
        for i in range(count)
    ]
    root = parsed(priority_chart(points, title="t", width=width))
    assert len(root.findall(f".//{SVG}circle")) == count
    boxes = []
    for text in root.findall(f".//{SVG}text"):
        if not (text.text or "").startswith("circumstance"):
            continue
        x, y, wide = (
            float(text.get("x", 0)),
            float(text.get("y", 0)),
            text_width(text.text or "", 11),
        )
        start = x - {"start": 0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
        boxes.append((start, y - 10, start + wide, y + 3))
    assert boxes
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_a_heat_table_has_a_cell_for_every_pair_and_breaks_many_columns_into_bands() -> None:
    columns = [f"supervisor_number_{i}" for i in range(20)]
    cells = {("clean", c): HeatCell(0.4 + 0.03 * i) for i, c in enumerate(columns)}
    for width in (336.0, 920.0):
        root = parsed(heat(["clean", "fog"], columns, cells, title="t", width=width))
        rects = root.findall(f".//{SVG}rect[@rx='3']")
        assert len(rects) == 40
        assert max(float(r.get("x", 0)) + float(r.get("width", 0)) for r in rects) <= width
        assert [t.text for t in root.iter(f"{SVG}text")].count("–") == 20


@settings(max_examples=40, deadline=None)
@given(
    st.lists(NAMES, max_size=7, unique=True),
    st.lists(NAMES, max_size=28, unique=True),
    st.lists(AWKWARD, min_size=1, max_size=9),
    WIDTHS,
    st.sampled_from([RANKING, MISSED]),
)
def test_a_heat_table_is_drawn_for_any_values(
    rows: list, columns: list, values: list, width: float, ramp: Ramp
) -> None:
    places = [(r, c) for r in rows for c in columns]
    cells = {p: HeatCell(values[i % len(values)], picked=i % 3 == 0) for i, p in enumerate(places)}
    root = parsed(
        heat(rows, columns, cells, title="t", width=width, ramp=ramp, starred=columns[:3])
    )
    rects = root.findall(f".//{SVG}rect[@rx='3']")
    assert len(rects) == len(places)
    assert all(float(r.get("x", 0)) + float(r.get("width", 0)) <= width for r in rects)


def test_a_phone_gets_the_table_turned_where_it_is_shorter_so() -> None:
    few, many = [f"c{i}" for i in range(9)], [f"s{i}" for i in range(25)]
    for rows, columns in ((few, many), (many, few)):
        drawn = heat(
            rows,
            columns,
            {(r, c): HeatCell(0.3) for r in rows for c in columns},
            title="t",
            width=336.0,
        )
        texts = [t.text for t in parsed(drawn).iter(f"{SVG}text")]
        assert all(
            texts.count(name) == 1 for name in (*few, *many)
        )  # one band: no name is repeated


def test_a_chosen_column_has_a_star_and_a_frame_not_colour_alone() -> None:
    cells = {("clean", c): HeatCell(0.3, picked=c == "b") for c in "abc"}
    for width in (336.0, 920.0):
        root = parsed(
            heat(["clean"], list("abc"), cells, title="t", width=width, ramp=MISSED, starred=["b"])
        )
        assert [t.text for t in root.iter(f"{SVG}text") if (t.text or "").startswith("★")] == [
            "★ b"
        ]
        classes = [p.get("class", "") for p in root.iter(f"{SVG}path")]
        assert classes.count("chosen") == 1 and sum(c.startswith("picked") for c in classes) == 1


def test_every_colour_is_readable_on_its_ground() -> None:
    for theme in (palette.LIGHT, palette.DARK):
        for ground in ("surface", "page", "raised"):
            for ink in ("ink", "muted", "accent", "met", "breached", "inconclusive"):
                assert palette.contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
        for status in ("met", "breached", "inconclusive"):
            assert palette.contrast(theme[status], theme[f"{status}-soft"]) >= 4.5
    for ramp in (palette.RAMP_LIGHT, palette.RAMP_DARK, palette.LOSS_LIGHT, palette.LOSS_DARK):
        assert all(palette.contrast(palette.ink_on(c), c) >= 4.5 for c in ramp.split())


def test_the_ramps_survive_greyscale() -> None:
    for light, dark in (
        (palette.RAMP_LIGHT, palette.RAMP_DARK),
        (palette.LOSS_LIGHT, palette.LOSS_DARK),
    ):
        brightness = (*([palette.luminance(c) for c in ramp.split()] for ramp in (light, dark)),)
        assert brightness[0] == sorted(brightness[0], reverse=True) and brightness[1] == sorted(
            brightness[1]
        )


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 9))
def test_ticks_are_inside_the_range_and_evenly_spaced(low: float, span: float, count: int) -> None:
    places = ticks(low, low + span, count)
    slack = span * 1e-6 + 1e-9
    assert all(low - slack <= p <= low + span + slack for p in places)
    assert len(places) <= count + 1


@given(st.lists(st.floats(0, 1), min_size=1))
def test_the_range_of_shares_stays_within_0_and_1(values: list[float]) -> None:
    low, high = domain(values, bounded=True)
    assert 0 <= low <= min(values) + 1e-9 and max(values) - 1e-9 <= high <= 1
    assert low < high
    assert LinearScale(low, high, 0, 100)(2.0) == 100


@given(NAMES, st.floats(20, 300))
def test_a_fitted_text_is_no_wider_than_its_place(text: str, width: float) -> None:
    assert text_width(fit(text, width)) <= width


def test_a_heat_table_measures_its_names_once_and_not_for_every_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[str] = []

    def counted(text: str, font: float) -> float:
        measured.append(text)
        return 6.0 * len(text)

    monkeypatch.setattr(sys.modules[heat.__module__], "text_width", counted)
    rows, columns = [f"fog @ {i}" for i in range(30)], [f"knn_{j}" for j in range(20)]
    heat(rows, columns, {(r, c): HeatCell(0.7) for r in rows for c in columns}, title="AUC")
    assert measured.count("fog @ 3") == 1 and len(measured) < 10 * (len(rows) + len(columns))
