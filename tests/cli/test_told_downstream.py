"""What calibrate chose or replaced is known to those who come after it; and small things that it says of a table are true."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.analysis.risk.tolerable import NOBODY_SAID
from roadworthy.cli.amounts import percent
from roadworthy.monitor.bundle import Bundle

pytestmark = pytest.mark.usefixtures("quick_alarms")


def table(path: Path, *, gaps: int = 0) -> Path:
    rng = np.random.default_rng(0)
    lines = ["kind,correct,energy,knn"]
    for kind, shift, right in (("clean", 0.0, 0.92), ("fog", 2.5, 0.5), ("night", 2.0, 0.6)):
        for i in range(300):
            energy, knn = (
                rng.normal(shift),
                "" if kind == "clean" and i < gaps else f"{rng.normal(shift):.4f}",
            )
            lines.append(f"{kind},{int(rng.random() < right)},{energy:.4f},{knn}")
    path.write_text("\n".join(lines) + "\n")
    return path


def stream(path: Path) -> Path:
    drawn = np.random.default_rng(5).normal(size=(200, 2))
    path.write_text("\n".join(["energy,knn", *(f"{e:.4f},{k:.4f}" for e, k in drawn)]) + "\n")
    return path


def test_a_limit_that_nobody_chose_is_known_as_such_wherever_it_is_shown(cli, tmp_path):
    from roadworthy.monitor import Monitor
    from roadworthy.web.views import bundle_view

    assert cli("calibrate", table(tmp_path / "t.csv")).out.count(NOBODY_SAID) == 1
    bundle = Bundle.load(tmp_path / "t.bundle.json")
    assert any(
        note.startswith(f"{NOBODY_SAID}: using {bundle.tolerable:.3f}")
        for note in bundle_view(bundle)["notes"]
    )
    assert NOBODY_SAID in Monitor(bundle).risk().calibrated_on
    said = cli("replay", tmp_path / "t.bundle.json", stream(tmp_path / "s.csv"))
    assert f"note: {NOBODY_SAID}: using {bundle.tolerable:.3f} wrong answers per case" in said.out
    content = json.loads(
        cli("replay", tmp_path / "t.bundle.json", tmp_path / "s.csv", "--json").out
    )
    assert any(note.startswith(NOBODY_SAID) for note in content["notes"])
    cli("calibrate", tmp_path / "t.csv", "--tolerable", 0.2)
    assert NOBODY_SAID not in cli("replay", tmp_path / "t.bundle.json", tmp_path / "s.csv").out


def test_a_bundle_that_is_replaced_leaves_the_state_of_its_service_behind(cli, tmp_path):
    out, options = tmp_path / "t.bundle.json", ("--tolerable", 0.2)
    cli("calibrate", table(tmp_path / "t.csv"), *options)
    before = Bundle.load(out).id
    same = cli("calibrate", tmp_path / "t.csv", *options)
    assert Bundle.load(out).id == before and "is replaced" not in same.out, (
        "the same bundle goes on with its state"
    )
    for limit, more in ((0.25, ()), (0.3, ("--force",))):
        before = Bundle.load(out).id
        said = cli("calibrate", tmp_path / "t.csv", "--tolerable", limit, *more).out
        assert (
            f"the bundle {before} that was there is replaced. The state of a service belongs to the bundle"
            in said
        )
        assert "begin another --state" in said


def test_a_few_missing_scores_are_not_called_none(cli, tmp_path):
    notes = json.loads(cli("calibrate", table(tmp_path / "t.csv", gaps=2), "--json").out)["notes"]
    assert "score knn is missing in 2 of 900 rows" in notes
    assert not any("no row lacks" in n for n in notes)
    assert any(
        n.startswith("fewer than 1 row in 100 lacks a score, too few to say what it means")
        for n in notes
    )


def test_a_share_is_all_or_nothing_only_where_it_is():
    assert [percent(k / 200) for k in (0, 1, 100, 199, 200)] == [
        "0%",
        "0.5%",
        "50%",
        "99.5%",
        "100%",
    ]
    shares = [
        float(s) for s in np.random.default_rng(0).beta(0.05, 0.05, 500) if 1e-6 < s < 1 - 1e-6
    ]
    told = [float(percent(s).removesuffix("%")) for s in shares]
    assert len(told) > 100 and all(0.0 < t < 100.0 for t in told)
    assert all(abs(t - 100 * s) <= 0.5 for s, t in zip(shares, told, strict=True))


def test_a_score_without_its_column_is_told_what_is_missing(cli, tmp_path):
    cli("calibrate", table(tmp_path / "t.csv"))
    bundle, path = tmp_path / "t.bundle.json", stream(tmp_path / "s.csv")
    for given in ("energy", "energy="):
        said = cli("replay", bundle, path, "--score", given)
        assert said.code == 2 and "as in energy=COLUMN, or leave the option out" in said.err
        assert "did you mean" not in said.err
    assert "did you mean 'energy'?" in cli("replay", bundle, path, "--score", "enrgy").err
