"""The section `modules`: two systems of two and three modules, against runs and loops made by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import kendalltau, spearmanr, wilcoxon

from roadworthy.assessment.assess import Run, assess
from roadworthy.spec import SpecError
from roadworthy.store.record import Record

pytestmark = pytest.mark.usefixtures("no_monitor")

CHAIN = """
import numpy as np
from roadworthy import CLASS_SCORES, IMAGE, VECTOR, System, function_module


def look(image, rng):
    if BROKEN and image.std() > 40:
        raise ValueError("too rough")
    light = image.reshape(2, 4, 2, 4).mean(axis=(1, 3)).ravel()
    return light + rng.normal(0, 2 + image.std() / 10, 4)


def judge(light, rng):
    return [float(light[:2].sum() + rng.normal(0, 1)), float(light[2:].sum())]


def build():
    return System(
        modules={
            "look": function_module(look, outputs={"light": VECTOR}, mark="1"),
            "judge": function_module(judge, outputs={"scores": CLASS_SCORES}, mark="1"),
        },
        wires={"look.image": "input", "judge.light": "look.light"},
        output="judge.scores",
        input_kind=IMAGE,
    )
"""
PARALLEL = """
import numpy as np
from roadworthy import CLASS_SCORES, IMAGE, System, function_module


def rough(image, rng):
    return [float(image[:4].max()), float(image[4:].max())]


def fine(image, rng):
    up, down = float(image[:4].mean()), float(image[4:].mean())
    return [up, down + rng.normal(0, 0.01)]


def both(first, second):
    return [float(first[0]) + float(second[0]), float(first[1]) + float(second[1])]


def build():
    one = {"scores": CLASS_SCORES}
    return System(
        modules={
            "rough": function_module(rough, outputs=one, mark="1"),
            "fine": function_module(fine, outputs=one, mark="1"),
            "both": function_module(both, outputs=one, mark="1"),
        },
        wires={
            "rough.image": "input",
            "fine.image": "input",
            "both.first": "rough.scores",
            "both.second": "fine.scores",
        },
        output="both.scores",
        input_kind=IMAGE,
    )
