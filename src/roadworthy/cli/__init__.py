"""The command line: `roadworthy COMMAND`, one file a command in `commands`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command that the arguments name, and end with its exit code."""
    # numpy and scipy each bring threads that stay awake for 2**26 cycles after a product and keep
    # the cores from each other: many small products then take twenty times as long. 2**16 is enough.
    # The variable is read when the libraries are loaded, and changes no number.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
    from roadworthy.cli.app import run

    sys.exit(run(sys.argv[1:]))
