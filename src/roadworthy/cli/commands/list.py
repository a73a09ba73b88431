"""``roadworthy list``: the components that an assessment file may name, ours and other packages'."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from roadworthy.cli import showing

if TYPE_CHECKING:
    from roadworthy.registry import Component, Parameter

FILLED_IN = ("base", "task")
"""Parameters that the program gives, not the file."""
READS = {
    "Output": "outputs",
    "Input": "inputs",
    "Layer": "activations",
    "Gradient": "gradients (of a torch model)",
    "Score": "the scores of other supervisors",
    "dropout": "passes with dropout (of a torch model)",
    "ensemble": "the members of an ensemble",
    "own": "repeated runs of a subject that draws at random",
}
"""What a supervisor reads of a subject, by its request or the kind of its passes."""
PLAIN = {
    "int": "whole number",
    "float": "number",
    "str": "name",
    "bool": "true or false",
    "None": "none",
}
TRAITS = {"of": "for", "default": "default for", "extra": "needs", "title": "called"}


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("list")(list_components)


def list_components(
    room: Annotated[
        str | None, Argument(metavar="[TYPE]", help="loaders, measures, transforms, supervisors, …")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the components by type; with a TYPE, their parameters and levels too."""
    from roadworthy import registry

    rooms = [room] if room else list(registry.ROOMS)
    found = {name: [described(c) for c in registry.components(name).values()] for name in rooms}
    if json:
        showing.print_json(found)
        return
    for name, components in found.items():
        showing.print_lines([name, *_lines(components, whole=room is not None)])
        if name == "estimators":
            from roadworthy.analysis.simulation.estimators import OF_ANOTHER_KIND

            others = [f"  {other}  {summary}" for other, summary in OF_ANOTHER_KIND.items()]
            showing.print_lines(["", "  only in `roadworthy simulate`", *others])
        showing.print_lines([""])


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
        **(_requests(component) if component.room == "supervisors" else {}),
    }


def _requests(component: Component) -> dict[str, Any]:
    """What a supervisor with its default parameters reads, and whether it is fitted."""
    try:
        bound = component.bind()
    except (ValueError, TypeError, ImportError):
        return {}
    names = [getattr(need, "kind", "") or type(need).__name__ for need in bound.needs]
    words = [READS.get(name, name) for name in names]
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
    """The keys of a parameter that is a mapping, such as ``input: {mean: 0.5}``."""
    found: dict[str, str] = {}
    for kind in (annotation, *typing.get_args(annotation)):
        if not (inspect.isclass(kind) and dataclasses.is_dataclass(kind)):
            continue
        for field in dataclasses.fields(kind):
            default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
            named = isinstance(field.type, str)
            hint = field.type if named else inspect.formatannotation(field.type)
            found[field.name] = f"{hint}{default}"
    return found


def _short(kind: str) -> str:
    """A type in plain words, without the module where it is defined.

    >>> _short("Literal['mean', 'max', 'none']"), _short("tuple[str, ...]"), _short("int | None")
    ('one of mean, max, none', 'list of names', 'whole number or none')
    """
    kind = re.sub(r"\b(roadworthy(\.\w+)*|collections\.abc|typing)\.", "", kind)
    kind = re.sub(r"Literal\[([^\]]*)\]", r"one of \1", kind).replace("'", "").replace('"', "")
    sequence = r"(?:tuple|list|Sequence)\[(\w+)(?:, \.\.\.)?\]"
    kind = re.sub(sequence, lambda m: f"list of {PLAIN.get(m[1], m[1])}s", kind)
    return " or ".join(PLAIN.get(part, part) for part in kind.split(" | "))


def _yaml(value: Any) -> str:
    """A default as an assessment file has it.

    >>> _yaml("mean"), _yaml(None), _yaml(True), _yaml(["early", "late"]), _yaml([])
    ('mean', 'none', 'true', '[early, late]', '[]')
    """
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value) or "''"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _lines(components: list[dict[str, Any]], *, whole: bool) -> list[str]:
    """One line a component; its details under it, and what it reads above, if asked for all."""
    width = max((len(c["name"]) for c in components), default=0)
    groups: dict[str, list[dict[str, Any]]] = {}
    for c in components:
        reads = f"reads {' and '.join(c['reads'])}" if whole and c.get("reads") else ""
        groups.setdefault(reads, []).append(c)
    lines = [] if components else ["  none"]
    for reads, group in sorted(groups.items(), key=lambda g: (g[0] != "reads outputs", g[0])):
        lines += ["", f"  {reads}"] if reads else []
        for c in group:
            origin = "" if c["origin"] == "roadworthy" else f" (from {c['origin']})"
            lines.append(f"  {c['name']:<{width}}  {c['summary']}{origin}")
            lines += [f"  {'':<{width}}    {text}" for text in (_details(c) if whole else ())]
    return lines


def _details(component: dict[str, Any]) -> list[str]:
    lines = []
    if "fitted" in component:
        fitted = component["fitted"]
        lines.append("fitted on reference data" if fitted else "needs no reference data")
    for name, p in component["parameters"].items():
        default = "" if p["required"] else f" = {_yaml(p['default'])}"
        lines.append(f"{name}: {_short(p['type'])}{default}")
        lines += [f"  {name}.{field}: {what}" for field, what in p.get("fields", {}).items()]
    for trait, content in component["traits"].items():
        if trait == "tables":
            rows = [(t, i, row) for t, of in content.items() for i, row in enumerate(of, start=1)]
            lines += [f"level {i} of {table}: {_row(row)}" for table, i, row in rows]
        else:
            lines.append(_trait(trait, content))
    return lines


def _trait(name: str, content: Any) -> str:
    """A trait in words.

    >>> _trait("default", ["text"]), _trait("bounded", True)
    ('default for: text', 'between 0 and 1')
    """
    if name == "extra" and isinstance(content, list) and len(content) == 2:
        from roadworthy.registry import install

        return f"needs: {content[0]} ({install(content[1])})"
    if name == "bounded" and content is True:
        return "between 0 and 1"
    words = ", ".join(map(str, content)) if isinstance(content, list) else content
    return f"{TRAITS.get(name, name)}: {_row(content) if isinstance(content, dict) else words}"


def _row(row: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in row.items())
