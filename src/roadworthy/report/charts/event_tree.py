"""An event tree with its numbers: events and branches from left to right, what each outcome adds to the expected cost at the right.

A line is as thick as its branch is likely; a dashed one is never taken. The bars follow each other: each starts where the one
before ended, so that the last ends at the expected cost; the dashed line is the tolerable one. On a phone, and where a tree is
too deep for its width, branches stand below each other, indented.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> drawn = event_tree(accuracy_tree(), {"p_shift": 0.2, "accuracy_clean": 0.9, "accuracy_shifted": 0.5}, title="Risk")
>>> 'role="img"' in drawn and "wrong answers per case" in drawn
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from roadworthy.analysis.risk.tree import LeafValue, Node, Tree, Valuation, evaluate
from roadworthy.statistics.interval import Interval

from .. import numbers
from .rows import dot, known, whisker
from .svg import SMALL, Scale, Svg, chart, element, group, label, line, text_width, wrapped

MOST_OUTCOME, PROBABILITY, COST, BARS, ADDS = 158.0, 58.0, 66.0, 134.0, 66.0
"""Widths of the columns right of the tree."""
GAP, BEND = 12.0, 16.0
NARROWEST = 84.0
"""A branch's name needs so much; a tree that has less is indented."""
TOP, ROW, END_ROW = 34.0, 36.0, 46.0
STEP = 12.0
BAR = 12.0
HEADING = 28
LINE = 14.0


@dataclass(frozen=True)
class _Place:
    """A branch in the picture: where its line ends, and the node it leads to (none at a leaf)."""

    path: tuple[str, ...]
    event: str
    share: float
    reach: float
    y: float
    node: Node | None
    children: tuple[_Place, ...] = ()


@dataclass(frozen=True)
class _Bars:
    """The running sum of what the outcomes add."""

    scale: Scale
    total: float
    tolerable: float | None
    interval: Interval | None

    def bar(self, start: float, adds: float, y: float) -> list[Svg]:
        if adds == 0.0:
            return []
        left, right = sorted((self.scale(start), self.scale(start + adds)))
        shade = "loss4" if adds >= 0 else "ramp5"
        return [
            element(
                "rect",
                x=left,
                y=y - BAR / 2,
                width=max(right - left, 1.0),
                height=BAR,
                rx=1.5,
                class_=shade,
            )
        ]

    def limit(self, top: float, bottom: float) -> list[Svg]:
        if not known(self.tolerable) or self.tolerable is None:
            return []
        return [
            line(self.scale(self.tolerable), top, self.scale(self.tolerable), bottom, "reference")
        ]


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
    """The picture of a tree with these numbers in it; where no caption stands beside it, `heading` is above and `remark` below."""
    found = evaluate(tree, parameters)
    depth = max(len(leaf.path) for leaf in found.leaves)
    column = (width - _outcomes(found) - PROBABILITY - COST - BARS - ADDS - 5 * GAP) / depth
    draw = _across if column >= NARROWEST else _indented
    body, height = draw(tree, found, width, tolerable, interval)
    if heading:
        body, height = (
            [*_heading(heading, width), group(*body, transform=f"translate(0 {HEADING})")],
            height + HEADING,
        )
    if remark:
        lines = wrapped(remark, width, SMALL)
        body = [
            *body,
            *(
                label(words, 0, height + 12 + LINE * i, class_="muted", font=SMALL)
                for i, words in enumerate(lines)
            ),
        ]
        height += 8 + LINE * len(lines)
    dearest = max(found.leaves, key=lambda leaf: leaf.contribution)
    total = f"{numbers.value(found.expectation)} {tree.unit}"
    description = f"{heading}. " if heading else ""
    description += (
        f"{len(found.leaves)} outcomes; expected cost {total}. Most of it: {dearest.outcome} "
        f"({' > '.join(dearest.path)}), {numbers.value(dearest.contribution)}."
    )
    description += f" {remark}." if remark else ""
    return chart(
        body, name="tree", title=title, description=description, width=width, height=height
    )


