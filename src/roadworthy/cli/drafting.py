"""The text of a new assessment file: short, commented, and valid as it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roadworthy import registry
from roadworthy.cli.guessing import Guess
from roadworthy.data.values import CLASS_SCORES, GOAL, TASKS, VECTOR

PREFERRED = ("gaussian_noise", "motion_blur", "contrast", "pixelate", "background_noise")
"""Transforms that make sense for most subjects; others of the right kind fill up."""
MOST = 3
LIMITS: dict[str, tuple[str, float, float]] = {
    "accuracy": ("min", 0.9, 0.7),
    "rmse": ("max", 0.2, 0.4),
    "ap50": ("min", 0.6, 0.4),
    "mota": ("min", 0.6, 0.4),
    "wer": ("max", 0.1, 0.3),
    "success_rate": ("min", 0.8, 0.6),
}
"""Examples of what may be claimed of a measure: the side, on clean data, and under circumstances."""


@dataclass(frozen=True)
class Draft:
    """What the file will say."""

    file: str
    name: str
    task: str
    subject: Guess
    data: Guess

    @property
    def answered_elsewhere(self) -> bool:
        """Predictions that are there cover the clean cases alone, until the others are exported and answered."""
        return "predictions" in self.subject.keys and not self.subject.absent


def text(draft: Draft) -> str:
    """The file."""
    circumstances = _circumstances(draft)
    active = bool(circumstances) and not draft.answered_elsewhere
    parts = [
        "# What is assessed, on what, under which circumstances, and what must hold.",
        f"# Run it:  roadworthy assess {draft.file}",
        f"name: {_plain(draft.name)}",
        "intended_use: >",
        "  Say here who uses the system, for what, and where; it stands at the head of the report.",
        "",
        "subject:",
        f"  task: {draft.task}",
        *[f"  {k}: {_plain(v)}" for k, v in draft.subject.keys.items()],
        *[f"  # {r}" for r in draft.subject.remarks],
        '  # version: "1.0"',
        "",
        "data:",
        f"  test: {_flow(draft.data.keys)}",
        *[f"  # {r}" for r in draft.data.remarks],
        *_further_roles(draft),
        "  # group: patient_id      # the column that says which cases belong together, so that intervals are honest",
        "",
        *_circumstance_lines(draft, circumstances, active),
        "",
        *(
            ["slices: [label]            # label, or columns of metadata"]
            if _labelled(draft)
            else ["# slices: [site]"]
        ),
        "",
        "# Scores beside the system that should tell when it is wrong: docs/supervisors.md; all takes every one that applies.",
        *(
            ["supervisors: [max_softmax]"]
            if TASKS[draft.task].output is CLASS_SCORES
            else ["# supervisors: all"]
        ),
        "# verdicts: {rule: conformal, rate: 0.05}   # from scores to alarms; takes calibration data and supervisors",
        "",
        "# Examples; put your own limits. Each is met, breached, or inconclusive with the number of cases that would settle it.",
        "claims:",
        *_claims(draft, active),
    ]
    return "\n".join(parts) + "\n"


def _further_roles(draft: Draft) -> list[str]:
    """The roles that supervisors take, in the form of the test data."""
    loader = next(iter(draft.data.keys))
    return [
        f"  # reference: {{{loader}: …}}     # what supervisors that learn are fitted on; usually training data",
        f"  # calibration: {{{loader}: …}}   # what thresholds of alarms are chosen on; cases that are in no other role",
    ]


def _labelled(draft: Draft) -> bool:
    return TASKS[draft.task].output is CLASS_SCORES


def _circumstances(draft: Draft) -> dict[str, dict[str, Any]]:
    kind = "image" if TASKS[draft.task].input.name == "frames" else TASKS[draft.task].input.name
    if draft.data.vectors:
        return {}
    known = {
        n: c for n, c in registry.components("transforms").items() if c.traits.get("of") == kind
    }
    chosen = [n for n in PREFERRED if n in known] + [n for n in known if n not in PREFERRED]
    found: dict[str, dict[str, Any]] = {}
    for name in chosen:
        tables = known[name].traits.get("tables") or {}
        if tables and len(found) < MOST:
            rows = tables.get("hendrycks") or next(iter(tables.values()))
            found[name] = {"transform": name, "levels": list(range(1, min(len(rows), 3) + 1))}
    return found


def _circumstance_lines(
    draft: Draft, found: Mapping[str, Mapping[str, Any]], active: bool
) -> list[str]:
    head = "# Conditions of use; `roadworthy list transforms` shows more. Add probability, exposure, likelihood, severity."
    lines = [f"  {name}: {_flow(content)}" for name, content in found.items()]
    if active:
        return [head, "circumstances:", *lines, "  # site_b: {where: {site: B}}"]
    if found:
        why = [
            "# The predictions cover the cases as they are. For cases under circumstances, take the marks away below, run",
            f"#   roadworthy cases export {draft.file} --out cases",
            "# and let the system answer them.",
        ]
        return [*why, "# circumstances:", *(f"# {line}" for line in lines)]
    where = (
        "  # typing: {transform: swap_characters, levels: [1], port: nlu.utterance}"
        if TASKS[draft.task].input is GOAL
        else ""
    )
    return [
        "# circumstances:",
        "#   site_b: {where: {site: B}}",
        *([f"# {where}"] if where else []),
    ]


def _claims(draft: Draft, active: bool) -> list[str]:
    measure = TASKS[draft.task].measure
    side, clean, under = LIMITS.get(measure, ("min", 0.9, 0.7))
    first = f"  - {{id: C-1, {measure}: {{{side}: {clean}}}}}"
    if active:
        return [first, f"  - {{id: C-2, {measure}: {{{side}: {under}}}, every: circumstances}}"]
    if TASKS[draft.task].output is VECTOR:
        return [
            first,
            "  # - {id: C-2, failure_rate: {max: 0.05}}   # with failure: {error: {above: 0.5}}",
        ]
    return [first, "  - {id: C-2, failure_rate: {max: 0.2}, confidence: 0.975}"]


def _flow(content: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{k}: {_plain(v)}" for k, v in content.items()) + "}"


def _plain(value: Any) -> str:
    """A YAML value in one line; text in quotes where it could be read as something else."""
    if isinstance(value, str):
        safe = (
            value.replace("-", "").replace("_", "").replace("/", "").replace(".", "").isalnum()
            and value[0].isalpha()
        )
        bare = safe and value.lower() not in (
            "true",
            "false",
            "yes",
            "no",
            "on",
            "off",
            "null",
            "y",
            "n",
        )
        return value if bare and value[-1].isalnum() else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(_plain(v) for v in value) + "]"
    return json.dumps(value)
