"""Measures: order does not matter, no answer is worst, perfect is best, a weight is a repetition.

A measure of a pair of kinds that no task has is checked for what it declares only.

>>> from roadworthy.registry import get
>>> list(no_answer_is_worst(get("measures", "accuracy")))
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from roadworthy.conformance.items import Answered, N, drawn_answers
from roadworthy.conformance.rule import Rule, required_parameters
from roadworthy.data.values import KINDS
from roadworthy.measures.scored import Scored
from roadworthy.registry import Component


def declares_kinds_and_direction(component: Component) -> Iterator[str]:
    """`register("measures", name, of=(output, target), better="higher")`."""
    of = component.traits.get("of", ())
    if len(of) != 2 or any(kind not in KINDS for kind in of):
        yield f"it is of {of!r}; the kinds of output and target were expected, of: {', '.join(KINDS)}"
    if component.traits.get("better") not in ("higher", "lower"):
        yield f"better is {component.traits.get('better')!r}; higher or lower was expected"
    if required_parameters(component):
        yield f"{required_parameters(component)} has no default; a measure can be named alone"


def gives_one_error_and_failure_a_case(component: Component) -> Iterator[str]:
    """A `Scored` with the direction that was declared and a value within its limits."""
    for measure, cases in _tries(component):
        scored = measure(cases.outputs, cases.targets)
        if not isinstance(scored, Scored):
            yield f"it gave {type(scored).__name__}; a Scored was expected"
            return
        if len(scored) != N or scored.failure.dtype != bool:
            yield f"it gave {len(scored)} errors and {scored.failure.dtype} failures for {N} cases"
        if scored.better != component.traits.get("better"):
            yield f"it gave better={scored.better!r} but declares {component.traits.get('better')!r}"
        low, high = scored.limits
        if not (np.isnan(scored.value()) or low <= scored.value() <= high):
            yield f"its value {scored.value():g} is outside its limits {low:g} to {high:g}"


def no_answer_is_worst(component: Component) -> Iterator[str]:
    """A case without an answer fails with the largest error, and no answer less improves anything."""
    for seed, (measure, cases) in enumerate(_tries(component)):
        targets = cases.targets * 2
        kept = np.random.default_rng(seed).random(N) < 0.5
        fewer = [output if keep else None for output, keep in zip(cases.outputs, kept, strict=True)]
        before, after = measure(cases.outputs * 2, targets), measure(cases.outputs + fewer, targets)
        silent = np.concatenate([np.zeros(N, dtype=bool), ~kept])
        if not after.failure[silent].all():
            yield "a case without an answer is not a failure"
        if (after.error[silent] < after.error.max() - 1e-12).any():
            yield "a case without an answer has a smaller error than another"
        if (after.error < before.error - 1e-12).any():
            yield "an answer less made an error smaller"
        if _gain(before, after.value(), before.value()) > 1e-9:
            yield f"fewer answers moved the value from {before.value():g} to {after.value():g}"


def rows_count_as_if_alone(component: Component) -> Iterator[str]:
    """Order does not matter, weight 2 is that case twice, and `take` is measuring those rows."""
    for seed, (measure, cases) in enumerate(_tries(component)):
        rng = np.random.default_rng(seed)
        scored = measure(cases.outputs, cases.targets)
        order, some, weights = rng.permutation(N), rng.permutation(N)[:5], rng.integers(0, 4, N)
        for how, rows, found in (
            ("in another order", order, scored.value()),
            ("with weights", np.repeat(np.arange(N), weights), scored.value(weights)),
            ("taken from others", some, scored.take(some).value()),
        ):
            alone = measure([cases.outputs[i] for i in rows], [cases.targets[i] for i in rows])
            if not _close(found, alone.value()) or (scored.failure[rows] != alone.failure).any():
                yield f"{how}, the value is {found:g}; measured alone, {alone.value():g}"


def perfect_answers_are_best(component: Component) -> Iterator[str]:
    """No perfect answer fails, and no other answer has a smaller error or a better value.

    A measure that describes answers and compares them with nothing declares ``compares=False``.
    """
    if not component.traits.get("compares", True):
        return
    for measure, cases in _tries(component):
        perfect, other = (measure(o, cases.targets) for o in (cases.perfect, cases.outputs))
        if perfect.failure.any():
            yield f"{int(perfect.failure.sum())} of {N} perfect answers count as failures"
        if (perfect.error > other.error + 1e-9).any():
            yield "a perfect answer has a larger error than another answer to the same case"
        if _gain(other, other.value(), perfect.value()) > 1e-9:
            yield f"perfect answers have {perfect.value():g}, others the better {other.value():g}"


def _tries(component: Component) -> Iterator[tuple[Callable[..., Any], Answered]]:
    of = tuple(component.traits.get("of", ()))
    for seed in range(5):
        cases = drawn_answers(*of, seed=seed) if len(of) == 2 else None
        if cases is not None:
            yield component.bind(), cases


def _gain(scored: Scored, now: float, before: float) -> float:
    """How much better `now` is than `before`; nothing if one of them is not defined."""
    gain = now - before if scored.better == "higher" else before - now
    return 0.0 if np.isnan(gain) else float(gain)


def _close(first: float, second: float) -> bool:
    return bool(np.isclose(first, second, rtol=1e-9, atol=1e-12, equal_nan=True))


RULES: tuple[Rule, ...] = (
    declares_kinds_and_direction,
    gives_one_error_and_failure_a_case,
    no_answer_is_worst,
    rows_count_as_if_alone,
    perfect_answers_are_best,
)
