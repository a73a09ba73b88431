"""What replay makes of a table of outcomes: it needs id and correct only, and what the scores do not see is said."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.cli import revealing
from roadworthy.cli.app import run
from roadworthy.cli.replaying import Replayed
from roadworthy.cli.revealing import Unseen, against, too_often, unseen

pytestmark = pytest.mark.usefixtures("quick_alarms")

EVENTS = 400


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    folder = tmp_path_factory.mktemp("revealed")
    rng = np.random.default_rng(1)
    lines = ["kind,correct,knn"]
    for kind, n, shift, right in (
        ("clean", 400, 0.0, 0.95),
        ("fog", 200, 2.5, 0.5),
        ("rain", 200, 2.5, 0.5),
    ):
        lines += [f"{kind},{int(rng.random() < right)},{rng.normal(shift):.4f}" for _ in range(n)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    with redirect_stdout(io.StringIO()):
        assert run(["calibrate", str(folder / "t.csv"), "--events-per-day", "1000", "--json"]) == 0
    return folder / "t.bundle.json"


def stream(path: Path, shift: float) -> Path:
    scores = np.random.default_rng(2).normal(shift, size=EVENTS)
    path.write_text("\n".join(["id,knn", *(f"e{i},{v:.4f}" for i, v in enumerate(scores))]) + "\n")
    return path


def truth(path: Path, right: float, *, kind: str = "") -> Path:
    drawn = np.random.default_rng(3).random(EVENTS) < right
    more, cell = (",kind,group,time", f",{kind},,noon") if kind else ("", "")
    path.write_text(
        "\n".join([f"id,correct{more}", *(f"e{i},{int(r)}{cell}" for i, r in enumerate(drawn))])
        + "\n"
    )
    return path


def test_a_table_of_outcomes_needs_id_and_correct_only(cli, bundle, tmp_path):
    plain = cli(
        "replay", bundle, stream(tmp_path / "s.csv", 2.5), "--truth", truth(tmp_path / "p.csv", 0.5)
    )
    more = cli(
        "replay", bundle, tmp_path / "s.csv", "--truth", truth(tmp_path / "m.csv", 0.5, kind="dark")
    )
    assert plain.code == more.code == 1, more.err
    assert plain.out == more.out
    assert "Truth revealed" in more.out


def test_a_truth_that_the_scores_do_not_see_is_told_in_one_sentence(cli, bundle, tmp_path):
    blind = cli(
        "replay", bundle, stream(tmp_path / "s.csv", 0.0), "--truth", truth(tmp_path / "b.csv", 0.6)
    )
    assert "in 4 windows without an alarm: the scores do not see it." in blind.out
    told = json.loads(
        cli("replay", bundle, tmp_path / "s.csv", "--truth", tmp_path / "b.csv", "--json").out
    )["truth"]
    assert told["above_tolerable_without_alarm"] == told["windows"] - told["covered"] == 4
    right = cli("replay", bundle, tmp_path / "s.csv", "--truth", truth(tmp_path / "r.csv", 0.95))
    assert (
        "Truth revealed" in right.out
        and "do not see" not in right.out
        and "without an alarm" not in right.out
    )


def test_dear_windows_are_not_charged_where_an_alarm_was_on(cli, bundle, tmp_path):
    seen = cli(
        "replay", bundle, stream(tmp_path / "s.csv", 2.5), "--truth", truth(tmp_path / "t.csv", 0.5)
    )
    assert "ALARM at event" in seen.out and "without an alarm" not in seen.out


def test_answers_that_are_better_than_the_scores_say_are_told_too(cli, bundle, tmp_path):
    said = cli(
        "replay", bundle, stream(tmp_path / "s.csv", 2.5), "--truth", truth(tmp_path / "t.csv", 1.0)
    )
    assert (
        "The truth lies outside the interval in 4 of 4 windows, far more than 1 in 20" in said.out
    )


@pytest.mark.parametrize("windows", [20, 200, 4000])
def test_misses_are_too_many_where_chance_gives_so_many_once_in_a_hundred(windows):
    fewest = next(k for k in range(windows) if too_often(k, windows))
    drawn = np.random.default_rng(0).binomial(windows, 0.05, 200_000)
    assert (drawn >= fewest).mean() < 0.0112 and (drawn >= fewest - 1).mean() > 0.0088


def replayed(
    covering: float, *, windows: int, seed: int, window: int = 100, every: int = 25
) -> Replayed:
    """A stream of so many windows that share no event, read more often; intervals that hold the mean of this share of windows."""
    outcomes = np.random.default_rng(seed).normal(size=windows * window)
    sums = np.concatenate([[0.0], np.cumsum(outcomes)])
    ends = np.arange(window, len(outcomes) + 1, every)
    return revealed(
        (sums[ends] - sums[ends - window]) / window,
        norm.ppf((1 + covering) / 2) / window**0.5,
        ends,
        window,
    )


def revealed(truth: np.ndarray, reach: float, ends: np.ndarray, window: int) -> Replayed:
    """Windows with a known truth, and the same interval around 0 for all of them."""
    n, every = len(ends), int(ends[1] - ends[0])
    band = SimpleNamespace(
        accuracy_low=np.full(n, -reach), accuracy_high=np.full(n, reach), cannot_tell=(None,) * n
    )
    known = np.full(n, window)
    return Replayed(
        int(ends[-1]), 0, 0, 0, window, every, ends, 0.0 * ends, truth, known, band, (), (), {}
    )  # type: ignore[arg-type]


COSTLESS: Any = SimpleNamespace(tree=accuracy_tree(), tolerable=None)


def test_intervals_that_hold_are_called_wrong_once_in_a_hundred_replays_and_those_that_do_not_nearly_always():
    """Windows overlap by three quarters: they miss together, which is no evidence, and yet all of them are told."""
    truly = [unseen(COSTLESS, replayed(0.95, windows=60, seed=seed)) for seed in range(1000)]
    assert np.mean([one.windows for one in truly]) == 237
    assert np.mean([one.outside for one in truly]) == pytest.approx(0.05 * 237, rel=0.05)
    assert np.mean([one.many for one in truly]) < 0.015
    wrong = [unseen(COSTLESS, replayed(0.7, windows=60, seed=seed)).many for seed in range(200)]
    assert np.mean(wrong) > 0.98


def test_misses_of_windows_that_share_no_event_count_each_as_one():
    """Three of four miss; what lies between them does not, and says nothing that they do not say."""
    ends = np.arange(100, 401, 50)
    said = unseen(COSTLESS, revealed(np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]), 0.5, ends, 100))
    assert (said.outside, said.windows, said.many) == (3, 7, True)


def test_the_alarm_says_of_how_many_events_it_speaks_where_the_table_has_others(
    cli, bundle, tmp_path
):
    shifted = stream(tmp_path / "s.csv", 2.5)
    assert (
        "over the last 100 events the cost may be above"
        in cli("replay", bundle, shifted, "--window", 200).out
    )
    assert "over the last" not in cli("replay", bundle, shifted).out


@pytest.mark.parametrize(
    ("above", "outside", "said"),
    [
        (
            3,
            0,
            "in 3 within the interval of the accuracy, which holds the chance of so few events.",
        ),
        (
            3,
            1,
            "in 2 within the interval of the accuracy, which holds the chance of so few events, in 1 below it.",
        ),
        (1, 1, "without an alarm: in 1 below the interval of the accuracy."),
    ],
)
def test_of_windows_that_were_dear_without_an_alarm_it_is_said_what_holds_of_them(
    monkeypatch, above, outside, said
):
    """And not of all the others, which nobody asked about."""
    monkeypatch.setattr(
        revealing, "unseen", lambda bundle, found: Unseen(25, outside, above, outside, False)
    )
    (sentence,) = against(SimpleNamespace(tolerable=0.1, unit="EUR"), None)
    assert sentence.startswith("The truth was above the tolerable") and sentence.endswith(said)
