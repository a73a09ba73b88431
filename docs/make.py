"""Writes the pages that are made from the code: components.md and the schema of the assessment file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from roadworthy import registry
from roadworthy.spec import assessment_schema

HERE = Path(__file__).parent
GIVEN = ("base", "task")
"""Parameters that the program fills in, not the file."""


def components() -> str:
    """Every registered component, by room."""
    lines = [
        "# Components",
        "",
        "Made from the code by `make docs`; `roadworthy list` shows the same.",
        "",
    ]
    for room in registry.ROOMS:
        given = {
            name: [
                _parameter(n, p.default) for n, p in component.parameters.items() if n not in GIVEN
            ]
            for name, component in registry.components(room).items()
        }
        shared = [
            p for p in next(iter(given.values()), []) if all(p in own for own in given.values())
        ]
        lines += [f"## {room}", ""]
        lines += [f"All take {', '.join(shared)}.", ""] if shared and len(given) > 1 else []
        lines += ["| name | what it does | parameters |", "| --- | --- | --- |"]
        for name, component in registry.components(room).items():
            own = ", ".join(p for p in given[name] if len(given) == 1 or p not in shared)
            lines.append(f"| `{name}` | {_cell(component.summary)} | {_cell(own or 'none')} |")
        lines.append("")
    return "\n".join(lines)


def _parameter(name: str, default: object) -> str:
    return f"`{name}`" if default is registry.REQUIRED else f"`{name}={default!r}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages() -> dict[Path, str]:
    """The pages, by path."""
    return {
        HERE / "components.md": components(),
        HERE / "assessment.schema.json": json.dumps(assessment_schema(), indent=1) + "\n",
    }


def main() -> int:
    """Write the pages; with --check, only say whether they are up to date."""
    stale = [
        path for path, text in pages().items() if not path.is_file() or path.read_text() != text
    ]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.name} is not up to date; run `make docs`")
        return 1 if stale else 0
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
