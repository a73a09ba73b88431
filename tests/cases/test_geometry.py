"""Targets move with the picture: boxes against moved pixels, closed forms and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_imagecorruptions import scene

from roadworthy.cases.image.geometry import Warp
from roadworthy.cases.transform import Transform, at_level
from roadworthy.data.values import BOXES, TRACKS, Boxes, Tracks
from roadworthy.distances.overlap import box_iou

GEOMETRY = ("rotation", "truncated_section", "elastic_transform")
SHAPE = (120, 160)


def turned(degrees: float, shape: tuple[int, int] = SHAPE) -> Warp:
    """Old x = cos x' - sin y' about the centre, with pixel centres at whole numbers."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    y, x = (shape[0] - 1) / 2, (shape[1] - 1) / 2
    return Warp(np.array([[c, -s, x - c * x + s * y], [s, c, y - s * x - c * y]]), shape)


def hull_of(mask: np.ndarray) -> np.ndarray:
    rows, columns = np.nonzero(mask)
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1], float)


def drawn_boxes(rng: np.random.Generator, n: int, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    corner = rng.uniform(0, 0.8, (n, 2)) * shape[::-1]
    return np.hstack([corner, np.minimum(corner + rng.uniform(8, 40, (n, 2)), shape[::-1])])


@pytest.mark.parametrize("degrees", (-20.0, -7.0, 0.0, 3.0, 90.0, 180.0))
def test_a_rotated_box_is_the_hull_of_its_turned_corners(degrees):
    boxes = drawn_boxes(np.random.default_rng(1), 30)
    angle = math.radians(-degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    centre = np.array([SHAPE[1] / 2, SHAPE[0] / 2])
    expected = []
    for x1, y1, x2, y2 in boxes:
        corners = np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]])
        moved = (corners - centre) @ turn.T + centre
        expected.append([*moved.min(axis=0), *moved.max(axis=0)])
    cut = np.clip(expected, 0, [*SHAPE[::-1]] * 2)
    assert turned(degrees).boxes(Boxes.of(boxes)).xyxy == pytest.approx(cut, abs=1e-9)


@pytest.mark.parametrize("name", GEOMETRY)
@pytest.mark.parametrize("level", (1, 3))
def test_boxes_lie_where_the_painted_object_lies(name, level):
    """A white rectangle is painted, moved as a picture, and found again by its pixels."""
    made, found = at_level(name, level), []
    for case, (x1, y1, x2, y2) in enumerate(
        [(40, 30, 80, 60), (70, 50, 100, 90), (60, 40, 72, 52)]
    ):
        picture = np.zeros(SHAPE, np.uint8)
        picture[y1:y2, x1:x2] = 255
        moved = made.at_step(picture, 7, str(case))
        box = made.carried(Boxes.of([[x1, y1, x2, y2]]), SHAPE, 7, str(case))
        found.append(box_iou(box.xyxy[0], hull_of(moved > 127)))
    assert np.mean(found) > (0.99 if name == "truncated_section" else 0.9)


@pytest.mark.parametrize(("level", "mean"), [(1, 0.95), (5, 0.87)])
def test_boxes_under_a_dense_map_are_near_the_hull_of_all_pixels_that_show_them(level, mean):
    rng, found = np.random.default_rng(3), []
    for case in range(4):
        warp = at_level("elastic_transform", level).warp((224, 224), 0, str(case))
        boxes = drawn_boxes(rng, 25, (224, 224))
        moved = warp.boxes(Boxes.of(boxes)).xyxy
        x, y = warp.backward[..., 0] + 0.5, warp.backward[..., 1] + 0.5
        for (x1, y1, x2, y2), box in zip(boxes, moved, strict=True):
            shown = (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
            found.append(box_iou(box, hull_of(shown)))
    assert np.mean(found) > mean


@pytest.mark.parametrize("name", GEOMETRY)
def test_a_mask_moves_with_the_picture(name):
    labels = np.kron(np.arange(12).reshape(3, 4), np.ones((40, 40), int))
    made = at_level(name, 2)
    moved = made.carried(labels, SHAPE, 3, "a")
    assert moved.dtype == labels.dtype and set(np.unique(moved)) <= set(range(12))
    picture = made.at_step((labels * 20).astype(np.uint8), 3, "a")
    # Between two classes the picture is a mixture, and the mask one of them.
    inner = np.abs(picture.astype(int) - 20 * moved) <= 1
    assert inner.mean() > 0.85


def test_a_mask_keeps_large_numbers_and_bools():
    large = np.full(SHAPE, 2**40 + 1)
    assert set(np.unique(turned(30.0).mask(large))) == {0, 2**40 + 1}
    assert turned(30.0).mask(np.ones(SHAPE, bool)).dtype == bool


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"whole numbers of shape \(120, 160\)"):
        turned(5.0).mask(np.zeros((8, 8), int))


