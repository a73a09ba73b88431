"""A bundle is one file, named by its content, that proves itself where it is loaded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from roadworthy.analysis.risk.prototypes import POLYP_COSTS, base_tree
from roadworthy.analysis.risk.tree import Tree
from roadworthy.monitor import Bundle, BundleError, Coverage, Events, Monitor, Windows
from roadworthy.monitor.bundle import _digest, self_test_failure


def rewritten(path, change) -> None:
    """Change a bundle's content and name it anew, as somebody would who means it."""
    record = json.loads(path.read_text())
    record.pop("id")
    change(record)
    path.write_text(json.dumps({"id": _digest(record), **record}))


def test_a_bundle_survives_the_disk_with_its_id_and_everything_it_says(
    watchful, tmp_path, scores_at
):
    path = tmp_path / "b.json"
    watchful.save(path)
    again = Bundle.load(path)
    assert again.id == watchful.id == json.loads(path.read_text())["id"]
    assert (
        len(watchful.id) == 16
        and again.alarm == watchful.alarm
        and again.windows == watchful.windows
    )
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]
    said = []
    for one in (watchful, again):
        monitor = Monitor(one)
        monitor.update(Events(None, None, columns={"energy": scores_at(500, 0.2)}))
        said.append(monitor.risk())
    assert said[0] == said[1]


def test_costs_in_whole_numbers_do_not_change_the_id(calibration, tmp_path):
    tree = Tree.from_dict(
        {
            "unit": "EUR per case",
            "event": "answer",
            "branches": {
                "right": {"p": "accuracy_clean", "then": {"outcome": "fine", "cost": 0}},
                "wrong": {"then": {"outcome": "harm", "cost": 6735}},
            },
        }
    )
    bundle = Bundle.compile(
        calibration,
        tree,
        subject="s",
        windows=Windows((50,)),
        made={"notes": ("a", "b"), "rows": 3},
    )
    bundle.save(tmp_path / "b.json")
    assert Bundle.load(tmp_path / "b.json").id == bundle.id


def test_when_it_was_made_is_told_and_is_no_part_of_what_it_is_named_by(bundle, tmp_path):
    dated = replace(bundle, made_at="2026-11-15T12:00:00+00:00")
    dated.save(tmp_path / "b.json")
    again = Bundle.load(tmp_path / "b.json")
    assert again.id == dated.id == bundle.id and again.made_at == dated.made_at
    replace(bundle, made={**bundle.made, "made": "2026-11-01"}).save(tmp_path / "before.json")
    stated = json.loads((tmp_path / "before.json").read_text())["id"]
    assert Bundle.load(tmp_path / "before.json").id == stated != bundle.id, (
        "files that name it in their content stay whole"
    )


def test_a_bundle_that_cannot_be_written_is_told_by_its_own_name(bundle, tmp_path):
    (tmp_path / "b.json").mkdir()
    for target in (tmp_path / "nowhere" / "b.json", tmp_path / "b.json"):
        with pytest.raises(OSError) as refused:
            bundle.save(target)
        assert refused.value.filename == str(target)
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"], "nothing is left beside it"


def test_a_changed_file_is_refused(bundle, tmp_path):
    path = tmp_path / "b.json"
    bundle.save(path)
    path.write_text(path.read_text().replace('"lateness":600.0', '"lateness":6000.0'))
    with pytest.raises(BundleError, match="was changed"):
        Bundle.load(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_half_a_file_is_refused(bundle, tmp_path, share):
    path = tmp_path / "b.json"
    bundle.save(path)
    text = path.read_text().rstrip()
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(BundleError, match="not a whole bundle"):
        Bundle.load(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "b.json"
    with pytest.raises(BundleError, match="No bundle at"):
        Bundle.load(path)
    for text in ("[]", '{"format": "roadworthy bundle 99"}', "{}"):
        path.write_text(text)
        with pytest.raises(
            BundleError, match="another version" if "99" in text else "is not a bundle"
        ):
            Bundle.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BundleError, match="is not a bundle"):
        Bundle.load(path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda r: r["self_test"]["expected"].update(rate=0.123), "rate: "),
        (lambda r: r["self_test"]["expected"]["cells"].__setitem__(0, 1), "cells: "),
        (lambda r: r["self_test"]["expected"]["taken"].__setitem__(0, 1), "taken: "),
        (lambda r: r.update(self_test={}), "events"),
        (
            lambda r: r["calibration"]["shift"]["coefficients"].__setitem__(1, -3.0),
            "cells: |counts: ",
        ),
        (
            lambda r: r["calibration"]["counts"]["fog"]["right"][0].__setitem__(1, 500),
            "expected",
        ),
    ],
)
def test_a_bundle_that_fails_its_self_test_is_refused(bundle, tmp_path, change, word):
    path = tmp_path / "b.json"
    bundle.save(path)
    rewritten(path, change)
    with pytest.raises(BundleError, match=f"fails its self-test: .*({word})"):
        Bundle.load(path)


