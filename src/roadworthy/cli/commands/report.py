"""``roadworthy report RUN``: render a run again, from its folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("report")(report)


def report(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    format: Annotated[str, typer.Option(help="html, json, junit, or another of `roadworthy list reports`.")] = "html",
    out: Annotated[Path | None, typer.Option(help="The file to write, or - for standard output.")] = None,
) -> None:
    """Render a run's report again; by default in the run's own folder."""
    from roadworthy import registry
    from roadworthy.report.run_view import RunView
    from roadworthy.store import RunFolder

    component = registry.get("reports", format)
    text = component.bind()(RunView.open(run))
    if str(out) == "-":
        print(text, end="")
        return
    target = out or run / component.traits.get("file", f"report.{format}")
    RunFolder(target.parent).write_text(target.name, text)
    print(target)