def test_the_visible_share_decides_who_is_ignored():
    window = Warp(None, (100, 100), window=(50, 0, 100, 100))
    boxes = Boxes.of(
        [[40, 0, 60, 10], [20, 0, 60, 10], [0, 0, 40, 10], [60, 0, 70, 10]], [0, 1, 2, 3]
    )
    moved = window.boxes(boxes)
    assert moved.xyxy[0].tolist() == [50, 0, 60, 10] and moved.labels.tolist() == [0, 1, 2, 3]
    assert moved.ignore.tolist() == [False, True, True, False]  # 50%, 25%, 0% and all of it
    assert window.boxes(boxes, least_visible=0.2).ignore.tolist() == [False, False, True, False]
    assert BOXES.problem(moved) is None and not boxes.ignore.any()


def test_what_was_ignored_before_stays_ignored():
    boxes = Boxes.of([[60, 50, 80, 70]], ignore=[True])
    assert turned(3.0).boxes(boxes).ignore.tolist() == [True]


def test_a_box_without_area_stays_while_it_lies_in_the_picture():
    window = Warp(None, (100, 100), window=(50, 0, 100, 100))
    moved = window.boxes(Boxes.of([[60, 5, 60, 9], [70, 7, 70, 7], [10, 10, 10, 20]]))
    assert moved.ignore.tolist() == [False, False, True]
    assert turned(4.0).boxes(Boxes.of([[80, 60, 80, 60]])).ignore.tolist() == [False]


@pytest.mark.parametrize("name", GEOMETRY)
def test_an_image_without_boxes_has_none_afterwards(name):
    assert len(at_level(name, 5).carried(Boxes.of([]), SHAPE, 0, "a")) == 0


@pytest.mark.parametrize("name", GEOMETRY)
def test_tracks_move_as_boxes_do_and_objects_out_of_sight_are_absent(name):
    corners = drawn_boxes(np.random.default_rng(2), 40)
    tracks = Tracks.of(np.arange(40) // 4, np.arange(40) % 4, corners)
    made = at_level(name, 5)
    moved = made.carried(tracks, SHAPE, 5, "drive")
    boxes = made.carried(Boxes.of(corners), SHAPE, 5, "drive")
    assert TRACKS.problem(moved) is None and len(moved) == np.sum(~boxes.ignore)
    assert np.array_equal(moved.xyxy, boxes.xyxy[~boxes.ignore])
    assert np.array_equal(moved.ids, tracks.ids[~boxes.ignore])


@pytest.mark.parametrize("target", [3, "text", np.array([0.5, 1.0]), None])
def test_targets_without_a_place_stay_as_they_are(target):
    assert at_level("rotation", 5).carried(target, SHAPE, 0, "a") is target


def test_transforms_that_move_nothing_hand_the_target_back():
    boxes = Boxes.of([[0, 0, 5, 5]])
    assert at_level("gaussian_noise", 3).carried(boxes, SHAPE, 0, "a") is boxes
    assert at_level("rotation", 0).carried(boxes, SHAPE, 0, "a") is boxes
    assert at_level("rotation", 0).warp(SHAPE, 0, "a") is None


@pytest.mark.parametrize("name", GEOMETRY)
def test_all_steps_of_a_case_move_alike(name):
    made, frame = at_level(name, 3), scene(40, 50)
    first, second = made.at_step(frame, 1, "drive", 0), made.at_step(frame, 1, "drive", 9)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, made.at_step(frame, 1, "another", 0))


@pytest.mark.parametrize("name", GEOMETRY)
def test_alpha_moves_with_the_picture(name):
    alpha = scene(40, 50)[:, :, :1]
    both = np.concatenate([np.repeat(alpha, 3, axis=2), alpha], axis=2)
    moved = at_level(name, 3).at_step(both, 1, "a")
    assert np.array_equal(moved[:, :, 0], moved[:, :, 3])


def test_the_angle_is_uniform_up_to_the_largest():
    made = at_level("rotation", 5)
    angles = []
    for case in range(400):
        (a, b, _), _ = made.warp(SHAPE, 0, str(case)).backward
        angles.append(math.degrees(math.atan2(-b, a)))
    assert np.abs(angles).max() <= 20 and np.abs(angles).max() > 19
    assert abs(np.mean(angles)) < 3 * 20 / math.sqrt(3 * 400)
    assert np.mean(np.abs(angles)) == pytest.approx(10, abs=1)


def test_a_truncated_picture_keeps_what_remains_in_place():
    picture = scene(50, 80)
    cut = Transform("truncated_section", {"share": 0.4}).at_step(picture, 0, "a")
    kept = (cut == picture).all(axis=2)
    assert hull_of(kept & (picture > 0).any(axis=2))[2] - hull_of(kept)[0] == 48
    assert kept.sum() >= 30 * 48 and np.all(cut[~kept] == 0)


@given(
    shape=st.tuples(st.integers(8, 60), st.integers(8, 60)),
    name=st.sampled_from(GEOMETRY),
    level=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_moved_boxes_are_sound_and_lie_in_the_picture(shape, name, level, seed):
    boxes = Boxes.of(drawn_boxes(np.random.default_rng(seed), 5, shape))
    moved = at_level(name, level).carried(boxes, shape, seed, "a")
    assert BOXES.problem(moved) is None and len(moved) == 5
    assert moved.xyxy.min() >= 0 and (moved.xyxy <= [*shape[::-1]] * 2).all()
