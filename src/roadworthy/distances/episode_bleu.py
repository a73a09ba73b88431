"""One minus BLEU between two episodes: over what happened in their turns, and what came of them.

An episode is read as a text: turn after turn, each name with its value, and then the outcome. A dialogue that takes another turn,
hears or says something else, or ends otherwise, is farther. The distance is that of `bleu`.

>>> booked = Episode(({"said": "where?"}, {"said": "booked"}), {"area": "north"})
>>> episode_bleu(booked, booked), 0 < episode_bleu(booked, Episode(({"said": "booked"},), {"area": "north"})) < 1
(0.0, True)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roadworthy.data.values import Episode
from roadworthy.distances.bleu import EXTRA, bleu
from roadworthy.distances.jaccard import facts
from roadworthy.registry import register


@register(
    "distances", "episode_bleu", of=("episode",), default=("episode",), bounded=True, extra=EXTRA
)
def episode_bleu(first: Episode | Mapping[str, Any], second: Episode | Mapping[str, Any]) -> float:
    """One minus BLEU over the turns and the outcome of two episodes."""
    return bleu(_told(first), _told(second))


def _told(episode: Episode | Mapping[str, Any]) -> str:
    """The episode as a text, a line a turn."""
    whole = (
        episode
        if isinstance(episode, Episode)
        else Episode(episode.get("turns", ()), episode.get("outcome", {}))
    )
    return "\n".join(
        " ".join(f"{n} {_said(v)}" for n, v in facts(part))
        for part in (*whole.turns, whole.outcome)
    )


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
