"""The dialogue subject: it reaches goals, corruption of the user's words costs it some of them, and
what does not end has failed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cases.text.swap_characters import swap_characters
from roadworthy.data.seeds import generator
from roadworthy.measures.dialogue import success_rate
from roadworthy.subject.adapters.loading import resolve_path
from roadworthy.subject.needs import Layer, Passes
from roadworthy.subject.system import Cases

STUDY = Path(__file__).resolve().parents[2] / "studies" / "systems" / "dialogue"
GOALS = [
    json.loads(line)["goal"] for line in (STUDY / "goals" / "test.jsonl").read_text().splitlines()
][:30]
CASES = Cases([f"goal{i}" for i in range(len(GOALS))], GOALS, seed=3)


def build(name):
    return resolve_path(f"system.py:{name}", STUDY).target()


def succeeded(system, at=None):
    return success_rate(system.run(CASES, at=at)["system"].output, GOALS).value()


def corrupted(probability):
    def change(text, case, step):
        return swap_characters(text, generator(3, case, step), probability=probability)

    return {"nlu.utterance": change}


@pytest.mark.parametrize("name", ["bag_rule", "bag_learned", "trigrams_rule", "trigrams_learned"])
def test_goals_are_reached_and_swapped_characters_cost_some(name):
    system = build(name)
    rates = [succeeded(system), succeeded(system, corrupted(0.45)), succeeded(system, corrupted(1))]
    assert rates[0] > 0.85
    assert rates[0] > rates[1] > rates[2]


def test_words_that_never_arrive_cut_the_dialogue_off_as_failed():
    system = build("bag_rule")
    trace = system.run(CASES, at={"nlu.utterance": lambda text, case, step: ""})
    assert {len(episode.turns) for episode in trace["system"].output} == {system.max_steps}
    assert success_rate(trace["system"].output, GOALS).value() == 0


def test_a_rule_that_hears_what_is_meant_reaches_every_goal():
    """An oracle for everything but the learned modules."""
    system = build("bag_rule")
    goal = {
        "restaurant": {
            "find": {"food": "thai", "area": "west", "price": "expensive"},
            "tell": {"phone": "yes"},
            "book": {"people": "2", "day": "monday", "time": "18:15"},
        }
    }
    track, decide = system.modules["tracker"], system.modules["policy"]
    speak, state, action = system.modules["nlg"], None, None
    meant = [
        {"domain": "restaurant", "inform": goal["restaurant"]["find"]},
        {"request": {"phone": "yes"}},
        {"inform": goal["restaurant"]["book"]},
        {"bye": "yes"},
    ]
    said = []
    for acts in meant:
        outputs, state = track.step({"acts": acts, "action": action}, state, None)
        action = decide.step(outputs, None, None)[0]["action"]
        given = {**outputs, "action": action, "ended": "bye" in acts}
        turn = speak.step(given, None, None)[0]["turn"]
        said.append(turn["action"])
    assert said == ["offer", "tell", "book", "more"]
    assert turn["outcome"]["restaurant"] == goal["restaurant"]


@pytest.mark.parametrize("module", ["nlu", "policy"])
def test_passes_vary_and_activations_are_seen_at_every_turn(module):
    asked = {Layer("penultimate"), Passes("dropout", 10, 0.1, "auto")}
    few = Cases(CASES.ids[:5], GOALS[:5], seed=3)
    system = build("bag_learned")
    rows = system.run(few, {module: frozenset(asked)})[module]
    seen, ratios = rows.columns["layer.penultimate"], rows.columns["passes.dropout.10.0.1.auto"]
    assert len(seen) == len(ratios) == len(rows)
    assert np.isfinite(seen).all()
    assert np.ptp(seen, axis=0).max() > 0
    again = system.run(few, {module: frozenset(asked)})[module]
    np.testing.assert_array_equal(ratios, again.columns["passes.dropout.10.0.1.auto"])
    assert 0 <= ratios.min() <= ratios.max() <= 1
    if module == "nlu":
        assert ratios.max() > 0
