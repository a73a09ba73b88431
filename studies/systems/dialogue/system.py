"""A dialogue system for places in Cambridge, in four configurations: two understandings (a bag of
words and pairs; a convolution over character trigrams) x two policies (rule; learned from it).

user (simulated, not assessed) -> nlu -> tracker -> policy -> nlg -> user. The tracker's state is
the belief; it hears of the system's last action by a wire from the policy's previous step.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
from networks import (
    NetworkModule,
    as_bag,
    as_trigrams,
    bag_net,
    heard,
    label_names,
    loaded,
    policy_net,
    policy_row,
    softmax,
    trigram_net,
)
from town import ACTIONS, HERE, after_action, after_turn, outcome, rule, said, world
from user import speak

from roadworthy import EPISODE, GOAL, LABEL, TEXT, System, function_module
from roadworthy.data.values import CLASS_SCORES
from roadworthy.subject.module import Module

MAX_STEPS = 20
"""The user gives up after so many turns."""
CODE = tuple(HERE / name for name in ("networks.py", "town.py"))


def track(acts: Any, action: Any, state: Any) -> tuple[Any, Any]:
    """The belief after the system's last action and the user's turn."""
    belief = copy.deepcopy(state) or {"domain": ""}
    if action is not None:
        after_action(belief, ACTIONS[int(np.argmax(action))])
    after_turn(belief, acts)
    return belief, belief


def decide(belief: Any) -> np.ndarray:
    """The rule's action, as scores of all."""
    return np.array([float(action == rule(belief)) for action in ACTIONS], dtype=np.float32)


def answer(belief: Any, action: Any, ended: Any) -> dict[str, Any]:
    """What the system says. There is an outcome once the user has hung up: a dialogue that goes on
    until it is cut off has reached nothing."""
    chosen = ACTIONS[int(np.argmax(action))]
    text = said(belief, chosen)
    turn = {"action": chosen, "said": text, "outcome": outcome(belief) if ended else {}}
    return {"turn": turn, "text": text}


def understanding(name: str) -> Module:
    """The module that reads the user's words: `bag` or `trigrams`."""
    known = world()
    labels = label_names(known["values"])
    file = HERE / "weights" / f"{name}.safetensors"
    places = {gram: i for i, gram in enumerate(known["ngrams"])}
    net = bag_net(len(places), len(labels)) if name == "bag" else trigram_net(len(labels))
    read: Any = partial(as_bag, places=places) if name == "bag" else as_trigrams
    files = (*CODE, HERE / "world.json", file)
    hear = partial(heard, labels=labels)
    return NetworkModule("utterance", "acts", GOAL, loaded(net, file), read, hear, files)


def learned_policy() -> Module:
    """The policy that imitates the rule."""
    file = HERE / "weights" / "policy.safetensors"
    files = (*CODE, HERE / "world.json", file)
    net = loaded(policy_net(), file)
    return NetworkModule("belief", "action", CLASS_SCORES, net, policy_row, softmax, files)


def assembled(nlu: Module, policy: Module) -> System:
    """The system with these two modules."""
    return System(
        modules={
            "user": function_module(speak, outputs={"utterance": TEXT, "done": LABEL}),
            "nlu": nlu,
            "tracker": function_module(track, outputs={"belief": GOAL}),
            "policy": policy,
            "nlg": function_module(answer, outputs={"turn": EPISODE, "text": TEXT}),
        },
        wires={
            "user.goal": "input",
            "user.answer": "nlg.text",
            "nlu.utterance": "user.utterance",
            "tracker.acts": "nlu.acts",
            "tracker.action": "policy.action",
            "policy.belief": "tracker.belief",
            "nlg.belief": "tracker.belief",
            "nlg.action": "policy.action",
            "nlg.ended": "user.done",
        },
        output="nlg.turn",
        input_kind=GOAL,
        done="user.done",
        max_steps=MAX_STEPS,
        unassessed=frozenset({"user"}),
    )


def rule_policy() -> Module:
    return function_module(decide, outputs={"action": CLASS_SCORES})


def bag_rule() -> System:
    return assembled(understanding("bag"), rule_policy())


def bag_learned() -> System:
    return assembled(understanding("bag"), learned_policy())


def trigrams_rule() -> System:
    return assembled(understanding("trigrams"), rule_policy())


def trigrams_learned() -> System:
    return assembled(understanding("trigrams"), learned_policy())


build = bag_learned
