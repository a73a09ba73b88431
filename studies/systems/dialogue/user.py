"""A simulated user with a goal: says what real users said to mean the same (MultiWOZ turns that the
understanding was not trained on), answers what is asked, corrects what is wrong, and hangs up when
the goal is reached. It makes the case run and is not assessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from town import FIND, understood, world

TURNS: dict[str, list[str]] = world()["turns"]
"""What users said, by act; values stand as ``#area#``."""


def act_name(domain: str, act: str, slots: Sequence[str]) -> str:
    """How turns are filed: ``restaurant inform area+food``."""
    return f"{domain} {act} {'+'.join(sorted(slots))}".strip()


def speak(goal: Any, answer: Any, rng: Any, state: Any) -> tuple[dict[str, Any], Any]:
    """One turn: what the user says, and whether it is the last."""
    state = state or {"at": 0, "opened": False, "name": "", "tell": [], "booked": False}
    utterance = None if answer is None else _reply(goal, answer, rng, state)
    done = False
    if utterance is None:
        utterance, done = _go_on(goal, rng, state)
    return {"utterance": utterance, "done": int(done)}, state


def _reply(goal: Any, answer: str, rng: Any, state: dict[str, Any]) -> str | None:
    """What the system's words call for; None if the user goes on with the goal."""
    domain = list(goal)[state["at"]]
    wanted = goal[domain]
    action, heard = understood(answer)
    if action.startswith("ask "):
        slot = action.removeprefix("ask ")
        known = {**wanted["find"], **wanted.get("book", {})}
        # Asked for the stars of a restaurant, a user says again what it is about.
        return (
            _inform(domain, {slot: known[slot]}, rng)
            if slot in known
            else _open(domain, wanted, rng)
        )
    if action == "no offer":
        return _open(domain, wanted, rng)
    if action == "offer":
        if heard["domain"] != domain:
            return _open(domain, wanted, rng)
        if heard["name"] != state["name"]:
            state.update(name="", tell=[], booked=False)
        if wrong := _wrong(wanted["find"], heard["facts"]):
            return _inform(domain, wrong, rng)
        state["name"] = heard["name"]
    elif action == "tell" and heard["name"] == state["name"]:
        state["tell"] += list(heard["facts"])
    elif action == "book" and heard["name"] == state["name"] and "book" in wanted:
        if wrong := _wrong(wanted["book"], heard["facts"]):
            return _inform(domain, wrong, rng)
        state["booked"] = True
    return None


def _go_on(goal: Any, rng: Any, state: dict[str, Any]) -> tuple[str, bool]:
    domain = list(goal)[state["at"]]
    wanted = goal[domain]
    if not state["name"]:
        return _open(domain, wanted, rng), False
    if missing := [slot for slot in wanted["tell"] if slot not in state["tell"]]:
        return _drawn(act_name(domain, "request", missing), rng), False
    if "book" in wanted and not state["booked"]:
        return _inform(domain, wanted["book"], rng), False
    if state["at"] + 1 < len(goal):
        state.update(at=state["at"] + 1, name="", tell=[], booked=False)
        following = list(goal)[state["at"]]
        return _open(following, goal[following], rng), False
    return _drawn("bye", rng), True


def _wrong(wanted: Mapping[str, str], heard: Mapping[str, str]) -> dict[str, str]:
    """What is not as it was wanted; at most two at a time."""
    wrong = {slot: value for slot, value in wanted.items() if heard.get(slot) != value}
    return dict(list(wrong.items())[:2])


def _open(domain: str, wanted: Any, rng: Any) -> str:
    """One or two constraints, in words that say the domain too."""
    slots = list(FIND[domain])
    chosen = [slots[i] for i in rng.choice(len(slots), size=int(rng.integers(1, 3)), replace=False)]
    return _filled(_drawn(act_name(domain, "open", chosen), rng), wanted["find"])


def _inform(domain: str, values: Mapping[str, str], rng: Any) -> str:
    """The values, all in one turn if users have said so, else the first."""
    for slots in (list(values), list(values)[:1]):
        name = act_name(domain, "inform", slots)
        if name in TURNS:
            return _filled(_drawn(name, rng), values)
    raise KeyError(f"no turn informs of {', '.join(values)} for a {domain}; run make.py again")


def _drawn(name: str, rng: np.random.Generator) -> str:
    turns = TURNS[name]
    return turns[int(rng.integers(len(turns)))]


def _filled(turn: str, values: Mapping[str, str]) -> str:
    for slot, value in values.items():
        turn = turn.replace(f"#{slot}#", value)
    return turn
