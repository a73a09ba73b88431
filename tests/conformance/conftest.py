"""A component that is registered for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roadworthy import conformance, registry


@pytest.fixture
def broken() -> Iterator[Callable[..., set[str]]]:
    """Register a component, check it, and name the rules it breaks; it is forgotten afterwards."""
    known: list[tuple[str, str]] = []

    def try_it(room: str, build: Any, name: str = "broken_one", **traits: Any) -> set[str]:
        registry.register(room, name, **traits)(build)
        known.append((room, name))
        return {violation.rule for violation in conformance.check(room, name)}

    yield try_it
    for room, name in known:
        registry.remove(room, name)


@pytest.fixture(autouse=True, scope="module")
def learned_in_few_epochs() -> Iterator[None]:
    """Generative models keep every rule after a fifth of the epochs that make them good."""
    from roadworthy.generative import training

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "LONGEST", training.LONGEST // 5)
        yield
