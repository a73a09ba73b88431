"""MOTA and IDF1 against TrackEval and against sequences counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roadworthy.data.values import Tracks
from roadworthy.distances.clear import Clear, clear
from roadworthy.measures.tracking import idf1, mota

ORACLE = json.loads(Path(__file__).with_name("oracle").joinpath("tracking.json").read_text())
A, B, FAR = [0, 0, 10, 10], [20, 0, 30, 10], [90, 90, 99, 99]


def rows(table: list[list[float]]) -> Tracks:
    return Tracks.of([r[0] for r in table], [r[1] for r in table], [r[2:] for r in table])


def path(*steps: dict[int, list[float]]) -> Tracks:
    """Tracks from one {identity: box} a step."""
    return rows([[t, name, *box] for t, step in enumerate(steps) for name, box in step.items()])


@pytest.mark.parametrize("record", ORACLE["sequences"])
def test_counts_of_a_sequence_equal_trackeval(record: dict) -> None:
    truth, found = rows(record["truth"]), rows(record["found"])
    counted = clear(found, truth)
    assert counted == Clear(len(truth), record["missed"], record["false"], record["switched"])
    assert mota([found], [truth]).value() == pytest.approx(record["mota"], abs=1e-12)
    assert idf1([found], [truth]).value() == pytest.approx(record["idf1"], abs=1e-12)


def test_values_over_all_sequences_equal_trackeval() -> None:
    found = [rows(r["found"]) for r in ORACLE["sequences"]]
    truth = [rows(r["truth"]) for r in ORACLE["sequences"]]
    assert mota(found, truth).value() == pytest.approx(ORACLE["all"]["mota"], abs=1e-12)
    assert idf1(found, truth).value() == pytest.approx(ORACLE["all"]["idf1"], abs=1e-12)


def test_a_correspondence_is_kept_while_it_holds_even_if_another_is_nearer() -> None:
    truth = path({1: A}, {1: A})
    # In the second step identity 8 lies exactly on the object and 7 only near it (IoU 0.6).
    found = path({7: A}, {7: [0, 0, 10, 6], 8: A})
    assert clear(found, truth) == Clear(objects=2, missed=0, false=1, switched=0)


def test_identities_that_swap_are_two_switches() -> None:
    truth = path({1: A, 2: B}, {1: A, 2: B}, {1: A, 2: B})
    found = path({7: A, 8: B}, {8: A, 7: B}, {8: A, 7: B})
    assert clear(found, truth) == Clear(objects=6, missed=0, false=0, switched=2)
    assert mota([found], [truth]).value() == pytest.approx(1 - 2 / 6)
    assert idf1([found], [truth]).value() == pytest.approx(4 / 6)


def test_an_object_that_returns_under_another_identity_is_a_switch() -> None:
    truth = path({1: A}, {1: A}, {1: A})
    assert clear(path({7: A}, {}, {9: A}), truth) == Clear(3, missed=1, false=0, switched=1)
    assert clear(path({7: A}, {}, {7: A}), truth) == Clear(3, missed=1, false=0, switched=0)


def test_a_box_too_far_away_is_both_a_miss_and_a_false_positive() -> None:
    assert clear(path({7: FAR}), path({1: A})) == Clear(1, missed=1, false=1, switched=0)
    assert mota([path({7: FAR})], [path({1: A})]).value() == -1.0


def test_any_identity_number_will_do() -> None:
    truth = path({-1: A}, {-1: A})
    assert clear(path({-1: A}, {-1: A}), truth) == Clear(2, 0, 0, 0)


def test_no_answer_costs_all_objects_and_more_where_the_answers_are_worse_than_that() -> None:
    truth = [path({1: A}), path({1: A, 2: B})]
    assert mota([path({1: A}), None], truth).value() == pytest.approx(1 - 2 / 3)
    assert mota([path({7: FAR}), None], truth).value() == -1.0


def test_no_answer_where_nothing_is_costs_one_object_or_what_the_worst_answer_made_of_nothing() -> (
    None
):
    truth = [path({1: A}, {1: A}), path(), path()]
    right, junk = path({1: A}, {1: A}), path({7: FAR}, {7: FAR}, {7: FAR})
    assert mota([right, path(), None], truth).value() == pytest.approx(1 - 1 / 2)
    assert mota([right, junk, None], truth).value() == pytest.approx(1 - (3 + 3) / 2)
    assert mota([right, junk, None], truth).take([0, 2]).value() == pytest.approx(1 - 1 / 2)
    assert mota([path(), None], truth[1:]).value() == pytest.approx(1 - 1 / 2)


def test_no_answer_costs_idf1_the_objects_and_as_many_false_detections_or_more_where_the_answers_make_more() -> (
    None
):
    truth = [path({1: A}, {1: A}), path({1: A})]
    assert idf1([truth[0], None], truth).value() == pytest.approx(4 / (4 + 1 + 1))
    doubled = path({1: A, 2: FAR}, {1: A, 2: FAR})
    assert idf1([doubled, None], truth).value() == pytest.approx(4 / (2 + 4 + 1 + 2))
    assert idf1([truth[0], None], [truth[0], path()]).value() == pytest.approx(4 / (4 + 1))


def test_a_sequence_fails_above_the_tolerance() -> None:
    truth = [path({1: A}, {1: A}, {1: A}, {1: A})] * 2
    found = [path({1: A}, {1: A}, {1: A}, {}), path({1: A}, {}, {}, {})]
    assert mota(found, truth).failure.tolist() == [False, True]
    assert mota(found, truth, tolerance=0.0).failure.tolist() == [True, True]
    assert mota(found, truth).error.tolist() == [0.25, 0.75]


def test_an_identity_twice_in_one_step_of_the_truth_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0 name an identity twice"):
        mota([None], [Tracks.of([0, 0], [1, 1], [A, B])])


def test_a_found_identity_twice_in_one_step_is_a_false_one_and_no_better_than_right() -> None:
    truth, doubled = path({1: A}, {1: A}), Tracks.of([0, 1, 1], [7, 7, 7], [A, A, A])
    assert mota([doubled], [truth]).value() == pytest.approx(1 - 1 / 2)
    assert idf1([doubled], [truth]).value() == pytest.approx(2 * 2 / (2 + 3))
