"""What a post must look like, and which sentence says what is wrong with one: a batch is taken whole or not at all."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.web.events import Batch, Reader, placed
from roadworthy.web.http import Refused

NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog"], 300)
    shift = np.repeat([0.0, 2.0], 300)
    columns = {"knn": rng.normal(shift), "energy": rng.normal(shift)}
    return fit_calibration(columns, kind, rng.random(600) < np.repeat([0.9, 0.5], 300))


@pytest.fixture(scope="module")
def reader(calibration: Calibration) -> Reader:
    return Reader(calibration, subject="lesion-2.3.1")


def event(i: int, **changed: object) -> dict[str, object]:
    return {"id": f"e{i}", "time": NOW + i, "scores": {"knn": 0.1 * i, "energy": 1.0}, **changed}


def ndjson(*events: object) -> bytes:
    return "\n".join(json.dumps(e) for e in events).encode()


def refusal(reader: Reader, body: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        reader.read(body, now=NOW)
    return caught.value


def test_one_event_a_list_and_lines_are_the_same_events(reader, calibration):
    events = [event(i) for i in range(5)]
    expected = calibration.place({"knn": [0.1 * i for i in range(5)], "energy": [1.0] * 5})
    for body in (
        json.dumps(events).encode(),
        ndjson(*events),
        ndjson(*events) + b"\n\n",
        ndjson(*events).replace(b"\n", b"\r\n"),
    ):
        batch = reader.read(body, now=NOW)
        assert batch.ids == [f"e{i}" for i in range(5)]
        assert batch.times.tolist() == [NOW + i for i in range(5)]
        assert batch.cells.tolist() == expected.tolist()
    for body in (
        json.dumps(event(3), indent=2).encode(),
        json.dumps(event(3, subject="lesion-2.3.1")).encode(),
    ):
        alone = reader.read(body, now=NOW)
        assert (alone.id, alone.time, alone.scores) == ("e3", NOW + 3, event(3)["scores"])
        assert placed([alone], calibration).cells.tolist() == [expected[3]]


def test_events_without_a_time_count_in_the_order_of_their_post(reader):
    events = [{"id": f"e{9 - i}", "scores": {"knn": 0.1 * i, "energy": 1.0}} for i in range(10)]
    for body in (ndjson(*events), json.dumps(events).encode()):
        times = reader.read(body, now=NOW).times
        assert times[0] == NOW and (np.diff(times) > 0).all() and times[-1] - NOW < 1e-3


def test_a_line_at_a_time_and_column_by_column_agree(reader):
    mixed = [event(0), event(1, subject="lesion-2.3.1"), event(2), event(3)]
    uniform = [event(i) for i in range(4)]
    assert (
        reader.read(ndjson(*mixed), now=NOW).cells.tolist()
        == reader.read(ndjson(*uniform), now=NOW).cells.tolist()
    )


def test_a_missing_score_is_null_or_left_out(reader, calibration):
    batch = reader.read(
        ndjson(
            event(0, scores={"knn": None, "energy": 1.0}),
            event(1, scores={"energy": 1.0}),
            event(2, scores={}),
        ),
        now=NOW,
    )
    assert batch.cells.tolist() == [
        *calibration.place({"knn": [math.nan] * 2, "energy": [1.0] * 2}),
        -1,
    ]


def test_time_may_be_left_out_or_written_as_iso_8601(reader):
    without = {"id": "a", "scores": {"knn": 1.0, "energy": 1.0}}
    zoned = {**without, "id": "b", "time": "2023-11-14T22:13:20Z"}
    assert reader.read(ndjson(without, zoned), now=NOW).times.tolist() == [NOW, NOW]


def test_a_cell_can_be_sent_instead_of_scores(reader, calibration):
    body = ndjson({"id": "a", "time": 1, "cell": 3}, {"id": "b", "time": 1, "cell": -1})
    assert reader.read(body, now=NOW).cells.tolist() == [3, -1]
    assert f"0 to {calibration.cells - 1}" in str(
        refusal(reader, ndjson({"id": "a", "time": 1, "cell": calibration.cells}))
    )


def test_a_verdict_is_the_score_of_a_calibration_that_reads_one():
    rng = np.random.default_rng(1)
    kind, verdict = (
        np.repeat(["clean", "fog"], 300),
        np.concatenate([rng.random(300) < 0.1, rng.random(300) < 0.8]),
    )
    one = fit_calibration({"detector": verdict.astype(float)}, kind, rng.random(600) < 0.8)
    read = Reader(one, subject="s").read(
        ndjson({"id": "a", "verdict": True}, {"id": "b", "verdict": False}), now=NOW
    )
    assert read.cells.tolist() == one.place({"detector": [1.0, 0.0]}).tolist()


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_a_verdict_is_refused_where_the_calibrated_score_is_none(scale):
    rng = np.random.default_rng(1)
    kind, score = np.repeat(["clean", "fog"], 300), scale * rng.random(600)
    one = fit_calibration({"energy": score}, kind, rng.random(600) < 0.8)
    said = str(refusal(Reader(one, subject="s"), ndjson({"id": "a", "verdict": True})))
    assert "a score of 0 or 1" in said and '"scores": {"energy": 0.5}' in said


@pytest.mark.parametrize(
    ("wrong", "line", "says"),
    [
        (b'{"id": "b", "time": 1, "scores": {"knn": NaN, "energy": 1}}', 2, "Score 'knn' is NaN"),
        (
            b'{"id": "b", "time": 1, "scores": {"knn": -Infinity, "energy": 1}}',
            2,
            "Score 'knn' is infinite",
        ),
        (
            b'{"id": "b", "time": 1, "scores": {"knn": 1e999, "energy": 1}}',
            2,
            "Score 'knn' is infinite",
        ),
        (b'{"id": "b", "time": 1, "scores": {"knn": "0.5", "energy": 1}}', 2, "must be a number"),
        (
            b'{"id": "b", "time": 1, "scores": {"kn": 1, "energy": 1}}',
            2,
            "Unknown score 'kn' (did you mean 'knn'?)",
        ),
        (b'{"id": "b", "time": 1, "score": {"knn": 1}}', 2, "Unknown key 'score'"),
        (b'{"id": "b", "time": 1}', 2, "one of scores, verdict and cell"),
        (b'{"id": "b", "time": 1, "scores": 5}', 2, "object of names and numbers"),
        (b'{"id": "b", "time": 1, "verdict": true}', 2, "needs a calibration of one score"),
        (b'{"id": "", "time": 1, "scores": {}}', 2, "1 to 200 characters"),
        (b'{"time": 1, "scores": {}}', 2, "found None"),
        (b'{"id": "b", "time": NaN, "scores": {}}', 2, "seconds since 1970"),
        (b'{"id": "b", "time": true, "scores": {}}', 2, "seconds since 1970"),
        (b'{"id": "b", "time": "yesterday", "scores": {}}', 2, "ISO 8601"),
        (b'{"id": "b", "time": 1700000000000, "scores": {}}', 2, "looks like milliseconds"),
        (b'{"id": "b", "time": 1700000000000000, "scores": {}}', 2, "looks like microseconds"),
        (b'{"id": "b", "time": 1700000000000000000, "scores": {}}', 2, "looks like nanoseconds"),
        (b'{"id": "b", "time": 1.7e25, "scores": {}}', 2, "is out of range"),
        (b'{"id": "b", "time": 1, "scores": {"knn": 0.5, "ene', 2, "not JSON"),
        (
            b'{"id": "b", "scores": {}}{"id": "c", "scores": {}}',
            2,
            "--data-binary",
        ),
        (b"[1]", 2, "An event is an object"),
        (b'"text"', 2, "An event is an object"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(reader, wrong, line, says):
    error = refusal(reader, ndjson(event(0)) + b"\n" + wrong + b"\n" + ndjson(event(2)))
    assert (error.status, error.line) == (400, line)
    assert str(error).startswith(f"line {line}: ") and says in str(error)


def test_what_is_wrong_in_a_list_is_said_with_its_place(reader):
    lines = [
        json.dumps(event(0)),
        '{"id": "b", "time": 1, "scores": {"knn": NaN, "energy": 1}}',
        json.dumps(event(2)),
    ]
    error = refusal(reader, f"[{', '.join(lines)}]".encode())
    assert (error.status, error.line) == (400, 2) and "Score 'knn' is NaN" in str(error)


def test_an_event_of_another_subject_is_a_conflict(reader):
    for body in (
        json.dumps(event(0, subject="lesion-2.4.0")).encode(),
        ndjson(event(0), event(1, subject="lesion-2.4.0")),
    ):
        error = refusal(reader, body)
        assert error.status == 409 and "lesion-2.4.0" in str(error) and "lesion-2.3.1" in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"  \n ", b"[]", b"5", b"null", b'{"id": "a"', b"\xff\xfe", b"id=a&time=1"]
)
def test_what_is_no_event_is_refused(reader, body):
    assert refusal(reader, body).status == 400


def test_two_events_on_a_line_and_one_over_two_lines_are_not_taken_for_lines(reader):
    first = json.dumps(event(0)).encode()
    over_two = first.replace(b'"time"', b'\n"time"')
    assert refusal(reader, first + b"," + first + b"\n" + over_two).line == 1


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=20), st.floats(-1e12, 1e12), st.integers(-1, 200)),
        min_size=0,
        max_size=30,
    )
)
def test_a_batch_survives_the_log(events):
    batch = Batch(
        [e[0] for e in events],
        np.array([e[1] for e in events]),
        np.array([e[2] for e in events], dtype=np.int16),
    )
    back, now = Batch.unpacked(batch.packed(now=NOW))
    assert now == NOW
    assert back.ids == batch.ids
    assert (
        back.times.tolist() == batch.times.tolist() and back.cells.tolist() == batch.cells.tolist()
    )


def test_labels_are_read_in_every_form_and_refused_with_their_line(reader):
    label = {"id": "a", "correct": True}
    for body in (json.dumps(label), json.dumps([label]), json.dumps(label) + "\n"):
        assert reader.labels(body.encode()) == [("a", True, None)]
    for wrong in (
        {"id": "b"},
        {"id": "b", "correct": "yes"},
        {"id": "b", "correct": True, "probability": 0},
        {"id": "b", "correct": True, "cell": 1},
        {"id": "b", "right": True},
        5,
    ):
        with pytest.raises(Refused) as refused:
            reader.labels(ndjson(label, wrong))
        assert (refused.value.status, refused.value.line) == (400, 2)
