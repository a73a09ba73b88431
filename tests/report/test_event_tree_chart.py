"""The picture of an event tree: every branch, outcome and number of any tree, within its width, and no text on another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    POLYP_PARAMETERS,
    POLYP_UNIT,
    TOLERABLE_POLYP,
    Costs,
    base_tree,
    detector_tree,
    several_events,
)
from roadworthy.analysis.risk.tree import Tree, endings, evaluate
from roadworthy.report.charts import event_tree
from roadworthy.report.charts.svg import text_width
from roadworthy.statistics import Interval

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from test_charts import SVG, parsed
from test_event_trees import trees, values

WIDTHS = (336.0, 920.0)
POLYP = {**POLYP_PARAMETERS, "p_shift": 0.3}


def boxes(root, fonts=12):
    """Place of every text, by its estimated width: (text, left, top, right, bottom)."""
    found = []
    for text in root.iter(f"{SVG}text"):
        words, font = text.text or "", float(text.get("font-size", fonts))
        x, y, wide = float(text.get("x", 0)), float(text.get("y", 0)), text_width(words, font)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
        # An estimated width is rather too wide, and letters without a descender do not reach below the line.
        found.append((words, left, y - 0.75 * font, left + 0.93 * wide, y))
    return found


def check_places(root, width):
    everything = [b for b in boxes(root) if b[0]]
    for words, left, _, right, _ in everything:
        assert left >= -1 and right <= width + 1, words
    for i, a in enumerate(everything):
        for b in everything[i + 1 :]:
            apart = a[3] <= b[1] or b[3] <= a[1] or a[4] <= b[2] or b[4] <= a[2]
            assert apart, (a, b)


@settings(max_examples=40, deadline=None)
@given(trees, values, st.sampled_from(WIDTHS), st.one_of(st.none(), st.floats(-100, 20_000)))
def test_any_tree_is_drawn(tree, parameters, width, tolerable):
    root = parsed(event_tree(tree, parameters, title="t", width=width, tolerable=tolerable))
    bars = [
        r for r in root.iter(f"{SVG}rect") if (r.get("class") or "").startswith(("loss", "ramp"))
    ]
    adds = [leaf.contribution for leaf in evaluate(tree, parameters).leaves]
    drawn = sum(a != 0.0 for a in adds)
    assert drawn <= len(bars) <= drawn + 1
    assert all(
        float(r.get("x")) >= -0.1 and float(r.get("x")) + float(r.get("width")) <= width + 1.1
        for r in bars
    )
    tips = [t.text or "" for t in root.iter(f"{SVG}title")]
    assert all(any(" > ".join(path) + ":" in tip for tip in tips) for path, _ in endings(tree))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "tree", [base_tree(POLYP_COSTS, unit=POLYP_UNIT), detector_tree(POLYP_COSTS, unit=POLYP_UNIT)]
)
def test_the_polyp_trees_show_their_numbers(tree, width):
    drawn = event_tree(
        tree,
        POLYP,
        title="Risk",
        width=width,
        tolerable=TOLERABLE_POLYP,
        interval=Interval(1580, 1790, 0.95, "x"),
    )
    root = parsed(drawn)
    texts = " ".join(words for words, *_ in boxes(root))
    found = evaluate(tree, POLYP)
    assert (
        f"{found.expectation:,.0f}" in texts
        and "1,580 to 1,790 at 95%" in texts
        and "tolerable 1,925" in texts
    )
    assert "USD per patient" in texts and "6,735" in texts and "30.0%" in texts
    assert all(leaf.outcome in texts for leaf in found.leaves)
    check_places(root, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("successive", [False, True])
def test_many_leaves_and_events_stay_apart(width, successive):
    tree = several_events(
        ("shift", "adversarial", "ambiguous"), Costs(-5.0, 1e6), successive=successive
    )
    given_values = {n: 0.2 if n.startswith("p_") else 0.7 for n in tree.parameters}
    check_places(
        parsed(event_tree(tree, given_values, title="t", width=width, tolerable=3e5)), width
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_long_names_are_shortened_and_kept_in_tooltips(width):
    name = "covered by something that nobody had thought of before the road test of last winter"
    end = {"outcome": f"{name} and a collision", "cost": 123456789.5}
    content = {"event": f"is the lens {name}", "branches": {name: {"p": 0.1, "then": end}}}
    inner = {
        "event": f"who notices {name}",
        "branches": {f"nobody {i}": {"p": 0.05, "then": end} for i in range(18)},
    }
    inner["branches"]["all"] = {"then": end}
    content["branches"]["free"] = {"then": inner}
    root = parsed(
        event_tree(Tree.from_dict(content, unit="EUR per 1,000 km"), {}, title="t", width=width)
    )
    check_places(root, width)
    tips = [t.text or "" for t in root.iter(f"{SVG}title")]
    assert any(name in tip and "collision" in tip for tip in tips)
    assert any("…" in words for words, *_ in boxes(root))


def test_a_branch_that_is_never_taken_is_dashed_and_a_likely_one_is_thick():
    tree = base_tree(Costs(wrong=10.0))
    root = parsed(
        event_tree(
            tree, {"p_shift": 0.0, "accuracy_clean": 0.9, "accuracy_shifted": 0.5}, title="t"
        )
    )
    paths = list(root.iter(f"{SVG}path"))
    assert sum(p.get("class") == "reference" for p in paths) == 3
    thick = sorted(
        float((p.get("style") or ":0").split(":")[1]) for p in paths if p.get("class") == "edge"
    )
    assert thick == pytest.approx([1.25 + 4.75 * p for p in (0.1, 0.9, 1.0)], abs=0.01)


def test_a_tree_too_deep_for_its_width_is_indented():
    content = {"outcome": "end", "cost": 1}
    for i in range(12):
        content = {
            "event": f"event {i}",
            "branches": {
                "on": {"p": 0.5, "then": content},
                "off": {"then": {"outcome": "end", "cost": 0}},
            },
        }
    root = parsed(event_tree(Tree.from_dict(content), {}, title="t", width=920))
    check_places(root, 920)
    assert any(words == "event 11: on" for words, *_ in boxes(root))
