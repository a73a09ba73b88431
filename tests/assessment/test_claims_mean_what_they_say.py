"""A claim is judged on the quantity and at the place it names, never on another; what cannot be so judged is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import Run, assess
from roadworthy.spec import Assessment, SpecError

pytestmark = pytest.mark.usefixtures("no_monitor")

FILE = """\
name: sorter
subject: {{task: classification, python: subject.py:predict}}
data:
  test: {{npz: test.npz, columns: [site, age]{group}}}
circumstances:
  dark: {{transform: gaussian_noise, levels: [1, 3], table: wang}}
  site_b: {{where: {{site: B}}}}
{more}slices: [site, age]
supervisors: [max_softmax]
claims:
{claims}
execution: {{chunk: 40}}
"""
SUBJECT = """\
def predict(image):
    x = float(image.max()) / 255
    x = min(max(x, 0.01), 0.99)
    return [1 - x, x]
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 160)
    images = np.where(labels[:, None, None] == 1, 200, 60) + rng.integers(0, 40, (160, 8, 8))
    age = np.where(np.arange(160) % 8 == 0, np.nan, 20.0 + 40 * (np.arange(160) % 2))
    site = np.array(["A", "B"] * 80)
    columns = {"images": images.astype(np.uint8), "labels": labels, "site": site, "age": age}
    np.savez(tmp_path / "test.npz", patient=np.repeat(np.arange(16), 10), **columns)
    (tmp_path / "subject.py").write_text(SUBJECT)
    return tmp_path


def run(user: Path, *claims: str, more: str = "", group: str = "") -> Run:
    text = FILE.format(
        claims="\n".join(f"  - {c}" for c in claims) or "  []", more=more, group=group
    )
    return assess(Assessment.parse(text, user / "assessment.yaml"))


def test_a_sliced_difference_is_a_difference_and_not_the_measure(user: Path) -> None:
    whole = run(user, "{id: D, difference: {min: -0.05}, circumstance: dark, level: 3}")
    sliced = run(
        user, "{id: D, difference: {min: -0.05}, circumstance: dark, level: 3, every: site}"
    )
    assert whole.claims[0].status == sliced.claims[0].status == "breached"
    values = [m.value for m in sliced.claims[0].members]
    sizes = np.array([m.n for m in sliced.claims[0].members])
    assert np.average(values, weights=sizes) == pytest.approx(whole.claims[0].members[0].value)


def test_a_sliced_auc_is_an_auc(user: Path) -> None:
    judged = run(
        user,
        "{id: S, auc_failure: {min: 0.99}, supervisor: max_softmax, circumstance: dark, level: 1, every: site}",
    )
    members = judged.claims[0].members
    found = {f.about.slice: f for f in judged.record.findings if f.quantity == "auc_failure"}
    assert [m.about.split(" | ")[1] for m in members] == ["site=A", "site=B"]
    assert found and all(m.status != "met" or m.value > 0.99 for m in members)


def test_missing_slice_values_are_one_slice_of_their_own(user: Path) -> None:
    judged = run(user, "{id: A, accuracy: {min: 0.2}, every: age}")
    assert [(m.about, m.n) for m in judged.claims[0].members] == [
        ("age=20", 60),
        ("age=60", 80),
        ("age=missing", 20),
    ]
    assert "too few" not in str(judged.claims[0].members[0])
    assert judged.claims[0].members[2].why.startswith("the slice has 20 cases")


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        ("{id: A, no_worse_than: runs/x, by: 0.1, every: site}", "does not go with no_worse_than"),
        (
            "{id: A, no_worse_than: runs/x, by: 0.1, slice: {site: B}}",
            "does not go with no_worse_than",
        ),
        ("{id: A, no_worse_than: runs/x, by: 0.1}", "is not a run"),
        (
            "{id: A, accuracy: {min: 0.5}, supervisor: max_softmax}",
            "accuracy is not about a supervisor",
        ),
        (
            "{id: A, accuracy: {min: 0.5}, every: circumstances, circumstance: dark}",
            "leave one of them out",
        ),
        ("{id: A, accuracy: {min: 0.5}, slice: {site: C}}", "no case has site = C; site has: A, B"),
    ],
)
def test_what_a_claim_cannot_use_is_refused(user: Path, claim: str, says: str) -> None:
    with pytest.raises(SpecError, match=r"assessment.yaml:\d+: claims\[0\]") as refused:
        run(user, claim)
    assert says in str(refused.value)


