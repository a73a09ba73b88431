"""What a calibration learnt, in numbers that a person can check against what they know of their data.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> kind, right = np.repeat(["clean", "fog"], 300), rng.random(600) < np.repeat([0.9, 0.5], 300)
>>> rows = learnt(calibrate({"knn": rng.normal(np.repeat([0.0, 1.5], 300))}, kind, right), kind, right)
>>> [(r.kind, r.rows, round(r.accuracy, 2), r.auc and round(r.auc, 1)) for r in rows]
[('clean', 300, 0.86, None), ('fog', 300, 0.46, 0.9)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.data.samples import DataError

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.tree import Tree


@dataclass(frozen=True)
class KindLearnt:
    """One kind of rows."""

    kind: str
    rows: int
    accuracy: float
    low: float
    high: float
    auc: float | None
    """How well the combined scores tell it from clean: 0.5 not at all, 1 perfectly. By models that had not seen the rows."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dict(vars(self))


def learnt(
    calibration: Calibration,
    kind: np.ndarray,
    correct: np.ndarray,
    groups: np.ndarray | None = None,
) -> list[KindLearnt]:
    """Rows, accuracy with its 95% interval (of whole groups, where there are some), and AUC, kind by kind."""
    from roadworthy.statistics import clustered_proportion

    bins = calibration.folded(calibration.table).sum(axis=(1, 3, 4, 5)).astype(np.float64)
    shares = bins / np.maximum(bins.sum(axis=1, keepdims=True), 1.0)
    below = np.concatenate([[0.0], np.cumsum(shares[0])[:-1]]) + 0.5 * shares[0]
    found = []
    for at, name in enumerate(calibration.kinds):
        rows = kind == name
        interval = clustered_proportion(
            correct[rows].astype(float), None if groups is None else groups[rows]
        )
        auc = None if at == 0 else float(shares[at] @ below)
        share = float(correct[rows].mean())
        found.append(KindLearnt(name, int(rows.sum()), share, interval.low, interval.high, auc))
    return found


def chosen_tree(
    costs: Sequence[str], unit: str | None, file: Path | None
) -> tuple[Tree, dict[str, float]]:
    """The event tree that the options describe, and the numbers that a file gives beside it.

    >>> chosen_tree(["right=635", "wrong=6735"], "EUR per patient", None)[0].unit
    'EUR per patient'
    """
    from roadworthy.analysis.risk.prototypes import accuracy_tree, cost_tree, named_outcomes

    if file is not None:
        if costs:
            raise DataError(
                "--tree and --cost say the same thing in two ways; the costs of a tree stand at its outcomes"
            )
        return _tree_of(file, unit)
    if not costs:
        if unit is not None:
            raise DataError(
                "--unit says what costs are counted in, and there are none; give --cost right=… --cost wrong=…"
            )
        return accuracy_tree(), {}
    given = _costs(costs)
    try:
        named = named_outcomes(given)
    except ValueError as error:
        raise DataError(f"--cost: {error}") from error
    if "wrong" not in named:
        raise DataError("--cost: what a wrong answer costs is missing; give --cost wrong=…")
    return cost_tree(named, unit=unit or "cost per case"), {}


def costs_unsaid(costs: Sequence[str]) -> list[str]:
    """What the call of a person is taken to cost where only one of its two costs is given.

    >>> costs_unsaid(["wrong=40", "necessary=5"])
    ['nobody said what an unnecessary call of a person costs: 5 is taken, as of a necessary one']
    """
    from roadworthy.analysis.risk.prototypes import named_outcomes

    named = named_outcomes(_costs(costs))
    calls = ("necessary", "a necessary"), ("unnecessary", "an unnecessary")
    return [
        f"nobody said what {unsaid} call of a person costs: {named[name]:g} is taken, as of {said} one"
        for (name, said), (other, unsaid) in (calls, calls[::-1])
        if name in named and other not in named
    ]


def _costs(given: Sequence[str]) -> dict[str, float]:
    named: dict[str, float] = {}
    for text in given:
        name, _, amount = text.partition("=")
        try:
            cost = float(amount)
        except ValueError:
            cost = math.nan
        if not math.isfinite(cost):
            raise DataError(f"--cost {text}: a name and a number were expected, such as wrong=6735")
        if name.strip() in named:
            raise DataError(
                f"--cost {name.strip()} is given twice, {named[name.strip()]:g} and {cost:g}; give each outcome once"
            )
        named[name.strip()] = cost
    return named


def _tree_of(file: Path, unit: str | None) -> tuple[Tree, dict[str, float]]:
    import yaml

    from roadworthy.analysis.risk.prototypes import refuse_live_constants
    from roadworthy.analysis.risk.tree import Tree

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        where = f":{at.line + 1}:{at.column + 1}" if at is not None else ""
        raise DataError(
            f"{file}{where}: this is not valid YAML: {error.problem or error.context}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: {str(error).splitlines()[0]}") from error
    if not isinstance(content, Mapping):
        found = (
            "nothing"
            if content is None
            else "a list"
            if isinstance(content, list)
            else repr(str(content)[:40])
        )
        raise DataError(f"{file}: a tree was expected, with event and branches; found {found}")
    constants = content.get("constants") or {}
    if not isinstance(constants, Mapping) or not all(map(_is_number, constants.values())):
        raise DataError(
            f"{file}: constants are names with a number each, such as constants: {{p_attack: 0.01}}"
        )
    given = {str(k): float(v) for k, v in constants.items()}
    try:
        refuse_live_constants(given)
        tree = Tree.from_dict({k: v for k, v in content.items() if k != "constants"}, unit=unit)
        _refuse_untold(tree, given)
    except (ValueError, TypeError) as error:
        raise DataError(f"{file}: {error}") from error
    return tree, given


def _refuse_untold(tree: Tree, constants: Mapping[str, float]) -> None:
    """Refuse a tree with a parameter that neither a stream nor a constant tells, or constants that are no probabilities of it."""
    from roadworthy.analysis.risk.prototypes import LIVE_PARAMETERS
    from roadworthy.analysis.risk.tree import checked
    from roadworthy.registry import did_you_mean

    untold = [name for name in tree.parameters if name not in (*LIVE_PARAMETERS, *constants)]
    if untold:
        raise ValueError(
            f"no stream tells the tree's {', '.join(untold)}{did_you_mean(untold[0], LIVE_PARAMETERS)}; give numbers under "
            f"constants, such as constants: {{{untold[0]}: 0.01}}, or use: {', '.join(LIVE_PARAMETERS)}"
        )
    checked(tree, {**dict.fromkeys(LIVE_PARAMETERS, 0.0), **constants})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