"""
PASSES = {"kind": "own", "n": 4}


def images(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The upper or the lower half is the lighter one, by a little or by much."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    made = rng.normal(110, 8, (n, 8, 8))
    more = rng.uniform(2, 30, n)
    for i, label in enumerate(labels):
        made[i, 4 * label : 4 * label + 4] += more[i]
    return made.clip(0, 255).astype(np.uint8), labels


def write(folder: Path, source: str, *, supervisors: list, broken: bool = False, **keys) -> Path:
    for role, seed, n in (("test", 1, 90), ("calibration", 2, 60)):
        made, labels = images(n, seed)
        groups = np.arange(n) // 2
        np.savez(
            folder / f"{role}.npz",
            images=made,
            labels=labels,
            ids=[f"{role}{i}" for i in range(n)],
            g=groups,
        )
    (folder / "subject.py").write_text(source.replace("BROKEN", str(broken)))
    content = {
        "name": "halves",
        "subject": {"task": "classification", "system": "subject.py:build"},
        "data": {"test": {"npz": "test.npz"}},
        "circumstances": {"noise": {"transform": "gaussian_noise", "levels": [1, 3, 5]}},
        "supervisors": supervisors,
        "modules": {"budgets": [0.05, 0.2]},
        "media": "none",
        "execution": {"chunk": 40},
    }  # fmt: skip
    path = folder / "assessment.yaml"
    path.write_text(yaml.safe_dump({**content, **keys}))
    return path


AT_BOTH = [{"vr": {"module": m, **PASSES}} for m in ("look", "judge")]
AT_BOTH += [{"vro": {"module": m, **PASSES}} for m in ("look", "judge")]


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("chain")
    claim = {"id": "REJ", "rejected_error": {"max": 0.9}, "every": "circumstances"}
    return assess(write(folder, CHAIN, supervisors=AT_BOTH, claims=[claim]))


@pytest.fixture(scope="module")
def parallel(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("parallel")
    supervisors = [{"vro": {"module": m, **PASSES}} for m in ("rough", "fine")]
    return assess(write(folder, PARALLEL, supervisors=supervisors))


def table(run: Run, circumstance: str, level: float | None) -> dict[str, np.ndarray]:
    """The columns of the cases of one condition."""
    rows = [
        row
        for row in run.cases.to_pylist()
        if (row["circumstance"] or "") == circumstance and (level is None or row["level"] == level)
    ]
    return {name: np.array([row[name] for row in rows]) for name in run.cases.column_names}


def found(record, name, **known):
    rows = getattr(record, name)
    (one,) = [r for r in rows if all(getattr(r, k) == v for k, v in known.items())]
    return one


def test_awareness_is_the_wilcoxon_test_of_the_cases(chain):
    record = chain.record.sections["modules"]
    label = next(c for c in chain.cases.column_names if "vro" in c and "look" in c)
    clean, here = (
        table(chain, "", None)[label],
        table(chain, "noise", 5)[label],
    )
    vro = {"supervisor": "vro", "module": "look", "level": 5}
    row = found(record, "awareness", against="clean", **vro)
    assert row.p == pytest.approx(
        wilcoxon(here, clean, alternative="greater", method="approx", correction=False).pvalue
    )
    assert row.effect == pytest.approx(np.mean(here > clean) + np.mean(here == clean) / 2)
    below = table(chain, "noise", 3)[label]
    row = found(record, "awareness", against="level below", **vro)
    assert row.effect == pytest.approx(np.mean(here > below) + np.mean(here == below) / 2)
    own = [r for r in record.awareness if r.supervisor == "vro"]
    assert len(own) == 2 * (3 + 2)  # two modules, three levels against clean, two against another
    least = min(r.p for r in own)
    assert min(r.adjusted for r in own) == pytest.approx(min(1, 10 * least))


def test_associations_are_those_of_scipy(chain):
    record = chain.record.sections["modules"]
    look, judge = (
        next(c for c in chain.cases.column_names if "vr(" in c and m in c)
        for m in ("look", "judge")
    )
    clean, here = table(chain, "", None), table(chain, "noise", 3)
    rho = found(record, "associations", supervisor="vr", level=3, method="spearman")
    assert rho.value == pytest.approx(spearmanr(here[look], here[judge]).statistic)
    change = {c: here[c] - clean[c] for c in (look, judge)}
    tau = found(
        record,
        "associations",
        supervisor="vr",
        level=3,
        method="kendall",
        first="look",
        second="judge",
    )
    assert tau.value == pytest.approx(kendalltau(change[look], change[judge]).statistic)
    assert tau.interval.contains(tau.value)


def test_holding_the_second_module_repairs_all_and_the_first_has_all_blame(chain):
    record = chain.record.sections["modules"]
    for level in (1, 3, 5):
        cost = table(chain, "noise", level)["error"].mean() - table(chain, "", None)["error"].mean()
        whole = found(record, "blame", level=level, kind="shapley")
        assert (whole.module, whole.value) == ("look", pytest.approx(cost))
        repair = found(record, "blame", level=level, kind="repair")
        # Its own draws differ between the clean and the corrupted case, its input does not.
        assert (repair.port, repair.value) == ("judge.light", pytest.approx(cost, abs=0.06))


def test_blame_of_modules_in_parallel_adds_up_and_is_that_of_runs_by_hand(parallel, tmp_path):
    import importlib.util

    from roadworthy.assessment.section import plan_assessment
    from roadworthy.spec import Assessment

    record = parallel.record.sections["modules"]
    path = write(tmp_path, PARALLEL, supervisors=[])
    plan = plan_assessment(Assessment.read(path))
    (condition,) = [c for c in plan.conditions if c.level == 5 and not c.held]
    data = plan.data["test"]
    changed = plan.at(condition)["input"]
    ids = [condition.case_id(i) for i in data.ids]
    noisy = [changed(image, case, 0) for image, case in zip(data.inputs, ids, strict=True)]
    spec = importlib.util.spec_from_file_location("halves_subject", tmp_path / "subject.py")
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)

    def wrong(rough, fine):
        rng = np.random.default_rng(0)
        answers = [
            subject.both(subject.rough(a, rng), subject.fine(b, rng))
            for a, b in zip(rough, fine, strict=True)
        ]
        return np.mean(np.argmax(answers, axis=1) != data.targets)

    clean = list(data.inputs)
    e, a, b, none = (
        wrong(noisy, noisy),
        wrong(clean, noisy),
        wrong(noisy, clean),
        wrong(clean, clean),
    )
    by_hand = {"rough": ((e - a) + (b - none)) / 2, "fine": ((e - b) + (a - none)) / 2}
    for module, value in by_hand.items():
        row = found(record, "blame", level=5, kind="shapley", module=module)
        assert row.value == pytest.approx(value, abs=1e-9)
        assert row.interval.low <= row.value <= row.interval.high
    assert {b.port for b in record.blame if b.kind == "repair"} == {"both.first", "both.second"}


def test_parallel_modules_are_measured_and_compared(parallel):
    record = parallel.record.sections["modules"]
    quantities = {d.module: d.quantity for d in record.degradation}
    assert quantities["rough"] == quantities["fine"] == quantities["system"] == "accuracy"
    assert quantities["both"].startswith("distance to its own clean output")
    row = found(record, "redundancy", circumstance="noise", level=5)
    assert row.better_of_both <= min(row.errors)
    assert row.both_fail == pytest.approx(row.better_of_both)


def test_degradation_of_a_module_in_series_is_called_a_distance(chain):
    record = chain.record.sections["modules"]
    rows = [d for d in record.degradation if d.module == "look"]
    assert {d.quantity for d in rows} == {"distance to its own clean output (standard_deviation)"}
    assert [d.value for d in rows] == sorted(d.value for d in rows)


def test_rejecting_is_what_a_loop_rejects(chain):
    record = chain.record.sections["modules"]
    assert "vro" in record.uncertainty and "judge" in record.uncertainty and record.ood == ""
    rows = table(chain, "noise", 5)
    scores, error = rows[record.uncertainty], rows["error"]
    r = found(record, "rejected", strategy="S1", budget=0.2, level=5)
    cut = np.sort(scores)[::-1][r.size - 1]
    sure, tied = error[scores < cut], error[scores == cut]
    spare = r.size - int((scores > cut).sum())
    lowest = (sure.sum() + np.sort(tied)[: len(tied) - spare].sum()) / (len(error) - r.size)
    highest = (sure.sum() + np.sort(tied)[spare:].sum()) / (len(error) - r.size)
    assert 1 - highest - 1e-12 <= r.value <= 1 - lowest + 1e-12
    oracle = found(record, "rejected", strategy="oracle", budget=0.2, level=5)
    assert oracle.value == pytest.approx(1 - max(error.sum() - r.size, 0) / (len(error) - r.size))
    assert r.of_oracle <= 1 + 1e-12 and "learned" in {x.strategy for x in record.rejected}


def test_the_claim_is_judged_on_what_is_left(chain):
    (claim,) = chain.record.claims
    assert claim.id == "REJ"
    assert claim.status in ("met", "inconclusive", "breached")


def test_the_record_is_written_read_and_shown(chain):
    record = Record.read(chain.folder).sections["modules"]
    assert record == chain.record.sections["modules"]
    page = next(chain.folder.glob("*.html")).read_text()
    assert "Modules under noise" in page and "judge.light" in page


def test_a_module_that_fails_is_charged_and_rescued_by_a_held_input(tmp_path):
    run = assess(write(tmp_path, CHAIN, supervisors=AT_BOTH[:1], broken=True))
    record = run.record.sections["modules"]
    rows = table(run, "noise", 5)
    assert np.isfinite(rows["error"]).all() and len(rows["error"]) == 90
    failed = rows["error"].mean()
    repair = found(record, "blame", level=5, kind="repair")
    assert failed - repair.value <= 0.5 * failed
    assert record.unsupervised["judge"] == "the file names none for it"


def test_a_supervisor_that_does_not_apply_is_said(tmp_path):
    supervisors = [{"mahalanobis": {"module": "look"}}, {"vr": {"module": "judge", **PASSES}}]
    keys = {"data": {"test": {"npz": "test.npz"}, "reference": {"npz": "calibration.npz"}}}
    run = assess(write(tmp_path, CHAIN, supervisors=supervisors, **keys))
    said = run.record.sections["modules"].unsupervised["look"]
    assert "mahalanobis" in said and "shows no layers" in said


def test_names_that_are_not_there_are_refused(tmp_path):
    path = write(tmp_path, CHAIN, supervisors=AT_BOTH, modules={"uncertainty": "vroom"})
    with pytest.raises(SpecError, match="no supervisor 'vroom'"):
        assess(path)
    path = write(tmp_path, CHAIN, supervisors=AT_BOTH, modules={"measured": ["look"]})
    with pytest.raises(SpecError, match="look gives vector, the system class_scores"):
        assess(path)


@pytest.mark.parametrize("how", ["common", "learned"])
def test_a_strategy_becomes_a_score_with_a_threshold(tmp_path, how):
    supervisors = [*AT_BOTH, {"rejection": {"how": how}}]
    roles = {role: {"npz": f"{role}.npz"} for role in ("test", "calibration")}
    run = assess(write(tmp_path, CHAIN, supervisors=supervisors, data=roles))
    record = run.record.sections["modules"]
    assert "calibration cases" in record.learned_on
    scores = table(run, "noise", 5)["rejection"]
    assert np.isfinite(scores).all()
    assert np.mean(scores > np.median(table(run, "", None)["rejection"])) > 0.6
    (threshold,) = [
        s for s in run.record.sections["supervision"].supervisors if s.name == "rejection"
    ]
    assert threshold.threshold is not None


DIALOGUE = """
from roadworthy import EPISODE, GOAL, LABEL, TEXT, System, function_module


