"""A run at work: live answers are those of its table of cases, and a monitor takes them."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sorter import SMALL, SUBJECT, bundle_of, drawn, laid_out, run

from roadworthy import Bundle, Events, Monitor, Run, SubjectError, Supervised, assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.assessment.supervised import SupervisedAnswer
from roadworthy.monitor import EventError
from roadworthy.registry import register, remove
from roadworthy.spec import Assessment
from roadworthy.store import RunFolder
from roadworthy.web.events import Reader

FASHION = Path(__file__).parents[2] / "examples" / "fashion"
CLOTHES = """\
name: clothes
subject: {task: classification, torch: model.py:build, weights: weights.safetensors}
data:
  test: {bundled: fashion-mnist, split: test, n: 150}
  calibration: {bundled: fashion-mnist, split: calibration, n: 200}
  reference: {bundled: fashion-mnist, split: reference, n: 200}
circumstances:
  noise: {transform: gaussian_noise, levels: [3], table: wang}
supervisors:
  - max_softmax
  - energy
  - mc_dropout_mi
  - {mc_dropout_pe: {n: 7, rate: 0.2}}
  - {knn: {k: 5}}
  - {knn: {k: 3, layer: hidden}}
  - mahalanobis
  - grad_norm
  - {autoencoder: {epochs: 1}}
  - {fused: {members: [max_softmax, mc_dropout_mi]}}
  - {fused: {how: logistic}}