def _heading(words: str, width: float) -> list[Svg]:
    return [label(words, 0, 14, class_="strong", width=width)]


def _across(
    tree: Tree, found: Valuation, width: float, tolerable: float | None, interval: Interval | None
) -> tuple[list[Svg], float]:
    depth = max(len(leaf.path) for leaf in found.leaves)
    adds_at = width
    bars_at = adds_at - ADDS - GAP - BARS
    cost_at, probability_at = bars_at - GAP, bars_at - GAP - COST - GAP
    outcome_at = probability_at - PROBABILITY - GAP - _outcomes(found)
    left = 6.0
    column = (outcome_at - GAP - left) / depth
    bars = _bars(found, tolerable, interval, bars_at, bars_at + BARS)
    heads = _heads(tree)
    bottom = TOP + ROW * len(found.leaves)
    places = _placed(tree, found, TOP + ROW / 2)
    parts = [
        *(
            label(
                head, left + d * column + 2, 14, class_="muted strong", font=SMALL, width=column - 8
            )
            for d, head in heads.items()
        ),
        label("outcome", outcome_at, 14, class_="muted strong", font=SMALL),
        label("probability", probability_at, 14, anchor="end", class_="muted strong", font=SMALL),
        label("cost", cost_at, 14, anchor="end", class_="muted strong", font=SMALL),
        label("adds", adds_at, 14, anchor="end", class_="muted strong", font=SMALL),
        *bars.limit(TOP - 6, bottom + ROW),
        *_tolerable_words(bars, TOP - 10, adds_at - 36),
        *_branches(places, left, _middle(places), column, outcome_at - GAP, set(heads)),
    ]
    starts = accumulate((leaf.contribution for leaf in found.leaves[:-1]), initial=0.0)
    for i, (leaf, start) in enumerate(zip(found.leaves, starts, strict=True)):
        y = TOP + ROW * i + ROW / 2
        strip = element(
            "rect",
            x=outcome_at - 4,
            y=y - ROW / 2,
            width=width - outcome_at + 4,
            height=ROW,
            fill="transparent",
        )
        texts = [
            label(leaf.outcome, outcome_at, y + 4, width=_outcomes(found)),
            label(
                numbers.value(leaf.probability, "percent"),
                probability_at,
                y + 4,
                anchor="end",
                class_="num",
            ),
            label(
                numbers.limit(leaf.cost),
                cost_at,
                y + 4,
                anchor="end",
                class_="num muted",
                width=COST,
            ),
            label(
                numbers.value(leaf.contribution),
                adds_at,
                y + 4,
                anchor="end",
                class_="num",
                width=ADDS,
            ),
        ]
        parts.append(
            group(
                strip, *bars.bar(start, leaf.contribution, y), *texts, title=_note(leaf, tree.unit)
            )
        )
    y = bottom + ROW / 2 + 2
    parts += [line(outcome_at, bottom + 2, width, bottom + 2, "edge")]
    parts += _total(bars, 0.0, adds_at, y, cost_at, tree.unit)
    return parts, bottom + ROW + 8


def _branches(
    places: tuple[_Place, ...], x: float, y: float, column: float, end: float, headed: set[int]
) -> list[Svg]:
    """The lines out of one node, and all that follows."""
    parts: list[Svg] = []
    for place in places:
        stop = x + column
        curve = f"M{x:.1f} {y:.1f}C{x + BEND:.1f} {y:.1f} {x:.1f} {place.y:.1f} {x + BEND:.1f} {place.y:.1f}H{stop:.1f}"
        if place.node is None:
            parts.append(line(stop, place.y, end, place.y, "grid"))
        parts.append(_stroke(curve, place.reach))
        parts += _named(place, x + BEND, stop, headed)
        if place.node is not None:
            parts += _branches(place.children, stop, place.y, column, end, headed)
    return [*parts, element("circle", cx=x, cy=y, r=4, class_="dot")]


