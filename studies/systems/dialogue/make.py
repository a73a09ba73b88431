"""Makes the dialogue subject: turns, places, goals and weights, from ConvLab's source archive.

    python studies/systems/dialogue/make.py        # about two minutes; needs pip's index

Writes world.json, goals/*.json and weights/*.safetensors beside it. Seeded. The archive (PyPI
`convlab` 3.0.1, Apache-2.0) is kept in studies/systems/cache/dialogue; nothing of it is run.
"""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / "cache" / "dialogue"
ARCHIVE = "convlab-3.0.1.tar.gz"
SEED = 21
GOALS = {"test": 200, "reference": 200, "calibration": 100, "training": 200}
NAMES = {
    "Area": "area",
    "Price": "price",
    "Food": "food",
    "Type": "type",
    "Stars": "stars",
    "People": "people",
    "Day": "day",
    "Time": "time",
    "Stay": "stay",
    "Phone": "phone",
    "Post": "postcode",
    "Addr": "address",
}
"""ConvLab's name of a slot, and ours; turns with others are left out."""
ASKED = {"phone": r"phone|number", "postcode": r"post ?-?code|postal|zip", "address": r"add?ress"}
"""How users name what they ask for: a turn that names more than it is filed under is left out."""
DOMAIN = {
    "restaurant": r"restaurant|eat|food|dine|dining|meal|cuisine",
    "hotel": r"hotel|guest ?-?house|stay|room|lodging|sleep",
    "attraction": r"attraction|visit|sight|places? to (go|see)|things? to (do|see)|#type#",
}
HELD_OUT = 0.3
"""The share of turns that the simulated user has for itself."""
MOST_SAID = 60
"""Turns of one act that are kept for the user."""
FEWEST, MOST = 150, 400
"""Turns of one act in an epoch: rare acts are drawn more often."""


class Turn(NamedTuple):
    """What a user said, and what it means; values stand as ``#area#``."""

    text: str
    domain: str
    act: str
    slots: tuple[str, ...]


