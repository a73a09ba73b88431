"""Which estimators a simulation file may name: those of the room `estimators`, and the two that are more than a rate, or none.

>>> wrong_names(["event_tree", "rogan_glad"], None, 100)
(('estimators', 1), "no estimator is called 'rogan_glad' (did you mean 'rogan_gladen'?); `roadworthy list estimators` shows all")
>>> wrong_names(["batches"], 32, 100)
(('batch',), 'a window of 100 does not hold whole batches of 32; take window: 128')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from roadworthy import registry
from roadworthy.analysis.simulation.estimators import OF_ANOTHER_KIND

Place = tuple[str | int, ...]


def _with_names(schema: dict[str, Any]) -> None:
    schema["enum"] = known()


EstimatorName = Annotated[str, Field(json_schema_extra=_with_names)]


def known() -> list[str]:
    """All of them, whoever made them."""
    return [*OF_ANOTHER_KIND, *registry.components("estimators")]


def of_batches() -> list[str]:
    """Those that judge whole batches."""
    return [
        n
        for n, c in registry.components("estimators").items()
        if c.traits.get("reads") == "batches"
    ]


def wrong_names(names: Sequence[str], batch: int | None, window: int) -> tuple[Place, str] | None:
    """What is wrong with the estimators of a file, and where: one is unknown, named twice, or lacks the batches that it judges."""
    for number, name in enumerate(names):
        if name not in known():
            near = registry.did_you_mean(name, known())
            there = f"no estimator is called {name!r}{near}; `roadworthy list estimators` shows all"
            return ("estimators", number), there
    if len(set(names)) < len(names):
        return ("estimators",), "an estimator is named twice"
    judges = [name for name in names if name in of_batches()]
    if judges and batch is None:
        return (
            "estimators",
            names.index(judges[0]),
        ), f"{judges[0]} judges events together; say how many, as in batch: 32"
    if batch is not None and not judges:
        return (
            "batch",
        ), f"no estimator of this file judges batches; name {' or '.join(of_batches())}"
    if batch is not None and window % batch:
        whole = -(-window // batch) * batch
        return (
            "batch",
        ), f"a window of {window} does not hold whole batches of {batch}; take window: {whole}"
    return None
