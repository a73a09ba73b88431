"""A dialogue: a simulated user who wants a place, an understander of keywords, a policy that asks until it knows enough."""

from __future__ import annotations

from roadworthy.data.values import EPISODE, GOAL, LABEL, TEXT
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System

MEANING = {
    "north": "area",
    "south": "area",
    "centre": "area",
    "cheap": "price",
    "moderate": "price",
    "expensive": "price",
}
OPENINGS = ("something {price} in the {area}", "the {area} and {price} please")


def user(goal, answer, rng) -> str:
    """Not assessed. Opens with the whole goal, then answers what is asked."""
    if answer is None:
        return OPENINGS[int(rng.integers(len(OPENINGS)))].format(**goal)
    return goal[answer.removesuffix("?")]


def understand(utterance: str) -> dict[str, str]:
    """Slots by keyword."""
    return {MEANING[word]: word for word in utterance.split() if word in MEANING}


def understand_wavering(utterance: str, rng) -> dict[str, str]:
    """Slots by keywords that are spelled as they should be, at three of four letters that dropout leaves to look at."""
    slots = {}
    for word, slot in MEANING.items():
        looked_at = [i for i in range(len(word)) if rng.random() < 0.7]
        for heard in utterance.split():
            right = [heard[i : i + 1] == word[i] for i in looked_at]
            if len(heard) == len(word) and right and sum(right) >= 0.75 * len(right):
                slots[slot] = word
    return slots


def decide(slots, state):
    """Ask for the first slot that is missing; done when none is."""
    known = {**(state or {}), **slots}
    missing = [slot for slot in ("area", "price") if slot not in known]
    answer = f"{missing[0]}?" if missing else "booked"
    turn = {"heard": slots, "said": answer, "outcome": known}
    return {"turn": turn, "answer": answer, "done": int(not missing)}, known


def build() -> System:
    """user -> nlu -> policy, and the policy's answer back to the user a step later."""
    return _joined(understand)


def build_wavering() -> System:
    """The same with dropout of letters in the understander."""
    return _joined(understand_wavering)


def _joined(nlu) -> System:
    return System(
        {
            "user": function_module(user, outputs={"utterance": TEXT}),
            "nlu": function_module(nlu, outputs={"slots": GOAL}),
            "policy": function_module(
                decide, outputs={"turn": EPISODE, "answer": TEXT, "done": LABEL}
            ),
        },
        {
            "user.goal": "input",
            "user.answer": "policy.answer",
            "nlu.utterance": "user.utterance",
            "policy.slots": "nlu.slots",
        },
        "policy.turn",
        GOAL,
        done="policy.done",
        max_steps=3,
        unassessed=frozenset({"user"}),
    )
