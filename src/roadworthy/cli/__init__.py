"""The command line: `roadworthy COMMAND`. One file a command, in `commands`; `main` is what the script calls."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the arguments name, and end with its exit code."""
    from roadworthy.cli.app import run

    sys.exit(run(sys.argv[1:]))
