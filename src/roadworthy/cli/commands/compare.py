"""``roadworthy compare FIRST SECOND``: what changed between two runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from roadworthy.cli import output
from roadworthy.cli.options import Json

if TYPE_CHECKING:
    from roadworthy.analysis.comparison import Change


NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Values of a field that is not set."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("compare")(_compare)


def _compare(
    first: Annotated[Path, Argument(help="The earlier run's folder.")],
    second: Annotated[Path, Argument(help="The later run's folder.")],
    json: Json = False,
) -> None:
    """Compare two runs: files, claims and findings (second minus first)."""
    from roadworthy.analysis.comparison import compare as changes_between
    from roadworthy.analysis.comparison import incomparable, spec_differences
    from roadworthy.assessment.judging import recorded
    from roadworthy.store import RunFolder, StoreError

    before, after = (recorded(RunFolder.open(f)) for f in (first, second))
    comparable = incomparable(before.record, after.record)
    if comparable.refused:
        raise StoreError(
            f"{first} and {second} cannot be compared: {'; '.join(comparable.refused)}"
        )
    changes = sorted(changes_between(before, after), key=_size, reverse=True)
    clear = [c for c in changes if c.direction != "no clear change"]
    content = {
        "first": _head(first, before.record),
        "second": _head(second, after.record),
        "notes": list(comparable.notes),
        "spec": [
            {"field": field, "first": a, "second": b}
            for field, a, b in spec_differences(
                *(_by_id(r.record["spec"]) for r in (before, after))
            )
            if a not in NOTHING or b not in NOTHING
        ],
        "claims": _claims(before.record, after.record),
        "changes": [c.to_dict() for c in clear],
        "no_clear_change": len(changes) - len(clear),
        "only_in_one": len({f.id for f in before.findings} ^ {f.id for f in after.findings}),
    }
    if json:
        output.print_json(content)
    else:
        _print(content, clear)


def _by_id(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with claims by their id, so that one changed limit is one difference."""
    claims = {c["id"]: {k: v for k, v in c.items() if k != "id"} for c in spec.get("claims", [])}
    return {**spec, "claims": claims}


def _size(change: Change) -> float:
    difference = abs(change.second - change.first)
    return -1.0 if math.isnan(difference) else difference


def _head(folder: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    subject = record["subject"]
    return {
        "folder": str(folder),
        "name": record["name"],
        "created": record["created"],
        "verdict": record["verdict"],
        "version": subject["version"],
        "fingerprint": subject["fingerprint"],
    }


def _claims(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Claims whose status or limit is not what it was, and those that only one run has."""
    old, new = ({c["id"]: c for c in record["claims"]} for record in (before, after))
    found = []
    for name in [*old, *(n for n in new if n not in old)]:
        a, b = old.get(name), new.get(name)
        if a is None or b is None or (a["status"], a["limit"]) != (b["status"], b["limit"]):
            found.append(
                {
                    "id": name,
                    "text": (b or a or {}).get("text", ""),
                    "first": a and a["status"],
                    "second": b and b["status"],
                    "first_limit": a and a["limit"],
                    "second_limit": b and b["limit"],
                }
            )
    return found


def _print(content: dict[str, Any], clear: Sequence[Change]) -> None:
    lines = [f"note: {note}" for note in content["notes"]]
    for side in ("first", "second"):
        head = content[side]
        version = f", version {head['version']}" if head["version"] else ""
        lines.append(f"{side:<7} {head['folder']}: {head['verdict']}{version}")
    same = content["first"]["fingerprint"] == content["second"]["fingerprint"]
    output.print_lines([*lines, f"The subject {'is the same in both' if same else 'differs'}."])
    _table("Spec", ["Field", "First", "Second"], [[*d.values()] for d in content["spec"]])
    claims = [[c["id"], c["text"], c["first"], c["second"]] for c in content["claims"]]
    _table("Claims that changed", ["Id", "Claim", "First", "Second"], claims)
    found = [
        [
            f"{c.quantity} | {c.about}",
            f"{c.first:.4g}",
            f"{c.second:.4g}",
            f"{c.second - c.first:+.4g} [{c.interval.low:+.4g}, {c.interval.high:+.4g}]",
            c.direction,
        ]
        for c in clear
    ]
    _table("Clear changes", ["Finding", "First", "Second", "Difference", ""], found)
    one = content["only_in_one"]
    output.print_lines(
        [
            f"{len(clear):,} findings changed clearly, "
            f"{content['no_clear_change']:,} show no clear change.",
            *([f"{one:,} findings are in only one of the runs."] if one else []),
        ]
    )


def _table(title: str, headers: list[str], rows: list[list[Any]]) -> None:
    if not rows:
        output.print_lines([f"{title}: none."])
        return
    cells = [["–" if cell is None else str(cell) for cell in row] for row in rows]
    output.print_table(headers, cells, left=headers, title=title)