def test_an_earlier_run_is_compared_under_the_circumstance_that_is_named(user: Path) -> None:
    first = run(user)
    folder = first.folder.relative_to(user)
    (user / "subject.py").write_text(SUBJECT.replace("image.max()", "image.mean()"))
    second = run(
        user,
        f"{{id: CLEAN, no_worse_than: {folder}, by: 0.02}}",
        f"{{id: DARK, no_worse_than: {folder}, by: 0.02, circumstance: dark, level: 3}}",
    )
    for judged, place in zip(
        second.claims, ({}, {"circumstance": "dark", "level": 3}), strict=True
    ):
        change = (
            second.finding("accuracy", **place).value - first.finding("accuracy", **place).value
        )
        assert judged.members[0].value == pytest.approx(change)
    assert "under dark at level 3" in second.claims[1].claim.text


def test_a_claim_on_all_levels_records_each_of_them(user: Path) -> None:
    judged = run(user, "{id: L, accuracy: {min: 0.2}, circumstance: dark}")
    assert [m["about"] for m in judged.record.plain()["claims"][0]["members"]] == [
        "dark@1",
        "dark@3",
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [("dark@1", "holds '@'"), ("a~b", "holds '~'"), ("clean", "is taken"), ("a:b", "holds ':'")],
)
def test_circumstance_names_that_look_like_case_ids_are_refused(
    user: Path, name: str, says: str
) -> None:
    with pytest.raises(SpecError, match="circumstances") as refused:
        run(user, more=f"  '{name}': {{where: {{site: A}}}}\n")
    assert says in str(refused.value)


def test_a_level_given_twice_is_refused(user: Path) -> None:
    with pytest.raises(SpecError, match=r"level 2 is given twice"):
        run(user, more="  twice: {transform: contrast, levels: [2, 2]}\n")


def test_sample_ids_that_look_like_case_ids_are_refused(user: Path) -> None:
    content = dict(np.load(user / "test.npz"))
    ids = np.array([str(i) for i in range(160)], dtype=object)
    ids[7] = "4~dark@1"
    np.savez(user / "test.npz", ids=ids.astype(str), **content)
    with pytest.raises(SpecError, match="the id '4~dark@1'"):
        run(user, group=", ids: ids")


def other_data(user: Path, **columns: np.ndarray) -> str:
    rng = np.random.default_rng(9)
    labels = rng.integers(0, 2, 160)
    images = np.where(labels[:, None, None] == 1, 200, 60) + rng.integers(0, 40, (160, 8, 8))
    np.savez(user / "night.npz", images=images.astype(np.uint8), labels=labels, **columns)
    return "  night: {data: {npz: night.npz}}\n"


def test_other_data_of_the_same_length_is_not_taken_for_the_same_samples(user: Path) -> None:
    found = run(user, more=other_data(user)).finding("difference", circumstance="night")
    assert not found.details["paired"]
    assert found.interval is not None and "newcombe" in found.interval.method


def test_groups_hold_for_a_circumstances_own_data_too(user: Path) -> None:
    text = FILE.replace("{group}}}", "}}\n  group: patient").replace(
        "[site, age]", "[site, age, patient]", 1
    )
    more = other_data(user, patient=np.repeat(np.arange(8), 20)).replace(
        "night.npz}", "night.npz, columns: [patient]}"
    )
    assessment = Assessment.parse(text.format(claims="  []", more=more), user / "assessment.yaml")
    found = assess(assessment).finding("accuracy", circumstance="night")
    assert found.groups == 8


