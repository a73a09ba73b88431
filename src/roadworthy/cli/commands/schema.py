"""``roadworthy schema``: JSON schemas of the files, for editors and other programs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer import Argument

from roadworthy.cli import output


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("schema")(_schema)


def _schema(
    of: Annotated[Literal["assessment", "report"], Argument(help="Which file.")] = "assessment",
) -> None:
    """Print the JSON schema of the assessment file or of report.json."""
    from roadworthy.spec import schema
    from roadworthy.store.record import Record

    output.print_json(Record.schema() if of == "report" else schema())
