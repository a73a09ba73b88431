"""An event tree with its numbers: branches from left to right, and what each outcome adds.

A line is as thick as its branch is likely; a dashed one is never taken. The bars follow each other:
each starts where the one before ended, so that the last ends at the expected cost; the dashed line
is the tolerable one. On a phone, and if a tree is too deep for its width, branches stand below each
other, indented.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> at = {"p_shift": 0.2, "accuracy_clean": 0.9, "accuracy_shifted": 0.5}
>>> drawn = event_tree(accuracy_tree(), at, title="Risk")
>>> 'role="img"' in drawn and "wrong answers per case" in drawn
True
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from roadworthy import numbers
from roadworthy.analysis.risk.tree import LeafValue, Node, Tree, Valuation, evaluate
from roadworthy.statistics.interval import Interval

from .rows import dot, known, whisker
from .svg import (
    SMALL,
    LinearScale,
    Svg,
    chart,
    element,
    group,
    label,
    line,
    rectangle,
    strip,
    text_width,
    wrapped,
)

MOST_OUTCOME, PROBABILITY, COST, BARS, ADDS = 158.0, 58.0, 66.0, 134.0, 66.0
"""Widths of the columns right of the tree."""
GAP, BEND = 12.0, 16.0
NARROWEST = 84.0
"""A branch's name needs so much; a tree that has less is indented."""
TOP, ROW, END_ROW, NODE_ROW = 34.0, 36.0, 46.0, 26.0
STEP, BAR, HEADING, LINE = 12.0, 12.0, 28.0, 14.0


@dataclass(frozen=True)
class _Branch:
    """A branch in the picture: where its line ends, and the node it leads to (none at a leaf)."""

    path: tuple[str, ...]
    event: str
    share: float
    reach: float
    y: float
    node: Node | None
    children: tuple[_Branch, ...] = ()

    @property
    def shown(self) -> str:
        return numbers.value(self.share, "percent")


@dataclass(frozen=True)
class _Bars:
    """The running sum of what the outcomes add."""

    scale: LinearScale
    total: float
    tolerable: float | None
    interval: Interval | None

    def bar(self, start: float, adds: float, y: float) -> list[Svg]:
        if adds == 0.0:
            return []
        left, right = sorted((self.scale(start), self.scale(start + adds)))
        shade = "loss4" if adds >= 0 else "ramp5"
        return [rectangle(left, y - BAR / 2, max(right - left, 1.0), BAR, rx=1.5, class_=shade)]

    def limit(self, top: float, bottom: float) -> list[Svg]:
        if self.tolerable is None or not known(self.tolerable):
            return []
        x = self.scale(self.tolerable)
        return [line(x, top, x, bottom, "reference")]

    def limit_words(self, y: float, right: float) -> list[Svg]:
        if self.tolerable is None or not known(self.tolerable):
            return []
        words = f"tolerable {numbers.limit(self.tolerable)}"
        half = text_width(words, SMALL) / 2
        x = min(max(self.scale(self.tolerable), self.scale.start + half - 20), right - half)
        return [label(words, x, y, anchor="middle", class_="muted num", font=SMALL)]

    def expected(self, y: float) -> list[Svg]:
        """The expected cost: its interval, or a bar if it has none."""
        if not self.interval:
            return self.bar(0.0, self.total, y)
        ends = whisker(self.scale, y, self.interval.low, self.interval.high)
        return [*ends, dot(self.scale(self.total), y)]


def event_tree(
    tree: Tree,
    parameters: Mapping[str, float],
    *,
    title: str,
    tolerable: float | None = None,
    interval: Interval | None = None,
    heading: str = "",
    remark: str = "",
    width: float = 920,
) -> str:
    """The picture of a tree with these numbers in it.

    If no caption stands beside it, `heading` is above and `remark` below.
    """
    found = evaluate(tree, parameters)
    right = _outcome_width(found) + PROBABILITY + COST + BARS + ADDS + 5 * GAP
    draw = _across if (width - right) / _depth(found) >= NARROWEST else _indented
    body, height = draw(tree, found, width, tolerable, interval)
    if heading:
        moved = group(*body, transform=f"translate(0 {HEADING:g})")
        body = [label(heading, 0, 14, class_="strong", width=width), moved]
        height += HEADING
    if remark:
        lines = wrapped(remark, width, SMALL)
        body += [_small(words, 0, height + 12 + LINE * i) for i, words in enumerate(lines)]
        height += 8 + LINE * len(lines)
    costliest = max(found.leaves, key=lambda leaf: leaf.contribution)
    described = (
        f"{len(found.leaves)} outcomes; expected cost {numbers.value(found.expectation)} "
        f"{tree.unit}. Most of it: {costliest.outcome} ({' > '.join(costliest.path)}), "
        f"{numbers.value(costliest.contribution)}."
    )
    description = f"{heading + '. ' if heading else ''}{described}{f' {remark}' if remark else ''}"
    return chart(
        body, name="tree", title=title, description=description, width=width, height=height
    )


