"""``roadworthy list``: the components that an assessment file may name, ours and those of other packages."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import showing

if TYPE_CHECKING:
    from rich.console import Console

    from roadworthy.registry import Component, Parameter

FILLED_IN = ("base", "task")
"""Parameters that the program gives, not the file."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("list")(list_components)


def list_components(
    room: Annotated[str | None, typer.Argument(help="loaders, measures, adapters, transforms, supervisors, …")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the components by room; with a ROOM, their parameters and tables of levels too."""
    from roadworthy import registry

    rooms = [room] if room else list(registry.ROOMS)
    found = {name: [described(c) for c in registry.components(name).values()] for name in rooms}
    if json:
        showing.print_json(found)
        return
    for name, components in found.items():
        _print(name, components, showing.console(), whole=room is not None)


def described(component: Component) -> dict[str, Any]:
    """What a component says of itself, ready for JSON."""
    return {
        "name": component.name,
        "summary": component.summary,
        "origin": component.origin,
        "parameters": {k: _parameter(p) for k, p in component.parameters.items() if k not in FILLED_IN},
        "traits": _plain(component.traits),
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    required = parameter.default is inspect.Parameter.empty
    annotation = parameter.annotation
    kind = "" if annotation is inspect.Parameter.empty else inspect.formatannotation(annotation)
    fields = _fields(annotation)
    return {
        "type": kind,
        "required": required,
        **({} if required else {"default": _plain(parameter.default)}),
        **({"fields": fields} if fields else {}),
    }


def _fields(annotation: Any) -> dict[str, str]:
    """The keys of a parameter that is a mapping of its own, such as ``input: {mean: 0.5}``, with type and default."""
    found: dict[str, str] = {}
    for kind in (annotation, *typing.get_args(annotation)):
        for field in dataclasses.fields(kind) if inspect.isclass(kind) and dataclasses.is_dataclass(kind) else ():
            default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
            hint = field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
            found[field.name] = f"{hint}{default}"
    return found


def _short(kind: str) -> str:
    """A type without the place where it is defined."""
    return re.sub(r"\broadworthy(\.\w+)*\.", "", kind)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _print(room: str, components: list[dict[str, Any]], out: Console, *, whole: bool) -> None:
    from rich.markup import escape

    out.print(f"[bold]{room}[/bold]")
    width = max((len(c["name"]) for c in components), default=0)
    for c in components:
        origin = "" if c["origin"] == "roadworthy" else f" (from {c['origin']})"
        out.print(f"  {escape(c['name'].ljust(width))}  {escape(c['summary'] + origin)}", soft_wrap=True)
        for line in _details(c) if whole else ():
            out.print(f"  {' ' * width}    {escape(line)}", soft_wrap=True)
    if not components:
        out.print("  none")
    out.print()


def _details(component: dict[str, Any]) -> list[str]:
    lines = []
    for name, p in component["parameters"].items():
        lines.append(f"{name}: {_short(p['type'])}" + ("" if p["required"] else f" = {p['default']!r}"))
        lines += [f"  {name}.{field}: {what}" for field, what in p.get("fields", {}).items()]
    for trait, content in component["traits"].items():
        if trait == "tables":
            for table, rows in content.items():
                lines += [f"level {i} of {table}: {_row(row)}" for i, row in enumerate(rows, start=1)]
        else:
            lines.append(f"{trait}: {_row(content) if isinstance(content, dict) else content}")
    return lines


def _row(row: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in row.items())