def archive() -> tarfile.TarFile:
    """ConvLab's sources, fetched once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not (CACHE / ARCHIVE).exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary"]
        subprocess.run([*command, ":all:", "-d", str(CACHE), "convlab==3.0.1"], check=True)
    return tarfile.open(CACHE / ARCHIVE)


def content(source: tarfile.TarFile, path: str) -> Any:
    """One JSON file of the archive."""
    member = source.extractfile(f"convlab-3.0.1/convlab/{path}")
    assert member is not None
    return json.load(member)


def places(source: tarfile.TarFile) -> dict[str, list[dict[str, str]]]:
    """The data base: by domain, the slots of each place."""
    from town import FIND, TELL

    found: dict[str, list[dict[str, str]]] = {}
    for domain, slots in FIND.items():
        rows = content(source, f"e2e/damd/multiwoz/db/{domain}_db_processed.json")
        stored = {"price": "pricerange"}
        found[domain] = [
            {slot: str(row[stored.get(slot, slot)]) for slot in ("name", *slots, *TELL)}
            for row in rows
            if all(stored.get(slot, slot) in row for slot in ("name", *slots, *TELL))
        ]
    return found


def values(known: dict[str, list[dict[str, str]]]) -> dict[str, list[str]]:
    """What each slot may be."""
    from town import FIND

    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    found = {slot: set[str]() for slots in FIND.values() for slot in slots}
    for domain, slots in FIND.items():
        for slot in slots:
            found[slot] |= {place[slot] for place in known[domain]}
    return {slot: sorted(names) for slot, names in found.items()} | {
        "people": [str(n) for n in range(1, 9)],
        "stay": [str(n) for n in range(1, 6)],
        "day": list(days),
        "time": [
            f"{hour}:{minute}" for hour in range(11, 20) for minute in ("00", "15", "30", "45")
        ],
    }


def turns(source: tarfile.TarFile, known: dict[str, list[str]]) -> list[Turn]:
    """The turns that say just what they are filed under."""
    spoken = {word for slot, names in known.items() for name in names for word in name.split()}
    spoken = {word for word in spoken if word.isalpha()} - {"hall", "boat"}
    spoken |= {"moderately", "center", "inexpensive", "weekend", "tonight", "tomorrow"}
    values_said = re.compile(rf"\b({'|'.join(sorted(spoken))})s?\b|\d")
    asked = re.compile("|".join(ASKED.values()))
    found: list[Turn] = []
    for name, by_slots in content(
        source, "nlg/template/multiwoz/auto_user_template_nlg.json"
    ).items():
        domain, act = name.lower().split("-")
        for stored, texts in by_slots.items():
            slots = [slot for slot in stored.split(";") if slot]
            if name in ("general-bye", "general-thank"):
                domain, act, slots = "", "bye", []
            elif domain not in DOMAIN or not set(slots) <= set(NAMES):
                continue
            ours = tuple(sorted(NAMES[slot] for slot in slots))
            for raw in texts:
                text = " ".join(re.sub(r"#\w+-\w+-(\w+)#", _placeholder, raw).lower().split())
                marks = re.findall(r"#(\w+)#", text)
                plain = re.sub(r"#\w+#", "", text)
                if act == "inform" and sorted(marks) != list(ours):
                    continue
                if act == "request":
                    named = [slot for slot, pattern in ASKED.items() if re.search(pattern, plain)]
                    if sorted(named) != list(ours) or re.search("reference|fee", plain):
                        continue
                elif asked.search(plain):
                    continue
                if act == "bye" and ("?" in text or len(text.split()) > 14):
                    continue
                if (act != "inform" and marks) or values_said.search(plain):
                    continue
                found.append(Turn(text, domain, act, ours))
    return list(dict.fromkeys(found))


def _placeholder(match: re.Match[str]) -> str:
    return f"#{NAMES.get(match[1].title(), match[1].lower())}#"


def parted(said: Sequence[Turn], rng: np.random.Generator) -> tuple[dict[str, Any], list[Turn]]:
    """The turns of the simulated user, by act, and those for training; none is in both."""
    from town import FIND

    by_act: dict[tuple[Any, ...], list[Turn]] = {}
    for turn in said:
        by_act.setdefault(turn[1:], []).append(turn)
    users: dict[str, list[str]] = {}
    training: list[Turn] = []
    for (domain, act, slots), found in sorted(by_act.items()):
        found = [found[i] for i in rng.permutation(len(found))]
        own = max(3, int(HELD_OUT * len(found))) if len(found) > 3 else 0
        training += found[own:]
        texts = [turn.text for turn in found[:own]]
        name = f"{domain} {act} {'+'.join(slots)}".strip()
        users[name] = texts[:MOST_SAID]
        if act == "inform" and set(slots) <= set(FIND.get(domain, ())):
            opening = [text for text in texts if re.search(DOMAIN[domain], text)]
            users[f"{domain} open {'+'.join(slots)}"] = opening[:MOST_SAID]
    return {name: texts for name, texts in users.items() if texts}, training


def filled(
    turn: Turn, known: dict[str, list[str]], rng: np.random.Generator
) -> tuple[str, set[str]]:
    """The turn with values, and the labels it has."""
    text, labels = turn.text, {f"domain {turn.domain}"} if turn.domain else {"bye"}
    for slot in turn.slots:
        if turn.act == "request":
            labels.add(f"request {slot}")
            continue
        value = str(rng.choice(known[slot]))
        text = text.replace(f"#{slot}#", value)
        labels.add(f"inform {slot} {value}")
    return text, labels


def vocabulary(training: Sequence[Turn], known: dict[str, list[str]]) -> list[str]:
    """The words and pairs of the training turns that come often."""
    from networks import ngrams

    rng = np.random.default_rng(SEED)
    counts = collections.Counter(
        gram
        for _ in range(4)
        for turn in training
        for gram in sorted(set(ngrams(filled(turn, known, rng)[0])))
    )
    return [gram for gram, n in counts.most_common(4000) if n >= 8]


def trained(net: Any, read: Any, training: Sequence[Turn], known: Any, *, epochs: int) -> Any:
    """An understanding; each turn gets other values in each epoch."""
    import torch
    from networks import label_names

    names = {name: i for i, name in enumerate(label_names(known))}
    rng = np.random.default_rng(SEED)
    by_act: dict[Any, list[int]] = {}
    for i, turn in enumerate(training):
        by_act.setdefault(turn[1:], []).append(i)
    optimiser = torch.optim.Adam(net.parameters())
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for group in optimiser.param_groups:
            group["lr"] = 4e-3 * (1 - epoch / epochs)
        sizes = [int(np.clip(len(rows), FEWEST, MOST)) for rows in by_act.values()]
        drawn = [rng.choice(rows, n) for rows, n in zip(by_act.values(), sizes, strict=True)]
        order = rng.permutation(np.concatenate(drawn))
        for rows in np.array_split(order, len(order) // 64):
            made = [filled(training[i], known, rng) for i in rows]
            target = torch.zeros(len(made), len(names))
            for i, (_, labels) in enumerate(made):
                target[i, [names[label] for label in labels]] = 1
            scores = net(torch.from_numpy(np.stack([read(text) for text, _ in made])))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                scores, target, reduction="sum"
            )
            optimiser.zero_grad()
            (loss / len(made)).backward()
            optimiser.step()
            total += float(loss.detach())
        print(f"  epoch {epoch + 1}: loss {total / len(order):.3f}", flush=True)
    return net.eval()


def imitated(goals: Sequence[Any]) -> Any:
    """A policy learned from what the rule did in clean dialogues with training goals."""
    import torch
    from networks import policy_net, policy_row
    from system import bag_rule

    from roadworthy.subject.system import Cases

    trace = bag_rule().run(Cases([str(i) for i in range(len(goals))], goals, seed=SEED))
    beliefs, chosen = trace["tracker"].output, trace["policy"].output
    rows = torch.from_numpy(np.stack([policy_row(belief) for belief in beliefs]))
    actions = torch.tensor([int(np.argmax(scores)) for scores in chosen])
    torch.manual_seed(SEED)
    net = policy_net()
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(15):
        for part in torch.randperm(len(rows)).split(64):
            loss = torch.nn.functional.cross_entropy(net(rows[part]), actions[part])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    agreed = float((net.eval()(rows).argmax(1) == actions).float().mean())
    print(f"  policy: {len(rows)} steps, agrees with the rule in {agreed:.1%}")
    return net


def draw_goal(
    known: dict[str, list[dict[str, str]]], allowed: Any, rng: np.random.Generator
) -> dict[str, Any]:
    """One or two domains, each with a place that exists, what to ask of it, and often a booking."""
    from town import BOOK, FIND, TELL

    goal: dict[str, Any] = {}
    for domain in rng.permutation(sorted(FIND))[: rng.integers(1, 3)].tolist():
        place = known[domain][int(rng.integers(len(known[domain])))]
        goal[domain] = {
            "find": {slot: place[slot] for slot in FIND[domain]},
            "tell": {str(slot): "yes" for slot in rng.permutation(TELL)[: rng.integers(1, 3)]},
        }
        if domain in BOOK and rng.random() < 0.7:
            goal[domain]["book"] = {slot: str(rng.choice(allowed[slot])) for slot in BOOK[domain]}
    return goal


def write_goals(known: Any, allowed: Any) -> None:
    """Goals by role; no goal has two roles."""
    rng, drawn = np.random.default_rng(SEED), dict[str, Any]()
    while len(drawn) < sum(GOALS.values()):
        goal = draw_goal(known, allowed, rng)
        drawn.setdefault(json.dumps(goal, sort_keys=True), goal)
    goals = iter(drawn.values())
    (HERE / "goals").mkdir(exist_ok=True)
    for role, n in GOALS.items():
        rows = [{"id": f"{role}{i}", "goal": next(goals)} for i in range(n)]
        rows = [{**row, "metadata": {"domains": len(row["goal"])}} for row in rows]
        lines = "\n".join(json.dumps(row) for row in rows)
        (HERE / "goals" / f"{role}.jsonl").write_text(lines + "\n", encoding="utf-8")


def main() -> None:
    """Everything, in order."""
    import torch
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    source = archive()
    known = places(source)
    allowed = values(known)
    said = turns(source, allowed)
    users, training = parted(said, np.random.default_rng(SEED))
    print(f"{len(said)} turns, {len(training)} for training, {sum(map(len, users.values()))} kept")
    from networks import as_bag, as_trigrams, bag_net, label_names, trigram_net

    grams = vocabulary(training, allowed)
    made = {"values": allowed, "places": known, "turns": users, "ngrams": grams}
    (HERE / "world.json").write_text(json.dumps(made, indent=0), encoding="utf-8")
    write_goals(known, allowed)

    def keep(name: str, net: Any) -> None:
        (HERE / "weights").mkdir(exist_ok=True)
        halves = {key: tensor.half().contiguous() for key, tensor in net.state_dict().items()}
        save_file(halves, HERE / "weights" / f"{name}.safetensors")

    labels, at = len(label_names(allowed)), {gram: i for i, gram in enumerate(grams)}
    torch.manual_seed(SEED)
    bag = bag_net(len(grams), labels)
    keep("bag", trained(bag, lambda text: as_bag(text, places=at), training, allowed, epochs=10))
    keep("trigrams", trained(trigram_net(labels), as_trigrams, training, allowed, epochs=15))
    rows = (HERE / "goals" / "training.jsonl").read_text(encoding="utf-8").splitlines()
    keep("policy", imitated([json.loads(row)["goal"] for row in rows]))


if __name__ == "__main__":
    main()
