"""Circumstances that are several transforms in a row, mixtures, geometry, sources, attacks; and where cases break."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from roadworthy import assess
from roadworthy.assessment.follow_up import make_follow_up
from roadworthy.cases.circumstance import Search
from roadworthy.cases.transform import at_level, at_strength
from roadworthy.data.png import encode_png
from roadworthy.execution.plan import Wants, resolve
from roadworthy.spec import Assessment, SpecError

SORTER = """
import numpy as np
def predict(image):
    bright = float(np.mean(image)) / 255
    return [1 - bright, bright]
"""
FINDER = """
import numpy as np
from scipy import ndimage
def detect(image):
    regions, _ = ndimage.label(image > 128)
    return [[x.start, y.start, x.stop, y.stop, 1.0, 0] for y, x in ndimage.find_objects(regions)]
"""
NETWORK = """
import torch
def build():
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 2)
    with torch.no_grad():
        layer.weight[0] = -1.0; layer.weight[1] = 1.0; layer.bias[:] = torch.tensor([32.0, -32.0])
    return torch.nn.Sequential(torch.nn.Flatten(), layer)
"""

SEARCH = Search("breaks_at")


@pytest.fixture
def folder(tmp_path) -> Path:
    labels = np.arange(160) % 2
    rng = np.random.default_rng(0)
    images = (80 + 95 * labels[:, None, None] + rng.integers(-9, 10, (160, 8, 8))).astype(np.uint8)
    np.savez(tmp_path / "test.npz", images=images[:80], labels=labels[:80])
    np.savez(tmp_path / "calibration.npz", images=images[80:], labels=labels[80:])
    (tmp_path / "sorter.py").write_text(SORTER)
    (tmp_path / "network.py").write_text(NETWORK)
    return tmp_path


def spec_of(folder: Path, circumstances: str, *, more: str = "", subject: str = "") -> Assessment:
    subject = subject or "{task: classification, python: sorter.py:predict, classes: [dark, light]}"
    text = f"""
name: kinds
subject: {subject}
data:
  test: {{npz: test.npz}}
  calibration: {{npz: calibration.npz}}
  classes: [dark, light]
