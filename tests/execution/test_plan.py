"""A plan finds everything that is wrong with a file before the first case is run, and names its work by what it depends on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.data.samples import Dataset
from roadworthy.data.values import IMAGE, LABEL, TEXT, VECTOR
from roadworthy.execution.plan import Plan
from roadworthy.execution.work import Unfinished
from roadworthy.spec import Assessment, SpecError
from roadworthy.subject.module import function_module
from roadworthy.subject.system import single
from roadworthy.subject.training import member_file, save_member

pytestmark = pytest.mark.usefixtures("no_monitor")

FILE = """\
name: judge
subject:
  task: classification
  python: subject.py:predict
data:
  test: {npz: test.npz, columns: [site]}
circumstances:
  noise:
    transform: gaussian_noise
    levels: [0, 1, 3]
    table: wang
    exposure: 2
  site_b: {where: {site: B}}
slices: [site]
supervisors: [max_softmax]
claims:
  - id: ACC
    accuracy: {min: 0.5}
  - {id: NOISE, accuracy: {min: 0.1}, circumstance: noise, level: 1}
seed: 4
execution: {chunk: 8}
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    light = np.linspace(10, 245, 20)
    images = np.broadcast_to(light[:, None, None], (20, 8, 8)).astype(np.uint8)
    sites = np.array(["A", "B"] * 10)
    np.savez(
        tmp_path / "test.npz", images=images, labels=(light > 127).astype(np.int64), site=sites
    )
    (tmp_path / "subject.py").write_text(
        "def predict(image):\n    x = image.mean() / 255\n    return [1 - x, x]\n"
    )
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


def plan_of(user: Path, text: str = FILE) -> Plan:
    return plan_assessment(Assessment.parse(text, user / "assessment.yaml"))


