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
READS = {
    "Output": "outputs",
    "Input": "inputs",
    "Layer": "activations",
    "Gradient": "gradients (of a torch model)",
    "Score": "the scores of other supervisors",
}
PASSES = {
    "dropout": "passes with dropout (of a torch model)",
    "ensemble": "the members of an ensemble",
    "own": "repeated runs of a subject that draws at random",
}
"""What a supervisor reads of a subject, in words, by its requests."""
PLAIN = {
    "int": "whole number",
    "float": "number",
    "str": "name",
    "bool": "true or false",
    "None": "none",
}
TRAITS = {
    "of": "for",
    "default": "default for",
    "bounded": "between 0 and 1",
    "extra": "needs",
    "title": "called",
}


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("list")(list_components)


def list_components(
    room: Annotated[
        str | None,
        typer.Argument(help="loaders, measures, adapters, transforms, supervisors, estimators, …"),
    ] = None,
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
        "parameters": {
            k: _parameter(p) for k, p in component.parameters.items() if k not in FILLED_IN
        },
        "traits": _plain(component.traits),
        **(_asked(component) if component.room == "supervisors" else {}),
    }


def _asked(component: Component) -> dict[str, Any]:
    """What a supervisor with its default parameters reads, and whether it is fitted; nothing where it has no defaults."""
    try:
        bound = component.bind()
    except (ValueError, TypeError, ImportError):
        return {}
    kinds = [(type(need).__name__, getattr(need, "kind", "")) for need in bound.needs]
    words = [
        PASSES.get(kind, f"{kind} passes") if name == "Passes" else READS.get(name, name)
        for name, kind in kinds
    ]
    return {"reads": list(dict.fromkeys(words)), "fitted": bool(bound.fitted)}


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
        for field in (
            dataclasses.fields(kind)
            if inspect.isclass(kind) and dataclasses.is_dataclass(kind)
            else ()
        ):
            default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
            hint = (
                field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
            )
            found[field.name] = f"{hint}{default}"
    return found


def _short(kind: str) -> str:
    """A type in plain words, without the place where it is defined.

    >>> _short("Literal['mean', 'max', 'none']"), _short("tuple[str, ...]"), _short("int | None")
    ('one of mean, max, none', 'list of names', 'whole number or none')
    """
    kind = re.sub(r"\b(roadworthy(\.\w+)*|collections\.abc|typing)\.", "", kind)
    chosen = re.compile(r"Literal\[([^\]]*)\]")
    kind = chosen.sub(lambda m: "one of " + m[1].replace("'", "").replace('"', ""), kind)
    kind = re.sub(
        r"(?:tuple|list|Sequence)\[(\w+)(?:, \.\.\.)?\]",
        lambda m: f"list of {PLAIN.get(m[1], m[1])}s",
        kind,
    )
    return " or ".join(PLAIN.get(part, part) for part in kind.split(" | "))


def _told(value: Any) -> str:
    """A default as an assessment file has it.

    >>> _told("mean"), _told(None), _told(True), _told(["early", "late"]), _told([])
    ('mean', 'none', 'true', '[early, late]', '[]')
    """
    if isinstance(value, list):
        return f"[{', '.join(_told(v) for v in value)}]"
    return (
        "none"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else str(value) or "''"
    )


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
    for reads, group in _grouped(components) if whole else [("", components)]:
        if reads:
            out.print(f"\n  [bold]{escape(reads)}[/bold]")
        for c in group:
            origin = "" if c["origin"] == "roadworthy" else f" (from {c['origin']})"
            out.print(
                f"  {escape(c['name'].ljust(width))}  {escape(c['summary'] + origin)}",
                soft_wrap=True,
            )
            for line in _details(c) if whole else ():
                out.print(f"  {' ' * width}    {escape(line)}", soft_wrap=True)
    if not components:
        out.print("  none")
    if room == "estimators":
        from roadworthy.analysis.simulation.estimators import OF_ANOTHER_KIND

        out.print("\n  [bold]beside these, `roadworthy simulate` compares[/bold]")
        for name, summary in OF_ANOTHER_KIND.items():
            out.print(f"  {name.ljust(width)}  {summary}", soft_wrap=True)
    out.print()


def _grouped(components: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """By what they read, where they say so."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for c in components:
        groups.setdefault(f"reads {' and '.join(c['reads'])}" if c.get("reads") else "", []).append(
            c
        )
    return sorted(groups.items(), key=lambda entry: (entry[0] != "reads outputs", entry[0]))


def _details(component: dict[str, Any]) -> list[str]:
    lines = []
    if "fitted" in component:
        lines.append(
            "fitted on reference data" if component["fitted"] else "needs no reference data"
        )
    for name, p in component["parameters"].items():
        lines.append(
            f"{name}: {_short(p['type'])}" + ("" if p["required"] else f" = {_told(p['default'])}")
        )
        lines += [f"  {name}.{field}: {what}" for field, what in p.get("fields", {}).items()]
    for trait, content in component["traits"].items():
        if trait == "tables":
            for table, rows in content.items():
                lines += [
                    f"level {i} of {table}: {_row(row)}" for i, row in enumerate(rows, start=1)
                ]
        else:
            lines.append(_trait(trait, content))
    return lines


def _trait(name: str, content: Any) -> str:
    """What a component says of itself, in words.

    >>> _trait("default", ["text"]), _trait("bounded", True), _trait("extra", ["sacrebleu", "text"])  # doctest: +ELLIPSIS
    ('default for: text', 'between 0 and 1', 'needs: sacrebleu (pip install ...[text]")')
    """
    if name == "extra" and isinstance(content, list) and len(content) == 2:
        from roadworthy.registry import install

        return f"{TRAITS[name]}: {content[0]} ({install(content[1])})"
    if name == "bounded" and content is True:
        return TRAITS[name]
    told = ", ".join(map(str, content)) if isinstance(content, list) else content
    return f"{TRAITS.get(name, name)}: {_row(content) if isinstance(content, dict) else told}"


def _row(row: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in row.items())
