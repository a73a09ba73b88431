"""How a supervisor is written in the assessment file: by its bare name, or as a name with its settings.

>>> supervisor_name({"knn": {"k": 5}}), supervisor_parameters({"knn": {"k": 5}})
('knn', {'k': 5})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def supervisor_name(entry: str | Mapping[str, Any]) -> str:
    """``knn`` for ``knn`` and for ``{knn: {k: 5}}``."""
    return entry if isinstance(entry, str) else next(iter(entry))


def supervisor_label(
    entry: str | Mapping[str, Any], entries: Sequence[str | Mapping[str, Any]]
) -> str:
    """The name by which tables and claims know a supervisor; with its settings where the same name is there twice.

    >>> supervisor_label({"knn": {"k": 5}}, ["knn", {"knn": {"k": 5}}])
    'knn(k=5)'
    """
    name, settings = supervisor_name(entry), supervisor_parameters(entry)
    if sum(supervisor_name(e) == name for e in entries) == 1 or not settings:
        return name
    return _whole(entry)


def claimed(name: str, entries: Sequence[str | Mapping[str, Any]]) -> str:
    """The label of the one that a claim names: by its label, or with all its settings, so that a second of its name may be added.

    >>> claimed("knn(k=5)", [{"knn": {"k": 5}}])
    'knn'
    >>> claimed("knn", [{"knn": {"k": 5}}, {"knn": {"k": 20}}])
    Traceback (most recent call last):
    ValueError: 'knn' is there more than once; name one of: knn(k=5), knn(k=20)
    """
    labels = {supervisor_label(e, entries): e for e in entries}
    if name in labels:
        return name
    named = [label for label, e in labels.items() if supervisor_name(e) == name]
    if len(named) > 1:
        raise ValueError(f"{name!r} is there more than once; name one of: {', '.join(named)}")
    alike = [
        label for label, e in labels.items() if _whole(e).replace(" ", "") == name.replace(" ", "")
    ]
    return alike[0] if alike else name


def _whole(entry: str | Mapping[str, Any]) -> str:
    settings = ", ".join(f"{k}={v}" for k, v in supervisor_parameters(entry).items())
    return f"{supervisor_name(entry)}({settings})" if settings else supervisor_name(entry)


def supervisor_parameters(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """``{k: 5}`` for ``{knn: {k: 5}}``."""
    return {} if isinstance(entry, str) else dict(next(iter(entry.values())) or {})