def test_a_bundle_that_cannot_be_understood_is_refused(bundle, tmp_path):
    path = tmp_path / "b.json"
    bundle.save(path)
    rewritten(path, lambda r: r.pop("windows"))
    with pytest.raises(BundleError, match="cannot be read: 'windows'"):
        Bundle.load(path)


def test_figures_of_the_self_test_may_differ_in_the_last_digits_only(bundle):
    record = bundle.to_dict()
    expected = record["self_test"]["expected"]
    for scale, fine in ((1 + 1e-11, True), (1 + 1e-7, False)):
        changed = {**record, "self_test": json.loads(json.dumps(record["self_test"]))}
        changed["self_test"]["expected"]["risk"] = expected["risk"] * scale
        assert (self_test_failure(Bundle.from_dict(changed)) is None) is fine


def test_the_self_test_has_a_repeated_a_late_and_an_unscored_event(bundle):
    taken = bundle.self_test["expected"]["taken"]
    assert taken[1] == 1 and taken[2] == 1 and taken[3] >= 1 and sum(taken) == 40
    assert -1 in bundle.self_test["expected"]["cells"]


def test_the_state_says_what_it_rests_on(calibration, scores_at):
    bundle = Bundle.compile(
        calibration,
        base_tree(POLYP_COSTS, unit="USD per patient"),
        subject="polyps",
        windows=Windows((50,)),
        coverage=Coverage(0.95, 0.9, 1200),
        expected_rate=0.1,
        made={"notes": ["calibrated on synthetic augmentations only"]},
    )
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"energy": scores_at(100, 0.1)}))
    risk = monitor.risk()
    assert risk.calibrated_on.startswith("rows: 1,000 of clean, 1,000 of blur, 1,000 of fog")
    assert "calibrated on synthetic augmentations only" in risk.calibrated_on
    assert risk.coverage.observed == 0.9
    assert risk.unit == "USD per patient" and "labelling" in risk.blind_to[0]
    assert risk.forecast.rate == 0.1 and risk.forecast.low < risk.forecast.risk < risk.forecast.high
    assert risk.exceedance is None and not risk.alarm, "nothing was called tolerable"
    assert json.loads(json.dumps(risk.to_dict()))["n"] == 50


def test_constants_are_numbers_or_counts(calibration, tmp_path, scores_at):
    tree = Tree.from_dict(
        {
            "unit": "cost",
            "event": "shift",
            "branches": {
                "shifted": {
                    "p": "p_shift",
                    "then": {
                        "event": "rescued",
                        "branches": {
                            "yes": {"p": "rescue", "then": {"outcome": "ok", "cost": 0.0}},
                            "no": {"then": {"outcome": "harm", "cost": 10.0}},
                        },
                    },
                },
                "clean": {"then": {"outcome": "fine", "cost": 0.0}},
            },
        }
    )
    widths, risks = [], []
    for rescue in (0.8, (8.0, 10.0)):
        bundle = Bundle.compile(
            calibration, tree, subject="s", windows=Windows((50,)), constants={"rescue": rescue}
        )
        bundle.save(tmp_path / "b.json")
        monitor = Monitor(Bundle.load(tmp_path / "b.json"))
        monitor.update(Events(None, None, columns={"energy": scores_at(50, 0.5)}))
        risk = monitor.risk()
        risks.append(risk.risk)
        widths.append(risk.risk_high - risk.risk_low)
    assert widths[1] > 1.1 * widths[0], "ten trials leave much open"
    assert risks[1] / risks[0] == pytest.approx((2.5 / 11) / 0.2, rel=0.08), (
        "the mean of Beta(8.5, 2.5) instead of 0.8"
    )
    with pytest.raises(ValueError, match="rescue"):
        Bundle.compile(calibration, tree, subject="s", windows=Windows((50,)))


def test_what_the_alarm_watches_is_part_of_the_self_test(watchful):
    test = watchful.self_test
    expected = {**test["expected"], "evidence": test["expected"]["evidence"] + 1.0}
    assert self_test_failure(watchful) is None
    changed = replace(watchful, self_test={**test, "expected": expected})
    assert str(self_test_failure(changed)).startswith("evidence: ")


def test_files_of_other_kinds_are_named_with_what_to_do(bundle, tmp_path):
    (tmp_path / "today.csv").write_text("id,energy\n")
    (tmp_path / "run" / "monitor").mkdir(parents=True)
    bundle.save(tmp_path / "run" / "monitor" / "bundle.json")
    for name, word in (("today.csv", "calibrate"), ("run", "bundle.json")):
        with pytest.raises(BundleError, match=word):
            Bundle.load(tmp_path / name)
