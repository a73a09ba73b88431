"""``roadworthy cases``: the cases of an assessment, listed or written out to be answered elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from roadworthy.cli import showing


def add_to(app: typer.Typer) -> None:
    """Make them commands."""
    group = typer.Typer(
        help="The cases of an assessment: list them, export them.", no_args_is_help=True
    )
    group.command("export")(export)
    group.command("list")(list_cases)
    app.add_typer(group, name="cases")


def export(
    file: Annotated[Path, typer.Argument(help="The assessment file.")],
    out: Annotated[Path, typer.Option(help="A new folder.")],
    format: Annotated[
        Literal["png", "npz"], typer.Option(help="png: one file a case; npz: one file for all.")
    ] = "png",
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Write every case as a file, to be answered on other hardware or by another team.

    The subject is not needed. The answers come back as predictions; README.txt in the folder says how.
    """
    with showing.shown(quiet=quiet) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.export import export as write
        from roadworthy.spec import Assessment

        done = write(Assessment.read(file), out, format=format, progress=progress)
    print(
        f"{done.cases:,} cases in {done.folder}; {done.folder / 'README.txt'} says what to send back"
    )
    if done.failed:
        first = next(iter(done.failed))
        print(
            f"note: {len(done.failed):,} cases could not be made, the first is {first}: {done.failed[first]}"
        )


def list_cases(
    file: Annotated[Path, typer.Argument(help="The assessment file.")] = Path("assessment.yaml"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
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
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("Condition", "Made by", "First case"):
        table.add_column(name, overflow="fold")
    table.add_column("Cases", justify="right")
    for c, row in zip(plan.conditions, rows, strict=True):
        first = c.case_id(str(plan.data[c.role].ids[0]))
        table.add_row(
            Text(row["condition"]), Text(row["made_by"]), Text(first), f"{row['cases']:,}"
        )
    out = showing.console()
    out.print(table)
    for name, port in inside.items():
        out.print(Text(f"{name} acts inside the subject, at {port}: its cases cannot be exported"))


def _row(condition: Any, cases: int) -> dict[str, Any]:
    transform = condition.transform
    clean = "clean" if condition.role == "test" else condition.role
    made = "the data as they are" if transform is None else transform.name
    if transform is not None:
        made += "".join(f" {k}={v}" for k, v in transform.parameters.items())
    return {
        "condition": f"{condition.role}: {condition.name}"
        if condition.role == "calibration" and condition.name
        else condition.name or clean,
        "circumstance": condition.circumstance,
        "level": condition.level,
        "made_by": made,
        "cases": cases,
    }
