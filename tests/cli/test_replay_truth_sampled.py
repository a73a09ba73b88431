"""Outcomes that are known of few events in every window: their share of right answers stands beside the estimates."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cli.app import run

pytestmark = pytest.mark.usefixtures("quick_alarms")

EVENTS = 2000
WHY = "The intervals are not held against the truth: in no window are nine in ten outcomes known."


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    folder = tmp_path_factory.mktemp("sampled")
    rng = np.random.default_rng(1)
    lines = ["kind,correct,knn"]
    for kind, n, shift, right in (
        ("clean", 400, 0.0, 0.9),
        ("fog", 200, 2.5, 0.5),
        ("rain", 200, 2.5, 0.5),
    ):
        lines += [f"{kind},{int(rng.random() < right)},{rng.normal(shift):.4f}" for _ in range(n)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    with redirect_stdout(io.StringIO()):
        assert run(["calibrate", str(folder / "t.csv"), "--events-per-day", "1000", "--json"]) == 0
    return folder / "t.bundle.json"


def stream(path: Path, *, strange: int = 0) -> Path:
    values = np.random.default_rng(2).normal(size=EVENTS)
    values[EVENTS - strange :] += 1000
    path.write_text("\n".join(["id,knn", *(f"e{i},{v:.4f}" for i, v in enumerate(values))]) + "\n")
    return path


def truth(path: Path, right: dict[int, int]) -> Path:
    path.write_text("\n".join(["id,correct", *(f"e{i},{r}" for i, r in right.items())]) + "\n")
    return path


def replayed(cli, *arguments: object) -> tuple[str, dict]:
    return cli("replay", *arguments).out, json.loads(
        cli("replay", *arguments, "--all", "--json").out
    )


def wilson(right: int, n: int) -> tuple[float, float]:
    """By the roots of (p - share)^2 = z^2 p (1 - p) / n."""
    z, share = 1.959963984540054, right / n
    low, high = sorted(np.roots([1 + z**2 / n, -2 * share - z**2 / n, share**2]).real)
    return float(low), float(high)


def test_two_known_a_window_give_a_share_an_interval_and_the_estimates_beside(
    cli, bundle, tmp_path
):
    known = {i: int(i % 400 != 0) for i in range(0, EVENTS, 50)}
    said, content = replayed(
        cli, bundle, stream(tmp_path / "s.csv"), "--truth", truth(tmp_path / "t.csv", known)
    )
    low, high = wilson(35, 40)
    mean = np.mean([w["accuracy"] for w in content["windows"]])
    assert (
        f"Truth sampled: 35 of 40 known answers are right, 0.88 [{low:.2f}, {high:.2f}] if they were drawn at random"
        in said
    )
    assert (
        f"the estimates of the windows that they lie in are {mean:.2f} on average." in said
        and WHY in said
    )
    found = content["known_outcomes"]
    assert (found["known"], found["right"], found["all_known"]) == (40, 35, 40) and content[
        "truth"
    ] is None
    assert (found["low"], found["high"], found["estimate"]) == pytest.approx((low, high, mean))


def test_estimates_count_as_often_as_outcomes_of_their_window_are_known(cli, bundle, tmp_path):
    known = {0: 1, 1: 1, 2: 1, 1950: 1}
    _, content = replayed(
        cli, bundle, stream(tmp_path / "s.csv"), "--truth", truth(tmp_path / "t.csv", known)
    )
    first, last = content["windows"][0]["accuracy"], content["windows"][-1]["accuracy"]
    assert content["known_outcomes"]["estimate"] == pytest.approx((3 * first + last) / 4)


def test_outcomes_of_windows_that_cannot_be_told_are_not_held_against_the_others(
    cli, bundle, tmp_path
):
    known = {i: int(i < 1000) for i in range(0, EVENTS, 50)}
    path = stream(tmp_path / "s.csv", strange=1000)
    said, content = replayed(cli, bundle, path, "--truth", truth(tmp_path / "t.csv", known))
    assert content["cannot_tell"] == 10
    assert "20 of 20 known answers in windows with figures (of 40 in all) are right, 1.00" in said
    path = stream(tmp_path / "a.csv", strange=EVENTS)
    said, content = replayed(cli, bundle, path, "--truth", tmp_path / "t.csv")
    assert (
        "20 of 40 known answers are right" in said
        and "no window that has figures holds one of them" in said
    )
    assert content["known_outcomes"]["estimate"] is None


def test_all_known_of_windows_that_cannot_be_told_has_another_reason(cli, bundle, tmp_path):
    known = dict.fromkeys(range(EVENTS), 1)
    path = stream(tmp_path / "s.csv", strange=EVENTS)
    said, _ = replayed(cli, bundle, path, "--truth", truth(tmp_path / "t.csv", known))
    assert "no window of which nine in ten are known could be told" in said and WHY not in said


def test_nothing_is_said_where_nobody_asked_or_the_intervals_are_held_against_all(
    cli, bundle, tmp_path
):
    path = stream(tmp_path / "s.csv")
    assert "Truth" not in cli("replay", bundle, path).out
    known = {i: int(i % 10 != 0) for i in range(EVENTS)}
    said, content = replayed(cli, bundle, path, "--truth", truth(tmp_path / "t.csv", known))
    assert "Truth revealed" in said and "Truth sampled" not in said
    assert content["known_outcomes"]["share"] == 0.9
