"""docs/transforms.md names every image transform, how it is drawn and what moves boxes; its example runs."""

from __future__ import annotations

import re
from pathlib import Path

from roadworthy import registry

PAGE = (Path(__file__).parents[2] / "docs/transforms.md").read_text()
KNOWN = {n: c for n, c in registry.components("transforms").items() if c.traits["of"] == "image"}


def test_the_table_names_every_transform_once():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(KNOWN)


def test_those_that_move_boxes_are_named():
    sentence = PAGE.partition("## Boxes, tracks and masks\n")[2].partition(" move targets")[0]
    moving = {n for n, c in KNOWN.items() if c.traits.get("geometry")}
    assert set(re.findall(r"`(\w+)`", sentence)) == moving


def test_those_with_relative_sizes_are_named():
    named = PAGE.partition("`relative: true`\n  (")[2].partition(")")[0]
    assert set(re.findall(r"`(\w+)`", named)) == {
        n for n, c in KNOWN.items() if "relative" in c.parameters
    }


def test_how_a_row_is_drawn_is_what_its_transforms_declare():
    for line in (line for line in PAGE.splitlines() if line.startswith("| `")):
        names, _, drawn = (cell.strip() for cell in line.strip("|").split("|"))
        words = {f"each {KNOWN[n].traits['draw']}" for n in re.findall(r"`(\w+)`", names)}
        assert not drawn or set(drawn.split("; ")) == words, line


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "transforms.md", "exec"), {})
    assert "[False]" in capsys.readouterr().out