def _named(place: _Place, start: float, stop: float, headed: set[int]) -> list[Svg]:
    """A branch's name above its line; below it the share, and the next event where no head of a column names it."""
    share, half = numbers.value(place.share, "percent"), _thickness(place.reach) / 2
    name = label(place.path[-1], start + 2, place.y - 4 - half, width=stop - start - 8)
    below = [label(share, start + 2, place.y + 11 + half, class_="num muted", font=SMALL)]
    if place.node is not None and len(place.path) not in headed:
        room = stop - start - 14 - text_width(share, SMALL)
        words = label(
            place.node.event,
            stop - 6,
            place.y + 11 + half,
            anchor="end",
            class_="muted strong",
            font=SMALL,
            width=room,
        )
        below.append(words)
    return [name, *below]


def _indented(
    tree: Tree, found: Valuation, width: float, tolerable: float | None, interval: Interval | None
) -> tuple[list[Svg], float]:
    depth = max(len(leaf.path) for leaf in found.leaves)
    step = min(STEP, width * 0.3 / depth)
    adds = ADDS if width >= 480 else 60.0
    bars = _bars(found, tolerable, interval, width * 0.52, width - 4)
    places = _placed(tree, found, 0.0)
    values = {leaf.path: leaf for leaf in found.leaves}
    parts: list[Svg] = []
    top, start = TOP - 8, 0.0
    for place in _listed(places):
        x = step * len(place.path)
        height = END_ROW if place.node is None else 26.0
        share = numbers.value(place.share, "percent")
        words = f"{place.event}: {place.path[-1]}"
        y = top + 16
        parts += [
            _stroke(f"M{x - step + 2:.1f} {y - 4:.1f}H{x - 2:.1f}", place.reach),
            label(share, width - adds - 6, y, anchor="end", class_="num muted", font=SMALL),
        ]
        room = width - adds - 12 - text_width(share, SMALL) - x
        if place.node is None:
            leaf = values[place.path]
            shown = _ending(place.path[-1], leaf.outcome, room)
            formula = f"{numbers.value(leaf.probability, 'percent')} × {numbers.limit(leaf.cost)}"
            strip = element("rect", x=0, y=top, width=width, height=height, fill="transparent")
            texts = [
                label(shown, x + 2, y, width=room),
                label(
                    numbers.value(leaf.contribution),
                    width,
                    y,
                    anchor="end",
                    class_="num",
                    width=adds,
                ),
                label(
                    formula,
                    x + 2,
                    y + 17,
                    class_="num muted",
                    font=SMALL,
                    width=bars.scale.start - x - 6,
                ),
            ]
            bar = [*bars.limit(y + 4, y + 22), *bars.bar(start, leaf.contribution, y + 13)]
            parts.append(group(strip, *texts, *bar, title=_note(leaf, tree.unit)))
            start += leaf.contribution
        else:
            parts.append(label(words, x + 2, y, width=room, class_="strong"))
        top += height
    heads = [label("share", width - adds - 6, 14, anchor="end", class_="muted strong", font=SMALL)]
    heads += [label("adds", width, 14, anchor="end", class_="muted strong", font=SMALL)]
    parts += [line(0, top + 2, width, top + 2, "edge")]
    below = [
        *_total(bars, 0, width, top + 20, width * 0.98, tree.unit, stacked=True),
        *_tolerable_words(bars, top + 62, width),
    ]
    return [*heads, *parts, *bars.limit(top + 30, top + 50), *below], top + (
        68 if known(tolerable) else 54
    )


