"""Split labels in an assessment: ambiguous cases that are learned and kept, annotators' votes, and what the report says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.export import export
from roadworthy.cases.ambiguous import ambiguous as source
from roadworthy.data.png import encode_png
from roadworthy.data.samples import DRAWN, load
from roadworthy.data.seeds import generator
from roadworthy.execution.plan import resolve
from roadworthy.execution.progress import Silent
from roadworthy.execution.work import Unfinished
from roadworthy.generative.raae import PairAutoencoders
from roadworthy.spec import Assessment, SpecError

pytestmark = pytest.mark.usefixtures("no_monitor")

CLASSES = ("sandal", "boot", "bag")
SUBJECT = """
import numpy as np
from pathlib import Path
MEANS = np.load(Path(__file__).parent / "means.npy")
def predict(image):
    return -((MEANS - image / 255.0) ** 2).mean(axis=(1, 2, 3)) * 40
"""
FILE = """
name: split
subject: {task: classification, python: subject.py:predict, version: "1", classes: [sandal, boot, bag]}
data:
  test: {npz: test.npz, classes: [sandal, boot, bag]}
  reference: {npz: reference.npz, classes: [sandal, boot, bag]}
circumstances:
  between: {source: ambiguous, n: 60, parameters: {epochs: 40}}
  noise: {transform: gaussian_noise, levels: [1]}