# Each: what is replaced, by what, the line and field of the error, and what it must say.
TYPOS = {
    "top level": ("seed: 4", "sede: 4", 20, "sede", "not known (did you mean 'seed'?)"),
    "subject": ("python: subject", "pyton: subject", 2, "subject", "did you mean 'python'?"),
    "subject's parameter": (
        "  python:",
        "  vershun: 2\n  python:",
        4,
        "subject.vershun",
        "did you mean 'version'?",
    ),
    "task": ("task: classification", "task: clasification", 3, "subject.task", "did you mean 'classification'?"),
    "function": ("subject.py:predict", "subject.py:predikt", 4, "subject.python", "did you mean 'predict'?"),
    "subject's file": ("subject.py:predict", "subjekt.py:predict", 4, "subject.python", "did you mean 'subject.py'?"),
    "role": ("  test: {", "  tset: {}\n  test: {", 6, "data.tset", "did you mean 'test'?"),
    "loader": ("{npz: test.npz", "{nzp: test.npz", 6, "data.test", "did you mean 'npz'?"),
    "loader's parameter": ("columns: [site]", "colums: [site]", 6, "data.test", "did you mean 'columns'?"),
    "column": ("columns: [site]", "columns: [sight]", 6, "data.test", "did you mean 'site'?"),
    "circumstance": ("    exposure: 2", "    expossure: 2", 12, "circumstances.noise.expossure", "did you mean 'exposure'?"),
    "scale": ("exposure: 2", "exposure: 9", 12, "circumstances.noise.exposure", "it is 9"),
    "transform": ("gaussian_noise", "gausian_noise", 9, "circumstances.noise.transform", "did you mean 'gaussian_noise'?"),
    "level": ("[0, 1, 3]", "[0, 1, 4]", 10, "circumstances.noise.levels", "has levels 0 to 3 in its table 'wang'; 4 is not"),
    "table": ("table: wang", "table: wong", 10, "circumstances.noise.levels", "did you mean 'wang'?"),
    "parameter": (
        "levels: [0, 1, 3]\n    table: wang",
        "parameters: {scail: 0.1}",
        10,
        "circumstances.noise.parameters",
        "did you mean 'scale'?",
    ),
    "port": (
        "    exposure: 2",
        "    port: model.imag",
        12,
        "circumstances.noise.port",
        "the subject has no port 'model.imag' (did you mean 'model.image'?)",
    ),
    "kind": (
        "gaussian_noise",
        "swap_characters",
        9,
        "circumstances.noise.transform",
        "swap_characters changes text, but image flows at input",
    ),
    "filter": ("{site: B}", "{sight: B}", 13, "circumstances.site_b.where", "did you mean 'site'?"),
    "filter's value": ("{site: B}", "{site: C}", 13, "circumstances.site_b.where", "0 of 20 cases match"),
    "slice": ("slices: [site]", "slices: [sight]", 14, "slices[0]", "did you mean 'site'?"),
    "supervisor": ("[max_softmax]", "[max_sofmax]", 15, "supervisors[0]", "did you mean 'max_softmax'?"),
    "supervisor's parameter": ("[max_softmax]", "[{max_softmax: {k: 5}}]", 15, "supervisors[0]", "takes no parameter 'k'"),
    "supervisor's module": (
        "[max_softmax]",
        "[{max_softmax: {module: modle}}]",
        15,
        "supervisors[0]",
        "did you mean 'model'?",
    ),
    "claim": ("    accuracy: {min: 0.5}", "    accuracy: {mni: 0.5}", 17, "claims[0]", "'mni' is not known; it takes min or max"),
    "claimed quantity": ("    accuracy: {min: 0.5}", "    acuracy: {min: 0.5}", 17, "claims[0]", "did you mean 'accuracy'?"),
    "claim's circumstance": ("circumstance: noise", "circumstance: nois", 19, "claims[1].circumstance", "did you mean 'noise'?"),
    "claim's place": ("    accuracy: {min: 0.5}", "    accuracy: {min: 0.5}\n    every: slice", 19, "claims[0].every", "'slices'"),
    "claim's level": ("noise, level: 1", "noise, level: 2", 19, "claims[1].level", "noise is run at the levels 0, 1, 3"),
    "level of nothing": ("circumstance: noise, level", "level", 19, "claims[1].level", "add circumstance: NAME"),
    "claim's slice": ("{id: NOISE,", "{id: NOISE, slice: {sight: B},", 19, "claims[1].slice", "did you mean 'site'?"),
    "claim's supervisor": (
        "{id: NOISE, accuracy: {min: 0.1}",
        "{id: NOISE, auc_failure: {min: 0.1}, supervisor: max_sofmax",
        19,
        "claims[1].supervisor",
        "did you mean 'max_softmax'?",
    ),
    "claim's id": ("{id: NOISE", "{id: ACC", 19, "claims[1].id", "ids must be unique"),
    "measure": ("seed: 4", "measure: acuracy", 20, "measure", "did you mean 'accuracy'?"),
    "measure of other kinds": ("seed: 4", "measure: wer", 20, "measure", "measures that fit: accuracy"),
    "failure": ("seed: 4", "failure: {rong: true}", 20, "failure", "did you mean 'wrong'?"),
    "execution": ("{chunk: 8}", "{chunks: 8}", 21, "execution.chunks", "did you mean 'chunk'?"),
    "chunk": ("{chunk: 8}", "{chunk: 0}", 21, "execution.chunk", "it is 0"),
}  # fmt: skip


