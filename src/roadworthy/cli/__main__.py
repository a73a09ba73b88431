"""``python -m roadworthy.cli``: the same as the script ``roadworthy``."""

from __future__ import annotations

from roadworthy.cli import main

if __name__ == "__main__":
    main()
