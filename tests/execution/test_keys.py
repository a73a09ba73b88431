"""What is kept is used again only where nothing that it depends on has changed, and no longer than its failures last."""

from __future__ import annotations

import importlib
import linecache
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roadworthy
from roadworthy.assessment.assess import assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.data.samples import Dataset
from roadworthy.data.values import CLASS_SCORES, GOAL, IMAGE, LABEL
from roadworthy.execution import plan as planning
from roadworthy.execution import versions
from roadworthy.execution.work import may_pass
from roadworthy.registry import remove
from roadworthy.spec import Assessment
from roadworthy.store import ChunkCache
from roadworthy.subject.module import function_module
from roadworthy.subject.system import single
from roadworthy.subject.trace import Trace

pytestmark = pytest.mark.usefixtures("no_monitor")

FILE = """\
name: keys
subject: {task: classification, python: subject.py:predict, version: "1"}
data: {test: {npz: test.npz}}
media: none
execution: {chunk: 10}
"""
SUBJECT = """
import pathlib
def predict(image):
    if image[0, 0] >= 200 and (pathlib.Path(__file__).parent / "down").exists():
        raise ConnectionError("the server is down")
    if image[0, 0] == 7:
        raise ValueError("seven")
    return [1.0 - image.mean() / 255, image.mean() / 255]
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    images = np.zeros((40, 4, 4), np.uint8)
    images[5, 0, 0] = 7  # fails for good, in the first chunk
    images[[21, 38], 0, 0] = 200  # fail while the server is down, in the third and fourth
    np.savez(tmp_path / "test.npz", images=images, labels=np.zeros(40, np.int64))
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


def cases(user: Path, **more) -> tuple[int, int, int]:
    counted = assess(user / "assessment.yaml", **more).record.plain()["cases"]
    return counted["computed"], counted["from_cache"], counted["failed"]


def keys(user: Path, text: str = FILE) -> tuple[str, set[str]]:
    plan = plan_assessment(Assessment.parse(text, user / "assessment.yaml"))
    return plan.key, {c.key for c in plan.chunks}


def test_after_an_outage_exactly_the_chunks_that_it_hit_are_computed_again(user):
    (user / "down").touch()
    assert cases(user) == (40, 0, 3)
    assert cases(user) == (20, 20, 3)
    (user / "down").unlink()
    assert cases(user) == (20, 20, 1)
    assert cases(user) == (0, 40, 1)


def test_after_an_outage_the_run_folder_holds_the_new_answers(user):
    (user / "down").touch()
    assess(user / "assessment.yaml")
    (user / "down").unlink()
    run = assess(user / "assessment.yaml")
    errors = [
        e
        for chunk in (run.folder / "trace").iterdir()
        for e in Trace.read(chunk)["system"].error
        if e
    ]
    assert errors == ["model, step 0: ValueError: seven"]


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        ("TimeoutError: x did not answer within 0.3 s", True),
        ("ConnectionRefusedError: [Errno 111] Connection refused", True),
        ("OSError: [Errno 5] Input/output error", True),
        ("MemoryError", True),
        ("OutOfMemoryError: CUDA out of memory", True),
        ("ServerFailed: the server answered 503", True),
        ("ReadTimeout: read timed out", True),
        ("detector, step 3: TimeoutError: x", True),
        ("ServerRefused: the server answered 400: bad image", False),
        ("ValueError: TimeoutError: quoted", False),
        ("a.png: is not an image", False),
        ("a.png: does not exist; restore the file or leave the sample out", False),
        ("the class_scores it gave has 1 NaN", False),
    ],
)
def test_which_failures_may_pass(error, passing):
    assert may_pass(error) is passing


def test_fresh_computes_everything_again_and_replaces_what_was_kept(user):
    first = assess(user / "assessment.yaml")
    chunk = next((first.folder / "trace").iterdir())
    before = (chunk / "chunk.json").read_bytes()
    assert cases(user) == (0, 40, 1)
    assert cases(user, fresh=True) == (40, 0, 1)
    assert (chunk / "chunk.json").read_bytes() != before
    cache = ChunkCache(user / "runs" / ".cache")
    assert (cache.folder(chunk.name) / "chunk.json").read_bytes() == (
        chunk / "chunk.json"
    ).read_bytes()
    assert cases(user) == (0, 40, 1)


def test_a_chunk_edited_in_place_is_computed_again(user):
    value = assess(user / "assessment.yaml").finding("accuracy").value
    file = next((user / "runs" / ".cache").rglob("*.values.npy"))
    content = bytearray(file.read_bytes())
    content[-8:] = content[-4:] + content[-8:-4]
    file.write_bytes(content)
    run = assess(user / "assessment.yaml")
    assert run.record.cases.computed == 10
    assert run.finding("accuracy").value == value


def test_another_version_of_the_subject_shares_no_chunk(user):
    key, chunks = keys(user)
    other, others = keys(user, FILE.replace('"1"', '"2"'))
    assert key != other and not chunks & others
    assert (key, chunks) == keys(user)


def test_a_handed_in_subject_is_told_apart_by_the_version_in_the_file(user):
    system = single(function_module(lambda image: [1.0, 0.0], outputs={"y": CLASS_SCORES}), IMAGE)
    chunks = [
        {
            c.key
            for c in plan_assessment(
                Assessment.parse(text, user / "assessment.yaml"), subject=system
            ).chunks
        }
        for text in (FILE, FILE.replace('"1"', '"2"'))
    ]
    assert not chunks[0] & chunks[1]


def test_two_models_in_one_closure_share_no_answer(user):
    def wrap(k):
        return single(
            function_module(lambda image: [1.0 - k, k], outputs={"y": CLASS_SCORES}), IMAGE
        )

    found = [
        assess(user / "assessment.yaml", subject=wrap(k)).finding("accuracy").value
        for k in (0.0, 1.0, 0.0)
    ]
    assert found == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("what", ["trace_version", "libraries"])
def test_code_and_libraries_stand_in_every_chunks_key(user, monkeypatch, what):
    before = keys(user)
    monkeypatch.setattr(planning, what, lambda: "another")
    after = keys(user)
    assert not before[1] & after[1]


def test_any_code_of_the_package_makes_another_run_but_only_some_makes_other_chunks(
    tmp_path, monkeypatch
):
    root = tmp_path / "roadworthy"
    shutil.copytree(
        Path(roadworthy.__file__).parent,
        root,
        ignore=shutil.ignore_patterns("__pycache__", "*.gz", "*.npz"),
    )
    monkeypatch.setattr(versions, "ROOT", root)

    def now():
        versions.code_version.cache_clear()
        versions.trace_version.cache_clear()
        return versions.code_version(), versions.trace_version()

    try:
        before = now()
        assert now() == before
        for name, traces_too in {
            "statistics/proportion.py": False,
            "claims.py": False,
            "cases/image/pixels.py": True,
            "data/loaders/npz.py": True,
            "subject/running.py": True,
            "registry.py": True,
        }.items():
            (root / name).write_text((root / name).read_text() + "\n# changed\n")
            after = now()
            assert after[0] != before[0], name
            assert (after[1] != before[1]) is traces_too, name
            before = after
    finally:
        versions.code_version.cache_clear()
        versions.trace_version.cache_clear()


def column(values) -> str:
    images = np.zeros((len(values), 2, 2), np.uint8)
    metadata = {"site": np.array([*values, None], dtype=object)[:-1]}
    return Dataset(
        "d", IMAGE, images, LABEL, np.zeros(len(values), np.int64), metadata=metadata
    ).fingerprint


words = st.text(st.sampled_from("ab|,:1 "), max_size=4) | st.integers(0, 12) | st.booleans()


@given(st.lists(words, min_size=2, max_size=2), st.lists(words, min_size=2, max_size=2))
def test_two_columns_of_metadata_have_one_fingerprint_only_if_they_are_equal(one, other):
    same = [(type(v), v) for v in one] == [(type(v), v) for v in other]
    assert (column(one) == column(other)) is same


def test_goals_of_a_number_and_of_a_text_differ_and_numpys_numbers_are_numbers():
    def goal(value):
        return Dataset("d", GOAL, [{"stars": value}], GOAL, [{"stars": value}]).fingerprint

    assert (
        goal(4) != goal("4") and goal([1, 2]) != goal([12]) and goal({"a": 1}) != goal({"a": "1"})
    )
    assert goal(4) == goal(np.int64(4))


THIRD = """
from roadworthy.registry import register

