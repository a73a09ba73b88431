"""Which events to label next, drawn from a monitor and written down in its file, so that every process knows the probabilities."""

from __future__ import annotations

from typing import NamedTuple

from roadworthy.monitor import Monitor, Question
from roadworthy.web.ledger import Ledger
from roadworthy.web.replaying import remember_questions


class Drawn(NamedTuple):
    """Events to label next, and the probabilities that have changed, or become known, by drawing them."""

    questions: list[Question]
    news: dict[str, float]


def draw(monitor: Monitor, ledger: Ledger, n: int, *, window: str | None = None) -> Drawn:
    """Draw the n events to label next, after all that were drawn before; every probability is written down."""
    asked = monitor.state.labels.asked
    learnt = remember_questions(monitor, ledger)
    before = dict(asked)
    questions = monitor.queue(n, window)
    known = monitor.state.recent.known
    drawn = {str(id): p for id, p in asked.items() if before.get(id) != p and id in known}
    ledger.ask(drawn.items())
    return Drawn(questions, {**learnt, **drawn})
