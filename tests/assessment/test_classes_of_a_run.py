"""What a run says of each class, and claims that name one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.sections.classes import ClassesRecord
from roadworthy.report.html import html
from roadworthy.spec import Assessment, SpecError, assessment_schema
from roadworthy.store.record import Record

pytestmark = pytest.mark.usefixtures("no_monitor")

NAMES = ("benign", "malignant", "normal")


def table(
    folder: Path, names: tuple[str, ...] = NAMES, n: int = 600, known: float = 0.4
) -> list[list[str]]:
    """Probabilities of a model, as one file; the truth gets `known` on top of chance."""
    rng = np.random.default_rng(5)
    rows = []
    for i in range(n):
        true = rng.integers(len(names))
        scores = rng.dirichlet(np.ones(len(names))) * (1 - known)
        scores[true] += known
        rows.append([str(i), names[true], *(f"{s:.6f}" for s in scores), f"p{i // 4}", "XY"[i % 2]])
    head = ["id", "label", *names, "patient", "site"]
    lines = [",".join(row) for row in (head, *rows)]
    (folder / "answers.csv").write_text("\n".join(lines))
    return rows


def judged(folder: Path, *claims: str, more: str = "") -> Run:
    text = (
        "subject: {task: classification, predictions: answers.csv}\n"
        "data: {test: {predictions: answers.csv}, group: patient}\n"
        f"{more}slices: [site]\nclaims: [{', '.join(claims)}]\n"
    )
    return assess(Assessment.parse(text, folder / "assessment.yaml"))


def part_of(run: Run) -> ClassesRecord:
    part = Record.read(run.folder).sections["classes"]
    assert isinstance(part, ClassesRecord)
    return part


def answer(row: list[str]) -> str:
    return NAMES[int(np.argmax([float(x) for x in row[2:5]]))]


def test_the_record_has_the_matrix_and_every_class(tmp_path):
    rows = table(tmp_path)
    run = judged(tmp_path)
    part = part_of(run)
    assert part.answers == list(NAMES)
    for i, true in enumerate(NAMES):
        own = [row for row in rows if row[1] == true]
        assert part.confusion[i] == [sum(answer(row) == name for row in own) for name in NAMES]
        found = part.classes[i]
        said = sum(answer(row) == true for row in rows)
        right = sum(answer(row) == true for row in own)
        assert (found.name, found.n) == (true, len(own))
        assert found.sensitivity.value == pytest.approx(right / len(own))
        assert found.precision.value == pytest.approx(right / said)
        assert found.f1.value == pytest.approx(2 * right / (said + len(own)))
        for one in (found.sensitivity, found.precision, found.f1):
            assert one.groups == 150 and one.interval.contains(one.value)
            assert one.interval.confidence == 0.95
    page = html(Record.read(run.folder))
    assert '<section id="classes">' in page and "figure-confusion" in page


def test_claims_on_a_class_at_an_operating_point(tmp_path):
    rows = table(tmp_path)
    run = judged(
        tmp_path,
        "{id: A, sensitivity: {min: 0.9}, class: malignant, threshold: 0.3}",
        "{id: B, specificity: {min: 0.2}, class: malignant, threshold: 0.3}",
        "{id: C, precision: {min: 0.3}, class: malignant}",
        "{id: D, f1: {min: 0.99}, class: malignant}",
        "{id: E, auroc: {min: 0.7}, class: malignant}",
        "{id: F, ece: {max: 0.9}}",
        "{id: G, sensitivity: {min: 0.5}, class: benign, every: site}",
    )
    status = {c.id: c.status for c in run.record.claims}
    assert [c for c in status if status[c] != "met"] == ["D"] and status["D"] == "breached"
    claim = run.record.claims[0]
    assert claim.text == "sensitivity of malignant at threshold 0.3 at least 90%"
    own = [float(row[3]) >= 0.3 for row in rows if row[1] == "malignant"]
    assert claim.value == pytest.approx(np.mean(own)) and claim.n == len(own)
    assert claim.bound < claim.value
    assert len(run.record.claims[6].members) == 2
    assert "sensitivity: the share of the cases of a class" in html(run.record)


def test_a_class_without_cases_in_a_slice_is_inconclusive_and_says_why(tmp_path):
    rows = table(tmp_path)
    lines = [",".join(["id", "label", *NAMES, "patient", "site"])]
    lines += [",".join([*row[:6], "X" if row[1] == "malignant" else row[6]]) for row in rows]
    (tmp_path / "answers.csv").write_text("\n".join(lines))
    run = judged(tmp_path, "{id: A, sensitivity: {min: 0.9}, class: malignant, slice: {site: Y}}")
    claim = run.record.claims[0]
    assert claim.status == "inconclusive" and "no case is of class malignant" in claim.why


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("{id: A, sensitivity: {min: 0.9}}", "sensitivity is about a class; add class: NAME"),
        (
            "{id: A, sensitivity: {min: 0.9}, class: malignent}",
            "no class 'malignent' (did you mean 'malignant'?)",
        ),
        ("{id: A, ece: {max: 0.1}, class: benign}", "ece is not about a class; leave class out"),
        (
            "{id: A, auroc: {min: 0.9}, class: benign, threshold: 0.5}",
            "auroc is not about a threshold",
        ),
        ("{id: A, accuracy: {min: 0.9}, class: benign}", "accuracy is not about a class"),
        ("{id: A, f1: {max: 0.9}, class: benign}", "f1: {min: 0.9}"),
        ("{id: A, f1: {min: 90}, class: benign}", "did you mean 0.9?"),
        ("{id: A, f1: {min: 0.9}, class: benign, threshold: 1.5}", "threshold"),
        ("{id: A, f1: {min: 0.9}, clas: benign}", "did you mean 'class'?"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, claim, said):
    table(tmp_path, n=60)
    with pytest.raises(SpecError) as refused:
        judged(tmp_path, claim)
    assert said in str(refused.value)


def detection(measure: str, claim: str) -> Assessment:
    text = (
        f"subject: {{task: detection, predictions: preds/}}\ndata: {{test: {{coco: a.json}}}}\n"
        f"{measure}claims: [{claim}]\n"
    )
    return Assessment.parse(text, "a.yaml")


def test_precision_of_a_detector_stays_its_measure():
    found = detection("measure: precision\n", "{id: A, precision: {max: 0.9}}")
    assert found.claims[0].quantity == "precision"
    with pytest.raises(SpecError, match="precision is not about a class"):
        detection("measure: precision\n", "{id: A, precision: {min: 0.9}, class: car}")
    with pytest.raises(SpecError, match=r"class_scores.* boxes; set measure: precision"):
        detection("", "{id: A, precision: {min: 0.9}}")
    with pytest.raises(SpecError, match="f1 is of class_scores, and the task gives boxes"):
        detection("", "{id: A, f1: {min: 0.9}, class: car}")


BOXES = """\
import json
from roadworthy.data.values import Boxes