supervisors: [max_softmax]
circumstances: {{{circumstances}}}
{more}
"""
    return Assessment.parse(text, folder / "assessment.yaml")


def cases(run) -> dict[str, np.ndarray]:
    table = pq.read_table(run.folder / "tables" / "cases.parquet")
    return {name: np.array(table[name].to_pylist(), dtype=object) for name in table.column_names}


def test_transforms_in_a_row_are_applied_in_order(folder):
    spec = spec_of(folder, "dim: {transforms: [contrast, {gaussian_noise: 2}], levels: [1, 3]}")
    plan = resolve(spec)
    condition = plan.conditions[2]
    image, case = plan.data["test"].inputs[0], condition.case_id("0")
    once = at_level("contrast", 3).at_step(image, spec.seed, case)
    both = at_level("gaussian_noise", 2).at_step(once, spec.seed, case)
    assert condition.level == 3
    assert np.array_equal(plan.arriving(condition, case, image), both)
    run = assess(spec)
    assert [c.levels for c in run.record.circumstances] == [[1.0, 3.0]]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mixture_meets_circumstances_as_often_as_stated(folder, workers):
    more = "exclusive: [[dim, noisy]]\nrisk: {unit: EUR, costs: {right: 0, wrong: 10}}\nexecution: {chunk: 20}"
    kinds = (
        "dim: {transform: contrast, levels: [5], probability: 0.4},"
        "noisy: {transform: gaussian_noise, levels: [4], probability: 0.5},"
        "low: {transform: pixelate, levels: [1], probability: 0.9}, use: {mixture: all}"
    )
    run = assess(spec_of(folder, kinds, more=more), workers=workers, runs=folder / f"runs{workers}")
    found = cases(run)
    mixed = found["circumstance"] == "use"
    met = found["met"][mixed]
    assert not any("dim + noisy" in m for m in met)
    assert abs(np.mean([m == "none" for m in met]) - 0.1 * 0.1) < 0.06
    assert abs(np.mean(["dim" in m for m in met]) - 0.4) < 0.15
    # The expected cost is that of the cases which met something, and of clean ones otherwise.
    wrong = found["failure"].astype(bool)
    shifted = 1 - 0.1 * 0.1
    clean = wrong[(found["circumstance"] == "") & (found["role"] == "test")].mean()
    expected = 10 * (shifted * wrong[mixed][met != "none"].mean() + (1 - shifted) * clean)
    assert run.record.sections["risk"].value == pytest.approx(expected, rel=1e-6)


def test_of_an_exhaustive_group_every_case_meets_exactly_one(folder):
    made = (
        "dim: {transform: contrast, levels: [1], probability: 0.7}, use: {mixture: all},"
        "noisy: {transform: gaussian_noise, levels: [1], probability: 0.3}"
    )
    exclusive = "exclusive: [{of: [dim, noisy], exhaustive: true}]"
    plan = resolve(spec_of(folder, made, more=exclusive))
    mixture = plan.circumstance("use").generators()[0]
    assert mixture.probability_of_any() == pytest.approx(1)
    drawn = [mixture.drawn(plan.spec.seed, f"case {i}") for i in range(500)]
    assert {len(names) for names in drawn} == {1}
    assert 300 < sum("dim" in names for names in drawn) < 400


@pytest.mark.parametrize(
    ("circumstances", "more", "says"),
    [
        ("a: {mixture: [b]}", "", "no circumstance"),
        ("a: {mixture: all}", "", "no circumstance with a transform and a probability"),
        (
            "a: {transform: contrast, levels: [1]}, b: {mixture: [a]}",
            "",
            "a has no probability",
        ),
        (
            "a: {transform: contrast, levels: [1], probability: 0.7},"
            "b: {transform: snow, levels: [1], probability: 0.7}",
            "exclusive: [[a, b]]",
            "sum to 1.4",
        ),
        (
            "a: {run: false, probability: 0.7}, b: {run: false, probability: 0.2}",
            "exclusive: [{of: [a, b], exhaustive: true}]",
            r"exclusive\[0\]: the probabilities of a, b sum to 0.9; an exhaustive group sums to 1",
        ),
        ("a: {run: false}", "exclusive: [a]", r"write \[day, night\] or {of: \[day, night\]"),
        ("a: {transforms: [contrast]}", "", "contrast needs a level"),
        ("a: {transform: contrast, source: blank, levels: [1]}", "", "give exactly one"),
        ("a: {attack: pgd, levels: [1]}", "", "not applicable"),
        ("a: {source: blank, levels: [1]}", "", "levels belong to"),
        ("a: {where: {label: dark}, breaks_at: true}", "", "breaks_at searches"),
        ("a: {transform: saturate, levels: [1], breaks_at: true}", "", "not ordered by strength"),
        ("a: {attack: pgd}", "", "pgd needs levels, such as"),
        ("a: {attack: pgd, levels: [0]}", "", "pgd has levels 1 to 3"),
        ("a: {attack: pgd, parameters: {epsilon: 8}}", "", "write 0.031 for 8 of 255"),
        ("a: {attack: pgd, parameters: {epsilon: 0.1, steps: 0}}", "", "1 or more was expected"),
        ("a: {transform: motion_blur, parameters: {radius: 3}}", "", "needs the parameter 'sigma'"),
        ("a: {transform: contrast, parameters: {factor: x}}", "", "factor is 'x'; input should"),
        ("a: {transform: contrast, parameters: {factor: -1}}", "", "factor is -1"),
        (
            "a: {transform: occlusion, parameters: {share: 0.1, folder: nowhere}}",
            "",
            "does not exist; paths are relative to the folder of the assessment file",
        ),
        (
            "a: {transform: contrast, levels: [1], probability: 0.1}",
            "exclusive: [[a], [a]]",
            "'a' is named twice",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(folder, circumstances, more, says):
    with pytest.raises(SpecError, match=says):
        assess(spec_of(folder, circumstances, more=more))


def test_a_source_has_no_right_answer_and_no_parent(folder):
    more = """
