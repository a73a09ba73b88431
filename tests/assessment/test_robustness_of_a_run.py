"""Robustness in a whole run: loss against distance on drawn squares that a plain function finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.cases.image.contrast import contrast
from roadworthy.data.png import encode_png
from roadworthy.distances.ssim import ssim
from roadworthy.measures.detection import ap50
from roadworthy.spec import SpecError

MODEL = '''
import numpy as np
from scipy import ndimage
from roadworthy.data.values import Boxes

def detect(image):
    """Bright regions; the brighter, the surer."""
    grey = np.asarray(image, float)
    found, n = ndimage.label(grey > 150)
    boxes = [(s[1].start, s[0].start, s[1].stop, s[0].stop) for s in ndimage.find_objects(found)]
    scores = [grey[found == k].mean() / 255 for k in range(1, n + 1)]
    return Boxes.of(boxes, scores=scores)
'''
FILE = """name: squares
subject: {task: detection, python: "model.py:detect"}
data:
  test: {coco: test.json, images: test, metadata: test.csv}
  group: drive
measure: recall
circumstances:
  flat: {transform: contrast, parameters: {factor: 0.3}, probability: 0.2, exposure: 1, likelihood: 2, severity: 5}
  noisy: {transform: gaussian_noise, levels: [1, 2, 3], probability: 0.1, exposure: 5, likelihood: 5, severity: 5}
  wet: {where: {weather: wet}, probability: 0.3}
  operation: {mixture: [flat, noisy]}
"""
STATED = """robustness:
  measures: [ap50, recall]
  source: {flat: 0, noisy: {found: 2, of: 40}, wet: {where: {weather: wet}}}
  viewpoints: {driver: {the sun is low: [flat]}}
  epsilon: [{up_to: 0.05, intercept: 0.9}, {up_to: 2, intercept: 0.3}]
  significance: 10
  resamples: 100
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place, rng = tmp_path_factory.mktemp("squares"), np.random.default_rng(0)
    (place / "test").mkdir()
    images, annotations, rows = [], [], ["id,drive,weather"]
    for i in range(40):
        image = rng.integers(20, 60, (32, 48)).astype(np.uint8)
        for k in range(1 + i % 3):
            x = 16 * k + int(rng.integers(0, 8))
            image[10:18, x : x + 8] = 200 + 10 * k
            box = {
                "id": len(annotations) + 1,
                "image_id": i,
                "category_id": 1,
                "bbox": [x, 10, 8, 8],
            }
            annotations.append(box)
        name = f"{i:02}.png"
        (place / "test" / name).write_bytes(encode_png(image))
        images.append({"id": i, "file_name": name, "width": 48, "height": 32})
        rows.append(f"{name},{i // 2},{'wet' if i % 4 == 0 else 'dry'}")
    content = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "square"}],
    }
    (place / "test.json").write_text(json.dumps(content))
    (place / "test.csv").write_text("\n".join(rows))
    (place / "model.py").write_text(MODEL)
    return place


def run(folder: Path, content: str, name: str = "assessment.yaml"):
    file = folder / name
    file.write_text(content)
    return assess(file, runs=folder / "runs", workers=1)


@pytest.fixture(scope="module")
def stated(folder):
    return run(folder, FILE + STATED)


def rows_of(found, circumstance, measure):
    return [r for r in found.relation if (r.circumstance, r.measure) == (circumstance, measure)]


def test_loss_and_distance_are_those_of_the_pictures(folder, stated):
    from roadworthy.data.samples import load

    data = load({"coco": "test.json", "images": "test"}, base=folder, name="test")
    namespace: dict = {}
    exec(MODEL, namespace)
    rng = np.random.default_rng(0)
    originals = [np.asarray(i) for i in data.inputs[:]]
    flat = [contrast(i, rng, factor=0.3) for i in originals]
    answers = [[namespace["detect"](i) for i in some] for some in (originals, flat)]
    before, after = (ap50(a, data.targets).value() for a in answers)
    (row,) = rows_of(stated.record.sections["robustness"], "flat", "ap50")
    assert row.loss == pytest.approx(before - after)
    assert row.distance == pytest.approx(
        np.mean([ssim(a, b) for a, b in zip(originals, flat, strict=True)])
    )


