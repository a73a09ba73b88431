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


def supervisor_label(entry: str | Mapping[str, Any], entries: Sequence[str | Mapping[str, Any]]) -> str:
    """The name by which tables and claims know a supervisor; with its settings where the same name is there twice.

    >>> supervisor_label({"knn": {"k": 5}}, ["knn", {"knn": {"k": 5}}])
    'knn(k=5)'
    """
    name, settings = supervisor_name(entry), supervisor_parameters(entry)
    if sum(supervisor_name(e) == name for e in entries) == 1 or not settings:
        return name
    return f"{name}({', '.join(f'{k}={v}' for k, v in settings.items())})"


def supervisor_parameters(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """``{k: 5}`` for ``{knn: {k: 5}}``."""
    return {} if isinstance(entry, str) else dict(next(iter(entry.values())) or {})