verdicts: {rule: conformal, rate: 0.05}
claims: [{id: A, miss_rate: {max: 0.9}, supervisor: max_softmax, circumstance: noise}]"""
    run = assess(spec_of(folder, "noise: {source: uniform_noise}", more=more))
    accuracy = run.finding("accuracy", circumstance="noise")
    assert np.isnan(accuracy.value) and accuracy.reason == "no right answer"
    assert run.claims[0].members[0].n == 80
    found = cases(run)
    noise = found["circumstance"] == "noise"
    assert set(found["truth"][noise]) == {"invalid input"}
    plan = resolve(spec_of(folder, "noise: {source: uniform_noise}"))
    condition = plan.conditions[1]
    images = [
        plan.arriving(condition, c, np.zeros((8, 8), np.uint8))
        for c in ("0~noise", "1~noise", "calibration:0~noise")
    ]
    assert not np.array_equal(images[0], images[1]) and not np.array_equal(images[0], images[2])


def test_another_data_set_may_be_invalid_too(folder):
    np.savez(folder / "other.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.zeros(40, int))
    # Labels of its own mean nothing here; answers are shown by the subject's classes.
    for i, name in enumerate(("bird", "fish")):
        (folder / "animals" / name).mkdir(parents=True)
        picture = encode_png(np.full((8, 8), 200 * i, np.uint8))
        (folder / "animals" / name / "0.png").write_bytes(picture)
    for subject in ("", "{task: classification, python: sorter.py:predict}"):
        kinds = "animals: {source: {image_folder: animals}}"
        found = cases(assess(spec_of(folder, kinds, subject=subject)))
        assert found["prediction"][found["circumstance"] == "animals"].tolist() == ["dark", "light"]
    run = assess(spec_of(folder, "other: {source: {npz: other.npz}}"))
    assert run.finding("accuracy", circumstance="other").reason == "no right answer"
    assert run.record.data["circumstance:other"].n == 40


def test_an_attack_moves_pixels_by_epsilon_and_its_success_is_counted(folder):
    subject = "{task: classification, torch: network.py:build, classes: [dark, light]}"
    more = "claims: [{id: A, attack_success: {max: 0.2}, circumstance: fgsm}]"
    kinds = "fgsm: {attack: fgsm, parameters: {epsilon: 0.25}, breaks_at: true}"
    run = assess(spec_of(folder, kinds, more=more, subject=subject))
    record = run.record.sections["attacks"].attacks[0]
    assert record.linf == pytest.approx(0.25, abs=1e-6) and record.attacked == 80
    # The network answers by the mean against 1/2: an image turns if its mean is within epsilon of it.
    images = np.load(folder / "test.npz")["images"] / 255
    away = np.abs(images.mean(axis=(1, 2)) - 0.5)
    success = run.finding("attack_success", circumstance="fgsm")
    assert success.value == pytest.approx((away < 0.25).mean())
    assert run.claims[0].status == "breached"
    breaks = run.record.sections["breaks"].circumstances[0]
    assert breaks.median == pytest.approx(np.median(away), abs=0.25 / 256)


def test_an_image_that_cannot_be_attacked_fails_alone(folder):
    images = np.load(folder / "test.npz")["images"].astype(np.float32) / 255
    images[3, 0, 0], images[5] = np.nan, 7.0
    np.savez(folder / "test.npz", images=images, labels=np.arange(80) % 2)
    subject = "{task: classification, torch: network.py:build, classes: [dark, light]}"
    kinds = "fgsm: {attack: fgsm, parameters: {epsilon: 0.25}, breaks_at: true}"
    run = assess(spec_of(folder, kinds, subject=subject))
    found = cases(run)
    here = found["circumstance"] == "fgsm"
    assert np.flatnonzero(found["error_message"][here]).tolist() == [3, 5]
    assert "divide by the largest value" in found["error_message"][here][5]
    breaks = run.record.sections["breaks"].circumstances[0]
    assert (breaks.cases, breaks.wrong_before) == (78, 2)


def test_the_strength_at_which_cases_break_is_that_of_the_closed_form(folder):
    (folder / "spread.py").write_text(
        "import numpy as np\n"
        "def predict(image):\n"
        "    wide = float(np.std(image.astype(float))) > 20\n"
        "    return [1.0 - wide, float(wide)]\n"
    )
    checked = np.indices((8, 8)).sum(axis=0) % 2
    images = np.stack([100 + a * checked for a in np.linspace(50, 120, 80)]).astype(np.uint8)
    np.savez(folder / "test.npz", images=images, labels=np.ones(80, int))
    subject = "{task: classification, python: spread.py:predict, classes: [dark, light]}"
    run = assess(
        spec_of(folder, "dim: {transform: contrast, levels: [1], breaks_at: true}", subject=subject)
    )
    found = run.record.sections["breaks"].circumstances[0]
    assert found.cases == 80 and found.wrong_before == 0
    levels = np.linspace(0, 5, 5 * 8 * 64 + 1)
    first = []
    for image in images[[0, 40, 79]]:
        made = (at_strength("contrast", s).at_step(image, 0, "x") for s in levels)
        first.append(
            next(s for s, m in zip(levels, made, strict=True) if np.std(m.astype(float)) <= 20)
        )
    assert found.median == pytest.approx(np.median(first), abs=0.15)
    assert first == sorted(first)


def test_a_case_that_fails_at_a_level_is_found_there_at_the_latest(folder):
    """JPEG declares no identity: below level 1 nothing is done, so failing at level 1 is breaking at 1."""
    (folder / "fussy.py").write_text(
        "import numpy as np\n"
        "def predict(image):\n"
        "    return [0.0, 1.0] if np.isin(image, (100, 200)).all() else [1.0, 0.0]\n"
    )
    images = np.where(np.random.default_rng(0).random((80, 8, 8)) < 0.5, 100, 200)
    np.savez(folder / "test.npz", images=images.astype(np.uint8), labels=np.ones(80, int))
    subject = "{task: classification, python: fussy.py:predict, classes: [dark, light]}"
    kinds = "low: {transform: jpeg_compression, levels: [1], breaks_at: true}"
    run = assess(spec_of(folder, kinds, subject=subject))
    assert run.finding("accuracy", circumstance="low", level=1).value == 0.0
    found = run.record.sections["breaks"].circumstances[0]
    assert found.median == 1.0
    assert {c.strength: c.share for c in found.curve}[1.0] == 1.0


def test_parameters_that_are_no_strength_stay_while_it_is_searched(folder):
    """Cut-outs with no opaque pixel hide nothing, whatever their share; grey blocks do."""
    (folder / "cut").mkdir()
    (folder / "cut" / "glass.png").write_bytes(encode_png(np.zeros((4, 4, 4), np.uint8)))
    (folder / "fussy.py").write_text(
        "import numpy as np\n"
        "def predict(image):\n"
        "    return [0.0, 1.0] if (image == 255).all() else [1.0, 0.0]\n"
    )
    np.savez(
        folder / "test.npz", images=np.full((80, 8, 8), 255, np.uint8), labels=np.ones(80, int)
    )
    subject = "{task: classification, python: fussy.py:predict, classes: [dark, light]}"
    never = {}
    for name, given in (("blocks", "share: 0.1"), ("glass", "share: 0.1, folder: cut")):
        kinds = f"x: {{transform: occlusion, parameters: {{{given}}}, breaks_at: true}}"
        run = assess(spec_of(folder, kinds, subject=subject))
        never[name] = run.record.sections["breaks"].circumstances[0].never
    assert never == {"blocks": 0, "glass": 80}


def test_other_cut_outs_are_other_cases(folder):
    (folder / "cut").mkdir()
    keys = []
    for shade in (10, 250):
        picture = np.full((4, 4, 4), shade, np.uint8)
        (folder / "cut" / "a.png").write_bytes(encode_png(picture))
        kinds = "x: {transform: occlusion, parameters: {share: 0.2, folder: cut}, breaks_at: true}"
        plan = replace(resolve(spec_of(folder, kinds)), wants=Wants(searches=(("x", SEARCH),)))
        keys.append({c.condition.name: c.key for c in plan.chunks})
    assert keys[0][""] == keys[1][""]
    assert keys[0]["x"] != keys[1]["x"] and keys[0]["x@breaks_at"] != keys[1]["x@breaks_at"]


def test_a_condition_in_which_every_row_fails_is_measured(folder):
    (folder / "sum.py").write_text("def predict(row):\n    return float(row.sum())\n")
    (folder / "rows.csv").write_text(
        "id,a,b,y\n" + "".join(f"{i},{i},1,{i + 1}\n" for i in range(9))
    )
    text = """
