"""What a run says of labelling the riskiest first: against its own table of cases, and in words where nothing is to be found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.sections.prioritisation import LabellingRecord, PrioritisationRecord
from roadworthy.report.html import html
from roadworthy.spec import Assessment, SpecError
from roadworthy.store import RunFolder
from roadworthy.store.record import Record

pytestmark = pytest.mark.usefixtures("no_monitor")

SUBJECT = """
import numpy as np

def predict(image):
    light = (image.mean() - 128) / 40
    return [1 / (1 + np.exp(2 * light)), 1 / (1 + np.exp(-2 * light))]
"""
FILE = """name: light
subject: {task: classification, python: subject.py:predict}
data: {test: {npz: test.npz, columns: [site]}}
circumstances:
  noise: {transform: gaussian_noise, levels: [1, 5]}
  grey: {data: {npz: grey.npz}}
  invalid: {source: blank}
  site_b: {where: {site: B}}
  later: {run: false}
supervisors: [max_softmax, pcs]
execution: {chunk: 100}
"""


def write(folder: Path, seed: int = 0, blur: float = 22) -> None:
    """Dark and light images, of which some are in doubt; grey ones have either label."""
    rng = np.random.default_rng(seed)
    for name, n, gap in (("test", 120, 40), ("grey", 60, 0)):
        labels = rng.integers(0, 2, n)
        means = 128 + (2 * labels - 1) * gap + rng.normal(0, blur, n)
        images = np.clip(means, 0, 255)[:, None, None] + np.zeros((n, 8, 8))
        site = np.where(rng.random(n) < 0.5, "A", "B")
        images = images.astype(np.uint8)
        np.savez(folder / f"{name}.npz", images=images, labels=labels, site=site)
    (folder / "subject.py").write_text(SUBJECT)


def labelled(folder: Path, key: str, file: str = FILE) -> Run:
    text = f"{file}prioritisation: {key}\n"
    return assess(Assessment.parse(text, folder / "assessment.yaml"))


def part_of(run: Run) -> PrioritisationRecord:
    part = Record.read(run.folder).sections["prioritisation"]
    assert isinstance(part, PrioritisationRecord)
    return part


def supervisors_of(part: LabellingRecord) -> dict[str, float]:
    return {o.name: o.area.value for o in part.orders if o.name not in ("ideal", "random")}


def pairs_in_order(scores: np.ndarray, failed: np.ndarray) -> float:
    """2 AUC - 1, pair by pair."""
    return float(np.sign(scores[failed][:, None] - scores[~failed][None, :]).mean())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("light")
    write(folder)
    return labelled(folder, "{without: [grey], budget: 0.2}")


def test_all_conditions_with_right_answers_are_pooled_and_areas_are_those_of_the_table(run):
    part, cases = part_of(run), RunFolder.open(run.folder).cases()
    where, scores = cases["circumstance"].astype(str), cases["max_softmax"]
    failed, valid, clear = cases["failure"].astype(bool), where != "invalid", where != "grey"
    testing, learning = part.aims["Testing"], part.aims["Active learning"]
    assert testing.cases == learning.cases == 120 + 240 + 60 and testing.budget == 84
    assert testing.wasted == [] and learning.wasted == ["grey"]
    assert testing.failures == failed[valid].sum()
    assert learning.failures == failed[valid & clear].sum()

    def area(rows: np.ndarray, counted: np.ndarray = failed) -> object:
        return pytest.approx(pairs_in_order(scores[rows], counted[rows]))

    assert supervisors_of(testing)["max_softmax"] == area(valid)
    assert supervisors_of(learning)["max_softmax"] == area(valid, failed & clear)
    alone = {name: areas["max_softmax"].value for name, areas in part.areas.items()}
    known = {name: area(where == name.replace("clean", "")) for name in ("clean", "noise", "grey")}
    assert alone == {**known, "without grey": area(valid & clear)}


def test_random_and_ideal_order_stand_beside_the_supervisors(run):
    for part in part_of(run).aims.values():
        *judged, ideal, random = part.orders
        assert [o.name for o in (ideal, random)] == ["ideal", "random"]
        assert (ideal.area.value, random.area.value) == pytest.approx((1, 0), abs=1e-12)
        assert ideal.half == np.ceil(part.failures / 2) and ideal.most == np.ceil(
            0.9 * part.failures
        )
        expected = ideal.half * (part.cases + 1) / (part.failures + 1)
        assert random.half == pytest.approx(expected)
        assert random.found.value == pytest.approx(part.budget / part.cases)
        assert all(ideal.half < o.half < random.half for o in judged)
        for o in judged:
            assert o.found.interval.contains(o.found.value) and o.area.interval.contains(
                o.area.value
            )
            assert o.curve[0] == (0, 0) and o.curve[-1] == (part.cases, 1)
    learning = part_of(run).aims["Active learning"]
    assert learning.orders[-1].wasted == pytest.approx(60 / 420)
    assert all(o.wasted > 60 / 420 for o in learning.orders[:-2])


def test_the_report_shows_curves_and_a_table_for_each_aim(run):
    page = html(Record.read(run.folder))
    for part in ('<section id="prioritisation">', "figure-testing", "figure-active", "budget 84"):
        assert part in page
    assert "Labels of grey are wasted." in page and "Wasted of 84" in page


def test_named_conditions_alone_are_pooled(tmp_path):
    write(tmp_path)
    part = part_of(labelled(tmp_path, "{conditions: [noise]}"))
    assert list(part.areas) == ["noise"] and list(part.aims) == ["Testing"]
    assert part.aims["Testing"].cases == 240 and part.aims["Testing"].budget == 24


def test_without_failures_the_report_says_so(tmp_path):
    write(tmp_path, blur=1)
    run = labelled(tmp_path, "{conditions: [clean, noise], without: [noise]}")
    part = part_of(run)
    assert [a.failures for a in part.aims.values()] == [0, 0]
    page = html(Record.read(run.folder))
    assert "No order is better than another: no case failed." in page
    assert "figure-testing" not in page


def test_supervisors_that_do_not_apply_leave_a_sentence(tmp_path):
    write(tmp_path)
    file = FILE.replace("[max_softmax, pcs]", "[mc_dropout_vr]")
    page = html(Record.read(labelled(tmp_path, "{}", file).folder))
    assert "no supervisor applies" in page


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("{conditions: [nois]}", "under 'nois' (did you mean 'noise'?); known: clean, noise, grey"),
        ("{conditions: [invalid]}", "no cases to label under 'invalid'"),
        ("{conditions: [site_b]}", "no cases to label under 'site_b'"),
        ("{conditions: [later]}", "no cases to label under 'later'"),
        ("{conditions: [noise], without: [grey]}", "under 'grey'; known: noise"),
        ("{conditions: [clean, noise], without: [noise, clean]}", "names every condition"),
        ("{budget: 10}", "less than 1"),
        ("0.1", "takes keys; write prioritisation: {without: [ambiguous], budget: 0.1}"),
    ],
)
def test_what_cannot_be_labelled_is_refused_before_any_case_runs(tmp_path, key, said):
    write(tmp_path)
    with pytest.raises(SpecError) as refused:
        labelled(tmp_path, key)
    assert said in str(refused.value) and "prioritisation" in str(refused.value)


def test_a_file_without_supervisors_or_failures_is_refused(tmp_path):
    alone = FILE.replace("supervisors: [max_softmax, pcs]\n", "")
    assert Assessment.parse(alone, tmp_path / "assessment.yaml").supervisors == []
    with pytest.raises(SpecError, match="No supervisors"):
        labelled(tmp_path, "{}", alone)
    regression = "subject: {task: regression, python: a.py:b}\ndata: {test: {npz: a.npz}}\n"
    with pytest.raises(SpecError, match="no default failure threshold"):
        labelled(tmp_path, "{}", regression + "supervisors: [vr]\n")
