"""docs/reliability.md: its options are those of the file, and its two lines are what the example prints."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from roadworthy import numbers
from roadworthy.assessment.assess import assess
from roadworthy.assessment.sections.reliability import ReliabilitySpec
from roadworthy.spec import Assessment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reliability.md").read_text()


def test_the_options_are_those_of_the_file():
    table = PAGE.split("## Options")[1].split("\n## ")[0]
    named = {
        k for row in re.findall(r"^\| (`.*?) \|", table, re.M) for k in re.findall(r"`(\w+)`", row)
    }
    assert named == set(ReliabilitySpec.model_fields)


def test_the_two_lines_are_what_the_example_prints(tmp_path):
    file = ROOT / "examples/reliability/assessment.yaml"
    content = yaml.safe_load(file.read_text())
    content |= {"circumstances": {}, "supervisors": [], "claims": []}
    content["reliability"].pop("unastuteness")
    content["data"].pop("calibration")
    spec = Assessment.parse(yaml.safe_dump(content), file)
    found = assess(spec, runs=tmp_path).record.sections["reliability"]
    for line in found.bounds[:2]:
        values = [numbers.value(line.value, "percent"), numbers.value(line.upper, "percent")]
        row = next(r for r in PAGE.splitlines() if r.startswith(line.title))
        assert all(v in row for v in [*values, f"{line.n:,}", f"{line.failures:.0f}"]), row