subject: {task: regression, python: sum.py:predict}
data: {test: {csv: rows.csv, features: [a, b], target: y}}
failure: {error: {above: 0.5}}
circumstances: {gone: {transform: missing_values, parameters: {probability: 1.0}}}
"""
    run = assess(Assessment.parse(text, folder / "rows.yaml"))
    assert run.finding("failure_rate", circumstance="gone").value == 1.0


def test_images_of_a_follow_up_set_that_cannot_be_made_are_named(folder):
    images = np.full((6, 8, 8), 0.5, np.float32)
    images[2, 0, 0] = np.nan
    np.savez(folder / "test.npz", images=images, labels=np.arange(6) % 2)
    # Met by half of the images: what is unchanged has NaN as well.
    spec = spec_of(folder, "dim: {transform: contrast, levels: [1], probability: 0.5}")
    made = make_follow_up(spec, folder / "set", n=60)
    assert made.cases == 50 and len(made.failed) == 10
    assert all(case.startswith("2~") and "NaN" in why for case, why in made.failed.items())
    assert len(list((folder / "set").rglob("*.png"))) == 50


def test_a_follow_up_set_of_changed_images_needs_a_probability_above_0(folder):
    spec = spec_of(folder, "dim: {transform: contrast, levels: [1], probability: 0}")
    with pytest.raises(SpecError, match="every probability is 0"):
        make_follow_up(spec, folder / "set", n=5, only_changed=True)
    assert make_follow_up(spec, folder / "set", n=5).frequencies[-1].achieved == 1.0


def test_a_follow_up_set_leaves_out_what_acts_inside_the_subject(folder):
    kinds = (
        "dim: {transform: contrast, levels: [1], probability: 0.5},"
        "inside: {transform: snow, levels: [1], port: second.image, probability: 0.5}"
    )
    made = make_follow_up(spec_of(folder, kinds), folder / "set", n=5)
    assert [f.circumstance for f in made.frequencies] == ["dim", "none of them"]


def scenes(folder: Path, n: int = 12) -> None:
    """A bright block on dark, and its box."""
    rng = np.random.default_rng(1)
    (folder / "images").mkdir()
    images, annotations = [], []
    for i in range(n):
        picture = np.full((64, 64), 20, np.uint8)
        x, y = rng.integers(20, 34, 2).tolist()
        picture[y : y + 12, x : x + 12] = 230
        (folder / "images" / f"{i}.png").write_bytes(encode_png(picture))
        images.append({"id": i, "file_name": f"{i}.png", "width": 64, "height": 64})
        annotations.append({"id": i, "image_id": i, "category_id": 1, "bbox": [x, y, 12, 12]})
    content = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "b"}]}
    (folder / "scenes.json").write_text(json.dumps(content))
    (folder / "finder.py").write_text(FINDER)


DETECTION = """
subject: {task: detection, python: finder.py:detect}
data: {test: {coco: scenes.json, images: images/}}
measure: recall
circumstances:
  turned: {transform: rotation, levels: [5], probability: 0.5}
  noisy: {transform: gaussian_noise, levels: [1], probability: 0.25}
