"""Text, JSON and JSON Lines files, with errors that name the place.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "goals.jsonl"
>>> _ = file.write_text('{"id": 1}\\n{"id": \\n')
>>> read_json(file)  # doctest: +ELLIPSIS
Traceback (most recent call last):
roadworthy.data.samples.DataError: ...goals.jsonl, line 2: is not JSON (Expecting value at column 8); correct it there
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roadworthy.data.samples import DataError


def read_text(file: Path) -> str:
    """The text of a file in UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error


def read_json(file: Path) -> Any:
    """The document of a .json file, or the list of the lines' documents of a .jsonl file."""
    text = read_text(file)
    if file.suffix != ".jsonl":
        return _parsed(text, file)
    lines = enumerate(text.split("\n"), start=1)
    return [_parsed(line, file, at) for at, line in lines if line.strip()]


def _parsed(text: str, file: Path, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file}, line {error.lineno + line - 1}: is not JSON ({error.msg} at column {error.colno}); correct it there"
        ) from error
    except RecursionError as error:
        raise DataError(
            f"{file}, line {line}: is nested too deeply to be read; save it flat"
        ) from error
