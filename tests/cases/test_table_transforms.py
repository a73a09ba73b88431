"""Rows of features: noise, missing values, a wrong unit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from roadworthy.assessment.assess import assess
from roadworthy.assessment.export import export
from roadworthy.cases.transform import Transform
from roadworthy.spec import Assessment

ROW = np.array([36.6, 120.0, -2.0, 0.0])
SETTINGS = {
    "column_noise": {"scale": 0.5},
    "missing_values": {"probability": 0.5},
    "wrong_unit": {"factor": 25.4},
}


def made(name: str, row: np.ndarray, seed: int = 0, **parameters) -> np.ndarray:
    return Transform(name, parameters).value(row, np.random.default_rng(seed))


@given(
    name=st.sampled_from(sorted(SETTINGS)),
    width=st.integers(1, 8),
    dtype=st.sampled_from([np.float32, np.float64]),
    draw=st.data(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None)
def test_only_the_columns_that_are_named_change(name, width, dtype, draw, seed):
    columns = draw.draw(st.lists(st.integers(0, width - 1), unique=True))
    row = np.random.default_rng(seed).normal(5, 1, width).astype(dtype)
    row.setflags(write=False)
    changed = made(name, row, seed, columns=columns, **SETTINGS[name])
    others = np.setdiff1d(np.arange(width), columns)
    assert changed.dtype == row.dtype and changed.shape == row.shape
    assert np.array_equal(changed[others], row[others])
    again = made(name, row, seed, columns=columns, **SETTINGS[name])
    assert np.array_equal(changed, again, equal_nan=True)


def test_noise_is_normal_with_the_deviation_of_its_column():
    noise = (
        np.array(
            [
                made("column_noise", ROW, seed, scale=[0.5, 3.0], columns=[0, 2])
                for seed in range(2000)
            ]
        )
        - ROW
    )
    assert not noise[:, [1, 3]].any()
    for column, deviation in ((0, 0.5), (2, 3.0)):
        assert kstest(noise[:, column], "norm", (0, deviation)).pvalue > 0.001


def test_relative_noise_is_a_share_of_the_value():
    found = np.array([made("column_noise", ROW, s, scale=0.1, relative=True) for s in range(2000)])
    np.testing.assert_allclose(found.std(axis=0), 0.1 * np.abs(ROW), rtol=0.07)


def test_whole_numbers_stay_whole():
    changed = made("column_noise", ROW, scale=5.0, whole=[1, 2])
    assert np.array_equal(changed[[1, 2]], np.rint(changed[[1, 2]])) and changed[0] % 1
    ages = np.array([34, 71])
    for name in ("column_noise", "wrong_unit"):
        assert made(name, ages, **SETTINGS[name]).dtype == ages.dtype
    assert made("wrong_unit", ages, factor=0.0254).tolist() == [1, 2]


def test_values_are_missing_with_their_probability_and_stay_missing():
    found = np.array([made("missing_values", ROW, s, probability=0.3) for s in range(3000)])
    share = np.isnan(found).mean(axis=0)
    np.testing.assert_allclose(share, 0.3, atol=4 * np.sqrt(0.21 / 3000))
    gap = np.array([np.nan, 1.0])
    for name, parameters in SETTINGS.items():
        assert np.isnan(made(name, gap, **parameters)[0])


@pytest.mark.parametrize(
    ("name", "parameters", "row", "sentence"),
    [
        ("column_noise", {"scale": [1.0, 2.0]}, ROW, "2 numbers for 4 columns"),
        ("column_noise", {"scale": -1.0}, ROW, "0 or more was expected"),
        ("column_noise", {"scale": 1.0, "columns": [4]}, ROW, "4 is not a column of a row of 4"),
        ("missing_values", {"probability": 1.5}, ROW, "0 to 1 was expected"),
        ("missing_values", {"probability": 0.5}, np.array([1, 2]), "cannot hold NaN"),
        ("wrong_unit", {"factor": float("inf")}, ROW, "a finite number was expected"),
        ("wrong_unit", {"factor": 2.0}, np.zeros((2, 2)), "shape"),
        ("wrong_unit", {"factor": 2.0}, np.array(["a"]), "not numbers"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_a_sentence(name, parameters, row, sentence):
    with pytest.raises(ValueError, match=sentence):
        made(name, row, **parameters)


SUBJECT = """\
import json, math

def predict(row):
    with open("seen.jsonl", "a") as file:
        file.write(json.dumps([None if math.isnan(x) else x for x in row]) + chr(10))
    return [0.2, 0.8]
"""


def test_a_missing_value_reaches_the_subject_as_nan_and_an_export_as_null(
    tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{i + 0.5},{i % 2}\n" for i in range(8))
    (tmp_path / "test.csv").write_text(f"a,b,label\n{rows}")
    (tmp_path / "subject.py").write_text(SUBJECT)
    text = (
        "subject: {task: classification, python: subject.py:predict}\n"
        "data: {test: {csv: test.csv, features: [a, b]}}\n"
        "circumstances: {gaps: {transform: missing_values, levels: [3]}}\n"
    )
    spec = Assessment.parse(text, tmp_path / "assessment.yaml")
    assess(spec, runs=tmp_path / "runs")
    seen = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    gaps = seen[-8:]
    assert sum(row.count(None) for row in gaps) > 2
    assert not any(row.count(None) for row in seen[:-8])
    done = export(spec, tmp_path / "out")
    lines = (tmp_path / "out" / "inputs.jsonl").read_text()
    assert done.cases == 16 and "NaN" not in lines
    assert [json.loads(line)["vector"] for line in lines.splitlines()][-8:] == gaps
