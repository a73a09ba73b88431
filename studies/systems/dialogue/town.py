"""What the talk is about: places in Cambridge with their slots, what the system may do, and how it
says it.

The places and values are MultiWOZ's (ConvLab 3, Apache-2.0); `make.py` writes them to world.json.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIND = {
    "restaurant": ("food", "area", "price"),
    "hotel": ("area", "price", "stars"),
    "attraction": ("type", "area"),
}
"""By domain, what a place is searched by; every goal has a value for each."""
BOOK = {"restaurant": ("people", "day", "time"), "hotel": ("people", "day", "stay")}
TELL = ("phone", "postcode", "address")
"""What can be asked of a place."""
SLOTS = ("food", "area", "price", "stars", "type", "people", "day", "time", "stay")
ACTIONS = (*(f"ask {slot}" for slot in SLOTS), "offer", "no offer", "tell", "book", "more")

WORDING = {
    "offer": "How about {name}? This {domain} has {facts}.",
    "no offer": "Sorry, there is no such {domain}. Could you change something?",
    "tell": "Here you are, for {name}: {facts}.",
    "book": "I have booked {name} with {facts}.",
    "more": "Can I help you with anything else?",
    **{f"ask {slot}": f"Which {slot} would you like?" for slot in SLOTS},
}
"""How each action is said; `facts` are names with their values."""
_HEARD = {
    action: re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(text)))
    for action, text in WORDING.items()
}


@functools.cache
def world() -> dict[str, Any]:
    """Values by slot, places by domain, and what users said, by act."""
    found: dict[str, Any] = json.loads((HERE / "world.json").read_text(encoding="utf-8"))
    return found


def matches(domain: str, find: Mapping[str, str]) -> list[dict[str, str]]:
    """The places of a domain that have all these values."""
    return [
        p
        for p in world()["places"][domain]
        if all(p[slot] == value for slot, value in find.items())
    ]


def facts_text(facts: Mapping[str, str]) -> str:
    """Names and values as a text that can be read back."""
    return " and ".join(f"{name} {value}" for name, value in facts.items())


def said(belief: Mapping[str, Any], action: str) -> str:
    """The action as the system says it: what it speaks of comes from the belief and the places."""
    domain = belief["domain"]
    if not domain:
        return WORDING[action if action.startswith("ask") else "more"]
    known = belief[domain]
    found = matches(domain, known["find"])
    if action in ("offer", "tell", "book") and not found:
        action = "no offer"
    place = next((p for p in found if p["name"] == known["offered"]), found[0] if found else {})
    facts = {
        "offer": {slot: place.get(slot, "") for slot in FIND[domain]},
        "tell": {slot: place.get(slot, "") for slot in known["asked"]},
        "book": known["book"],
    }.get(action, {})
    wording = WORDING[action]
    return wording.format(domain=domain, name=place.get("name"), facts=facts_text(facts))


def understood(text: str) -> tuple[str, dict[str, Any]]:
    """The action in what the system said, and its facts: a user reads the wording without error.

    >>> understood("Which food would you like?")
    ('ask food', {})
    >>> understood("I have booked Loch Fyne with people 3 and day monday.")[1]["facts"]
    {'people': '3', 'day': 'monday'}
    """
    for action, wording in _HEARD.items():
        if found := wording.fullmatch(text):
            heard: dict[str, Any] = found.groupdict()
            if "facts" in heard:
                parts = [fact.split(" ", 1) for fact in heard["facts"].split(" and ") if fact]
                heard["facts"] = {
                    name: value for name, value, *_ in (p for p in parts if len(p) == 2)
                }
            return action, heard
    raise ValueError(f"the system said {text!r}, which is none of its wordings")


def nothing_known() -> dict[str, Any]:
    """What is known of a domain before it was spoken of."""
    return {"find": {}, "book": {}, "asked": [], "offered": "", "booked": {}, "told": []}


def after_action(belief: dict[str, Any], action: str) -> None:
    """What an action of the system changes in the belief, in place."""
    known = belief.get(belief["domain"])
    found = matches(belief["domain"], known["find"]) if known else []
    if not found:
        return
    if action == "offer":
        known["offered"] = found[0]["name"]
    elif action == "tell":
        known["told"], known["asked"] = sorted({*known["told"], *known["asked"]}), []
    elif action == "book":
        known["booked"] = dict(known["book"])


def after_turn(belief: dict[str, Any], acts: Mapping[str, Any]) -> None:
    """What the user's acts change in the belief, in place. Another place is to be found: what was
    said of the last one no longer counts."""
    belief["domain"] = domain = acts.get("domain") or belief["domain"]
    if not domain:
        return
    known = belief.setdefault(domain, nothing_known())
    for slot, value in acts.get("inform", {}).items():
        if slot in FIND[domain] and known["find"].get(slot) != value:
            known["find"][slot] = value
            known.update(offered="", booked={}, told=[])
        elif slot in BOOK.get(domain, ()) and known["book"].get(slot) != value:
            known["book"][slot] = value
            known["booked"] = {}
    known["asked"] = sorted({*known["asked"], *acts.get("request", {})})


def rule(belief: Mapping[str, Any]) -> str:
    """The action that the rule chooses."""
    domain = belief["domain"]
    if not domain:
        return "more"
    known = belief[domain]
    if not known["offered"]:
        found = matches(domain, known["find"])
        unknown = [slot for slot in FIND[domain] if slot not in known["find"]]
        if not found:
            return "no offer"
        return f"ask {unknown[0]}" if unknown and len(found) > 1 else "offer"
    if known["asked"]:
        return "tell"
    if known["book"] and not known["booked"]:
        missing = [slot for slot in BOOK[domain] if slot not in known["book"]]
        return f"ask {missing[0]}" if missing else "book"
    return "more"


def features(belief: Mapping[str, Any]) -> list[float]:
    """What the learned policy sees of a belief."""
    domain = belief["domain"]
    known = belief[domain] if domain else nothing_known()
    found = len(matches(domain, known["find"])) if domain else 0
    flags = [domain == name for name in FIND]
    flags += [slot in known["find"] or slot in known["book"] for slot in SLOTS]
    flags += [found == 0, found == 1, found > 1]
    flags += [bool(known[name]) for name in ("offered", "asked", "book", "booked")]
    return [float(flag) for flag in flags]


def outcome(belief: Mapping[str, Any]) -> dict[str, Any]:
    """What was reached, as a goal names it: the places offered, what was booked and told."""
    reached = {}
    for domain in (d for d in FIND if d in belief):
        known = belief[domain]
        place = next((p for p in world()["places"][domain] if p["name"] == known["offered"]), {})
        reached[domain] = {
            "find": {slot: place[slot] for slot in FIND[domain] if place},
            "book": known["booked"],
            "tell": dict.fromkeys(known["told"], "yes"),
        }
    return reached
