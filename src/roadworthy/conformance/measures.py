"""Measures: order does not matter, silence never helps, perfect is best, a weight is a repetition.

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
from roadworthy.conformance.rule import Rule
from roadworthy.data.values import KINDS
from roadworthy.measures.scored import Scored
from roadworthy.registry import REQUIRED, Component

SEEDS = range(5)


def declares_kinds_and_direction(component: Component) -> Iterator[str]:
    """`register("measures", name, of=(output, target), better="higher")`."""
    of = component.traits.get("of", ())
    if len(of) != 2 or any(kind not in KINDS for kind in of):
        yield f"it is of {of!r}; the kinds of output and target were expected, of: {', '.join(KINDS)}"
    if component.traits.get("better") not in ("higher", "lower"):
        yield f"better is {component.traits.get('better')!r}; higher or lower was expected"
    required = [name for name, p in component.parameters.items() if p.default is REQUIRED]
    if required:
        yield f"{' and '.join(required)} has no default; a measure can be named alone"


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
    """A case without answer fails, no case has a larger error, and the value is no better for it."""
    for measure, cases in _tries(component):
        before = measure(cases.outputs, cases.targets)
        after = measure([*cases.outputs, None], [*cases.targets, cases.targets[0]])
        if not after.failure[-1]:
            yield "a case without answer is not a failure"
        if after.error[-1] < after.error.max() - 1e-12:
            yield f"a case without answer has the error {after.error[-1]:g}, below {after.error.max():g} of another"
        if _gain(before, after.value(), before.value()) > 1e-9:
            yield f"one more case without answer moved the value from {before.value():g} to {after.value():g}"


def silence_never_gains(component: Component) -> Iterator[str]:
    """Silence in place of an answer improves neither the value, nor an error, nor a failure, where one as bad remains."""
    for seed, (measure, cases) in enumerate(_tries(component)):
        targets = cases.targets * 2
        kept = np.random.default_rng(seed).random(N) < 0.5
        fewer = [output if keep else None for output, keep in zip(cases.outputs, kept, strict=True)]
        before, after = measure(cases.outputs * 2, targets), measure(cases.outputs + fewer, targets)
        if _gain(before, after.value(), before.value()) > 1e-9:
            yield f"silence in place of answers moved the value from {before.value():g} to {after.value():g}"
        if (after.error < before.error - 1e-12).any():
            yield "silence in place of an answer made an error smaller"
        if (before.failure & ~after.failure).any():
            yield "silence in place of an answer made a failure a success"


def order_does_not_matter(component: Component) -> Iterator[str]:
    """Cases in another order have the same value, errors and failures."""
    for seed, (measure, cases) in enumerate(_tries(component)):
        order = np.random.default_rng(seed).permutation(N)
        plain = measure(cases.outputs, cases.targets)
        moved = measure([cases.outputs[i] for i in order], [cases.targets[i] for i in order])
        same = (
            np.allclose(plain.error[order], moved.error)
            and (plain.failure[order] == moved.failure).all()
        )
        if not (same and _close(plain.value(), moved.value())):
            yield f"the same cases in another order have {moved.value():g} instead of {plain.value():g}"


def a_weight_is_a_repetition(component: Component) -> Iterator[str]:
    """A case of weight 2 counts as that case twice, one of weight 0 not at all."""
    for seed, (measure, cases) in enumerate(_tries(component)):
        weights = np.random.default_rng(seed).integers(0, 4, N)
        rows = np.repeat(np.arange(N), weights)
        repeated = measure([cases.outputs[i] for i in rows], [cases.targets[i] for i in rows])
        weighted = measure(cases.outputs, cases.targets).value(weights)
        if not _close(weighted, repeated.value()):
            yield f"with weights the value is {weighted:g}, with as many repetitions {repeated.value():g}"


def some_rows_are_measured_as_if_alone(component: Component) -> Iterator[str]:
    """`take` gives what measuring those rows again would give."""
    for seed, (measure, cases) in enumerate(_tries(component)):
        rows = np.random.default_rng(seed).choice(N, size=5, replace=False)
        taken = measure(cases.outputs, cases.targets).take(rows)
        alone = measure([cases.outputs[i] for i in rows], [cases.targets[i] for i in rows])
        if not _close(taken.value(), alone.value()) or (taken.failure != alone.failure).any():
            yield f"taking five rows gives {taken.value():g}, measuring them alone {alone.value():g}"


def perfect_answers_are_best(component: Component) -> Iterator[str]:
    """No perfect answer fails, and no other answer has a smaller error or a better value."""
    for measure, cases in _tries(component):
        perfect, other = (
            measure(cases.perfect, cases.targets),
            measure(cases.outputs, cases.targets),
        )
        if perfect.failure.any():
            yield f"{int(perfect.failure.sum())} of {N} perfect answers count as failures"
        if (perfect.error > other.error + 1e-9).any():
            yield "a perfect answer has a larger error than another answer to the same case"
        if _gain(other, other.value(), perfect.value()) > 1e-9:
            yield f"perfect answers have {perfect.value():g}, others the better {other.value():g}"


def _tries(component: Component) -> Iterator[tuple[Callable[..., Any], Answered]]:
    of = tuple(component.traits.get("of", ()))
    for seed in SEEDS:
        cases = drawn_answers(*of, seed=seed) if len(of) == 2 else None
        if cases is not None:
            yield component.bind(), cases


def _gain(scored: Scored, now: float, before: float) -> float:
    """How much better `now` is than `before`; nothing where one of them is not defined."""
    gain = now - before if scored.better == "higher" else before - now
    return 0.0 if np.isnan(gain) else float(gain)


def _close(first: float, second: float) -> bool:
    return bool(np.isclose(first, second, rtol=1e-9, atol=1e-12, equal_nan=True))


RULES: tuple[Rule, ...] = (
    declares_kinds_and_direction,
    gives_one_error_and_failure_a_case,
    no_answer_is_worst,
    silence_never_gains,
    order_does_not_matter,
    a_weight_is_a_repetition,
    some_rows_are_measured_as_if_alone,
    perfect_answers_are_best,
)