def _total(
    bars: _Bars, left: float, right: float, y: float, room: float, unit: str, stacked: bool = False
) -> list[Svg]:
    """The expected cost: its bar, its number, and its interval where there is one."""
    total = numbers.estimate(bars.total, bars.interval, None)
    between = f"{total.interval} at {total.confidence}" if bars.interval else ""
    at = y + 20 if stacked else y
    parts = [label(total.value, right, y + 4, anchor="end", class_="num strong", width=ADDS + 10)]
    if stacked:
        parts.append(
            label(f"expected, {unit}", left, y + 4, class_="strong", width=room - ADDS - 10)
        )
        parts.append(
            label(
                between,
                left,
                y + 24,
                class_="num muted",
                font=SMALL,
                width=bars.scale.start - left - 6,
            )
        )
    else:
        words = f"expected, {unit}{': ' if between else ''}{between}"
        parts.append(label(words, left + room, y + 4, anchor="end", class_="strong", width=room))
    if bars.interval:
        return [
            *parts,
            *whisker(bars.scale, at, bars.interval.low, bars.interval.high),
            dot(bars.scale(bars.total), at),
        ]
    return [*parts, *bars.bar(0.0, bars.total, at)]


def _tolerable_words(bars: _Bars, y: float, right: float) -> list[Svg]:
    if not known(bars.tolerable) or bars.tolerable is None:
        return []
    words = f"tolerable {numbers.limit(bars.tolerable)}"
    half = text_width(words, SMALL) / 2
    x = min(max(bars.scale(bars.tolerable), bars.scale.start + half - 20), right - half)
    return [label(words, x, y, anchor="middle", class_="muted num", font=SMALL)]


def _bars(
    found: Valuation, tolerable: float | None, interval: Interval | None, start: float, stop: float
) -> _Bars:
    sums = list(accumulate((leaf.contribution for leaf in found.leaves), initial=0.0))
    shown = [*sums, tolerable or 0.0, *((interval.low, interval.high) if interval else ())]
    finite = [v for v in shown if known(v)]
    low, high = min(finite), max(finite)
    return _Bars(
        Scale(low, high if high > low else low + 1.0, start, stop), sums[-1], tolerable, interval
    )


def _placed(tree: Tree, found: Valuation, first: float) -> tuple[_Place, ...]:
    """Every branch with the height of its line: leaves row by row, a node in the middle of its branches."""
    values = {b.path: b for b in found.branches}
    rows = iter(range(len(found.leaves)))

    def place(node: Node, path: tuple[str, ...]) -> tuple[_Place, ...]:
        made = []
        for branch in node.branches:
            here = (*path, branch.name)
            value = values[here]
            if isinstance(branch.then, Node):
                below = place(branch.then, here)
                made.append(
                    _Place(
                        here,
                        node.event,
                        value.share,
                        value.reach,
                        _middle(below),
                        branch.then,
                        below,
                    )
                )
            else:
                made.append(
                    _Place(
                        here, node.event, value.share, value.reach, first + ROW * next(rows), None
                    )
                )
        return tuple(made)

    return place(tree.root, ())


def _outcomes(found: Valuation) -> float:
    """The room that the outcomes need, as far as it is there."""
    return min(MOST_OUTCOME, 4 + max(text_width(leaf.outcome) for leaf in found.leaves))


def _middle(places: tuple[_Place, ...]) -> float:
    return (places[0].y + places[-1].y) / 2


def _ending(branch: str, outcome: str, room: float) -> str:
    """The last branch and its outcome; only the outcome where it says both, or where both do not fit."""
    both = f"{branch} → {outcome}"
    alone = branch in outcome or text_width(outcome) <= room < text_width(both)
    return outcome if alone else both


def _listed(places: tuple[_Place, ...]) -> Iterator[_Place]:
    for place in places:
        yield place
        yield from _listed(place.children)


def _heads(tree: Tree) -> dict[int, str]:
    """The event of a column, where all its nodes ask for the same."""
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
    return f"{' > '.join(leaf.path)}: {leaf.outcome}, probability {p}, cost {numbers.limit(leaf.cost)}, adds {adds} {unit}"
