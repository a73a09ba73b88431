"""Cases of many steps: goals of dialogues, and video with tracks in the layout of MOTChallenge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from roadworthy.data import DataError, load
from roadworthy.data.values import FRAMES, GOAL, TRACKS

GOALS: list[dict[str, Any]] = [
    {
        "id": "g1",
        "goal": {"hotel": {"area": "north"}},
        "metadata": {"domains": 1, "kind": "single"},
    },
    {
        "id": "g2",
        "goal": {"train": {"day": "monday"}, "taxi": {}},
        "metadata": {"domains": 2, "kind": "multi"},
    },
]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_goals_from_a_list_or_from_lines(tmp_path: Path, form: str) -> None:
    text = json.dumps(GOALS) if form == "json" else "".join(json.dumps(g) + "\n" for g in GOALS)
    (tmp_path / f"goals.{form}").write_text(text)
    data = load({"dialogue": f"goals.{form}", "group": "kind"}, base=tmp_path, name="test")
    assert data.input_kind is GOAL and data.targets == [g["goal"] for g in GOALS]
    assert data.sample(1).input == GOALS[1]["goal"]
    assert data.groups.tolist() == ["single", "multi"]
    assert data.where({"domains": {"min": 2}}).tolist() == [False, True]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"goals": []}, "holds dict"),
        ([], "holds no samples"),
        ([{"id": 1, "gaol": {}}], "entry 0 has id, gaol; an id and a goal"),
        ([{"goal": {}}], "entry 0 has goal"),
        ([GOALS[0], GOALS[0]], "the id 'g1' occurs twice"),
        (
            [GOALS[0], {"id": "g3", "goal": {}, "metadata": {"kind": "x"}}],
            "every goal needs the same names",
        ),
    ],
)
def test_bad_goals_are_refused(tmp_path: Path, entries: Any, said: str) -> None:
    (tmp_path / "goals.json").write_text(json.dumps(entries))
    with pytest.raises(DataError) as caught:
        load({"dialogue": "goals.json"}, base=tmp_path, name="test")
    assert said in str(caught.value)


def sequence(folder: Path, truth: str, frames: int = 3) -> Path:
    (folder / "img1").mkdir(parents=True)
    (folder / "gt").mkdir()
    for t in range(1, frames + 1):
        cv2.imwrite(str(folder / f"img1/{t:06d}.jpg"), np.full((20, 30, 3), 40 * t, np.uint8))
    (folder / "gt/gt.txt").write_text(truth)
    return folder


TRUTH = "2,1,11,6,5,5,1,1,0.9\n1,1,10,6,5,5,1,1,1\n1,2,1,1,4,4,0,1,1\n3,3,2,2,6,7,1,2,1\n"


def test_sequences_of_frames_with_tracks_counted_from_zero(tmp_path: Path) -> None:
    sequence(tmp_path / "mot/drive-1", TRUTH)
    sequence(tmp_path / "mot/drive-2", "", frames=2)
    data = load({"frames": "mot"}, base=tmp_path, name="test")
    assert (data.input_kind, data.target_kind) == (FRAMES, TRACKS)
    assert data.ids.tolist() == ["drive-1", "drive-2"] and data.metadata["frames"].tolist() == [
        3,
        2,
    ]
    tracks = data.targets[0]
    assert tracks.step.tolist() == [0, 1, 2] and tracks.ids.tolist() == [1, 1, 3]
    assert tracks.xyxy.tolist() == [[9, 5, 14, 10], [10, 5, 15, 10], [1, 1, 7, 8]]
    assert len(data.targets[1]) == 0
    case = data.sample(0).input
    assert len(case) == 3 and FRAMES.problem(case) is None
    assert [round(float(frame.mean()) / 40) for frame in case] == [1, 2, 3]


def test_objects_of_some_classes_only(tmp_path: Path) -> None:
    sequence(tmp_path / "mot/drive-1", TRUTH)
    assert load({"frames": "mot", "of": [1]}, base=tmp_path, name="test").targets[
        0
    ].ids.tolist() == [1, 1]


def test_a_broken_frame_says_so_and_changes_the_fingerprint(tmp_path: Path) -> None:
    folder = sequence(tmp_path / "mot/drive-1", TRUTH)
    whole = load({"frames": "mot"}, base=tmp_path, name="test").fingerprint
    (folder / "img1/000002.jpg").write_bytes(b"\xff\xd8")
    data = load({"frames": "mot"}, base=tmp_path, name="test")
    assert (FRAMES.problem(data.sample(0).input) or "").startswith("frame 1 could not be read")
    assert data.fingerprint != whole


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        ("9,1,1,1,5,5,1,1,1\n", "gt.txt, line 1: is of frame 9, but img1 has the frames 1 to 3"),
        ("1,1,1,1,5,5,1,1,1\n1,1,2,2,5,5,1,1,1\n", "line 2: object 1 is in frame 1 twice"),
        ("1,1,1,1,-5,5,1,1,1\n", "line 1: a box of -5 x 5 pixels"),
        ("1,1,left,1,5,5\n", "frame, id, x, y, width, height, … as numbers were expected"),
        ("1,1\n", "as numbers were expected"),
    ],
)
def test_bad_truth_is_refused_by_line(tmp_path: Path, truth: str, said: str) -> None:
    sequence(tmp_path / "mot/drive-1", truth)
    with pytest.raises(DataError) as caught:
        load({"frames": "mot"}, base=tmp_path, name="test")
    assert said in str(caught.value)


def test_a_gap_in_the_frames_and_missing_parts_are_refused(tmp_path: Path) -> None:
    folder = sequence(tmp_path / "mot/drive-1", TRUTH)
    (folder / "img1/000002.jpg").unlink()
    with pytest.raises(DataError, match="frame 2 is missing"):
        load({"frames": "mot"}, base=tmp_path, name="test")
    (folder / "gt/gt.txt").unlink()
    (folder / "img1/000003.jpg").unlink()
    with pytest.raises(DataError, match=r"gt\.txt does not exist"):
        load({"frames": "mot"}, base=tmp_path, name="test")
    with pytest.raises(DataError, match="holds no sequence"):
        load({"frames": "mot/drive-1"}, base=tmp_path, name="test")