@register("distances", "third", of=("class_scores",))
def third(first, second) -> float:
    return float(abs(first - second).sum()) * FACTOR
"""
ASKED_AGAIN = """
def predict(image, rng):
    return [float(rng.random()), 0.5]
"""


def test_the_code_of_a_distance_that_somebody_else_wrote_is_part_of_a_chunks_key(
    user, monkeypatch, tmp_path_factory
):
    (user / "subject.py").write_text(ASKED_AGAIN)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.syspath_prepend(str(elsewhere))
    text = FILE + "supervisors: [{vr: {kind: own, distance: third}}]\n"
    found = []
    for factor in ("1", "100"):
        (elsewhere / "third_party.py").write_text(THIRD.replace("FACTOR", factor))
        linecache.clearcache()
        importlib.invalidate_caches()
        importlib.import_module("third_party")
        try:
            found.append(keys(user, text))
        finally:
            remove("distances", "third")
            sys.modules.pop("third_party")
    assert not found[0][1] & found[1][1]


def test_what_auto_stands_for_is_part_of_a_chunks_key(user, monkeypatch):
    (user / "subject.py").write_text(ASKED_AGAIN)
    text = FILE + "supervisors: [{vr: {kind: own}}]\n"
    before = keys(user, text)[1]
    monkeypatch.setattr("roadworthy.subject.passes.default_for", lambda kind: "cosine")
    assert not before & keys(user, text)[1]
