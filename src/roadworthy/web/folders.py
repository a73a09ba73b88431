"""Folders of files that the service writes."""

from __future__ import annotations

from pathlib import Path

from roadworthy.web import ServiceError


def make_folder(path: Path, *, called: str) -> None:
    """Make the folder of a file where it alone is missing: more than one that is not there is rather a slip of the pen.

    >>> make_folder(Path("no/such/s.sqlite"), called="--state no/such/s.sqlite")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    roadworthy.web.ServiceError: --state no/such/s.sqlite: there is no folder no; make no/such first, or name a file in ...
    """
    folder = path.parent
    if folder.exists():
        return
    if not folder.parent.is_dir():
        raise ServiceError(
            f"{called}: there is no folder {folder.parent}; make {folder} first, or name a file in a folder that is there"
        )
    folder.mkdir(exist_ok=True)
