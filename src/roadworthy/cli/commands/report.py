"""``roadworthy report RUN``: render a run again, from its folder alone; or the event tree of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("report")(report)


def report(
    run: Annotated[Path, Argument(help="A run's folder; for open_psa also a bundle.")],
    format: Annotated[
        str,
        Option(
            help="html, json, junit, open_psa (the event tree for other tools), or another of `roadworthy list reports`."
        ),
    ] = "html",
    out: Annotated[Path | None, Option(help="The file to write, or - for standard output.")] = None,
) -> None:
    """Render a run's report again, or export its event tree; by default in the run's own folder."""
    from roadworthy import registry
    from roadworthy.store import RunFolder
    from roadworthy.store.record import Record

    component = registry.get("reports", format)
    file = component.traits.get("file", f"report.{format}")
    if run.is_file():
        text, file = (
            _of_bundle(run, format),
            f"{run.name.removesuffix('.json').removesuffix('.bundle')}.{file}",
        )
    else:
        text = component.bind()(Record.read(run))
    if str(out) == "-":
        print(text, end="")
        return
    target = out or (run.parent if run.is_file() else run) / file
    RunFolder(target.parent).write_text(target.name, text)
    print(target)


def _of_bundle(path: Path, format: str) -> str:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.report import ReportError
    from roadworthy.report.open_psa import NAME, bundle_open_psa

    if format != NAME:
        raise ReportError(
            f"{path} is a file, and {format} is made of a run: name the folder that `roadworthy assess` wrote. Of a bundle, "
            f"--format {NAME} exports the event tree"
        )
    return bundle_open_psa(Bundle.load(path))
