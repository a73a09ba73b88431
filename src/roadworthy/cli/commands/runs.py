"""``roadworthy runs``: the runs of a folder, a store or an index, newest first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from roadworthy.cli import output
from roadworthy.cli.options import Json


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("runs")(runs)


def runs(
    folder: Annotated[str, Argument(help="Folder or store URL where runs are kept.")] = "runs",
    index: Annotated[
        str | None, Option(help="List from a data base: postgresql://… or sqlite:///FILE.")
    ] = None,
    add: Annotated[
        bool, Option("--add", help="Enter the runs of FOLDER into the index first.")
    ] = False,
    where: Annotated[
        list[str] | None, Option(help="Only those with COLUMN=VALUE, such as verdict=breached.")
    ] = None,
    sort: Annotated[str, Option(help="By created, name, verdict, version or cases.")] = "created",
    limit: Annotated[int, Option(min=1, help="At most so many.")] = 1000,
    fetch: Annotated[
        str | None, Option(help="Copy this run of a store into runs/ of this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """List runs, newest first; by another column in rising order."""
    from roadworthy.store import StoreError
    from roadworthy.store.index import RunIndex
    from roadworthy.store.shared import bring_run

    if fetch is not None:
        print(bring_run(folder, fetch, Path("runs")).path)
        return
    chosen = dict(_split(word) for word in where or ())
    if index is not None:
        data_base = RunIndex(index, new=add)
        if add:
            data_base.add(*({"root": _whole(folder), **row} for row in _listed(folder)))
        found = data_base.rows(chosen, sort=sort, reverse=sort == "created", limit=limit)
        title = f"Runs in {data_base.name}"
    else:
        found, title = list(_listed(folder)), f"Runs in {folder}"
        unknown = [name for name in (sort, *chosen) if found and name not in found[0]]
        if unknown:
            raise StoreError(f"runs have no {unknown[0]!r}; they have {', '.join(found[0])}")
        found = [row for row in found if all(str(row[k]) == v for k, v in chosen.items())]
        found = sorted(found, key=lambda row: row[sort], reverse=sort == "created")[:limit]
        found = [{"root": folder, **row} for row in found]
    if json:
        output.print_json([{**row, "folder": f"{row['root']}/{row['folder']}"} for row in found])
        return
    if not found:
        print(f"no runs in {title.removeprefix('Runs in ')}")
        return
    output.print_table(
        ("Run", "Created", "Verdict", "Version", "Cases"),
        [
            (
                *(str(row[k]) for k in ("folder", "created", "verdict", "version")),
                f"{row['cases']:,}",
            )
            for row in found
        ],
        left=("Run", "Created", "Verdict", "Version"),
        title=title,
    )


def _listed(folder: str) -> Iterable[dict[str, Any]]:
    """The runs of a folder or of a store."""
    import json

    from roadworthy.store import StoreError, list_runs
    from roadworthy.store.runs import row_of
    from roadworthy.store.shared import records

    if "://" not in folder:
        if not Path(folder).is_dir():
            raise StoreError(f"there is no folder {folder}; name the one that holds the runs")
        return list_runs(Path(folder))
    found = []
    for name, content in records(folder):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            # Else of another version: it is no run that can be read.
            found.append(row_of(name, json.loads(content)))
    return sorted(found, key=lambda row: row["created"], reverse=True)


def _whole(folder: str) -> str:
    from roadworthy.spec.document import without_passwords

    return without_passwords(folder.rstrip("/")) if "://" in folder else str(Path(folder).resolve())


def _split(word: str) -> tuple[str, str]:
    from roadworthy.store import StoreError

    name, equals, value = word.partition("=")
    if not equals:
        raise StoreError(f"--where {word}: COLUMN=VALUE was expected, such as verdict=breached")
    return name, value
