"""What is wrong with the content of a file, in words: the mistake that matters most, where it stands, and what was meant.

>>> from roadworthy.spec.assessment import Assessment
>>> Assessment.parse("subject: {task: regression, python: a.py:f}\\ndata: {test: {npz: a.npz}}\\nmedia: nome", "a.yaml")
Traceback (most recent call last):
roadworthy.spec.document.SpecError: a.yaml:3: media: input should be 'gallery' or 'none' (did you mean 'none'?); it is 'nome'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from roadworthy.registry import did_you_mean
from roadworthy.spec.document import Document, SpecError

Siblings = Callable[[tuple[str | int, ...]], Sequence[str]]
"""The keys that would be right where an unknown one stands."""


Meaning = Callable[[tuple[str | int, ...]], str]
"""What belongs at a place; nothing where nobody has said it."""


def first_error(
    document: Document,
    error: ValidationError,
    siblings: Siblings,
    meaning: Meaning = lambda place: "",
) -> SpecError:
    """One error, in words; how many more there are is said."""
    details = error.errors()
    missing = [_place(d["loc"]) for d in details if d["type"] == "missing"]

    def rank(detail: Any) -> tuple[bool, int]:
        """A required key that was misspelt comes first: what else is wrong may follow from it."""
        place = _place(detail["loc"])
        sought = [str(m[-1]) for m in missing if m[:-1] == place[:-1]]
        misspelt = detail["type"] == "extra_forbidden" and bool(
            did_you_mean(str(place[-1]), sought)
        )
        return not misspelt, document.line_of(place)

    first = min(details, key=rank)
    place = _place(first["loc"])
    message = _in_words(first, place, siblings, meaning)
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    return document.error(place, message + more)


def _place(loc: tuple[Any, ...]) -> tuple[str | int, ...]:
    return tuple(p for p in loc if isinstance(p, str | int))


def _in_words(
    detail: Any, place: tuple[str | int, ...], siblings: Siblings, meaning: Meaning
) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        known, key = siblings(place), str(place[-1])
        return f"this key is not known{did_you_mean(key, known)}"
    if kind == "missing":
        return f"is missing{_explained(meaning(place))}"
    if kind == "list_type" and place == ("supervisors",):
        return f"write a list, such as supervisors: [max_softmax], or supervisors: all; it is {detail.get('input')!r}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if kind == "literal_error":
        message += did_you_mean(
            str(detail.get("input")), re.findall(r"'([^']*)'", str(detail["ctx"]["expected"]))
        )
    given = detail.get("input")
    if isinstance(given, str | int | float | bool) or given is None:
        told = _explained(meaning(place)) if kind.endswith("_type") else ""
        return f"{message[0].lower()}{message[1:]}{told}; it is {given!r}"
    return message


def _explained(meaning: str) -> str:
    return f" ({meaning[0].lower()}{meaning[1:]})" if meaning else ""