def user(goal, answer):
    return goal["area"]


def understand(utterance):
    return {"area": utterance} if utterance in ("north", "south", "centre") else {}


def decide(slots, state):
    known, turns = state or ({}, 0)
    known = {**known, **slots}
    done = bool(known) or turns == 1
    turn = {"heard": slots, "said": "?", "outcome": known}
    return {"turn": turn, "answer": "?", "done": done}, (known, turns + 1)


def build():
    return System(
        modules={
            "user": function_module(user, outputs={"utterance": TEXT}, mark="1"),
            "nlu": function_module(understand, outputs={"slots": GOAL}, mark="1"),
            "policy": function_module(
                decide, outputs={"turn": EPISODE, "answer": TEXT, "done": LABEL}, mark="1"
            ),
        },
        wires={
            "user.goal": "input",
            "user.answer": "policy.answer",
            "nlu.utterance": "user.utterance",
            "policy.slots": "nlu.slots",
        },
        output="policy.turn",
        input_kind=GOAL,
        done="policy.done",
        max_steps=3,
        unassessed=frozenset({"user"}),
    )
"""


def test_in_a_dialogue_the_module_that_hears_wrongly_has_all_blame_and_nothing_is_replayed(
    tmp_path,
):
    import json

    areas = ["north", "south", "centre"] * 8
    goals = [{"id": f"g{i}", "goal": {"area": a}} for i, a in enumerate(areas)]
    (tmp_path / "goals.json").write_text(json.dumps(goals))
    swap = {"transform": "swap_characters", "levels": [1, 3], "port": "nlu.utterance"}
    path = write(
        tmp_path,
        DIALOGUE,
        supervisors=[],
        subject={"task": "dialogue", "system": "subject.py:build"},
        data={"test": {"dialogue": "goals.json"}},
        circumstances={"typing": swap},
    )
    record = assess(path).record.sections["modules"]
    assert {(b.module, b.kind) for b in record.blame} == {("nlu", "shapley")}
    assert record.modules == ["nlu", "policy"] and record.rejected == []
    distances = {d.module: d.quantity for d in record.degradation}
    assert distances["nlu"].startswith("distance to its own clean output")


def test_a_module_that_fails_leaves_those_beside_it_without_an_answer(tmp_path):
    stops = (
        "def rough(image, rng):\n    if image.std() > 25:\n        raise ValueError('too rough')"
    )
    source = PARALLEL.replace("def rough(image, rng):", stops)
    run = assess(write(tmp_path, source, supervisors=[]))
    record = run.record.sections["modules"]
    failed = table(run, "noise", 1)["status"] == "failed"
    assert 10 < failed.sum() < 90
    for module in ("rough", "fine"):
        value = found(record, "degradation", level=1, module=module).value
        assert 0 < value <= 1 - failed.mean()
    row = found(record, "redundancy", circumstance="noise", level=1)
    assert failed.mean() <= row.both_fail <= row.errors[1]


def test_ties_among_all_conditions_are_broken_at_random(tmp_path):
    """Constant scores reject at random: what is left is as good as the whole."""
    source = CHAIN.replace("+ rng.normal(0, 2 + image.std() / 10, 4)", "+ 0 * rng.random()")
    source = source.replace("+ rng.normal(0, 1)", "+ 0 * rng.random()")
    noise = {"transform": "gaussian_noise", "levels": [1, 5]}
    one = AT_BOTH[-1:]
    run = assess(write(tmp_path, source, supervisors=one, circumstances={"noise": noise}))
    record = run.record.sections["modules"]
    row = found(record, "rejected", circumstance="all conditions", strategy="S1", budget=0.2)
    error = np.concatenate([table(run, "noise", level)["error"] for level in (1, 5)])
    spread = error.std() * np.sqrt(row.size) / (len(error) - row.size)
    assert abs(row.value - (1 - error.mean())) < 2 * spread
    assert row.value != pytest.approx(1 - error[row.size :].mean(), abs=1e-9)


def test_the_level_below_is_the_lower_one_in_whatever_order(tmp_path):
    noise = {"transform": "gaussian_noise", "levels": [5, 1, 3]}
    path = write(tmp_path, CHAIN, supervisors=AT_BOTH[-1:], circumstances={"noise": noise})
    run = assess(path)
    rows = run.record.sections["modules"].awareness
    assert {r.level for r in rows if r.against == "level below"} == {3, 5}
    label = run.record.sections["modules"].uncertainty
    here, below = (table(run, "noise", level)[label] for level in (5, 3))
    row = found(run.record.sections["modules"], "awareness", against="level below", level=5)
    assert row.effect == pytest.approx(np.mean(here > below) + np.mean(here == below) / 2)


def test_a_score_of_the_whole_system_is_not_its_error(tmp_path):
    supervisors = [*AT_BOTH[2:], {"vro": {"module": "system", **PASSES}}]
    record = assess(write(tmp_path, CHAIN, supervisors=supervisors)).record.sections["modules"]
    assert "judge" in record.uncertainty
    rows = [a for a in record.associations if a.method == "kendall" and a.level == 5]
    changes = [(a.first, a.second) for a in rows if a.of == "changes"]
    assert changes == [("look", "judge"), ("look", "system"), ("judge", "system")]
    assert [a.first for a in rows if a.of == "error"] == ["look", "judge", "system"]


TRACKING = """
import numpy as np
from roadworthy import BOXES, FRAMES, TRACKS, Boxes, System, Tracks, function_module


