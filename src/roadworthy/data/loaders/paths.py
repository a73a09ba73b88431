"""Finding what an assessment file names: paths are relative to the folder of that file.

>>> located("no-such-file.gz", base=Path("here"), what="the images")
Traceback (most recent call last):
roadworthy.data.samples.DataError: the images: here/no-such-file.gz does not exist; paths are relative to the folder of
the assessment file (here): correct the path, or put the file there
"""

from __future__ import annotations

from pathlib import Path

from roadworthy.data.samples import DataError


def located(path: str | Path, *, base: Path, what: str, folder: bool = False) -> Path:
    """The file (or folder) of that name; one that is not there is refused."""
    found = base / path
    if not found.exists():
        raise DataError(
            f"{what}: {found} does not exist; paths are relative to the folder of the assessment file ({base}): "
            f"correct the path, or put the {'folder' if folder else 'file'} there"
        )
    if folder and not found.is_dir():
        raise DataError(
            f"{what}: {found} is a file, a folder was expected; name the folder that holds the files"
        )
    if not folder and found.is_dir():
        raise DataError(f"{what}: {found} is a folder, a file was expected; name the file in it")
    return found
