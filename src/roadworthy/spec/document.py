"""The assessment file as a document: values, and the line each of them stands on, so that an error can name it.

>>> doc = Document.parse("name: demo\\nclaims:\\n  - {id: A}\\n", "assessment.yaml")
>>> doc.line_of(("claims", 0, "id"))
3
>>> str(doc.error(("claims", 0, "id"), "must be unique"))
'assessment.yaml:3: claims[0].id: must be unique'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roadworthy.registry import RegistryError

Place = tuple[str | int, ...]
WITHOUT_FILE = "<in memory>"
"""The name of a file that is none: its content was handed over as a mapping."""
WORKBOOK = ".xlsx"
"""The ending of an assessment file that is a workbook."""
_PASSWORD = re.compile(r"(://[^\s:/@]*:)[^\s/]+@")


def without_passwords(text: str) -> str:
    """A text whose addresses say *** instead of a password, for what others read.

    >>> without_passwords("index: postgresql://team:secret@host/runs")
    'index: postgresql://team:***@host/runs'
    """
    return _PASSWORD.sub(r"\1***@", text)


class SpecError(ValueError):
    """An assessment file that cannot be run as it stands; says file, line, field and what would be right."""


@dataclass(frozen=True)
class Document:
    """A parsed YAML file, or a workbook as the YAML text that says the same."""

    text: str
    path: Path
    content: Any
    lines: dict[Place, int] = field(default_factory=dict)
    cells: dict[Place, str] = field(default_factory=dict)
    """In a workbook, the cell of each field: ``Specification!D7``."""
    notes: tuple[str, ...] = ()
    workbook: bytes = field(default=b"", repr=False)
    """The workbook as it was read."""

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file; a missing one is answered with what to do."""
        if path.suffix.lower() == WORKBOOK and path.is_file():
            from roadworthy.spec.workbook import read_workbook

            return read_workbook(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise SpecError(
                f"{path}: there is no such file; `roadworthy init` writes one"
            ) from None
        except IsADirectoryError:
            raise SpecError(f"{path}: is a folder; name the assessment file in it") from None
        except UnicodeDecodeError as error:
            raise SpecError(
                f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})"
            ) from error
        return cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: str | Path) -> Document:
        """Parse YAML; a syntax error, or a key given twice, names its line."""
        import yaml

        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            content = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            line = mark.line + 1 if mark else 1
            raise SpecError(
                f"{path}:{line}: this is not valid YAML: {error.problem or error.context}"
            ) from error
        lines: dict[Place, int] = {}
        if node is not None:
            _collect(node, (), lines, str(path))
        return cls(text, Path(path), content, lines)

    def line_of(self, place: Sequence[str | int]) -> int:
        """The line of a field, or of the nearest field around it."""
        return self.lines.get(_nearest(place, self.lines), 1)

    @contextmanager
    def located(self, place: Sequence[str | int]) -> Iterator[None]:
        """Turn what goes wrong within into an error that names file, line and field."""
        try:
            yield
        except SpecError:
            raise
        except (RegistryError, OSError, RuntimeError, ValueError) as error:
            raise self.error(place, str(error)) from error

    def error(self, place: Sequence[str | int], message: str) -> SpecError:
        """An error that names file, line (or cell) and field."""
        known = self.path.name != WITHOUT_FILE
        where = [f"{self.path}:{self.line_of(place)}"] if known else []
        if self.cells:
            where = [f"{self.path}, {self.cells[_nearest(place, self.cells)]}"]
        return SpecError(": ".join([*where, *filter(None, [field_name(place)]), message]))


def _nearest(place: Sequence[str | int], known: Mapping[Place, Any]) -> Place:
    """The place itself, or the nearest one around it that is known."""
    place = tuple(place)
    while place and place not in known:
        place = place[:-1]
    return place


def field_name(place: Sequence[str | int]) -> str:
    """``claims[0].id`` for ("claims", 0, "id")."""
    name = ""
    for part in place:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return name


def _collect(node: Any, place: Place, lines: dict[Place, int], path: str) -> None:
    import yaml

    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise SpecError(
                    f"{path}:{key.start_mark.line + 1}: {field_name((*place, name))}: is given twice"
                )
            seen.add(name)
            lines[(*place, name)] = key.start_mark.line + 1
            _collect(value, (*place, name), lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _collect(value, (*place, i), lines, path)
