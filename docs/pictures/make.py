"""Takes the picture of a report that the README shows: ``python docs/pictures/make.py RUN/report.html``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def main(report: Path) -> None:
    """The first screen, at the size of a laptop."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_context(
            viewport={"width": 1280, "height": 1000}, offline=True
        ).new_page()
        page.goto(report.resolve().as_uri())
        page.screenshot(path=Path(__file__).parent / "report.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