def _across(
    tree: Tree, found: Valuation, width: float, tolerable: float | None, interval: Interval | None
) -> tuple[list[Svg], float]:
    """From left to right: the tree, then a row an outcome."""
    bars_at = width - ADDS - GAP - BARS
    cost_at, probability_at = bars_at - GAP, bars_at - GAP - COST - GAP
    outcome_at = probability_at - PROBABILITY - GAP - _outcome_width(found)
    left = 6.0
    column = (outcome_at - GAP - left) / _depth(found)
    bars = _bars(found, tolerable, interval, bars_at, bars_at + BARS)
    heads, branches = _heads(tree), _branches(tree, found, TOP + ROW / 2)
    bottom = TOP + ROW * len(found.leaves)
    parts = [
        *(_head(words, left + d * column + 2, width=column - 8) for d, words in heads.items()),
        _head("outcome", outcome_at),
        _head("probability", probability_at, anchor="end"),
        _head("cost", cost_at, anchor="end"),
        _head("adds", width, anchor="end"),
        *bars.limit(TOP - 6, bottom + ROW),
        *bars.limit_words(TOP - 10, width - 36),
        *_lines(branches, left, _middle(branches), column, outcome_at - GAP, set(heads)),
    ]
    starts = accumulate((leaf.contribution for leaf in found.leaves[:-1]), initial=0.0)
    for i, (leaf, start) in enumerate(zip(found.leaves, starts, strict=True)):
        y = TOP + ROW * i + ROW / 2
        row = [
            strip(outcome_at - 4, y - ROW / 2, width - outcome_at + 4, ROW),
            *bars.bar(start, leaf.contribution, y),
            label(leaf.outcome, outcome_at, y + 4, width=_outcome_width(found)),
            _number(numbers.value(leaf.probability, "percent"), probability_at, y + 4),
            _number(numbers.limit(leaf.cost), cost_at, y + 4, "num muted", COST),
            _number(numbers.value(leaf.contribution), width, y + 4, "num", ADDS),
        ]
        parts.append(group(*row, title=_note(leaf, tree.unit)))
    y, total = bottom + ROW / 2 + 2, numbers.estimate(bars.total, interval, None)
    between = f": {total.interval} at {total.confidence}" if interval else ""
    parts += [
        line(outcome_at, bottom + 2, width, bottom + 2, "edge"),
        _number(total.value, width, y + 4, "num strong", ADDS + 10),
        _number(f"expected, {tree.unit}{between}", cost_at, y + 4, "strong", cost_at),
        *bars.expected(y),
    ]
    return parts, bottom + ROW + 8


def _lines(
    branches: tuple[_Branch, ...], x: float, y: float, column: float, end: float, headed: set[int]
) -> list[Svg]:
    """The lines out of one node, and all that follows.

    A branch has its name above its line; below, its share, and the next event if no head of a
    column names it.
    """
    parts: list[Svg] = []
    stop, start = x + column, x + BEND
    for branch in branches:
        at, half = branch.y, _thickness(branch.reach) / 2
        curve = f"M{x:.1f} {y:.1f}C{start:.1f} {y:.1f} {x:.1f} {at:.1f} {start:.1f} {at:.1f}"
        if branch.node is None:
            parts.append(line(stop, at, end, at, "grid"))
        parts += [
            _stroke(f"{curve}H{stop:.1f}", branch.reach),
            label(branch.path[-1], start + 2, at - 4 - half, width=stop - start - 8),
            _small(branch.shown, start + 2, at + 11 + half),
        ]
        if branch.node is not None:
            if len(branch.path) not in headed:
                space = stop - start - 14 - text_width(branch.shown, SMALL)
                event = branch.node.event
                parts.append(_head(event, stop - 6, at + 11 + half, anchor="end", width=space))
            parts += _lines(branch.children, stop, at, column, end, headed)
    return [*parts, element("circle", cx=x, cy=y, r=4, class_="dot")]


def _indented(
    tree: Tree, found: Valuation, width: float, tolerable: float | None, interval: Interval | None
) -> tuple[list[Svg], float]:
    """One branch below the other."""
    step = min(STEP, width * 0.3 / _depth(found))
    adds = ADDS if width >= 480 else 60.0
    bars = _bars(found, tolerable, interval, width * 0.52, width - 4)
    values = {leaf.path: leaf for leaf in found.leaves}
    share_at = width - adds - 6
    parts = [_head("share", share_at, anchor="end"), _head("adds", width, anchor="end")]
    top, start = TOP - 8, 0.0
    for branch in _listed(_branches(tree, found, 0.0)):
        x, y = step * len(branch.path), top + 16
        space = share_at - 6 - text_width(branch.shown, SMALL) - x
        parts += [
            _stroke(f"M{x - step + 2:.1f} {y - 4:.1f}H{x - 2:.1f}", branch.reach),
            _small(branch.shown, share_at, y, anchor="end"),
        ]
        if branch.node is not None:
            words = f"{branch.event}: {branch.path[-1]}"
            parts.append(label(words, x + 2, y, width=space, class_="strong"))
            top += NODE_ROW
            continue
        leaf = values[branch.path]
        formula = f"{numbers.value(leaf.probability, 'percent')} × {numbers.limit(leaf.cost)}"
        row = [
            strip(0, top, width, END_ROW),
            label(_ending(branch.path[-1], leaf.outcome, space), x + 2, y, width=space),
            _number(numbers.value(leaf.contribution), width, y, "num", adds),
            _small(formula, x + 2, y + 17, width=bars.scale.start - x - 6),
            *bars.limit(y + 4, y + 22),
            *bars.bar(start, leaf.contribution, y + 13),
        ]
        parts.append(group(*row, title=_note(leaf, tree.unit)))
        start += leaf.contribution
        top += END_ROW
    total = numbers.estimate(bars.total, interval, None)
    between = f"{total.interval} at {total.confidence}" if interval else ""
    parts += [
        line(0, top + 2, width, top + 2, "edge"),
        label(f"expected, {tree.unit}", 0, top + 24, class_="strong", width=width * 0.98 - adds),
        _number(total.value, width, top + 24, "num strong", ADDS + 10),
        _small(between, 0, top + 44, width=bars.scale.start - 6),
        *bars.expected(top + 40),
        *bars.limit(top + 30, top + 50),
        *bars.limit_words(top + 62, width),
    ]
    return parts, top + (68 if known(tolerable) else 54)


