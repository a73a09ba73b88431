"""How often a case is of each circumstance in use: one rule for the report's expected cost and for the monitor's forecast.

A circumstance occurs as often as the file says. One that a filter picks out, and of which the file says nothing, occurs as often
as in the test data, which are a sample of what is met; where what is stated leaves less room than that, it takes what is left.
Others of which nothing is said do not count beside these. A stated rate of shift (``p_shift``) keeps the proportions. Where
nothing at all is stated, filters alone still tell their shares; with other circumstances among them a stated rate of shift
is shared evenly by all, and without one nobody knows.

What occurs and has no cases is refused: left out, its share would be costed as if it were clean.

>>> weighed({"fog": 0.1, "site_b": None, "snow": None}, {"site_b": 0.25}, None, counted={"fog", "site_b", "snow"})
{'fog': 0.1, 'site_b': 0.25}
>>> weighed({"fog": 0.1, "site_b": None}, {"site_b": 0.25}, 0.7, counted={"fog", "site_b"})
{'fog': 0.2, 'site_b': 0.5}
>>> weighed({"fog": None, "site_b": None}, {"site_b": 0.25}, 0.7, counted={"fog", "site_b"})
{'fog': 0.35, 'site_b': 0.35}
>>> weighed({"fog": 0.1, "snow": 0.2}, {}, None, counted={"fog"})
Traceback (most recent call last):
ValueError: there are no cases of snow to count, and the file says that they occur
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from roadworthy.analysis.risk.posteriors import Beta
from roadworthy.execution.plan import Plan

Stated = Mapping[str, float | None]
"""Circumstance -> its probability as the file has it."""


def in_use(plan: Plan, counted: Collection[str]) -> dict[str, float]:
    """The probability of each circumstance that counts; ValueError where nobody knows, or where one that occurs has no cases."""
    return weighed(_stated(plan), _usual(plan), _rate(plan), counted)


def shifted_in_use(plan: Plan) -> float:
    """How often a case is shifted, as far as file and test data tell: what `in_use` adds up to where it does not refuse."""
    rate = _rate(plan)
    return (
        min(math.fsum(_told(_stated(plan), _usual(plan)).values()), 1.0) if rate is None else rate
    )


def says_how_often(plan: Plan) -> bool:
    """Whether the file says of anything how often it occurs."""
    return _rate(plan) is not None or any(p is not None for p in _stated(plan).values())


def supposed(plan: Plan) -> list[str]:
    """What is said of filtered cases that count as often as in the test data; nothing where there are none."""
    stated, usual = _stated(plan), _usual(plan)
    open_ = [name for name, p in stated.items() if p is None and name in usual]
    if not open_ or not _known(stated, usual):
        return []
    shares = " and ".join(f"{name} ({usual[name]:.0%})" for name in open_)
    return [
        f"{shares} {'counts' if len(open_) == 1 else 'count'} as often as in the test data; say otherwise with probability: …"
    ]


def weighed(
    stated: Stated, usual: Mapping[str, float], rate: float | None, counted: Collection[str]
) -> dict[str, float]:
    """The rule: `usual` are the shares of filtered test cases, `counted` the circumstances of which there are cases."""
    given = _told(stated, usual)
    if not _known(stated, usual):
        if rate is None:
            raise ValueError(
                "no circumstance has a probability; give them one, or risk: {constants: {p_shift: 0.1}}"
            )
        given = dict.fromkeys(stated, 1.0)
    if rate is not None:
        total = math.fsum(given.values())
        given = {
            name: rate * (p / total if total else 1.0 / len(given)) for name, p in given.items()
        }
    unseen = [name for name, p in given.items() if p > 0 and name not in counted]
    if unseen:
        raise ValueError(
            f"there are no cases of {', '.join(unseen)} to count, and the file says that they occur"
        )
    return {name: p for name, p in given.items() if name in counted}


def _known(stated: Stated, usual: Mapping[str, float]) -> bool:
    """Whether the file states a probability, or every circumstance is a filter."""
    return any(p is not None for p in stated.values()) or (
        bool(stated) and all(name in usual for name in stated)
    )


def _told(stated: Stated, usual: Mapping[str, float]) -> dict[str, float]:
    """What is stated, and beside it the shares of filtered cases, as far as there is room for them."""
    given = {name: p for name, p in stated.items() if p is not None}
    open_ = {name: usual[name] for name, p in stated.items() if p is None and name in usual}
    room, asked = max(1.0 - math.fsum(given.values()), 0.0), math.fsum(open_.values())
    fitting = {name: p if asked <= room else p * room / asked for name, p in open_.items()}
    return {name: (given | fitting)[name] for name in stated if name in given or name in fitting}


def _stated(plan: Plan) -> Stated:
    return {c.name: c.probability for c in plan.circumstances}


def _usual(plan: Plan) -> dict[str, float]:
    """How often cases of the test data are filtered; one that several filters pick counts for each in equal parts."""
    picked = {
        c.name: plan.data["test"].where(c.where) for c in plan.circumstances if c.where is not None
    }
    often = np.maximum(np.sum(list(picked.values()), axis=0), 1) if picked else np.ones(1)
    return {name: float((cases / often).mean()) for name, cases in picked.items()}


def _rate(plan: Plan) -> float | None:
    rate = plan.spec.risk.known_constants().get("p_shift") if plan.spec.risk else None
    return rate.mean if isinstance(rate, Beta) else rate
