"""``roadworthy report RUN``: render a run again from its folder, or the event tree of a bundle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("report")(_report)


def _report(
    run: Annotated[Path, Argument(help="A run's folder; for open_psa also a bundle.")],
    format: Annotated[
        str, Option(help="html, pdf (needs Chromium), json, junit, open_psa (event tree), …")
    ] = "html",
    out: Annotated[Path | None, Option(help="The file to write, or - for standard output.")] = None,
) -> None:
    """Render a run's report again, or export its event tree; by default in the run's own folder."""
    from roadworthy import registry
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.report import ReportError
    from roadworthy.report.html import printed
    from roadworthy.report.open_psa import NAME, bundle_open_psa
    from roadworthy.store import RunFolder
    from roadworthy.store.record import Record

    pdf = format == "pdf"
    component = registry.get("reports", "html" if pdf else format)
    target = run / component.traits.get("file", f"report.{format}")
    if run.is_dir():
        text = component.bind()(Record.read(run))
    elif format == NAME:
        text = bundle_open_psa(Bundle.load(run))
        target = run.with_name(f"{run.name.split('.')[0]}.{target.name}")
    else:
        raise ReportError(f"{run} is not the folder of a run. A bundle has only --format {NAME}.")
    content = text.encode()
    if pdf:
        content = printed(RunFolder(run).write_text(target.name, text))
        target = target.with_suffix(".pdf")
    if str(out) == "-":
        sys.stdout.buffer.write(content)
        return
    target = out or target
    RunFolder(target.parent).write_bytes(target.name, content)
    print(target)