def predict(image):
    return Boxes.of([[0, 0, 4, 4]] if image.mean() > 128 else [[4, 4, 8, 8]])
"""


def test_a_claim_on_the_precision_of_a_detector_is_judged_on_its_boxes(tmp_path):
    import json

    from roadworthy.data.png import encode_png

    shade = [200, 60] * 20
    for i, grey in enumerate(shade):
        image = np.full((8, 8), grey, dtype=np.uint8)
        (tmp_path / f"{i}.png").write_bytes(encode_png(image))
    coco = {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 8, "height": 8} for i in range(40)],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1, "bbox": [0, 0, 4, 4], "area": 16}
            for i in range(40)
        ],
        "categories": [{"id": 1, "name": "thing"}],
    }
    (tmp_path / "a.json").write_text(json.dumps(coco))
    (tmp_path / "subject.py").write_text(BOXES)
    text = (
        "subject: {task: detection, python: subject.py:predict}\n"
        "data: {test: {coco: a.json, images: .}}\nmeasure: precision\n"
        "claims: [{id: A, precision: {min: 0.9}}]\n"
    )
    run = assess(Assessment.parse(text, tmp_path / "assessment.yaml"))
    claim = run.record.claims[0]
    assert claim.status == "breached" and claim.value == pytest.approx(0.5)
    assert part_of(run).classes == []
    assert '<section id="classes">' not in html(run.record)


def test_positions_stand_for_classes_without_names_and_silence_has_a_column(tmp_path):
    labels = np.arange(80) % 2
    images = np.where(labels[:, None, None] == 1, 200, 60) + np.zeros((80, 4, 4))
    images[:4] = 0
    np.savez(tmp_path / "test.npz", images=images.astype(np.uint8), labels=labels)
    (tmp_path / "subject.py").write_text(
        "def predict(image):\n"
        "    if image.max() == 0:\n        raise ValueError('black')\n"
        "    return [0.3, 0.7] if image.mean() > 128 else [0.6, 0.4]\n"
    )
    text = (
        "subject: {task: classification, python: subject.py:predict}\ndata: {test: {npz: test.npz}}\n"
        "execution: {chunk: 20}\n"
        "claims: [{id: A, sensitivity: {min: 0.8}, class: 1}, {id: B, specificity: {min: 0.97}, class: 1}]\n"
    )
    run = assess(Assessment.parse(text, tmp_path / "assessment.yaml"))
    part = part_of(run)
    assert part.answers == ["0", "1", "no answer"]
    assert part.confusion == [[38, 0, 2], [0, 38, 2]]
    assert [c.value for c in run.record.claims] == [0.95, 0.95]
    assert part.classes[1].precision.value == 1.0
    with pytest.raises(SpecError, match="positions such as 0"):
        assess(Assessment.parse(text.replace("class: 1", "class: cat"), tmp_path / "b.yaml"))


def test_many_classes_show_the_most_frequent_confusions_instead_of_a_matrix(tmp_path):
    names = tuple(f"c{i:02d}" for i in range(21))
    table(tmp_path, names, n=900, known=0.1)
    run = judged(tmp_path)
    page = html(run.record)
    assert "figure-confusion" not in page and "Most frequent confusions" in page
    matrix = np.array(part_of(run).confusion)
    wrong = np.sort((matrix - np.diag(np.diag(matrix))).ravel())[::-1]
    shown = page.split("Most frequent confusions")[1].split("</section>")[0]
    rows = [re.findall(r">\s*([^<>\s][^<>]*?)\s*<", part) for part in shown.split("<tr>")[2:]]
    assert [int(row[2]) for row in rows] == wrong[:15].tolist() and wrong[0] > 1
    for true, answer, count, share in rows:
        row = names.index(true)
        assert int(count) == matrix[row, names.index(answer)]
        assert float(share.rstrip("%")) == pytest.approx(
            100 * int(count) / matrix[row].sum(), abs=0.051
        )
    table(tmp_path, names, n=300)
    assert "No case was confused." in html(judged(tmp_path).record)


def test_the_schema_accepts_a_class_and_a_threshold():
    claim = assessment_schema()["$defs"]["ClaimSpec"]["properties"]
    assert claim["class"]["description"] and claim["threshold"]["anyOf"][0]["maximum"] == 1
    spec = Assessment.parse(
        "subject: {task: classification, predictions: a.csv}\ndata: {test: {npz: a.npz}}\n"
        "claims: [{id: A, f1: {min: 0.9}, class: cat, threshold: 0.5}]",
        "a.yaml",
    )
    assert spec.model_dump(mode="json")["claims"][0]["class"] == "cat"
