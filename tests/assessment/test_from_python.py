"""From Python: a model with arrays, the content of a file as a mapping, and results as tables."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy import DataError, SpecError, SubjectError, assess

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = np.where(X[:, 0] > 0, "malignant", "benign")


class Forest:
    """Answers as scikit-learn's classifiers do, in an order of its own."""

    classes_ = np.array(["malignant", "benign"])

    def predict_proba(self, rows):
        p = 1 / (1 + np.exp(-4 * np.asarray(rows)[:, 0]))
        return np.stack([p, 1 - p], axis=1)


def test_a_classifier_with_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claims = [{"id": "A", "accuracy": {"min": 0.95}}]
    run = assess(Forest(), X, Y, groups=np.arange(240) // 4, claims=claims)
    assert run.verdict == "met" and run.finding("accuracy").value == 1.0
    assert run.finding("accuracy").groups == 60 and run.folder.parent == tmp_path / "runs"
    assert run.record.subject.classes == ["malignant", "benign"]
    assert repr(run).startswith("<Run Forest: 1 met;") and "A" in run._repr_html_()
    frame = run.findings.to_pylist()
    (row,) = [r for r in frame if r["quantity"] == "accuracy" and not r["circumstance"]]
    assert row["value"] == 1.0 and row["low"] < 1.0 and row["n"] == 240
    assert run.cases.num_rows == 240
    assert assess(Forest(), X, Y).record.cases.computed == 240


def test_a_callable_without_an_order_of_its_own_is_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"classes: \[malignant, benign\]"):
        assess(lambda x: [x[0] > 0, x[0] <= 0], X, Y)


def test_a_classifier_that_only_predicts_and_a_function_of_many_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Machine:
        classes_ = np.array(["malignant", "benign"])

        def predict(self, rows):
            return np.where(np.asarray(rows)[:, 0] > 0.1, "malignant", "benign")

    right = float((Machine().predict(X) == Y).mean())
    assert assess(Machine(), X, Y).finding("accuracy").value == right < 1.0
    many = assess(Forest().predict_proba, X, Y, classes=["malignant", "benign"])
    assert many.finding("accuracy").value == 1.0
    with pytest.raises(SubjectError, match="a classifier, or a function"):
        assess(object(), X, Y)


def test_numbers_and_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Line:
        def predict(self, rows):
            return np.asarray(rows)[:, 0] * 2

    found = assess(Line(), X, X[:, 0] * 2 + 0.5).finding("rmse")
    assert found.value == pytest.approx(0.5)
    images = np.tile((100 * (np.arange(60) % 2))[:, None, None], (1, 4, 4)).astype(np.uint8)
    more = {"circumstances": {"dim": {"transform": "contrast", "levels": [1]}}}
    run = assess(lambda x: [x.mean() < 50, x.mean() >= 50], images, np.arange(60) % 2, **more)
    assert run.finding("accuracy").value == 1.0
    assert run.finding("accuracy", circumstance="dim", level=1).n == 60


def test_the_content_of_a_file_as_a_mapping(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("label,prediction\n" + "x,x\ny,y\n" * 30)
    run = assess(
        {
            "subject": {"task": "classification", "predictions": tmp_path / "a.csv"},
            "claims": [{"id": "A", "accuracy": {"min": 0.5}}],
        }
    )
    assert run.verdict == "met"


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ((3,), SpecError, "assess takes a path, a mapping, or a model"),
        ((object(), X, Y), SubjectError, "cannot be called"),
        ((Forest(), X, Y[:5]), DataError, "one target a row"),
    ],
)
def test_what_is_no_model_and_no_file_is_refused(tmp_path, monkeypatch, given, kind, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=says):
        assess(*given)


def test_classes_name_the_outputs_of_a_model_that_does_not(tmp_path):
    names = np.array(["small", "large"])
    rows = np.linspace(0, 1, 120)[:, None].repeat(2, axis=1)
    right = names[(rows[:, 0] > 0.5).astype(int)]

    def model(row):
        return [1.0 - row[0], row[0]]

    with pytest.raises(SpecError, match=r"^data\.test: The class order is inferred"):
        assess(model, rows, right, runs=tmp_path)
    run = assess(model, rows, right, classes=names, runs=tmp_path)
    assert run.finding("accuracy").value == 1.0
