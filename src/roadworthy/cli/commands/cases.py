"""``roadworthy cases``: list the cases of an assessment, or write them to be answered elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from roadworthy.cli import showing


def add_to(app: typer.Typer) -> None:
    """Make them commands."""
    group = typer.Typer(
        help="The cases of an assessment: list them, export them.", no_args_is_help=True
    )
    group.command("export")(_export)
    group.command("list")(list_cases)
    app.add_typer(group, name="cases")


def _export(
    file: Annotated[Path, Argument(help="The assessment file.")],
    out: Annotated[Path, Option(help="A new folder.")],
    quiet: Annotated[bool, Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Write every case as a file, to be answered on other hardware or by another team.

    The subject is not needed. README.txt in the folder says how the answers come back.
    """
    with showing.shown(quiet=quiet) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.export import export as write
        from roadworthy.spec import Assessment

        done = write(Assessment.read(file), out, progress=progress)
    print(
        f"{done.cases:,} cases in {done.folder}; {done.folder / 'README.txt'} says what to send back"
    )
    if done.failed:
        first = next(iter(done.failed))
        print(
            f"note: {len(done.failed):,} cases could not be made, the first is {first}: {done.failed[first]}"
        )


def list_cases(
    file: Annotated[Path, Argument(help="The assessment file.")] = Path("assessment.yaml"),
    json: Annotated[bool, Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the conditions under which cases are made, and how many; the subject is not needed."""
    from roadworthy.assessment.export import inner_ports, planned
    from roadworthy.spec import Assessment

    spec = Assessment.read(file)
    plan = planned(spec)
    rows = [_row(c, len(plan.data[c.role])) for c in plan.conditions]
    inside = inner_ports(spec)
    if json:
        showing.print_json(
            {"conditions": rows, "inner_ports": inside, "total": sum(r["cases"] for r in rows)}
        )
        return
    showing.print_table(
        ("Condition", "Made by", "First case", "Cases"),
        [
            (row["condition"], row["made_by"], c.case_id(str(plan.data[c.role].ids[0])), f"{n:,}")
            for c, row in zip(plan.conditions, rows, strict=True)
            for n in (row["cases"],)
        ],
        left=("Condition", "Made by", "First case"),
    )
    showing.print_lines(
        f"{name} acts inside the subject, at {port}: its cases cannot be exported"
        for name, port in inside.items()
    )


def _row(condition: Any, cases: int) -> dict[str, Any]:
    made, name = "the data as they are", condition.name
    if condition.transform is not None:
        parameters = condition.transform.parameters.items()
        made = " ".join([condition.transform.name, *(f"{k}={v}" for k, v in parameters)])
    if condition.role == "calibration" and name:
        name = f"{condition.role}: {name}"
    return {
        "condition": name or ("clean" if condition.role == "test" else condition.role),
        "circumstance": condition.circumstance,
        "level": condition.level,
        "made_by": made,
        "cases": cases,
    }