"""


def test_boxes_move_with_the_picture(tmp_path):
    scenes(tmp_path)
    (tmp_path / "assessment.yaml").write_text(DETECTION)
    run = assess(tmp_path / "assessment.yaml")
    assert run.finding("recall", circumstance="turned", level=5).value == 1.0


def test_boxes_that_leave_the_picture_are_counted(tmp_path):
    scenes(tmp_path)
    cut = "{transform: truncated_section, parameters: {share: 0.9}}"
    text = DETECTION.replace("{transform: rotation, levels: [5], probability: 0.5}", cut)
    (tmp_path / "assessment.yaml").write_text(text)
    spec = Assessment.read(tmp_path / "assessment.yaml")
    run, plan = assess(spec), resolve(spec)
    targets = plan.targets(plan.conditions[1])
    gone = sum(int(t.ignore.sum()) for t in targets)
    assert 0 < gone <= 12
    assert any(n.startswith(f"turned: {gone} of 12 boxes are ignored") for n in run.record.notes)


def test_a_follow_up_set_has_the_wanted_frequencies_and_can_be_assessed(tmp_path):
    scenes(tmp_path)
    (tmp_path / "assessment.yaml").write_text(DETECTION)
    spec = Assessment.read(tmp_path / "assessment.yaml")
    made = make_follow_up(spec, tmp_path / "set", n=400)
    wanted = {f.circumstance: (f.wanted, f.achieved) for f in made.frequencies}
    assert wanted["none of them"][0] == pytest.approx(0.375)
    assert all(abs(a - w) < 0.08 for w, a in wanted.values())
    make_follow_up(spec, tmp_path / "again", n=400, workers=1)
    assert (tmp_path / "set" / "annotations.json").read_text() == (
        tmp_path / "again" / "annotations.json"
    ).read_text()
    with (tmp_path / "set" / "cases.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 400 == len(list((tmp_path / "set" / "images").iterdir()))
    only = make_follow_up(spec, tmp_path / "only", n=100, only_changed=True)
    assert only.frequencies[-1].achieved == 0.0
    text = DETECTION.split("circumstances")[0].replace(
        "coco: scenes.json, images: images/", "coco: set/annotations.json, images: set/images/"
    )
    (tmp_path / "second.yaml").write_text(text)
    assert assess(tmp_path / "second.yaml").finding("recall").value > 0.95
