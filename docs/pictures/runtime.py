"""Takes the picture of the monitor that the README shows, from `examples/live/demo.py`: ``python docs/pictures/runtime.py``."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "examples" / "live"))
WIDTH = 82


def main() -> None:
    """How both streams end, as one SVG file that loads nothing from elsewhere."""
    import demo

    console = Console(
        record=True, force_terminal=True, width=WIDTH, highlight=False, file=io.StringIO()
    )
    demo.main(demo.Stage(console, "still"))
    picture = console.export_svg(title="make demo")
    # The fonts that rich names lie on somebody's server; any monospaced one will do.
    picture = re.sub(r"\s*@font-face \{.*?\}\n", "\n", picture, flags=re.DOTALL)
    picture = re.sub(
        r"font-family: Fira Code, monospace",
        "font-family: ui-monospace, Menlo, Consolas, monospace",
        picture,
    )
    (HERE / "runtime.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