def test_slices_that_a_circumstances_own_data_lacks_are_said_before_any_work(user: Path) -> None:
    with pytest.raises(SpecError, match=r"the data of night has no '(site|age)'"):
        run(
            user,
            "{id: N, accuracy: {min: 0.5}, circumstance: night, every: slices}",
            more=other_data(user),
        )
    assert not list((user / "runs").glob("sorter-*"))


def test_a_chunk_without_any_answer_is_counted_and_does_not_stop_the_run(user: Path) -> None:
    (user / "subject.py").write_text(
        "COUNT = []\n"
        + SUBJECT.replace("    x = float", "    assert image.sum() % 2\n    x = float")
    )
    content = dict(np.load(user / "test.npz"))
    odd = content["images"].sum(axis=(1, 2)) % 2
    images = content["images"].copy()
    images[:, 0, 0] += (odd == 0).astype(np.uint8)
    images[120:, 0, 0] += 1  # the whole last chunk of 40 raises
    np.savez(user / "test.npz", **{**content, "images": images})
    judged = run(user)
    assert judged.finding("accuracy").failed == 40
    assert judged.finding("failure_rate").value >= 0.25


def test_the_same_supervisor_twice_is_refused_or_kept_apart(user: Path) -> None:
    text = FILE.format(claims="  []", more="", group="")
    with pytest.raises(SpecError, match="max_softmax is named twice"):
        assess(
            Assessment.parse(
                text.replace("[max_softmax]", "[max_softmax, max_softmax]"),
                user / "assessment.yaml",
            )
        )
    both = text.replace("[max_softmax]", "[max_softmax, {max_softmax: {module: model}}]")
    record = assess(Assessment.parse(both, user / "assessment.yaml")).record
    assert [s.name for s in record.sections["supervision"].supervisors] == [
        "max_softmax",
        "max_softmax(module=model)",
    ]


def test_a_subject_that_exits_fails_that_case_alone(user: Path) -> None:
    (user / "subject.py").write_text(
        SUBJECT.replace(
            "    x = float", "    if image[0, 0] == 77: raise SystemExit(0)\n    x = float"
        )
    )
    content = dict(np.load(user / "test.npz"))
    content["images"][:, 0, 0] = 60
    content["images"][5, 0, 0] = 77
    np.savez(user / "test.npz", **content)
    judged = run(user)
    assert judged.finding("accuracy").failed == 1
    assert "SystemExit" in json.dumps(judged.record.warnings)


def test_an_earlier_run_with_another_circumstance_of_that_name_is_refused(user: Path) -> None:
    folder = run(user).folder.relative_to(user)
    text = FILE.format(
        claims=f"  - {{id: D, no_worse_than: {folder}, by: 0.1, circumstance: dark}}",
        more="",
        group="",
    )
    weaker = text.replace("levels: [1, 3], table: wang", "levels: [1, 3], table: hendrycks")
    with pytest.raises(
        SpecError, match=r"claims\[0\].*its circumstance 'dark' is missing or another"
    ):
        assess(Assessment.parse(weaker, user / "assessment.yaml"))


def test_a_slice_that_one_of_many_places_lacks_leaves_that_place_open(user: Path) -> None:
    judged = run(
        user, "{id: S, accuracy: {min: 0.1}, every: circumstances, slice: {site: A}}"
    ).claims[0]
    by_place = {m.about: m for m in judged.members}
    assert by_place["site_b | site=A"].status == "inconclusive"
    assert "no case is in this slice" in by_place["site_b | site=A"].why
    assert by_place["dark@1 | site=A"].n == 80


def test_slices_of_a_slice_are_named_by_both(user: Path) -> None:
    judged = run(user, "{id: S, accuracy: {min: 0.1}, slice: {age: 20.0}, every: site}").claims[0]
    assert [m.about for m in judged.members] == ["age=20, site=A"]
