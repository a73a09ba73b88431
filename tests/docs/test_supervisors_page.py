"""The page on supervisors names components that are there, and rules and claims that an assessment file may have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from roadworthy import registry
from roadworthy.spec import Assessment

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "supervisors.md").read_text()
BOTH = PAGE + (DOCS / "prioritisation.md").read_text()
FAMILIES = PAGE.split("## By what they read")[1].split("## What the table means")[0]
RULES = PAGE.split("## How verdicts come about")[1].split("## How to choose")[0]
HEAD = "subject: {task: classification, onnx: model.onnx}\n"


def test_every_supervisor_has_its_place_among_the_families() -> None:
    cells = [row.split("|")[2] for row in FAMILIES.splitlines() if row.startswith("| ")][2:]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    there = {name for name in registry.components("supervisors") if not name.startswith("dlpra_")}
    assert len(named) == len(set(named))
    assert there - set(named) == set()


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", BOTH, re.DOTALL))
def test_every_part_of_an_assessment_on_the_page_is_accepted(block: str) -> None:
    indent = min(len(line) - len(line.lstrip()) for line in block.splitlines() if line.strip())
    text = HEAD + "\n".join(line[indent:] for line in block.splitlines()) + "\n"
    content = yaml.safe_load(text)
    if "data" not in content:
        text += "data: {test: {npz: a.npz}}\nsupervisors: [max_softmax, knn]\n"
        text += "circumstances: {snowfall: {transform: snow, levels: [2]}}\n"
    Assessment.parse(text, "supervisors.md")


@pytest.mark.parametrize("rule", re.findall(r"^\| `(\w+)` \|", RULES, re.MULTILINE)[1:])
def test_every_rule_of_the_page_is_one_of_the_file(rule: str) -> None:
    prices = ", miss: 10, false_alarm: 1, prevalence: 0.1" if rule == "cost" else ""
    text = (
        HEAD
        + f"data: {{test: {{npz: a.npz}}}}\nsupervisors: [knn]\nverdicts: {{rule: {rule}{prices}}}\n"
    )
    assert Assessment.parse(text, "supervisors.md").verdicts.rule == rule