def test_the_relation_is_judged_and_a_claim(stated):
    found = stated.record.sections["robustness"]
    outcomes = {(o.circumstance, o.level): o.outcome for o in found.outcomes}
    assert outcomes["flat", None] == "breached"  # every square is lost
    assert stated.record.verdict == "breached"
    claim = next(c for c in stated.record.claims if c.id == "ROBUSTNESS")
    assert claim.status == "breached" and claim.bound < 0
    for row in found.relation:
        allowed = row.epsilon * row.weight - row.loss
        assert row.margin == pytest.approx(allowed)
        if row.outcome == "met":
            assert allowed >= 0
        if row.outcome == "breached":
            assert allowed < 0


def test_significance_shrinks_epsilon(stated):
    found = stated.record.sections["robustness"]
    assert rows_of(found, "flat", "ap50")[0].weight == 1.0  # 1 x 2 x 5 = 10
    assert rows_of(found, "noisy", "ap50")[0].weight == pytest.approx(10 / 125)


def test_gap_by_significance_and_what_is_known_of_the_source(stated):
    found = stated.record.sections["robustness"]
    gaps = {g.circumstance: g for g in found.gaps}
    assert [g.circumstance for g in found.gaps][:2] == ["noisy", "flat"]
    assert gaps["flat"].status == "missing" and gaps["flat"].gap == pytest.approx(0.2)
    assert gaps["wet"].source == pytest.approx(0.25) and gaps["wet"].origin == "metadata"
    assert gaps["noisy"].interval.contains(0.05) and gaps["noisy"].status == "cannot tell"


def test_of_a_mixture_only_changed_pictures_are_compared(stated):
    found = stated.record.sections["robustness"]
    (mixed,) = rows_of(found, "operation", "ap50")
    assert 0 < mixed.cases < 40
    changed = next(d.changed for d in found.distances if d.circumstance == "operation")
    assert changed == pytest.approx(mixed.cases / 40)


def test_what_has_no_original_has_no_relation(stated):
    assert not rows_of(stated.record.sections["robustness"], "wet", "ap50")


def test_the_report_draws_epsilon_and_names_the_questions(stated):
    page = (Path(stated.folder) / "report.html").read_text()
    assert "figure-robustness-ap50" in page and "What breaks first" in page
    assert "What is the impact of a change in circumstances on performance?" in page