def detect(frame, rng):
    grey = np.asarray(frame, float).mean(-1)
    if tuple(frame[0, 0]) == (60, 60, 63):
        raise ValueError("frame 3")
    ys, xs = np.where(grey > 150)
    if not len(xs):
        return Boxes.of([])
    off = rng.normal(0, 0.5 + grey[grey < 150].std() / 20, 4)
    return Boxes.of([np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]) + off], scores=[1])


def follow(boxes, rng):
    moved = boxes.xyxy + rng.normal(0, 0.3, 4)
    return Tracks.of(np.zeros(len(boxes)), np.ones(len(boxes)), moved)


def build():
    return System(
        modules={
            "detector": function_module(detect, outputs={"boxes": BOXES}, mark="1"),
            "tracker": function_module(follow, outputs={"tracks": TRACKS}, mark="1"),
        },
        wires={"detector.frame": "input", "tracker.boxes": "detector.boxes"},
        output="tracker.tracks",
        input_kind=FRAMES,
    )
"""


@pytest.fixture(scope="module")
def tracking(tmp_path_factory) -> Run:
    """Five videos of eight frames; in the fourth frame of the first the detector fails on clean data."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("tracking")
    for v in range(5):
        video = folder / "video" / f"v{v}"
        (video / "img1").mkdir(parents=True)
        (video / "gt").mkdir()
        lines = []
        for f in range(8):
            frame = np.full((32, 32, 3), 60, np.uint8)
            frame[8:20, 2 + f : 12 + f] = 220
            frame[0, 0, 2] = 60 + f if v == 0 else 60
            Image.fromarray(frame).save(video / "img1" / f"{f + 1:06d}.png")
            lines.append(f"{f + 1},1,{2 + f},8,10,12,1,1,1")
        (video / "gt" / "gt.txt").write_text("\n".join(lines) + "\n")
    supervisors = [{"vro": {"module": m, **PASSES}} for m in ("detector", "tracker", "system")]
    path = write(
        folder,
        TRACKING,
        supervisors=supervisors,
        subject={"task": "tracking", "system": "subject.py:build"},
        data={"test": {"frames": "video"}},
    )
    return assess(path)


