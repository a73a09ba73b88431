"""How a component gets a name.

A component is a function or a small class; its parameters are its keyword-only arguments, and the pair ``(name, parameters)``
stands in a run and re-creates it. Components are found in three ways: the decorator `register`, a scan of the room's own
package on first use, and the entry points ``roadworthy.<room>`` of other installed packages.

>>> @register("measures", "always_right", of=("class_scores", "label"))
... def always_right(outputs, targets, *, bonus: float = 0.0):
...     '''A measure that is easily pleased.'''
...     return 1.0 + bonus
>>> get("measures", "always_right").parameters
{'bonus': Parameter(annotation=<class 'float'>, default=0.0)}
>>> get("measures", "always_right").bind(bonus=0.5)(None, None)
1.5
>>> remove("measures", "always_right")
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOMS: dict[str, str] = {
    "loaders": "roadworthy.data.loaders",
    "distances": "roadworthy.distances",
    "set_distances": "roadworthy.distances.sets",
    "measures": "roadworthy.measures",
    "adapters": "roadworthy.subject.adapters",
    "transforms": "roadworthy.cases",
    "attacks": "roadworthy.cases.adversarial",
    "sources": "roadworthy.cases",
    "supervisors": "roadworthy.supervisors",
    "estimators": "roadworthy.analysis.risk.rates",
    "failure_estimators": "roadworthy.search",
    "executors": "roadworthy.execution",
    "reports": "roadworthy.report",
    "sections": "roadworthy.assessment.sections",
}
"""Room of components -> the package whose modules are scanned for them."""

_CHECKOUT = Path(__file__).parents[2]
"""The folder of the project, where the package is used from its sources."""
REQUIRED = inspect.Parameter.empty
_SENTENCE = re.compile(r"(?<=[a-z)\]]\.) (?=[A-Z])")


class RegistryError(LookupError):
    """A name that no component has, or two components of one name."""


class Parameter(NamedTuple):
    """One keyword-only argument of a component."""

    annotation: Any
    default: Any


@dataclass(frozen=True)
class Component:
    """A registered function or class, and what it declared about itself."""

    room: str
    name: str
    build: Callable[..., Any]
    traits: Mapping[str, Any] = field(default_factory=dict)
    origin: str = "roadworthy"

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The keyword-only arguments, with their resolved type hints and defaults."""
        target = self.build.__init__ if inspect.isclass(self.build) else self.build  # type: ignore[misc]
        try:
            hints = typing.get_type_hints(target)
        except (NameError, TypeError):
            hints = {}
        signature = inspect.signature(self.build)
        return {
            name: Parameter(hints.get(name, p.annotation), p.default)
            for name, p in signature.parameters.items()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        paragraph = (inspect.getdoc(self.build) or "").split("\n\n")[0].replace("\n", " ")
        return _SENTENCE.split(paragraph, maxsplit=1)[0]

    @functools.cached_property
    def model(self) -> Any:
        """The pydantic model of the parameters; unknown keys are refused."""
        from pydantic import ConfigDict, create_model

        fields: dict[str, Any] = {
            name: (
                Any if p.annotation is REQUIRED else p.annotation,
                ... if p.default is REQUIRED else p.default,
            )
            for name, p in self.parameters.items()
        }
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        return create_model(self.name, __config__=config, **fields)

    def check(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters, validated and with defaults filled in; refuses unknown names by a sentence."""
        for name in parameters:
            if name not in self.parameters:
                raise ValueError(
                    f"{self.name} takes no parameter {name!r}"
                    f"{did_you_mean(name, self.parameters)}; it takes: {', '.join(self.parameters) or 'none'}"
                )
        from pydantic import ValidationError

        try:
            model = self.model(**parameters)
        except ValidationError as error:
            raise ValueError(self._mistake(error.errors()[0])) from error
        return {name: getattr(model, name) for name in self.parameters}

    def _mistake(self, detail: Any) -> str:
        """What is wrong with the parameters, in words."""
        name, takes = detail["loc"][0], ", ".join(self.parameters)
        if detail["type"] == "missing":
            return f"{self.name} needs the parameter {name!r}; it takes: {takes}"
        expected = str(detail["msg"]).removeprefix("Value error, ")
        return f"{self.name}: {name} is {detail['input']!r}; {expected[0].lower()}{expected[1:]}"

    def bind(self, **parameters: Any) -> Any:
        """A class is instantiated; a function gets its keyword-only arguments filled in."""
        known = self.check(parameters)
        return (
            self.build(**known)
            if inspect.isclass(self.build)
            else functools.partial(self.build, **known)
        )


_components: dict[str, dict[str, Component]] = {room: {} for room in ROOMS}
_broken: dict[str, dict[str, str]] = {room: {} for room in ROOMS}
_scanned: set[str] = set()
_F = TypeVar("_F", bound=Callable[..., Any])


def register(room: str, name: str, **traits: Any) -> Callable[[_F], _F]:
    """Decorator that gives a function or class a name in a room; `traits` are what it declares about itself."""
    _check_type(room)

    def decorate(build: _F) -> _F:
        origin = (getattr(build, "__module__", "") or "").split(".")[0]
        add(Component(room, name, build, dict(traits), origin))
        return build

    return decorate


def add(component: Component) -> None:
    """Add a component; the same object under its own name again is no error, another one is."""
    known = _components[component.room].get(component.name)
    same = known is not None and _place(known.build) == _place(component.build)
    if known is not None and not same:
        raise RegistryError(
            f"two {component.room} are called {component.name!r}: {_place(known.build)} and "
            f"{_place(component.build)}; rename one"
        )
    _components[component.room][component.name] = component


def remove(room: str, name: str) -> None:
    """Forget a component (for tests and notebooks)."""
    _components[room].pop(name, None)


def get(room: str, name: str) -> Component:
    """The component of that name; a wrong name is answered with the nearest right ones."""
    known = components(room)
    if name in _broken[room]:
        raise RegistryError(_broken[room][name])
    if name not in known:
        raise RegistryError(
            f"no {room.rstrip('s')} is called {name!r}{did_you_mean(name, known)}; "
            f"`roadworthy list {room}` shows all {len(known)}"
        )
    return known[name]


def components(room: str) -> dict[str, Component]:
    """All components of a room, by name, in alphabetical order."""
    _check_type(room)
    if room not in _scanned:
        _scanned.add(room)
        _scan_package(ROOMS[room])
        _scan_entry_points(room)
    return dict(sorted(_components[room].items()))


def unloadable(room: str) -> dict[str, str]:
    """By name, what other packages offer that cannot be loaded, and why; it is refused where it is named."""
    components(room)
    return dict(_broken[room])


def _check_type(room: str) -> None:
    if room not in ROOMS:
        raise RegistryError(
            f"Unknown component type {room!r}{did_you_mean(room, ROOMS)}. Types: {', '.join(ROOMS)}"
        )


def did_you_mean(word: str, known: typing.Iterable[str]) -> str:
    """`` (did you mean 'x'?)``, or nothing when nothing is near.

    >>> did_you_mean("contrst", ["contrast", "snow"])
    " (did you mean 'contrast'?)"
    """
    near = difflib.get_close_matches(str(word), [str(k) for k in known], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def install(extra: str) -> str:
    """How to install one of the package's extras: from a checkout with its constraints, else by name.

    >>> install("audio")  # doctest: +ELLIPSIS
    'pip install ...[audio]"'
    """
    if (_CHECKOUT / "constraints.txt").is_file() and (_CHECKOUT / "pyproject.toml").is_file():
        return f'pip install -c constraints.txt -e ".[{extra}]"'
    return f'pip install "roadworthy[{extra}]"'


def not_installed(needs: str, extra: str) -> str:
    """The sentence on something that is not installed: what needs what, and how to install it.

    >>> not_installed("the distance edits needs rapidfuzz", "audio").partition(": ")[0]
    'the distance edits needs rapidfuzz, which is not installed'
    """
    return f"{needs}, which is not installed: {install(extra)}"


def missing(component: Component) -> str:
    """What to install before a component can work, else empty.

    A component declares it as (module, name of the extra), by its trait `extra` or by an attribute of that name.
    """
    declared: Any = component.traits.get("extra") or getattr(component.build, "extra", ("", ""))
    module, extra = declared
    if not module or importlib.util.find_spec(module) is not None:
        return ""
    return not_installed(f"{component.name} needs {module}", extra)


def _place(build: Callable[..., Any]) -> str:
    return f"{getattr(build, '__module__', '?')}.{getattr(build, '__qualname__', '?')}"


def _scan_package(package: str) -> None:
    module = importlib.import_module(package)
    for info in pkgutil.walk_packages(module.__path__, prefix=f"{package}."):
        importlib.import_module(info.name)


def _scan_entry_points(room: str) -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=f"roadworthy.{room}"):
        try:
            loaded = point.load()
        except Exception as error:
            _broken[room][point.name] = (
                f"the package {point.dist.name if point.dist else '?'} offers {point.value!r} for "
                f"{room}, which cannot be loaded: {error}"
            )
            continue
        known = _components[room].get(point.name)
        if known is None and callable(loaded):
            add(Component(room, point.name, loaded, {}, point.dist.name if point.dist else "?"))
        elif known is not None and point.dist is not None:
            _components[room][point.name] = Component(
                room, known.name, known.build, known.traits, point.dist.name
            )
