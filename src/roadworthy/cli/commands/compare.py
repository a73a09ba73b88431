"""``roadworthy compare FIRST SECOND``: what changed between two runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from roadworthy.cli import output
from roadworthy.cli.options import Json

if TYPE_CHECKING:
    from roadworthy.analysis.comparison import Change


SHOWN = 4
"""Files that are named."""
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
    """Compare two runs: subject, claims, the main measure and findings (second minus first)."""
    from roadworthy.analysis import comparison
    from roadworthy.assessment.judgement import recorded
    from roadworthy.store import RunFolder, StoreError

    before, after = (recorded(RunFolder.open(f)) for f in (first, second))
    comparable = comparison.incomparable(before.record, after.record)
    if comparable.refused:
        raise StoreError(
            f"{first} and {second} cannot be compared: {'; '.join(comparable.refused)}"
        )
    changes = sorted(comparison.compare(before, after), key=_size, reverse=True)
    clear = [c for c in changes if c.direction != "no clear change"]
    measure = before.record["measure"]["name"]
    main = next((c for c in changes if c.quantity == measure and str(c.about) == "clean"), None)
    shared = {c["id"] for c in before.record["claims"]} & {c["id"] for c in after.record["claims"]}
    content = {
        "first": _head(first, before.record),
        "second": _head(second, after.record),
        "subject": comparison.subject_differences(*(r.record["subject"] for r in (before, after))),
        "main": main and main.to_dict(),
        "vanished_alarms": comparison.vanished_alarms(before.record, after.record),
        "notes": list(comparable.notes),
        "spec": [
            {"field": field, "first": a, "second": b}
            for field, a, b in comparison.spec_differences(
                *(_by_id(r.record["spec"], shared) for r in (before, after))
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
        _print(content, clear, main, after.record["measure"])


def _by_id(spec: Mapping[str, Any], shared: Collection[str]) -> dict[str, Any]:
    """The spec with claims by their id, so that one changed limit is one difference; of those that both runs make."""
    claims = {c["id"]: {k: v for k, v in c.items() if k != "id"} for c in spec.get("claims", [])}
    return {**spec, "claims": {name: c for name, c in claims.items() if name in shared}}


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
            entry = {key: (b or a or {}).get(key, "") for key in ("id", "text", "quantity")}
            for side, claim in (("first", a), ("second", b)):
                entry[side] = claim and claim["status"]
                entry |= {f"{side}_{key}": claim and claim[key] for key in ("value", "limit")}
            found.append(entry)
    return found


def _print(
    content: dict[str, Any], clear: Sequence[Change], main: Change | None, measure: dict[str, Any]
) -> None:
    differs, version = content["subject"], content["first"]["version"]
    named = ", ".join(differs[:SHOWN]) + (" and more" if len(differs) > SHOWN else "")
    lines = []
    if differs and version and version == content["second"]["version"]:
        lines.append(
            f"warning: Both runs are of version {version}, and the subject differs: {named}."
        )
    lines += [f"note: {note}" for note in content["notes"]]
    for side in ("first", "second"):
        head = content[side]
        of = f", version {head['version']}" if head["version"] else ""
        lines.append(f"{side:<7} {head['folder']}: {head['verdict']}{of}")
    output.print_lines(lines)
    claims = [
        [
            c["id"],
            c["text"],
            *(
                c[side] and f"{c[side]} ({_shown(c[f'{side}_value'], c['quantity'], measure)})"
                for side in ("first", "second")
            ),
        ]
        for c in content["claims"]
    ]
    _table("Claims that changed", ["Id", "Claim", "First", "Second"], claims)
    heads = ["Finding", "First", "Second", "Difference", ""]
    _table("Main measure", heads, [_row(main, measure)] if main else [])
    silent = (
        "had an alarm threshold in the first run and has none in the second: no alarm is raised"
    )
    output.print_lines(
        [
            *(f"warning: {name} {silent}." for name in content["vanished_alarms"]),
            f"Subject: {named + ' differ' if differs else 'the same in both'}.",
        ]
    )
    _table("Spec", ["Field", "First", "Second"], [[*d.values()] for d in content["spec"]])
    _table("Clear changes", heads, [_row(c, measure) for c in clear if c is not main])
    one = content["only_in_one"]
    output.print_lines(
        [
            f"{len(clear):,} findings changed clearly, "
            f"{content['no_clear_change']:,} show no clear change.",
            *([f"{one:,} findings are in only one of the runs."] if one else []),
        ]
    )


def _shown(x: float | None, quantity: str, measure: Mapping[str, Any]) -> str:
    from roadworthy import numbers
    from roadworthy.spec.limits import number_style

    return numbers.value(x, number_style(quantity, measure["name"], measure["shape"]))


def _row(change: Change, measure: Mapping[str, Any]) -> list[str]:
    from roadworthy import numbers

    first, second = (_shown(x, change.quantity, measure) for x in (change.first, change.second))
    apart: numbers.Style = "points" if first.endswith("%") else "change"
    difference = numbers.value(change.second - change.first, apart)
    between = f"{difference} ({numbers.interval(change.interval, apart)})"
    return [f"{change.quantity} | {change.about}", first, second, between, change.direction]


def _table(title: str, headers: list[str], rows: list[list[Any]]) -> None:
    if not rows:
        output.print_lines([f"{title}: none."])
        return
    cells = [["–" if cell is None else str(cell) for cell in row] for row in rows]
    output.print_table(headers, cells, left=headers, title=title)