def test_frames_after_a_failure_are_rows_that_cost(tracking):
    record = tracking.record.sections["modules"]
    assert record.rows == "40 steps of 5 cases"
    clean = {d.clean for d in record.degradation if d.module == "system"}
    (whole,) = [c.area for c in record.curves if (c.circumstance, c.strategy) == ("", "random")]
    assert list(clean) == [pytest.approx(whole)]
    assert whole <= 0.8


def test_a_score_of_the_whole_system_is_that_of_all_its_frames(tracking):
    record = tracking.record.sections["modules"]
    assert "tracker" in record.uncertainty
    row = found(record, "awareness", module="system", level=5, against="clean")
    assert (row.pairs, row.missing) == (32, 8)  # the case that failed has no clean score


def test_modules_that_answer_step_by_step_are_not_measured(tmp_path):
    path = write(
        tmp_path,
        DIALOGUE,
        supervisors=[],
        subject={"task": "dialogue", "system": "subject.py:build"},
        data={"test": {"dialogue": "goals.json"}},
        circumstances={},
        modules={"measured": ["policy"]},
    )
    (tmp_path / "goals.json").write_text('[{"id": "g", "goal": {"area": "north"}}]')
    with pytest.raises(SpecError, match="step by step"):
        assess(path)


@pytest.fixture(scope="module")
def study():
    from roadworthy.subject.adapters.loading import resolve_path

    folder = Path(__file__).resolve().parents[2] / "studies" / "systems"
    return sys.modules[resolve_path("study.py:Configuration", folder).target.__module__]


