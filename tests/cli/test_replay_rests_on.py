"""Whoever reads figures of a replay reads what they rest on: rows, intervals on unseen kinds, effective events, cautions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cli.resting_on import cautions, held
from roadworthy.monitor import Monitor
from roadworthy.monitor.bundle import Bundle
from roadworthy.monitor.messages import CLEAN_IS_DEAR

pytestmark = pytest.mark.usefixtures("quick_alarms")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, quick_alarms) -> Path:
    from roadworthy.cli.app import run

    made, rng = tmp_path_factory.mktemp("rests"), np.random.default_rng(0)
    lines = ["kind,correct,energy"]
    for kind, shift, right in (("clean", 0.0, 0.92), ("fog", 2.5, 0.5), ("night", 2.0, 0.6)):
        lines += [f"{kind},{int(rng.random() < right)},{rng.normal(shift):.4f}" for _ in range(300)]
    (made / "t.csv").write_text("\n".join(lines) + "\n")
    (made / "alike.csv").write_text(
        "energy\n" + "".join(f"{e:.4f}\n" * 5 for e in rng.normal(size=200))
    )
    assert run(["calibrate", str(made / "t.csv")]) == 0
    return made


def test_the_terminal_says_rows_by_kind_coverage_effective_events_and_blindness(cli, folder):
    bundle = Bundle.load(folder / "t.bundle.json")
    said = cli("replay", folder / "t.bundle.json", folder / "alike.csv").out
    assert "calibrated on 300 rows of clean, 300 of fog, 300 of night" in said
    assert bundle.coverage is not None and bundle.coverage.rate is not None
    assert f"{held(bundle.coverage, 0.95)} A window counts for " in said, (
        "by the name of each quantity"
    )
    assert "Blind to changed prevalence of classes and changed labelling, and to " in said
    assert all(f"note: {note}" in said for note in cautions(bundle))


def test_programs_read_the_same_fields_as_of_the_service(cli, folder):
    from roadworthy.web.views import bundle_view, risk_view

    bundle = Bundle.load(folder / "t.bundle.json")
    found = json.loads(cli("replay", folder / "t.bundle.json", folder / "alike.csv", "--json").out)
    risk = json.loads(json.dumps(risk_view(Monitor(bundle).risk())))
    assert {name: found[name] for name in ("coverage", "blind_to", "confidence")} == {
        name: risk[name] for name in ("coverage", "blind_to", "confidence")
    }
    assert found["kinds"] == bundle_view(bundle)["kinds"]
    assert set(cautions(bundle)) <= set(found["notes"])
    # Every event five times: a window counts for a fifth of its events, or little more, once that is noticed.
    last = found["windows"][-1]
    assert last["n"] == 100 and 15 < last["effective_n"] < 40


def test_cautions_of_the_bundle_reach_those_who_replay_it(cli, folder, tmp_path):
    bundle = Bundle.load(folder / "t.bundle.json")
    assert bundle.alarm is not None
    never, dear = (
        "no shift rings, however much it is: it costs no more than clean data do",
        f"{CLEAN_IS_DEAR}0.2",
    )
    synthetic = "calibrated on synthetic augmentations only"
    replace(
        bundle,
        alarm=replace(bundle.alarm, notes=(never, dear)),
        made={**bundle.made, "notes": [synthetic]},
        coverage=None,
    ).save(tmp_path / "b.json")
    said = cli("replay", tmp_path / "b.json", folder / "alike.csv").out
    assert (
        f"note: {never}" in said and f"note: {synthetic}" in said and "nobody could check" in said
    )
    assert f"warning: {dear}" in said and f"note: {dear}" not in said, (
        "what is a warning is said as one, once"
    )
    found = json.loads(cli("replay", tmp_path / "b.json", folder / "alike.csv", "--json").out)
    assert found["coverage"] is None and {never, synthetic} <= set(found["notes"])
