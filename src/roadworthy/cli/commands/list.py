"""``roadworthy list``: the components that an assessment file may name."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from roadworthy.cli import output
from roadworthy.cli.options import Json

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


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("list")(list_components)


def list_components(
    room: Annotated[
        str | None,
        Argument(
            metavar="[TYPE]",
            help="loaders, measures, transforms, supervisors, …; or hazards, a checklist.",
        ),
    ] = None,
    check: Annotated[
        str | None,
        Option(
            help="Check one of them, or one of your own: roadworthy list transforms --check mine.py:darken"
        ),
    ] = None,
    json: Json = False,
) -> int:
    """List the components by type; with a TYPE, their parameters and levels too."""
    from roadworthy import registry

    if check is not None:
        return _check(room, check)
    if room == "hazards":  # no components: what may happen in use, to start from
        from roadworthy.analysis.robustness.circumstances import CHECKLIST

        hazards = [hazard._asdict() for hazard in CHECKLIST]
        output.print_json({room: hazards}) if json else output.print_records(hazards)
        return 0
    rooms = [room] if room else list(registry.ROOMS)
    found = {name: [_described(c) for c in registry.components(name).values()] for name in rooms}
    if json:
        output.print_json(found)
        return 0
    for name, components in found.items():
        output.print_lines([name, *_lines(components, whole=room is not None)])
        output.print_lines(f"  {one}: {why}" for one, why in registry.unloadable(name).items())
        if name == "estimators":
            from roadworthy.analysis.simulation.estimators import OF_ANOTHER_KIND

            others = [f"  {other}  {summary}" for other, summary in OF_ANOTHER_KIND.items()]
            output.print_lines(["", "  only in `roadworthy simulate`", *others])
        output.print_lines([""])
    return 0


def _check(room: str | None, name: str) -> int:
    """Try a component against the rules of its type; 1 if it breaks one."""
    from roadworthy import conformance, registry
    from roadworthy.spec import SpecError
    from roadworthy.spec.own import PLAIN, is_own, own_component

    if room not in PLAIN and (room is None or is_own(name)):
        raise SpecError(f"name the type before --check: {', '.join(PLAIN)}")
    if is_own(name):
        own = own_component(room, name, Path.cwd())
        if room == "measures":  # a plain function does not say of what it is: of classes
            registry.remove(room, name)
            registry.add(
                dataclasses.replace(own, traits={"of": ("class_scores", "label"), **own.traits})
            )
    broken = conformance.check(room, name)
    output.print_lines([f"  {v.rule}: {v.found}" for v in broken] or [f"{name} keeps every rule."])
    return 1 if broken else 0


def _described(component: Component) -> dict[str, Any]:
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


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _lines(components: list[dict[str, Any]], *, whole: bool) -> list[str]:
    """One line a component, and its details under it if asked for all."""
    width = max((len(c["name"]) for c in components), default=0)
    lines = [] if components else ["  none"]
    for c in components:
        origin = "" if c["origin"] == "roadworthy" else f" (from {c['origin']})"
        lines.append(f"  {c['name']:<{width}}  {c['summary']}{origin}")
        lines += [f"  {'':<{width}}    {text}" for text in (_details(c) if whole else ())]
    return lines


def _details(component: dict[str, Any]) -> list[str]:
    lines = []
    if component.get("reads"):
        fitted = "fitted on reference data" if component["fitted"] else "needs no reference data"
        lines.append(f"reads {' and '.join(component['reads'])}; {fitted}")
    for name, p in component["parameters"].items():
        kind = re.sub(r"\b(roadworthy(\.\w+)*|collections\.abc|typing)\.", "", p["type"])
        lines.append(f"{name}: {kind}" + ("" if p["required"] else f" = {p['default']!r}"))
        lines += [f"  {name}.{field}: {what}" for field, what in p.get("fields", {}).items()]
    for trait, content in component["traits"].items():
        if trait == "tables":
            rows = [(t, i, row) for t, of in content.items() for i, row in enumerate(of, start=1)]
            lines += [f"level {i} of {table}: {_words(row)}" for table, i, row in rows]
        elif trait == "extra":
            from roadworthy.registry import install

            lines.append(f"needs {content[0]} ({install(content[1])})")
        else:
            lines.append(f"{'for' if trait == 'of' else trait}: {_words(content)}")
    return lines


def _words(content: Any) -> str:
    """
    >>> _words(["image", "label"]), _words({"scale": 0.1}), _words(True)
    ('image, label', 'scale 0.1', 'True')
    """
    if isinstance(content, dict):
        return ", ".join(f"{k} {v}" for k, v in content.items())
    return ", ".join(map(str, content)) if isinstance(content, list) else str(content)
