"""Options that several commands have, and those that describe files, costs and columns.

>>> named_scores(["energy", "knn"], ["energy=nrg"])
{'energy': 'nrg', 'knn': 'knn'}
>>> chosen_tree(["right=635", "wrong=6735"], "EUR per patient", None)[0].unit
'EUR per patient'
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Argument, Option

from roadworthy.registry import did_you_mean

if TYPE_CHECKING:
    from roadworthy.analysis.risk.tree import Tree
    from roadworthy.data.samples import DataError

Json = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]
Token = Annotated[
    str | None, Option(envvar="ROADWORTHY_TOKEN", help="Bearer token, 16 or more characters.")
]
AssessmentFile = Annotated[Path, Argument(help="The assessment file.")]
BundleFile = Annotated[Path, Argument(help="What `roadworthy calibrate` wrote.")]


def _refused(message: str) -> DataError:
    """An error of the user's, made when it is needed: `--help` loads no numpy."""
    from roadworthy.data.samples import DataError

    return DataError(message)


def refuse_no_folder(option: str, path: Path) -> None:
    """Refuse a file in a folder that is not there, or one whose name is a folder's."""
    if not path.parent.is_dir():
        raise _refused(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise _refused(f"{option} {path} is a folder; name a file")


def refuse_own_input(option: str, path: Path, *inputs: Path | None) -> None:
    """Refuse to write over what is read, also by a link or another spelling."""
    for read in inputs:
        if read is not None and path.exists() and read.exists() and path.samefile(read):
            raise _refused(f"{option} {path} is {read}, which is read; choose another file")


def named_scores(names: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """The column of each score of a bundle: that of its name, or as in ``--score energy=nrg``."""
    found: dict[str, str] = {}
    for text in given:
        name, _, column = text.partition("=")
        if name not in names or not column.strip():
            raise _refused(
                f"--score {text}: expected {names[0]}=COLUMN{did_you_mean(name, names)}; "
                f"the bundle has: {', '.join(names)}"
            )
        if name in found:
            raise _refused(f"--score {name} is given twice")
        found[name] = column
    return {name: found.get(name, name) for name in names}


class PricedTree(NamedTuple):
    """An event tree, the constants that its file gives, and notes on costs that are assumed."""

    tree: Tree
    constants: dict[str, float]
    notes: tuple[str, ...] = ()


def chosen_tree(costs: Sequence[str], unit: str | None, file: Path | None) -> PricedTree:
    """The event tree that options describe."""
    from roadworthy.analysis.risk.prototypes import accuracy_tree, cost_tree, named_outcomes

    if file is not None:
        if costs:
            raise _refused("--tree and --cost exclude each other: a tree has its own costs")
        return _tree_of(file, unit)
    if not costs:
        if unit is not None:
            raise _refused("--unit needs costs: give --cost right=… --cost wrong=…")
        return PricedTree(accuracy_tree(), {})
    try:
        named = named_outcomes(_costs(costs))
    except ValueError as error:
        raise _refused(f"--cost: {error}") from error
    if "wrong" not in named:
        raise _refused("--cost: the cost of a wrong answer is missing; give --cost wrong=…")
    if named["wrong"] < named.get("right", 0.0):
        raise _refused(
            f"--cost: a wrong answer ({named['wrong']:g}) costs less than a right one "
            f"({named.get('right', 0.0):g}); swap them"
        )
    tree = cost_tree(named, unit=unit or "cost per case")
    calls = [name for name in ("necessary", "unnecessary") if name not in named]
    if len(calls) != 1:
        return PricedTree(tree, {})
    cost = named["necessary" if calls == ["unnecessary"] else "unnecessary"]
    note = f"No cost of {calls[0]} calls. Using {cost:g}, as for the other calls. Set --cost."
    return PricedTree(tree, {}, (note,))


def _costs(given: Sequence[str]) -> dict[str, float]:
    named: dict[str, float] = {}
    for text in given:
        name, _, amount = text.partition("=")
        try:
            cost = float(amount)
        except ValueError:
            cost = math.nan
        if not math.isfinite(cost):
            raise _refused(f"--cost {text}: expected a name and a number, such as wrong=6735")
        if name.strip() in named:
            raise _refused(f"--cost {name.strip()} is given twice")
        named[name.strip()] = cost
    return named


def _tree_of(file: Path, unit: str | None) -> PricedTree:
    from roadworthy.analysis.risk.prototypes import LIVE_PARAMETERS, refuse_live_constants
    from roadworthy.analysis.risk.tree import Tree, checked
    from roadworthy.spec.document import Document

    content = Document.read(file).content
    if not isinstance(content, Mapping):
        raise _refused(f"{file}: expected a tree with event and branches")
    constants = content.get("constants") or {}
    if not isinstance(constants, Mapping) or not all(map(_is_number, constants.values())):
        raise _refused(f"{file}: expected names with numbers, as in constants: {{p_attack: 0.01}}")
    given = {str(name): float(value) for name, value in constants.items()}
    try:
        refuse_live_constants(given)
        tree = Tree.from_dict({k: v for k, v in content.items() if k != "constants"}, unit=unit)
        unknown = [name for name in tree.parameters if name not in (*LIVE_PARAMETERS, *given)]
        if unknown:
            raise ValueError(
                f"{', '.join(unknown)}: unknown{did_you_mean(unknown[0], LIVE_PARAMETERS)}; give "
                f"a number, as in constants: {{{unknown[0]}: 0.01}}, or use one of: "
                f"{', '.join(LIVE_PARAMETERS)}"
            )
        checked(tree, {**dict.fromkeys(LIVE_PARAMETERS, 0.0), **given})
    except (ValueError, TypeError) as error:
        raise _refused(f"{file}: {error}") from error
    return PricedTree(tree, given)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
