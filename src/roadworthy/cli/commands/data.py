"""``roadworthy data``: fetch public data sets, and see what an assessment's data hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from roadworthy.cli import showing

if TYPE_CHECKING:
    from roadworthy.data.samples import Dataset

SHOWN = 12
"""Classes that are listed by name."""


def add_to(app: typer.Typer) -> None:
    """Make them commands."""
    group = typer.Typer(
        help="Fetch public data sets; see what an assessment's data hold.", no_args_is_help=True
    )
    group.command("get")(_get)
    group.command("show")(show)
    app.add_typer(group, name="data")


def _get(
    name: Annotated[str, Argument(help="fashion-mnist or mnist.")],
    into: Annotated[Path, Option(help="The folder to put it in.")] = Path("data"),
    source: Annotated[
        Path | None, Option("--from", help="A folder that holds the files already.")
    ] = None,
) -> None:
    """Fetch a public data set, checked file by file."""
    from roadworthy.data.get import fetch as fetch

    with showing.shown(quiet=False) as progress:
        progress.stage(f"fetching {name}", 0)
        folder = fetch(name, into=into, source=source)
    print(folder)


def show(
    file: Annotated[Path, Argument(help="The assessment file.")] = Path("assessment.yaml"),
    json: Annotated[bool, Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show what the data sets of an assessment hold; the subject is not needed."""
    from roadworthy.execution.plan import load_data
    from roadworthy.spec import Assessment

    found = {role: _described(data) for role, data in load_data(Assessment.read(file)).items()}
    if json:
        showing.print_json(found)
        return
    for role, content in found.items():
        lines = [f"  {key:<11} {_text(value)}" for key, value in content.items()]
        showing.print_lines([role, *lines])


def _described(data: Dataset) -> dict[str, Any]:
    """What a data set holds, in numbers."""
    import numpy as np

    from roadworthy.data.values import LABEL, Unreadable

    first = data.sample(0).input
    content: dict[str, Any] = {"samples": len(data), "input": data.input_kind.name}
    if isinstance(first, np.ndarray):
        content["first"] = f"{first.dtype} of shape {first.shape}"
    elif isinstance(first, Unreadable):
        content["first"] = f"could not be read: {first.reason}"
    content["target"] = data.target_kind.name if data.target_kind else None
    if data.target_kind is LABEL and data.targets is not None:
        names, counts = np.unique(data.column("label").astype(str), return_counts=True)
        content["classes"] = dict(zip(names.tolist(), counts.tolist(), strict=True))
    content["groups"] = None if data.groups is None else len(set(data.groups.tolist()))
    content["metadata"] = {k: len(set(np.asarray(v).tolist())) for k, v in data.metadata.items()}
    content["source"], content["licence"] = data.source, data.licence
    return content


def _text(value: Any) -> str:
    if isinstance(value, dict):
        listed = [f"{k} ({v:,})" for k, v in list(value.items())[:SHOWN]]
        more = f" and {len(value) - SHOWN} more" if len(value) > SHOWN else ""
        return ", ".join(listed) + more or "none"
    return "none" if value in (None, "") else f"{value:,}" if isinstance(value, int) else str(value)