def test_the_study_has_the_published_effect_beside_the_papers(chain, study):
    record = chain.record.sections["modules"]
    rows = list(study.Configuration("chain", chain.record).wilcoxon(("vr", "vro")))
    known = {(r.method, r.modules): r for r in rows if r.at == "L1-Ori"}
    tied = 0
    for a in record.awareness:
        if a.level == 1:
            assert known[a.supervisor, a.module].value == a.strict
            tied += a.strict != a.effect
    assert tied


def test_the_study_compares_modules_by_the_supervisors_they_share(study):
    def row(method, module, value):
        return study.Row("c", "noise", "1", method, module, value)

    rows = [row("vro", "a", 0.2), row("kde", "a", 0.9), row("vro", "b", 0.4)]
    assert study._by_module(rows) == {"a": 0.2, "b": 0.4}


def test_what_few_cases_and_a_measure_without_oracle_leave_out_is_said(tmp_path):
    claim = {"id": "REJ", "rejected_error": {"max": 0.9}}
    options = {"modules": {"budgets": [0.1], "claimed": "S1"}, "claims": [claim]}
    options |= {"measure": "balanced_accuracy", "circumstances": {}}
    path = write(tmp_path, CHAIN, supervisors=AT_BOTH[-1:], **options)
    few = {name: column[:8] for name, column in np.load(tmp_path / "test.npz").items()}
    np.savez(tmp_path / "test.npz", **few)
    run = assess(path)
    record, notes = run.record.sections["modules"], " ".join(run.record.notes)
    assert {r.strategy for r in record.rejected} == {"S1"} and record.learned_on == ""
    assert "No strategy `learned`" in notes and "balanced_accuracy is no ratio of sums" in notes
    assert "less than one case" in str(run.record.claims[0])