@pytest.mark.parametrize("place", TYPOS)
def test_a_typo_is_answered_with_file_line_field_and_remedy(user, place):
    old, new, line, field, remedy = TYPOS[place]
    assert old in FILE
    file = user / "assessment.yaml"
    file.write_text(FILE.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        assess(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:{line}: {field}: "), message
    assert remedy in message, message
    assert not (user / "runs").exists(), "nothing may be written before the file is sound"


def test_a_key_given_twice_and_yaml_that_is_none_name_their_line(user):
    for text, line in ((FILE + "seed: 5\n", 22), (FILE.replace("[site]\n", "[site\n", 1), 15)):
        with pytest.raises(SpecError, match=rf"assessment\.yaml:{line}: "):
            plan_of(user, text)


def test_the_conditions_are_clean_first_and_then_every_level(user):
    plan = plan_of(user)
    assert [c.name for c in plan.conditions] == ["", "noise@0", "noise@1", "noise@3"]
    assert [(c.condition.name, c.start, c.stop) for c in plan.chunks][:4] == [
        ("", 0, 8),
        ("", 8, 16),
        ("", 16, 20),
        ("noise@0", 0, 8),
    ]
    assert sum(len(c) for c in plan.chunks) == 80


def test_level_0_gives_exactly_what_clean_gives(user):
    (user / "assessment.yaml").write_text(FILE)
    run = assess(user / "assessment.yaml")
    assert (
        run.finding("accuracy", circumstance="noise", level=0).value
        == run.finding("accuracy").value
    )
    assert run.finding("difference", circumstance="noise", level=0).value == 0


def keys(plan: Plan) -> list[str]:
    return [c.key for c in plan.chunks]


def test_chunks_keep_their_keys_where_nothing_they_depend_on_changed(user):
    first = keys(plan_of(user))
    assert len(set(first)) == len(first)
    changes = {
        "min: 0.5": "min: 0.6",
        "slices: [site]\n": "",
        "name: judge": "name: jury",
        "exposure: 2": "exposure: 3",
    }
    for old, new in changes.items():
        assert keys(plan_of(user, FILE.replace(old, new, 1))) == first


def test_a_level_more_keeps_the_chunks_of_the_others(user):
    first, more = (
        keys(plan_of(user)),
        keys(plan_of(user, FILE.replace("[0, 1, 3]", "[0, 1, 2, 3]"))),
    )
    assert set(first) < set(more)


def test_chunks_get_new_keys_where_something_they_depend_on_changed(user):
    first = keys(plan_of(user))
    assert not set(first) & set(keys(plan_of(user, FILE.replace("seed: 4", "seed: 5"))))
    (user / "subject.py").write_text(
        (user / "subject.py").read_text().replace("1 - x, x", "x, 1 - x")
    )
    assert not set(first) & set(keys(plan_of(user)))
    (user / "subject.py").write_text(
        (user / "subject.py").read_text().replace("x, 1 - x", "1 - x, x")
    )
    assert keys(plan_of(user)) == first
    held = dict(np.load(user / "test.npz"))
    held["images"] = held["images"] + 1
    np.savez(user / "test.npz", **held)
    assert not set(first) & set(keys(plan_of(user)))


def test_the_run_is_named_by_its_content_and_not_by_where_it_is_worked(user):
    first = plan_of(user).key
    assert plan_of(user, FILE.replace("{chunk: 8}", "{chunk: 3, workers: 2}")).key == first
    assert plan_of(user, FILE.replace("min: 0.5", "min: 0.6")).key != first


def test_the_size_of_chunks_does_not_change_a_finding(user):
    found = []
    for chunk in (3, 20):
        (user / "assessment.yaml").write_text(FILE.replace("chunk: 8", f"chunk: {chunk}"))
        run = assess(user / "assessment.yaml", runs=user / f"runs{chunk}")
        found.append((run.folder / "findings.json").read_bytes())
    assert found[0] == found[1]


def test_a_subject_and_data_can_be_handed_in(user):
    light = np.linspace(10, 245, 12)
    images = np.broadcast_to(light[:, None, None], (12, 8, 8)).astype(np.uint8)
    data = Dataset("mine", IMAGE, images, LABEL, (light > 127).astype(np.int64))
    text = FILE.replace("  site_b: {where: {site: B}}\nslices: [site]\n", "")
    module = function_module(
        lambda image: [1 - image.mean() / 255, image.mean() / 255], outputs={"s": VECTOR}
    )
    with pytest.raises(
        SpecError, match="accuracy compares class_scores with label, but the subject gives vector"
    ):
        plan_assessment(
            Assessment.parse(text, user / "a.yaml"),
            subject=single(module, IMAGE),
            data={"test": data},
        )
    words = function_module(lambda text: text, outputs={"t": TEXT})
    with pytest.raises(SpecError):
        plan_assessment(
            Assessment.parse(text, user / "a.yaml"),
            subject=single(words, TEXT),
            data={"test": data},
        )


def noise(n: int, seed: int) -> dict[str, np.ndarray]:
    images = np.random.default_rng(seed).integers(0, 256, (n, 8, 8), dtype=np.uint8)
    return {
        "images": images,
        "labels": (images.mean(axis=(1, 2)) > 127).astype(np.int64),
        "site": np.array(["A", "B"] * (n // 2)),
    }


ROLES = FILE.replace("data:\n", "data:\n  calibration: {npz: calibration.npz}\n")


def test_a_copy_of_the_test_data_cannot_calibrate(user):
    shutil.copy(user / "test.npz", user / "calibration.npz")
    with pytest.raises(
        SpecError, match=r"data: 20 of 20 rows of test have the same input as a row of calibration"
    ):
        plan_of(user, ROLES)


def test_a_circumstance_with_calibration_rows_is_refused_and_with_test_rows_is_not(user):
    np.savez(user / "calibration.npz", **noise(30, 0))
    np.savez(user / "night.npz", **noise(30, 0))
    text = ROLES.replace("  site_b: {where: {site: B}}", "  night: {data: {npz: night.npz}}")
    with pytest.raises(
        SpecError,
        match="30 of 30 rows of calibration have the same input as a row of circumstance:night",
    ):
        plan_of(user, text)
    shutil.copy(user / "test.npz", user / "night.npz")
    assert plan_of(user, text).notes == []


def test_few_rows_in_two_roles_stand_on_the_run(user):
    test, other = noise(200, 0), noise(200, 1)
    other["images"][5] = test["images"][9]
    np.savez(user / "test.npz", **test)
    np.savez(user / "calibration.npz", **other)
    (user / "assessment.yaml").write_text(ROLES)
    (note,) = [n for n in assess(user / "assessment.yaml").record.notes if "same input" in n]
    assert note.startswith(
        "1 of 200 rows of test have the same input as a row of calibration, such as '9' and '5'"
    )


RECIPE = """
from pathlib import Path
import torch

def build():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))

def train_member(seed, data):
    Path(__file__).with_name("trained").touch()
    return build()
"""
ENSEMBLE = """\
subject:
  task: classification
  ensemble: recipe.py:train_member
  build: recipe.py:build
  weights: members/
  members: 2
  train: {npz: train.npz}
data:
  test: {npz: test.npz}
  reference: {npz: reference.npz}
"""


@pytest.fixture
def recipe(user: Path) -> Path:
    for seed, name in enumerate(("train", "test")):
        np.savez(user / f"{name}.npz", **noise(40, seed))
    shutil.copy(user / "train.npz", user / "reference.npz")
    (user / "recipe.py").write_text(RECIPE)
    (user / "assessment.yaml").write_text(ENSEMBLE)
    return user


def test_members_are_not_trained_on_rows_that_judge_them(recipe):
    shutil.copy(recipe / "test.npz", recipe / "train.npz")
    with pytest.raises(
        SpecError,
        match=r"subject.train: 40 of 40 rows of train have the same input as a row of test",
    ):
        plan_of(recipe, ENSEMBLE)
    assert not (recipe / "trained").exists()


def test_supervisors_may_be_fitted_on_what_members_were_trained_on(recipe, monkeypatch):
    def trained_here(recipe, folder, numbers, workers):
        folder.mkdir()
        for number in numbers:
            save_member(recipe.member(number), member_file(folder, number), recipe.note(number))
            yield number, member_file(folder, number)

    monkeypatch.setattr("roadworthy.subject.training._trained", trained_here)
    assert plan_of(recipe, ENSEMBLE).notes == []
    assert (recipe / "trained").exists()


def test_a_stop_while_members_are_trained_leaves_an_unfinished_run(recipe, monkeypatch):
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("roadworthy.subject.training._say", stopped)
    with pytest.raises(
        Unfinished,
        match="stopped by the keyboard while subject and data were made ready; members and autoencoders that are",
    ):
        assess(recipe / "assessment.yaml")