execution: {chunk: 20}
"""


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Small shoes and bags in colour, 10 high and 14 wide."""
    data = load({"bundled": "fashion-mnist", "split": "reference"}, base=Path(), name="small")
    grey, labels = np.asarray(data.inputs), np.asarray(data.targets)
    rows = np.isin(labels, (5, 8, 9))
    small = grey[rows][:, 6:26:2, ::2]
    colour = np.stack([small, small // 2, 255 - small], axis=-1)
    return colour, np.select([labels[rows] == 5, labels[rows] == 9], [0, 1], 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Sandals and boots to learn from, but only ten bags."""
    folder = tmp_path_factory.mktemp("shoes")
    images, labels = pictures()
    test = np.zeros(len(labels), bool)
    test[::5] = True
    bags = np.cumsum((labels == 2) & ~test) <= 10
    kept = ~test & ((labels != 2) | bags)
    np.savez(folder / "test.npz", images=images[test], labels=labels[test])
    np.savez(folder / "reference.npz", images=images[kept], labels=labels[kept])
    np.save(folder / "means.npy", [images[labels == c].mean(axis=0) / 255 for c in range(3)])
    (folder / "subject.py").write_text(SUBJECT)
    return folder


def spec(folder: Path, *changes: tuple[str, str]) -> Assessment:
    text = FILE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return Assessment.parse(text, folder / "assessment.yaml")


CLAIMS = """
claims:
  - {id: A, top_pair: {min: 0.5}, circumstance: between}
  - {id: B, overconfident: {max: 0.99}, circumstance: between}
  - {id: C, label_distance: {max: 0.5}, every: circumstances}
"""


@pytest.fixture(scope="module")
def done(folder: Path, quick_alarms) -> Run:
    return assess(spec(folder, ("execution:", CLAIMS + "execution:")), workers=1)


def drawn(folder: Path) -> dict[str, np.ndarray]:
    (file,) = (folder / "runs" / ".cache" / "sources").glob("*/ambiguous-*.npz")
    with np.load(file) as kept:
        return dict(kept)


def test_figures_equal_a_plain_loop_over_the_drawn_cases(folder: Path, done: Run) -> None:
    made, means = drawn(folder), np.load(folder / "means.npy")
    assert made["images"].shape == (60, 10, 14, 3) and made["images"].dtype == np.uint8
    sums = dict.fromkeys(("top_1", "top_2", "top_pair", "answer_entropy", "label_distance"), 0.0)
    sure = []
    for i, (image, label) in enumerate(zip(made["images"], made["probabilities"], strict=True)):
        logits = [-float(((m - image / 255) ** 2).mean()) * 40 for m in means]
        p = [math.exp(x) / sum(map(math.exp, logits)) for x in logits]
        hard = 0 if generator(0, str(i), "label").random() < label[0] else 1
        order = sorted(range(3), key=lambda c: -p[c])
        sums["top_1"] += order[0] == hard
        sums["top_2"] += hard in order[:2]
        sums["top_pair"] += set(order[:2]) == {0, 1}
        sums["answer_entropy"] -= sum(x * math.log2(x) for x in p)
        sums["label_distance"] += sum(abs(x - y) for x, y in zip(p, label, strict=True)) / 2
        sure.append(max(p) >= 0.9)
    (place,) = done.record.sections["ambiguity"].places
    assert (place.circumstance, place.n, place.split) == ("between", 60, 60)
    for name, total in sums.items():
        assert place.found[name].value == pytest.approx(total / 60, abs=1e-5), name
        assert place.found[name].interval.low <= total / 60 <= place.found[name].interval.high
    assert place.found["overconfident"].value == pytest.approx(np.mean(sure))
    labels = made["probabilities"]
    assert place.best == pytest.approx(labels.max(axis=1).mean())
    bits = [-sum(x * math.log2(x) for x in row if x > 0) for row in labels]
    assert place.label_entropy == pytest.approx(np.mean(bits))
    assert sum(b.n for b in place.bins) == 60
    gaps = sum(b.n * abs(b.answer - b.label) for b in place.bins) / 60
    assert place.calibration_error == pytest.approx(gaps)


def test_labels_lie_between_the_two_classes(folder: Path) -> None:
    labels = drawn(folder)["probabilities"]
    np.testing.assert_allclose(labels.sum(axis=1), 1)
    assert (labels[:, 2] == 0).all()
    assert (np.abs(labels[:, 0] - labels[:, 1]) <= 0.25 + 1e-9).all()


def test_a_run_names_the_pairs_that_produced_nothing_and_why(done: Run) -> None:
    said = [n for n in done.record.notes if n.startswith("between: ")]
    few = (
        "no case between sandal and bag; boot and bag: bag has 10 images; 50 or more were expected"
    )
    assert said[:2] == [f"between: {few}", f"between: {DRAWN}"]
    (place,) = done.record.sections["ambiguity"].places
    assert f"at best {place.best:.1%} of the answers can be right" in said[2] and place.drawn


def test_the_report_says_what_should_be_answered_and_shows_cases(done: Run) -> None:
    record = done.record.sections["ambiguity"]
    assert len(record.sheet) == 24
    assert all((done.folder / pair.original).is_file() for pair in record.sheet)
    assert "sandal" in record.sheet[0].truth and "%" in record.sheet[0].prediction
    page = (done.folder / "report.html").read_text()
    assert "60 of 60 labels are split. Answers should have" in page
    assert len(page) < 600_000


def test_claims_can_name_the_quantities(done: Run) -> None:
    by = {claim.id: claim for claim in done.record.claims}
    assert by["A"].status in ("met", "breached")
    assert by["B"].status == "met"
    # The data of noise has labels alone: nothing can be judged there.
    assert by["C"].status in ("breached", "inconclusive")


def test_a_second_run_and_workers_find_what_was_learned(
    folder: Path, done: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PairAutoencoders, "fit", None)
    with_claims = spec(folder, ("execution:", CLAIMS + "execution:"))
    again = assess(with_claims, workers=2, fresh=True)
    assert again.record.key == done.record.key
    assert again.cases["prediction"].to_pylist() == done.cases["prediction"].to_pylist()
    written = export(spec(folder), folder / "exported")
    clean = len(np.load(folder / "test.npz")["labels"])
    assert written.cases == 2 * clean + 60 and not written.failed


def test_training_is_shown_and_goes_on_after_an_interruption(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "TOGETHER", 1)
    fitted: list[list[tuple[int, int]]] = []

    class Fake:
        """Autoencoders that nobody has to train: one is enough to see which are asked for."""

        @classmethod
        def fit(cls, images, labels, pairs, *, progress, **options):
            if len(fitted) == stop:
                raise KeyboardInterrupt
            fitted.append(list(pairs))
            progress(1.0)
            return real(images, labels, pairs, **{**options, "epochs": 1})

    class Shown(Silent):
        stages: list[str] = []
        done = 0

        def stage(self, name: str, total: int) -> None:
            self.stages.append(name)

        def advance(self, n: int) -> None:
            self.done += n * (self.stages[-1] == "training autoencoders")

    real, stop, show = PairAutoencoders.fit, 2, Shown()
    monkeypatch.setattr(PairAutoencoders, "fit", Fake.fit)
    three = spec(folder, ("epochs: 40", "epochs: 40, autoencoders: 3"))
    with pytest.raises(Unfinished, match="autoencoders that are trained are kept"):
        assess(three, runs=tmp_path, progress=show)
    stop = 99
    with pytest.raises(SpecError, match="no case can be made"):  # after one epoch none is accepted
        assess(three, runs=tmp_path, progress=show)
    assert fitted == [[(0, 1)]] * 3
    assert show.stages.count("training autoencoders") == 2 and show.done == 66 + 100


BAD = {
    "is missing": (
        "  reference: {npz: reference.npz, classes: [sandal, boot, bag]}\n",
        "",
        "ambiguous learns from data.reference, which is missing; add it",
    ),
    "all rejected": (
        "epochs: 40",
        "epochs: 1",
        "no case can be made between any of 3 pairs of classes; of the first, sandal and bag: bag has 10",
    ),
    "unknown class": ("epochs: 40", "pairs: [[sandal, boots]]", "'boots' is none of the 3 classes"),
    "no pair": ("epochs: 40", "pairs: []", "pairs is empty; name pairs of classes"),
    "one class": ("epochs: 40", "pairs: [[boot, boot]]", "two classes were expected"),
    "unknown key": ("epochs: 40", "epoch: 40", "no parameter 'epoch' (did you mean 'epochs'?)"),
    "no epoch": ("epochs: 40", "epochs: 0", "autoencoders is 2 and epochs 0; 1 or more were expected"),
    "no GPU": ("epochs: 40", "device: cuda", "torch finds no GPU; write device: cpu"),
    "n of noise": ("source: ambiguous, n: 60, parameters: {epochs: 40}", "source: blank, n: 60",
                   "belongs to a source that learns: ambiguous"),
    "measure": ("execution:", "measure: top_pair\nexecution:",
                "top_pair needs label probabilities, and the test data has none"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_learned_is_refused_in_one_sentence(
    folder: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    old, new, said = BAD[case]
    with pytest.raises(SpecError) as refused:
        assess(
            spec(folder, (old, new)), runs=tmp_path if "device" in new or "epoch" in new else None
        )
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_votes_for_a_class_that_the_subject_lacks_are_refused(folder: Path) -> None:
    labels = np.load(folder / "test.npz")["labels"]
    lines = [f"{i},1,1,1,{int(i == 7)}" for i in range(len(labels))]
    (folder / "four.csv").write_text("\n".join(["id,0,1,2,3", *lines]) + "\n")
    text = VOTED.partition("circumstances")[0].replace(
        "votes.csv, classes: [sandal, boot, bag]", "four.csv"
    )
    for own in ("", ", classes: [bag, sandal, boot]"):
        changed = text.replace(", classes: [bag, sandal, boot]", own)
        with pytest.raises(
            SpecError,
            match="3 scores a case, and the label of sample '7' has a probability for class 3",
        ):
            assess(Assessment.parse(changed, folder / "voted.yaml"), workers=1)


def test_images_of_different_sizes_are_refused(folder: Path, tmp_path: Path) -> None:
    small = np.load(folder / "reference.npz")
    np.savez(tmp_path / "small.npz", images=small["images"][:, ::2], labels=small["labels"])
    changed = spec(folder, ("{npz: reference.npz", f"{{npz: {tmp_path}/small.npz"))
    with pytest.raises(
        SpecError, match=r"data.reference are .*, those of data.test .*; make them one"
    ):
        resolve(changed)
    for name, width in (("sandal/a.png", 14), ("boot/b.png", 12)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(encode_png(np.zeros((10, width, 3), np.uint8)))
    changed = spec(folder, ("{npz: reference.npz", f"{{image_folder: {tmp_path}"))
    with pytest.raises(
        SpecError, match=r"one size; reference has several .10 x 12 x 3 and 10 x 14"
    ):
        resolve(changed)


VOTED = """
name: voted
subject: {task: classification, python: subject.py:predict, version: "1", classes: [bag, sandal, boot]}
data:
  test: {npz: test.npz, votes: votes.csv, classes: [sandal, boot, bag]}
circumstances:
  noise: {transform: gaussian_noise, levels: [1, 2]}
measure: top_pair
claims:
  - {id: A, top_pair: {min: 0.1}}
  - {id: B, top_1: {min: 0.01}, every: circumstances}
"""


def test_votes_are_the_truth_of_a_measure_and_move_with_the_order_of_classes(folder: Path) -> None:
    labels = np.load(folder / "test.npz")["labels"]
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 3, (len(labels), 3)) + 3 * np.eye(3, dtype=int)[labels]
    lines = [f"{i},{','.join(map(str, row))}" for i, row in enumerate(votes)]
    (folder / "votes.csv").write_text("\n".join(["id,sandal,boot,bag", *lines]) + "\n")
    done = assess(Assessment.parse(VOTED, folder / "voted.yaml"), workers=1)
    plan = resolve(Assessment.parse(VOTED, folder / "voted.yaml"))
    moved = votes[:, [2, 0, 1]]  # the subject's order, which counts
    np.testing.assert_allclose(
        plan.data["test"].probabilities, moved / moved.sum(axis=1, keepdims=True)
    )
    right = []
    outputs = np.load(folder / "test.npz")["images"] / 255.0
    means = np.load(folder / "means.npy")
    for image, row in zip(outputs, moved, strict=True):
        scores = [-((m - image) ** 2).mean() for m in means]
        first = np.argsort(scores)[::-1][:2]
        right.append(row[first].sum() == np.sort(row)[-2:].sum())
    columns = zip(
        done.cases["circumstance"].to_pylist(), done.cases["failure"].to_pylist(), strict=True
    )
    assert [not failed for circumstance, failed in columns if not circumstance] == right
    assert done.finding("top_pair").value == pytest.approx(np.mean(right))
    places = done.record.sections["ambiguity"].places
    assert [(p.circumstance, p.level) for p in places] == [("", None), ("noise", 1), ("noise", 2)]
    assert places[0].split == int((votes.max(axis=1) / votes.sum(axis=1) <= 0.75).sum())
    two = (votes > 0).sum(axis=1) >= 2  # one class has no pair
    assert 0 < two.sum() < len(two) and not places[0].drawn
    assert places[0].found["top_pair"].value == pytest.approx(np.mean(np.array(right)[two]))
    assert {c.id: c.status for c in done.record.claims} == {"A": "met", "B": "met"}
    assert any("votes a sample (votes.csv)" in note for note in done.record.notes)


def test_votes_go_with_filters_and_with_answers_that_are_classes_alone(folder: Path) -> None:
    labels = np.load(folder / "test.npz")["labels"]
    rng = np.random.default_rng(1)
    votes = rng.integers(0, 3, (len(labels), 3)) + np.eye(3, dtype=int)[labels]
    lines = [f"{i},{','.join(map(str, row))}" for i, row in enumerate(votes)]
    (folder / "shared.csv").write_text("\n".join(["id,sandal,boot,bag", *lines]) + "\n")
    site = [f"{i},{'ab'[i % 2]}" for i in range(len(labels))]
    (folder / "sites.csv").write_text("\n".join(["id,site", *site]) + "\n")
    (folder / "sure.py").write_text(SUBJECT.replace("* 40", "* 1e9"))
    text = """
name: filtered
subject: {task: classification, python: sure.py:predict, version: "1", classes: [sandal, boot, bag]}
data:
  test: {npz: test.npz, votes: shared.csv, metadata: sites.csv, classes: [sandal, boot, bag]}
circumstances:
  site_b: {where: {site: b}}
claims: [{id: A, overconfident: {max: 0.5}}]
"""
    done = assess(Assessment.parse(text, folder / "filtered.yaml"), workers=1)
    places = done.record.sections["ambiguity"].places
    assert [p.circumstance for p in places] == ["", "site_b"]
    assert (
        places[0].found["answer_entropy"].reason == "the answers are classes without probabilities"
    )
    assert math.isfinite(places[0].found["top_1"].value)
    assert done.record.claims[0].status == "inconclusive"


@pytest.mark.parametrize(
    "limit", ["overconfident: {min: 0.4}", "label_distance: {min: 0.1}", "top_pair: {max: 0.5}"]
)
def test_a_limit_that_calls_good_what_is_bad_is_refused(folder: Path, limit: str) -> None:
    claim = f"claims: [{{id: A, {limit}, circumstance: between}}]\nexecution:"
    with pytest.raises(SpecError, match="so a claim limits it from"):
        assess(spec(folder, ("execution:", claim)), workers=1)


def test_no_picture_leaves_private_data(folder: Path, done: Run) -> None:
    private = assess(spec(folder, ("execution:", "media: none\nexecution:")), workers=1)
    record = private.record.sections["ambiguity"]
    assert record.places and not record.sheet
    assert not (private.folder / "ambiguity").exists()