def test_without_epsilon_nothing_is_judged_and_one_is_proposed(folder):
    found = run(
        folder, FILE + "robustness: {measures: [ap50], resamples: 100}\n", "none.yaml"
    ).record
    section = found.sections["robustness"]
    assert not section.outcomes and not found.claims
    assert [p.circumstance for p in section.proposals] == ["noisy"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("robustness: {source: {flta: 0.1}}", "did you mean .flat"),
        ("robustness: {source: {flat: {found: 9, of: 3}}}", "more than the 3"),
        ("robustness: {source: {flat: {estimator: blur}}}", "data.reference"),
        ("robustness: {distance: psnr}", "use mse"),
        ("robustness: {distance: iou}", "no distance between images"),
        ("robustness: {epsilon: [{up_to: 1}, {up_to: 0.5}]}", "order the pieces"),
        ("robustness: {epsilon: [{up_to: 1, slope: -1}]}", "0 or more"),
        ("claims: [{id: R, robustness_margin: {min: 0}, every: circumstances}]", "states none"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_place(folder, content, said):
    with pytest.raises(SpecError, match=said):
        run(folder, FILE + content + "\n", "bad.yaml")


HALVED = """name: halved
subject: {task: detection, python: "model.py:detect"}
data: {test: {coco: test.json, images: test}}
measure: recall
circumstances:
  flat: {transform: contrast, levels: [1, 2]}
  noisy: {transform: gaussian_noise, levels: [1]}
robustness:
  measures: [recall, ap50]
  epsilon: [{up_to: 2, intercept: 0.3}]
  halvings: 3
  resamples: 50
"""


def test_the_level_that_breaks_is_found_by_halving(folder):
    found = run(folder, HALVED).record.sections["robustness"]
    flat = next(b for b in found.breaks if b.circumstance == "flat")
    assert flat.crossed_at - flat.crossed_after == pytest.approx(1 / 2**3)  # level 1 breaks already
    assert len(flat.probes) == 3
    from roadworthy.cases.transform import at_strength
    from roadworthy.data.samples import load
    from roadworthy.measures.detection import recall

    data = load({"coco": "test.json", "images": "test"}, base=folder, name="test")
    namespace: dict = {}
    exec(MODEL, namespace)

    def margin(level: float) -> float:
        made = at_strength("contrast", level)
        pictures = [made.value(np.asarray(i), np.random.default_rng(0)) for i in data.inputs[:]]
        answers = [[namespace["detect"](i) for i in some] for some in (data.inputs[:], pictures)]
        losses = []
        for measure in (recall, ap50):
            before, after = (measure(a, data.targets).value() for a in answers)
            losses.append(before - after)
        return 0.3 - max(losses)

    for level, tried in flat.probes.items():
        assert tried == pytest.approx(margin(float(level)))
    assert margin(flat.crossed_after) >= 0 > margin(flat.crossed_at)


def test_probes_are_the_same_with_workers_and_are_not_judged(folder):
    one = run(folder, HALVED)
    two = assess(folder / "assessment.yaml", runs=folder / "other", workers=2)
    breaks = [r.record.sections["robustness"].breaks for r in (one, two)]
    assert breaks[0] == breaks[1]
    levels = {o.level for o in one.record.sections["robustness"].outcomes}
    assert levels == {1, 2}
    assert one.record.cases.total == 40 * (1 + 3 + 3)  # clean, levels, probes


def test_halving_needs_an_epsilon(folder):
    with pytest.raises(SpecError, match="halvings"):
        run(folder, FILE + "robustness: {halvings: 2}\n")


def test_an_epsilon_is_proposed_from_a_reference_run(folder):
    reference = run(folder, FILE + "robustness: {measures: [ap50], resamples: 50}\n", "other.yaml")
    stated = f"robustness: {{measures: [ap50], resamples: 50, reference: runs/{reference.folder.name}}}\n"
    found = run(folder, FILE + stated).record.sections["robustness"]
    (proposed,) = [p for p in found.proposals if not p.circumstance]
    upper = {r.distance: r.interval.high for r in found.relation}
    from roadworthy.analysis.robustness.relation import Epsilon

    epsilon = Epsilon.of(proposed.pieces)
    assert all(epsilon(d) >= high - 1e-9 for d, high in upper.items() if d > 0)
    assert epsilon(max(upper) * 1.01) is None
    with pytest.raises(SpecError, match="reference"):
        run(folder, FILE + "robustness: {reference: runs/none}\n")


def test_true_false_and_missed_detections_are_counted(stated, folder):
    found = stated.record.sections["robustness"]
    objects = len(json.loads((folder / "test.json").read_text())["annotations"])
    assert {c.found + c.missed for c in found.counts} == {objects}
    clean = found.counts[0]
    assert (clean.circumstance, clean.found, clean.false) == ("", objects, 0)
    for row in found.counts:
        assert row.recall == pytest.approx(row.found / objects)
        shown = row.found + row.false
        assert row.precision == (pytest.approx(row.found / shown) if shown else None)


SMALL = """name: small
subject: {task: detection, python: "model.py:detect"}
data: {test: {coco: test.json, images: test}}
measure: recall
"""


def section_of(folder, content: str):
    return run(folder, SMALL + content).record.sections["robustness"]


def test_a_detector_that_goes_blind_is_breached_although_precision_is_not_defined(folder):
    found = run(
        folder,
        SMALL
        + "circumstances: {flat: {transform: contrast, parameters: {factor: 0.3}}}\n"
        + "robustness: {measures: [precision, recall], epsilon: [{up_to: 2, intercept: 0.05}]}\n",
    )
    assert found.record.verdict == "breached"


def test_a_mixture_is_judged_by_the_groups_of_its_changed_pictures(folder):
    found = section_of(
        folder,
        "circumstances:\n  flat: {transform: contrast, levels: [1], probability: 0.1}\n"
        "  use: {mixture: [flat]}\n"
        "robustness: {measures: [recall], epsilon: [{up_to: 2, intercept: 0.5}], resamples: 50}\n",
    )
    (row,) = rows_of(found, "use", "recall")
    assert 0 < row.cases < 12 and row.groups == row.cases


def test_settings_of_the_measure_hold_in_robustness(folder):
    settings = "measure: {recall: {min_score: 0.9}}\n"
    content = SMALL.replace("measure: recall\n", settings)
    content += "circumstances: {noisy: {transform: gaussian_noise, levels: [1]}}\n"
    found = run(folder, content + "robustness: {measures: [recall], resamples: 50}\n")
    record = found.record.sections["robustness"]
    clean = record.performance[0].value
    assert clean == pytest.approx(found.finding("recall").value) and clean < 0.5
    own = content + "robustness: {measures: [{recall: {min_score: 0.1}}], resamples: 50}\n"
    assert run(folder, own).record.sections["robustness"].performance[0].value == 1.0


def test_sets_and_distances_that_are_empty_or_zero_do_not_stop_the_run(folder):
    found = section_of(
        folder,
        "circumstances:\n  same: {transform: saturate, levels: [1], probability: 0.001}\n"
        "  use: {mixture: [same]}\n"
        "robustness: {epsilon: [{up_to: 2, intercept: 0.5}], resamples: 50}\n",
    )
    assert {r.distance for r in found.relation} == {0.0}
    assert not any(d.circumstance == "use" for d in found.distances)


def test_pictures_that_cannot_be_read_are_left_out_and_said(folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("runs", "other"))
    broken = sorted((tmp_path / "copy" / "test").glob("*.png"))[-3:]
    for file in broken:
        file.write_bytes(b"no picture")
    content = (
        SMALL
        + "circumstances: {noisy: {transform: gaussian_noise, levels: [1]}}\nexecution: {chunk: 37}\n"
        + "robustness: {measures: [recall], resamples: 50}\n"
    )
    found = run(tmp_path / "copy", content).record
    assert {r.cases for r in found.sections["robustness"].relation} == {37}
    assert any("3 pictures cannot be read" in note for note in found.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("robustness: {distance: cw_ssim}", "at least 49 x 49 pixels"),
        ("robustness: {source: {use: 0.1}}", "is a mixture"),
        ("robustness: {measures: [accuracy]}", "accuracy compares"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_run(folder, content, said):
    circumstances = (
        "circumstances:\n  flat: {transform: contrast, levels: [1], probability: 0.1}\n"
        "  use: {mixture: [flat]}\n"
    )
    with pytest.raises(SpecError, match=said):
        run(folder, SMALL + circumstances + content + "\n")


def test_a_detector_that_finds_nothing_is_not_robust_by_having_nothing_to_lose(folder):
    (folder / "blind.py").write_text(MODEL.replace("grey > 150", "grey > 255"))
    content = SMALL.replace("model.py", "blind.py")
    content += "circumstances: {flat: {transform: contrast, levels: [1]}}\n"
    found = run(
        folder,
        content + "robustness: {measures: [recall], epsilon: [{up_to: 2, intercept: 0.5}]}\n",
    )
    assert found.record.verdict == "inconclusive"
    assert any("nothing to lose" in w for w in found.record.warnings)


def test_a_label_beyond_the_classes_is_refused(folder):
    (folder / "shifted.py").write_text(
        MODEL.replace("scores=scores", "labels=[1] * len(boxes), scores=scores")
    )
    with pytest.raises(SpecError, match="has the label 1; labels are 0 to 0, for square"):
        run(folder, SMALL.replace("model.py", "shifted.py"))


def test_boxes_on_objects_of_another_class_raise_doubt_of_the_class_order(folder):
    (folder / "swapped.py").write_text(
        MODEL.replace("scores=scores", "labels=[1] * len(boxes), scores=scores")
    )
    content = json.loads((folder / "test.json").read_text())
    content["categories"].append({"id": 2, "name": "disc"})
    (folder / "two.json").write_text(json.dumps(content))
    text = SMALL.replace("model.py", "swapped.py").replace("test.json", "two.json")
    assert any("0 of them with its class" in w for w in run(folder, text).record.warnings)


def test_conditions_without_any_answer_are_not_judged(folder):
    content = json.loads((folder / "test.json").read_text())
    rows = [
        {"image_id": a["image_id"], "category_id": 1, "bbox": a["bbox"], "score": 0.9}
        for a in content["annotations"]
    ]
    (folder / "answers.json").write_text(json.dumps(rows))
    text = SMALL.replace(
        'python: "model.py:detect"', "predictions: answers.json, annotations: test.json"
    )
    text += "circumstances: {flat: {transform: contrast, levels: [1]}}\n"
    found = run(
        folder, text + "robustness: {measures: [recall], epsilon: [{up_to: 2, intercept: 0.5}]}\n"
    )
    assert found.record.verdict == "inconclusive"
    assert any("no case has an answer" in w for w in found.record.warnings)


def test_ratings_may_be_words_and_epsilon_is_a_list(folder):
    words = "circumstances: {flat: {transform: contrast, levels: [1], exposure: frequent, likelihood: 2, severity: Minor}}\n"
    found = section_of(folder, words + "robustness: {resamples: 50}\n")
    assert found.targets[0].significance == 4 * 2 * 2
    with pytest.raises(SpecError, match="is a list of pieces"):
        run(folder, SMALL + words + "robustness: {epsilon: 0.05}\n")
