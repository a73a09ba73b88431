"""The section `reliability`: bounds against scipy and loops, who is counted, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.stats import beta, binom

from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.supervised import Supervised
from roadworthy.spec import SpecError
from roadworthy.statistics.bounded_mean import bounded_mean_upper
from roadworthy.store.record import Record

SUBJECT = """
import numpy as np

def answer(features):
    x = np.asarray(features)
    wrong = (x[:, 0] > 0.9) & (x[:, 1] > 0.9)
    right = (x[:, 0] > 0.5).astype(float)
    second = np.where(wrong, 1 - right, right)
    return np.stack([1 - second, second], 1)
"""
ARGS = {"images": "points", "columns": ["label_by", "patient"], "ids": "ids"}


def points_of(n: int, rng: np.random.Generator, bad: float = 0.03) -> np.ndarray:
    """Two stripes of points, one of each class, and a corner that is answered wrongly."""
    left, right = (
        rng.uniform([0.05, 0], [0.3, 1], (n, 2)),
        rng.uniform([0.7, 0], [0.9, 0.9], (n, 2)),
    )
    corner = rng.uniform([0.92, 0.92], [1, 1], (n, 2))
    kind = rng.choice(3, n, p=[0.5, 0.5 - bad, bad])
    return np.select([kind[:, None] == 0, kind[:, None] == 1], [left, right], corner)


def save(folder: Path, name: str, points: np.ndarray, labels: np.ndarray, **columns: Any) -> None:
    n = len(points)
    more = {"label_by": np.full(n, "random"), "patient": np.arange(n)} | columns
    np.savez(
        folder / f"{name}.npz",
        points=points,
        labels=labels,
        ids=[f"{name}{i}" for i in range(n)],
        **more,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    (tmp_path / "subject.py").write_text(SUBJECT)
    for name, n, labelled in (
        ("reference", 200, 200),
        ("operational", 1500, 300),
        ("test", 200, 200),
    ):
        points = points_of(n, rng)
        labels = (points[:, 0] > 0.5).astype(np.int64)
        labels[labelled:] = -1
        save(tmp_path, name, points, labels)
    return tmp_path


def run(
    folder: Path,
    group: str | None = None,
    without: tuple[str, ...] = (),
    workers: int | None = None,
    **content: Any,
) -> Run:
    roles = [r for r in ("reference", "operational", "test") if r not in without]
    data: dict[str, Any] = {role: {"npz": f"{role}.npz", **ARGS} for role in roles}
    if group:
        data["group"] = group
    file = {
        "subject": {"task": "classification", "python": "subject.py:answer", "batched": True},
        "data": data,
        "reliability": {},
        **content,
    }
    (folder / "assessment.yaml").write_text(yaml.safe_dump(file))
    return assess(folder / "assessment.yaml", runs=folder / "runs", workers=workers)


def record_of(made: Run) -> Any:
    return made.record.sections["reliability"]


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / f"{name}.npz") as arrays:
        return arrays["points"], arrays["labels"]


def failing(points: np.ndarray) -> np.ndarray:
    return (points > 0.9).all(axis=1)


def upper(k: int, n: int, alpha: float) -> float:
    return float(beta.ppf(1 - alpha, k + 1, n - k))


def test_both_lines_equal_counts_by_hand(folder: Path) -> None:
    found = record_of(run(folder))
    points, labels = load(folder, "operational")
    known, reference = load(folder, "reference")
    k, n = int(failing(points[:300]).sum()), 300
    first, second = found.bounds[:2]
    assert (first.failures, first.n) == (k, n)
    assert first.upper == pytest.approx(upper(k, n, 0.025), abs=1e-9)

    every = np.concatenate([known, points[:300]])
    truth = np.concatenate([reference, labels[:300]])
    gaps = np.abs(every[:, None] - every[None]).max(axis=2)
    distance = gaps[truth[:, None] != truth[None]].min()
    assert found.separation.distance == pytest.approx(distance)
    near = np.abs(points[:, None] - every[None]).max(axis=2)
    reached = np.where(near.min(axis=1) < distance / 2, truth[near.argmin(axis=1)], -1)
    answers = np.where(failing(points), 0, points[:, 0] > 0.5)
    wrong = int((reached != answers).sum())
    assert found.evidence["no_label"] == pytest.approx((reached == -1).mean())
    by_label, tested = upper(wrong, 1500, 0.0025), upper(k, n, 0.0225)
    assert second.upper == pytest.approx(min(by_label, tested), abs=1e-9)
    assert sum(found.evidence.values()) == pytest.approx(1)


def test_a_claim_is_judged_without_assumptions_unless_the_file_makes_them(folder: Path) -> None:
    plain = record_of(run(folder))
    limit = (plain.bounds[0].upper + plain.bounds[1].upper) / 2
    assert plain.bounds[1].upper < plain.bounds[0].upper
    claims = [{"id": "R", "pmi": {"max": limit}}]
    made = run(folder, claims=claims)
    assert made.verdict == "inconclusive" and made.claims[0].claim.confidence == 0.975
    assumed = run(folder, claims=claims, reliability={"assume": ["r_separation"]})
    assert assumed.verdict == "met" and record_of(assumed).assumed


def test_rows_that_were_chosen_label_others_and_are_not_counted(folder: Path) -> None:
    points, labels = load(folder, "operational")
    how = np.where(np.arange(1500) < 100, "chosen", "random")
    save(folder, "operational", points, labels, label_by=how)
    found = record_of(run(folder))
    assert (found.labelled, found.chosen) == (200, 100)
    assert found.bounds[0].failures == failing(points[100:300]).sum()


def test_a_label_against_one_within_r_strikes_the_second_line(folder: Path) -> None:
    points, labels = load(folder, "operational")
    labels[7] = 1 - labels[7]
    save(folder, "operational", points, labels)
    r = 0.15
    made = run(
        folder,
        reliability={"assume": ["r_separation"], "r": r},
        claims=[{"id": "R", "pmi": {"max": 0.2}}],
    )
    found = record_of(made)
    assert "contradicted by 1 of" in found.struck and not found.assumed
    assert found.evidence["contradicted"] == pytest.approx(1 / 1500)
    assert any("without assumptions" in w for w in made.record.warnings)


def test_groups_count_once(folder: Path) -> None:
    points, labels = load(folder, "operational")
    patients = np.array([f"o{i // 5}" for i in range(1500)])
    save(folder, "operational", points, labels, patient=patients)
    for name in ("reference", "test"):
        save(
            folder, name, *load(folder, name), patient=np.array([f"{name}{i}" for i in range(200)])
        )
    found = record_of(run(folder, group="patient"))
    assert found.bounds[0].n == 60 and found.bounds[0].upper > upper(9, 300, 0.025)


def test_types_of_failure_have_claims_of_their_own(folder: Path) -> None:
    kinds = {"critical": {"pairs": [[1, 0]], "cost": 10}, "other": {"pairs": [[0, 1]]}}
    claims = [
        {"id": "A", "pmi": {"max": 0.2}, "class": "critical"},
        {"id": "B", "pmi": {"max": 0.02}, "class": "other"},
    ]
    made = run(folder, reliability={"failures": kinds}, claims=claims)
    assert made.verdict == "met"
    critical, other = record_of(made).types
    assert other.value == 0 and critical.value == record_of(made).bounds[0].value
    with pytest.raises(SpecError, match="'odd' is no type of failure"):
        run(
            folder,
            reliability={"failures": kinds},
            claims=[{"id": "A", "pmi": {"max": 0.2}, "class": "odd"}],
        )


def test_equal_inputs_with_two_labels_are_refused_by_name(folder: Path) -> None:
    points, labels = load(folder, "operational")
    points[5], labels[5] = load(folder, "reference")[0][9], 1 - load(folder, "reference")[1][9]
    save(folder, "operational", points, labels)
    with pytest.raises(
        SpecError, match="reference:reference9 and operational:operational5 are equal"
    ):
        run(folder)
    assert record_of(run(folder, reliability={"r": 0.01})).separation.given


def test_a_subject_that_answers_otherwise_the_second_time_is_refused(folder: Path) -> None:
    text = SUBJECT.replace(
        "return np.stack", "second = second if len(x) > 1 else 1 - second\n    return np.stack"
    )
    (folder / "subject.py").write_text(text)
    with pytest.raises(SpecError, match=r"not deterministic: 64 of 64 answers changed"):
        run(folder)


def test_without_operational_data_there_is_no_pmi(folder: Path) -> None:
    assert "operational" in record_of(run(folder, without=("operational",))).because
    with pytest.raises(SpecError, match=r"Add `data.operational`"):
        run(folder, without=("operational",), claims=[{"id": "R", "pmi": {"max": 0.1}}])


def test_one_class_leaves_the_plain_count(folder: Path) -> None:
    for name in ("reference", "operational"):
        points, labels = load(folder, name)
        rows = points[:, 0] < 0.5
        save(folder, name, points[rows], labels[rows])
    found = record_of(run(folder))
    assert (
        found.separation is None
        and found.bounds[0].n > 0
        and found.bounds[2].note.startswith("(b) says nothing")
    )


def test_growing_labels_are_judged_by_a_bound_that_holds_at_every_look(folder: Path) -> None:
    claims = [{"id": "R", "pmi": {"max": 0.2}}]
    fixed, growing = (
        run(folder, claims=claims, reliability={"labels": how}).claims[0].members[0].bound
        for how in ("fixed", "growing")
    )
    assert growing > fixed


def test_balls_around_inputs_are_a_finding_of_their_own(folder: Path) -> None:
    asked = {"estimator": "monte_carlo", "inputs": 40, "radius": 0.05, "parameters": {"draws": 400}}
    found = record_of(run(folder, reliability={"unastuteness": asked})).unastuteness
    points, _ = load(folder, "operational")
    rng = np.random.default_rng(0)
    truth = []
    for centre in points[:40]:
        near = centre + rng.uniform(-0.05, 0.05, (4000, 2))
        # A draw fails in the corner, and where the ball crosses the middle.
        truth.append(failing(near).mean())
    assert found.inputs == 40 and found.queries == 16000
    assert found.value == pytest.approx(np.mean(truth), abs=0.01)


def test_the_record_reads_back_and_the_report_shows_the_map(folder: Path) -> None:
    made = run(folder, reliability={"r": 0.002, "domain": [[0, 1], [0, 1]]})
    again = Record.read(made.folder).sections["reliability"]
    assert again == record_of(made)
    page = (made.folder / "report.html").read_text()
    assert 'id="figure-pmi-map"' in page and "Label these next" in page
    assert again.profile.limit is not None and 0 <= again.profile.left < 0.1


def grouped(folder: Path, size: int = 5) -> None:
    """Rows that follow each other share a patient."""
    for name in ("reference", "operational", "test"):
        points, labels = load(folder, name)
        patients = np.array([f"{name}{i // size}" for i in range(len(points))])
        save(folder, name, points, labels, patient=patients)


def test_more_rows_than_the_profile_keeps_may_have_groups(folder: Path) -> None:
    points = points_of(5200, np.random.default_rng(1))
    labels = np.where(np.arange(5200) < 300, points[:, 0] > 0.5, -1)
    save(folder, "operational", points, labels)
    grouped(folder)
    found = record_of(run(folder, group="patient"))
    assert found.inputs == 5200 and found.groups == 1040 and not found.budget


def test_growing_labels_are_refused_if_inputs_depend_on_each_other(folder: Path) -> None:
    grouped(folder)
    with pytest.raises(SpecError, match="data has groups"):
        run(folder, group="patient", reliability={"labels": "growing"})


def test_a_claim_with_groups_says_how_many_more_groups_settle_it(folder: Path) -> None:
    grouped(folder)
    kinds = {"critical": {"pairs": [[1, 0]]}}
    claims = [{"id": "R", "pmi": {"max": 0.06}}]
    made = run(folder, group="patient", claims=claims, reliability={"failures": kinds})
    member, first = made.claims[0].members[0], record_of(made).bounds[0]
    assert made.verdict == "inconclusive" and member.value == pytest.approx(first.value)
    groups = next(
        n for n in range(60, 1000) if bounded_mean_upper(first.failures, n, 0.025) <= 0.06
    )
    assert member.groups_to_settle > groups  # which no further failure would do
    points, _ = load(folder, "operational")
    assert record_of(made).types[0].failures == failing(points[:300]).sum()


def test_cases_to_settle_allow_for_further_failures(folder: Path) -> None:
    made = run(folder, claims=[{"id": "R", "pmi": {"max": 0.04}}])
    first, n = record_of(made).bounds[0], made.claims[0].members[0].cases_to_settle
    rate, k = first.value, np.arange(2000)
    met = np.array([upper(int(x), n, 0.025) <= 0.04 for x in k])
    assert binom.pmf(k, n, rate)[met].sum() == pytest.approx(0.8, abs=0.05)


def test_labels_within_a_given_r_of_each_other_strike_the_second_line(folder: Path) -> None:
    assume = {"assume": ["r_separation"], "r": 10.0}
    found = record_of(run(folder, without=("reference",), reliability=assume))
    assert "contradicted by 300 of 300" in found.struck and not found.assumed


def test_failures_that_labels_within_r_cannot_explain_strike_the_second_line(folder: Path) -> None:
    points, labels = load(folder, "operational")
    points[300:][failing(points[300:])] = [0.8, 0.5]
    points[:60] = np.random.default_rng(0).uniform(0.92, 1, (60, 2))
    save(folder, "operational", points, np.where(labels < 0, -1, points[:, 0] > 0.5))
    claims = [{"id": "R", "pmi": {"max": 0.1}}]
    made = run(folder, claims=claims, reliability={"assume": ["r_separation"]})
    assert made.verdict == "breached" and "more labelled inputs fail" in record_of(made).struck


def test_what_cannot_be_computed_is_refused_before_any_case_runs(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"reliability.time.*no metadata 'nope'"):
        run(folder, reliability={"time": "nope"})
    with pytest.raises(SpecError, match=r"reliability.unastuteness.*'nope'"):
        run(folder, reliability={"unastuteness": {"estimator": "nope"}})
    points, labels = load(folder, "operational")
    points[400, 0] = np.nan
    save(folder, "operational", points, labels)
    with pytest.raises(SpecError, match="operational:operational400 has values that are not"):
        run(folder)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_estimator_of_ones_own_is_found(folder: Path, workers: int) -> None:
    (folder / "mine.py").write_text(
        "from roadworthy.search.monte_carlo import monte_carlo\n\n\n"
        "def mine(margin, law, rng, *, draws=30):\n"
        "    return monte_carlo(margin, law, rng, draws=draws)\n"
    )
    asked = {"estimator": "mine.py:mine", "inputs": 20, "radius": 0.02}
    made = run(folder, reliability={"unastuteness": asked}, workers=workers)
    assert record_of(made).unastuteness.queries == 600


def test_minus_one_in_a_table_is_no_class(folder: Path) -> None:
    data = {}
    for name in ("operational", "test"):
        points, labels = load(folder, name)
        rows = [
            f"{name}{i},{a},{b},{y}"
            for i, ((a, b), y) in enumerate(zip(points, labels, strict=True))
        ]
        (folder / f"{name}.csv").write_text("\n".join(["id,a,b,label", *rows]))
        data[name] = {"csv": f"{name}.csv", "features": ["a", "b"]}
    with pytest.raises(SpecError, match=r"data.operational: has the label -1; leave the label"):
        run(folder, data=data)
    file = folder / "operational.csv"
    file.write_text(file.read_text().replace(",-1\n", ",\n").removesuffix("-1"))
    assert record_of(run(folder, data=data)).labelled == 300


def test_inputs_without_an_answer_are_said(folder: Path) -> None:
    ids = [f"test{i}" for i in range(200)]
    (folder / "answers.jsonl").write_text(
        "\n".join(f'{{"id": "{i}", "scores": [0.0, 1.0]}}' for i in ids)
    )
    made = run(folder, subject={"task": "classification", "predictions": "answers.jsonl"})
    assert record_of(made).bounds[0].failures == 300
    assert any("1500 of 1500 operational inputs have no answer" in w for w in made.record.warnings)


def test_what_a_run_fitted_scores_new_inputs(folder: Path) -> None:
    made = run(folder, reliability={"domain": [[0, 1], [0, 1]]})
    inside, outside = Supervised(made.folder).batch(np.array([[0.2, 0.5], [3.0, 3.0]]))
    assert np.isfinite(inside.scores["profile"]) and outside.scores["profile"] > 1e5


def test_a_claim_without_its_section_is_refused(folder: Path) -> None:
    (folder / "assessment.yaml").write_text(
        yaml.safe_dump(
            {
                "subject": {
                    "task": "classification",
                    "python": "subject.py:answer",
                    "batched": True,
                },
                "data": {r: {"npz": f"{r}.npz", **ARGS} for r in ("operational", "test")},
                "claims": [{"id": "R", "pmi": {"max": 0.1}}],
            }
        )
    )
    with pytest.raises(
        SpecError, match=r"pmi needs the section reliability. Add `reliability: \{\}`"
    ):
        assess(folder / "assessment.yaml", runs=folder / "runs")


def test_an_empty_section_has_the_defaults(folder: Path) -> None:
    claims = [{"id": "R", "pmi": {"max": 0.2}}]
    made = run(folder, reliability=None, claims=claims)
    assert made.claims[0].claim.confidence == 0.975


def test_unknown_words_in_label_by_are_refused(folder: Path) -> None:
    points, labels = load(folder, "operational")
    save(folder, "operational", points, labels, label_by=np.full(1500, "picked"))
    with pytest.raises(SpecError, match="label_by holds 'picked'; write `chosen` or `random`"):
        run(folder)


def test_a_domain_that_misses_the_data_is_refused_and_one_that_cuts_them_counts_the_rest_as_failing(
    folder: Path,
) -> None:
    with pytest.raises(
        SpecError, match=r"100% of the operational inputs lie outside it; they run from \[0\.0"
    ):
        run(folder, reliability={"domain": [[5, 6], [5, 6]]})
    found = record_of(run(folder, reliability={"domain": [[0, 0.85], [0, 1]]}))
    points, _ = load(folder, "operational")
    beyond = (points[:, 0] > 0.85).mean()
    assert found.evidence["outside"] == pytest.approx(beyond)
    assert found.bounds[2].value >= beyond


def test_an_assumption_stands_in_the_text_of_the_claim(folder: Path) -> None:
    claims = [{"id": "R", "pmi": {"max": 0.2}}]
    made = run(folder, reliability={"assume": ["r_separation"]}, claims=claims)
    assert made.record.claims[0].text.endswith("assuming labels are r-separated")


def test_copies_of_labelled_inputs_are_said(folder: Path) -> None:
    points, labels = load(folder, "operational")
    points[100:200], labels[100:200] = points[:100], labels[:100]
    save(folder, "operational", points, labels)
    assert any("100 labelled inputs repeat others" in n for n in run(folder).record.notes)