execution: {chunk: 64}
"""


@pytest.fixture(scope="module")
def clothes(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("clothes")
    for name in ("model.py", "weights.safetensors"):
        shutil.copy(FASHION / name, folder / name)
    return run(folder, CLOTHES)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(laid_out(tmp_path_factory.mktemp("small")))


def inputs_of(done: Run, condition: int = 0) -> tuple[list[str], list[np.ndarray]]:
    """The test cases of a run under one of its conditions, as the subject was given them."""
    spec = Assessment.parse(done.record.spec_text, done.folder / done.record.base / "a.yaml")
    plan = plan_assessment(spec)
    where, data = plan.conditions[condition], plan.data["test"]
    ids = [where.case_id(i) for i in data.ids]
    return ids, [plan.arriving(where, case, data.inputs[i]) for i, case in enumerate(ids)]


@pytest.mark.parametrize("condition", [0, 1], ids=["clean", "noise"])
def test_scores_are_those_of_the_table_of_cases(clothes: Run, condition: int) -> None:
    ids, images = inputs_of(clothes, condition)
    supervised, cases = Supervised(clothes.folder), RunFolder.open(clothes.folder).cases()
    rows = slice(condition * len(ids), (condition + 1) * len(ids))
    assert cases["case"][rows].tolist() == ids
    assert len(supervised.supervisors) == 11
    answers = supervised.batch(np.stack(images), ids=ids)
    for label in supervised.supervisors:
        found = np.array([answer.scores[label] for answer in answers])
        np.testing.assert_allclose(found, cases[label][rows], rtol=1e-6, atol=1e-6, err_msg=label)
        limit = supervised.thresholds[label].value
        assert [a.alarms[label] for a in answers] == (cases[label][rows] > limit).tolist()
    assert [a.prediction for a in answers] == cases["prediction"][rows].tolist()
    np.testing.assert_allclose([a.confidence for a in answers], cases["confidence"][rows])


def test_one_input_is_answered_as_in_a_batch(clothes: Run) -> None:
    _, images = inputs_of(clothes)
    supervised = Supervised(clothes.folder)
    together = supervised.batch(images[:6])
    for image, other in zip(images, together, strict=False):
        answer = supervised(image)
        assert answer.prediction == other.prediction and answer.id != other.id
        for label, score in answer.scores.items():
            # One row takes another kernel of the matrix product: float32 rounds differently.
            assert score == pytest.approx(other.scores[label], rel=2e-5, abs=2e-6), label


def test_some_of_the_supervisors_bring_their_members(clothes: Run) -> None:
    supervised = Supervised(
        clothes.folder, supervisors=["fused(members=['max_softmax', 'mc_dropout_mi'])"]
    )
    assert supervised.supervisors[:2] == ["max_softmax", "mc_dropout_mi"]
    assert len(supervised.supervisors) == 3
    with pytest.raises(ValueError, match=r"no supervisor 'knm'.*It has: max_softmax, energy"):
        Supervised(clothes.folder, supervisors=["knm"])


def test_an_onnx_model_with_a_layer(tmp_path: Path) -> None:
    shutil.copy(FASHION / "model.onnx", tmp_path / "model.onnx")
    text = CLOTHES[: CLOTHES.index("supervisors:")].replace(
        "torch: model.py:build, weights: weights.safetensors", "onnx: model.onnx"
    )
    done = run(tmp_path, f"{text}supervisors: [energy, knn, fused]\nexecution: {{chunk: 150}}\n")
    ids, images = inputs_of(done)
    answers = Supervised(done.folder).batch(images)
    cases = RunFolder.open(done.folder).cases()
    for label in ("energy", "knn", "fused"):
        found = [answer.scores[label] for answer in answers]
        np.testing.assert_allclose(found, cases[label][: len(ids)], rtol=1e-6)


def test_a_python_function_and_a_threshold_for_each_class(tmp_path: Path) -> None:
    verdicts = "verdicts: {per_class: true, rate: 0.1}\nexecution:"
    done = run(laid_out(tmp_path), SMALL, ("execution:", verdicts))
    ids, images = inputs_of(done)
    supervised, cases = Supervised(done.folder), RunFolder.open(done.folder).cases()
    threshold = supervised.thresholds["deep_gini"]
    assert len({one.value for one in threshold.per_class.values()}) == 2
    for i in range(20):
        answer = supervised(images[i], id=ids[i])
        limit = threshold.per_class[str(cases["prediction_index"][i])].value
        assert answer.id == ids[i] and answer.scores["deep_gini"] == cases["deep_gini"][i]
        assert answer.alarms["deep_gini"] == (cases["deep_gini"][i] > limit)


def test_without_calibration_there_are_no_alarms(tmp_path: Path) -> None:
    without = ("  calibration: {npz: calibration.npz, columns: [site]}\n", "")
    done = run(laid_out(tmp_path), SMALL, without)
    answer = Supervised(done.folder)(np.zeros((8, 8), np.uint8))
    assert answer.alarms == {} and set(answer.scores) == {"max_softmax", "deep_gini"}
    assert set(answer.event["scores"]) == {"max_softmax", "deep_gini"}


def test_an_input_without_an_answer_says_why_and_is_an_alarm(small: Run) -> None:
    good, bad = Supervised(small.folder).batch([np.full((8, 8), 200, np.uint8), "no image"])
    assert good.error is None and good.prediction == "1" and good.confidence > 0.9
    assert bad.prediction is None and "AttributeError" in str(bad.error)
    assert math.isnan(bad.confidence) and math.isnan(bad.scores["max_softmax"])
    assert bad.alarms == {"max_softmax": True, "deep_gini": True}
    assert bad.event["scores"] == {"max_softmax": None, "deep_gini": None}


def test_ids_must_be_as_many_as_inputs_and_different(small: Run) -> None:
    supervised = Supervised(small.folder)
    for ids in (["a"], ["a", "a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="2 inputs need as many ids, all different"):
            supervised.batch(np.zeros((2, 8, 8), np.uint8), ids=ids)
    assert supervised.batch([]) == []


def test_a_subject_of_numbers_answers_with_a_number(tmp_path: Path) -> None:
    user = laid_out(tmp_path)
    images = drawn(60, 1)["images"]
    np.savez(user / "test.npz", images=images, labels=images.mean(axis=(1, 2)).astype(float))
    (user / "subject.py").write_text("def predict(image):\n    return [image.mean() / 2]\n")
    text = (
        "subject: {task: regression, python: subject.py:predict}\ndata: {test: {npz: test.npz}}\n"
    )
    answer = Supervised(run(user, text).folder)(images[0])
    assert answer.prediction == pytest.approx(images[0].mean() / 2, rel=1e-6)
    assert math.isnan(answer.confidence) and answer.scores == {}


def test_rows_of_class_scores_where_there_are_only_predictions(tmp_path: Path) -> None:
    user = laid_out(tmp_path)
    ids, images = inputs_of(run(user))
    rows = np.array([[1 - p, p] for p in (image.mean() / 255 for image in images)])
    lines = [json.dumps({"id": c, "scores": r.tolist()}) for c, r in zip(ids, rows, strict=True)]
    (user / "answers.jsonl").write_text("\n".join(lines))
    text = (
        "name: only\nsubject: {task: classification, predictions: answers.jsonl}\n"
        "data: {test: {npz: test.npz}, reference: {npz: calibration.npz}}\n"
    )
    done = run(user, f"{text}supervisors: [max_softmax, deep_gini]\n")
    (user / "answers.jsonl").unlink()  # on other hardware there is no such file
    cases = RunFolder.open(done.folder).cases()
    answers = Supervised(done.folder).batch(rows)
    assert [a.scores["deep_gini"] for a in answers] == cases["deep_gini"].tolist()
    assert [a.prediction for a in answers] == cases["prediction"].tolist()
    assert Supervised(done.folder)([0.25, 0.75]).scores["max_softmax"] == 0.25


class Brightness:
    """The mean of the input."""

    from roadworthy.subject.needs import Input

    needs = (Input(),)
    fitted = False

    def applies_to(self, kind: object) -> None:
        return None

    def score(self, trace: object) -> np.ndarray:
        return np.array([np.mean(image) for image in trace.columns["input"]])  # type: ignore[attr-defined]

    def save(self, folder: Path) -> None:
        """Nothing."""


def test_a_supervisor_of_inputs_is_refused_where_there_are_only_predictions(tmp_path: Path) -> None:
    user = laid_out(tmp_path)
    (user / "answers.csv").write_text("id,0,1\n" + "".join(f"{i},0.2,0.8\n" for i in range(160)))
    text = (
        "subject: {task: classification, predictions: answers.csv}\ndata: {test: {npz: test.npz}}\n"
        "supervisors: [max_softmax, brightness]\n"
    )
    register("supervisors", "brightness")(Brightness)
    try:
        done = run(user, text)
        with pytest.raises(SubjectError, match="brightness reads inputs, and here these are rows"):
            Supervised(done.folder)
        assert Supervised(done.folder, supervisors=["max_softmax"])([0.5, 0.5]).confidence == 0.5
    finally:
        remove("supervisors", "brightness")


def test_a_subject_whose_file_changed_is_refused_and_named(tmp_path: Path) -> None:
    user = laid_out(tmp_path)
    done = run(user)
    source = (user / "subject.py").read_text()
    (user / "subject.py").write_text(source.replace("/ 30", "/ 60"))
    with pytest.raises(SubjectError, match=r"^subject\.py in .* has changed.*check=False"):
        Supervised(done.folder)
    with pytest.warns(UserWarning, match=r"^subject\.py in .* has changed"):
        supervised = Supervised(done.folder, check=False)
    sure = 1 / (1 + math.exp(-(255 - 128) / 60))
    assert supervised(np.full((8, 8), 255, np.uint8)).confidence == pytest.approx(sure)
    (user / "subject.py").write_text(source)
    assert Supervised(done.folder).supervisors == ["max_softmax", "deep_gini"]


def test_a_run_that_was_moved_is_told_where_the_file_is(tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    done = run(laid_out(user))
    moved = tmp_path / "archive" / "of" / "runs" / "sorter"
    shutil.copytree(done.folder, moved)
    with pytest.raises(SubjectError, match=r"^subject\.py in .*set base="):
        Supervised(moved)
    assert Supervised(moved, base=user)(np.zeros((8, 8), np.uint8)).prediction == "0"


def test_a_model_in_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(200, 2))
    done = assess(lambda row: [1.0, 0.0] if row[0] < 0 else [0.0, 1.0], rows, rows[:, 0] > 0)
    with pytest.raises(SubjectError, match="was in memory"):
        Supervised(done.folder)


def test_the_monitor_takes_one_answer_and_many(small: Run) -> None:
    supervised, bundle = Supervised(small.folder), bundle_of(small)
    answers = supervised.batch(drawn(50, 7)["images"])
    columns = {n: [a.scores[n] for a in answers] for n in bundle.calibration.names}
    by_columns = Monitor(bundle)
    by_columns.update(Events([a.id for a in answers], [a.time for a in answers], columns=columns))
    one_by_one, at_once = Monitor(bundle), Monitor(bundle)
    assert sum(one_by_one.update(answer).accepted for answer in answers) == 50
    assert at_once.update(answers).accepted == 50 and at_once.update(answers).repeated == 50
    expected = by_columns.state.recent.cell.tolist()
    assert one_by_one.state.recent.cell.tolist() == at_once.state.recent.cell.tolist() == expected
    other = replace(answers[0], subject="another")
    for given in (other, [other]):
        with pytest.raises(EventError, match="this monitor watches"):
            at_once.update(given)
    silent = replace(answers[0], id="silent", scores={"max_softmax": math.inf})
    assert (
        at_once.update(silent).unscored == at_once.update([replace(silent, id="2")]).unscored == 1
    )


def test_the_service_reads_the_events_of_answers(clothes: Run) -> None:
    bundle = Bundle.load(clothes.folder / "monitor" / "bundle.json")
    answers = Supervised(clothes.folder).batch(inputs_of(clothes)[1][:5])
    assert set(bundle.calibration.names) < set(answers[0].scores), "the monitor reads some of them"
    reader = Reader(bundle.calibration, subject=bundle.called, bundle=bundle.id)
    posts = (
        json.dumps([a.event for a in answers]).encode(),
        b"\n".join(json.dumps(a.event).encode() for a in answers),
    )
    monitor = Monitor(bundle)
    monitor.update(answers)
    for body in posts:
        batch = reader.read(body, now=0.0)
        assert batch.ids == [a.id for a in answers] and batch.times.tolist() == [
            a.time for a in answers
        ]
        assert batch.cells.tolist() == monitor.state.recent.cell.tolist()


def test_the_ten_lines_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (FASHION.parents[1] / "docs" / "ways-in.md").read_text()
    (code,) = re.findall(r"```python\n(import roadworthy.*?)```", page, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 11
    text = SMALL.replace("gaussian_noise, levels: [1, 3]", "contrast, levels: [1, 2]")
    (laid_out(tmp_path) / "assessment.yaml").write_text(text)
    # Less sure where there is less contrast, so that scores show the shift.
    unsure = SUBJECT.replace("/ 30", "/ 30 * float(image.std()) / 20")
    (tmp_path / "subject.py").write_text(unsure)
    monkeypatch.chdir(tmp_path)
    referred: list[SupervisedAnswer] = []
    images = drawn(200, 7)["images"]
    given = {"inputs": images, "refer": lambda x, answer: referred.append(answer)}
    exec(compile(code, "ways-in.md", "exec"), given)
    accuracy, alarm = capsys.readouterr().out.split()
    assert alarm == "False" and 0.7 < float(accuracy) < 1.0
    assert 0 < len(referred) < 60 and all(any(a.alarms.values()) for a in referred)


@pytest.mark.slow
def test_every_supervisor_of_the_example_scores_as_in_its_run(tmp_path: Path) -> None:
    text = (FASHION / "supervisors.yaml").read_text().replace("split: test", "split: test, n: 300")
    for name in ("model.py", "weights.safetensors"):
        shutil.copy(FASHION / name, tmp_path / name)
    done = run(tmp_path, text)
    ids, images = inputs_of(done)
    supervised, cases = Supervised(done.folder), RunFolder.open(done.folder).cases()
    answers = supervised.batch(np.stack(images), ids=ids)
    assert len(supervised.supervisors) == 31
    for label in supervised.supervisors:
        found = np.array([answer.scores[label] for answer in answers])
        np.testing.assert_allclose(found, cases[label][: len(ids)], rtol=1e-6, err_msg=label)
