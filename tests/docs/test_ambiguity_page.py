"""docs/ambiguity.md: its tables name what the code has, and the example is sound."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from roadworthy import registry
from roadworthy.analysis.ambiguity import CONFIDENT, SPLIT
from roadworthy.assessment.sections.ambiguity import SHEET, Ambiguity
from roadworthy.cases.circumstance import DRAWN
from roadworthy.generative.raae import EPOCHS
from roadworthy.spec import Assessment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ambiguity.md").read_text()
EXAMPLE = ROOT / "examples/fashion/ambiguous.yaml"


def rows_after(heading: str) -> list[list[str]]:
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part.splitlines()
        if line.startswith("| `")
    ]


def test_parameters_and_defaults_are_those_of_the_source() -> None:
    known = registry.get("sources", "ambiguous").parameters
    table = {row[0].split("`")[1]: row[1] for row in rows_after("Ambiguous cases")}
    assert table.pop("n") == str(DRAWN)
    unset = {"pairs": "all", "epochs": str(EPOCHS)}
    assert table == {name: unset.get(name, str(p.default).lower()) for name, p in known.items()}


def test_the_quantities_are_those_that_claims_can_name() -> None:
    named = [
        name for row in rows_after("What is measured") for name in re.findall(r"`(\w+)`", row[0])
    ]
    assert named == [quantity.name for quantity in Ambiguity.quantities]
    assert f"{CONFIDENT:.0%} or more" in PAGE and f"more than {SPLIT:.0%}" in PAGE
    assert f"{SHEET} cases" in PAGE


def test_the_example_says_what_the_page_does() -> None:
    spec = Assessment.read(EXAMPLE)
    (code,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    shown = yaml.safe_load(code)
    given = spec.circumstances["ambiguous"]
    assert given.source == "ambiguous" and given.n == shown["circumstances"]["ambiguous"]["n"]
    limits = {c.id: (c.quantity, c.min, c.max) for c in spec.claims}
    for claim in shown["claims"]:
        quantity = next(k for k in claim if k not in ("id", "circumstance"))
        bounds = claim[quantity]
        assert limits[claim["id"]] == (quantity, bounds.get("min"), bounds.get("max"))