def _head(
    words: str, x: float, y: float = 14.0, *, anchor: str = "start", width: float = math.inf
) -> Svg:
    return label(words, x, y, anchor=anchor, class_="muted strong", font=SMALL, width=width)


def _small(
    words: str, x: float, y: float, *, anchor: str = "start", width: float = math.inf
) -> Svg:
    return label(words, x, y, anchor=anchor, class_="num muted", font=SMALL, width=width)


def _number(words: str, x: float, y: float, class_: str = "num", width: float = math.inf) -> Svg:
    return label(words, x, y, anchor="end", class_=class_, width=width)


def _bars(
    found: Valuation, tolerable: float | None, interval: Interval | None, start: float, stop: float
) -> _Bars:
    sums = list(accumulate((leaf.contribution for leaf in found.leaves), initial=0.0))
    shown = [*sums, tolerable or 0.0, *((interval.low, interval.high) if interval else ())]
    finite = [v for v in shown if known(v)]
    low, high = min(finite), max(finite)
    scale = LinearScale(low, high if high > low else low + 1.0, start, stop)
    return _Bars(scale, sums[-1], tolerable, interval)


def _branches(tree: Tree, found: Valuation, first: float) -> tuple[_Branch, ...]:
    """Every branch with the height of its line: leaves row by row, a node amid its branches."""
    values = {b.path: b for b in found.branches}
    rows = iter(range(len(found.leaves)))

    def placed(node: Node, path: tuple[str, ...]) -> tuple[_Branch, ...]:
        made = []
        for branch in node.branches:
            here = (*path, branch.name)
            then = branch.then if isinstance(branch.then, Node) else None
            below = placed(then, here) if then else ()
            y = _middle(below) if then else first + ROW * next(rows)
            value = values[here]
            made.append(_Branch(here, node.event, value.share, value.reach, y, then, below))
        return tuple(made)

    return placed(tree.root, ())


def _listed(branches: tuple[_Branch, ...]) -> Iterator[_Branch]:
    for branch in branches:
        yield branch
        yield from _listed(branch.children)


def _depth(found: Valuation) -> int:
    return max(len(leaf.path) for leaf in found.leaves)


def _outcome_width(found: Valuation) -> float:
    """What the names of outcomes need, up to a limit."""
    return min(MOST_OUTCOME, 4 + max(text_width(leaf.outcome) for leaf in found.leaves))


def _middle(branches: tuple[_Branch, ...]) -> float:
    return (branches[0].y + branches[-1].y) / 2


def _ending(branch: str, outcome: str, space: float) -> str:
    """The last branch and its outcome; only the outcome if it says both, or both do not fit."""
    both = f"{branch} → {outcome}"
    alone = branch in outcome or text_width(outcome) <= space < text_width(both)
    return outcome if alone else both


def _heads(tree: Tree) -> dict[int, str]:
    """The event of a column, if all its nodes ask for the same."""
    events: dict[int, set[str]] = {}

    def collect(node: Node, depth: int) -> None:
        events.setdefault(depth, set()).add(node.event)
        for branch in node.branches:
            if isinstance(branch.then, Node):
                collect(branch.then, depth + 1)

    collect(tree.root, 0)
    return {depth: next(iter(names)) for depth, names in events.items() if len(names) == 1}


def _thickness(reach: float) -> float:
    return 1.25 + 4.75 * min(max(reach, 0.0), 1.0)


def _stroke(d: str, reach: float) -> Svg:
    if reach <= 0.0:
        return element("path", d=d, class_="reference")
    return element("path", d=d, class_="edge", style=f"stroke-width:{_thickness(reach):.2f}")


def _note(leaf: LeafValue, unit: str) -> str:
    p, adds = numbers.value(leaf.probability, "percent"), numbers.value(leaf.contribution)
    return (
        f"{' > '.join(leaf.path)}: {leaf.outcome}, probability {p}, "
        f"cost {numbers.limit(leaf.cost)}, adds {adds} {unit}"
    )
