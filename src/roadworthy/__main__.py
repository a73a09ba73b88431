"""`python -m roadworthy` is the command `roadworthy`."""

from __future__ import annotations

from roadworthy.cli import main

if __name__ == "__main__":
    main()
