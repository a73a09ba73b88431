"""Average precision against faster-coco-eval, and what counts as found, missed and false."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.data.values import Boxes
from roadworthy.measures.detection import ap50, match, precision, recall


def scenes(seed: int, n: int = 40, classes: int = 4) -> tuple[list[Boxes], list[Boxes]]:
    """Crowded images: detections near the objects, some doubled, some invented."""
    rng = np.random.default_rng(seed)
    found, truth = [], []
    for _ in range(n):
        k, extra = int(rng.integers(0, 9)), int(rng.integers(0, 6))
        corner = rng.uniform(0, 120, (k + extra, 2))
        whole = np.hstack([corner, corner + rng.uniform(20, 60, (k + extra, 2))])
        labels = rng.integers(0, classes, k + extra)
        truth.append(Boxes.of(whole[:k], labels[:k]))
        near = np.vstack([whole, whole[: k // 2]]) + rng.normal(0, 5, (k + extra + k // 2, 4))
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
        found.append(
            Boxes.of(near, np.concatenate([labels, labels[: k // 2]]), rng.random(len(near)))
        )
    return found, truth


def coco_value(found: list[Boxes], truth: list[Boxes], iou: float, most: int = 100) -> float:
    from faster_coco_eval import COCO, COCOeval_faster

    def row(image: int, boxes: Boxes, k: int) -> dict:
        x1, y1, x2, y2 = (float(v) for v in boxes.xyxy[k])
        box = [x1, y1, x2 - x1, y2 - y1]
        return {
            "image_id": image,
            "category_id": int(boxes.labels[k]) + 1,
            "bbox": box,
            "area": box[2] * box[3],
        }

    objects = [row(i, t, k) for i, t in enumerate(truth) for k in range(len(t))]
    reference = COCO(
        {
            "info": {},
            "images": [
                {"id": i, "width": 500, "height": 500, "file_name": str(i)}
                for i in range(len(truth))
            ],
            "annotations": [
                o | {"id": n + 1, "iscrowd": int(crowd)}
                for n, (o, crowd) in enumerate(
                    zip(objects, (c for t in truth for c in t.ignore), strict=True)
                )
            ],
            "categories": [{"id": c, "name": str(c)} for c in range(1, 10)],
        }
    )
    detections = [
        row(i, f, k) | {"score": float(f.scores[k])}
        for i, f in enumerate(found)
        for k in range(len(f))
    ]
    evaluation = COCOeval_faster(reference, reference.loadRes(detections), "bbox")
    evaluation.params.iouThrs = np.array([iou])
    evaluation.params.maxDets = [1, 10, most]
    evaluation.evaluate()
    evaluation.accumulate()
    table = evaluation.eval["precision"][0, :, :, 0, -1]
    return float(table[table > -1].mean())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("iou", [0.3, 0.5, 0.75])
def test_average_precision_equals_faster_coco_eval(seed: int, iou: float) -> None:
    found, truth = scenes(seed)
    assert ap50(found, truth, iou=iou).value() == pytest.approx(
        coco_value(found, truth, iou), abs=1e-6
    )


def test_only_the_best_detections_of_a_class_count_as_in_faster_coco_eval() -> None:
    found, truth = scenes(9, classes=1)
    value = ap50(found, truth, max_detections=10).value()
    assert coco_value(found, truth, 0.5, most=10) == pytest.approx(value, abs=1e-6)
    assert ap50(found, truth, max_detections=3).value() < value


def test_integer_weights_equal_faster_coco_eval_on_repeated_images() -> None:
    found, truth = scenes(3, n=15)
    weights = np.random.default_rng(1).integers(0, 4, 15)
    rows = np.repeat(np.arange(15), weights)
    # The peer orders equal scores by file; a hair's breadth between repetitions makes its order ours.
    apart = [
        Boxes(found[i].xyxy, found[i].labels, found[i].scores - 1e-12 * copy)
        for copy, i in enumerate(rows)
    ]
    expected = coco_value(apart, [truth[i] for i in rows], 0.5)
    assert ap50(found, truth).value(weights) == pytest.approx(expected, abs=1e-6)


def with_regions(truth: list[Boxes], seed: int, share: float = 0.4) -> list[Boxes]:
    """The same objects, some of them regions to ignore."""
    rng = np.random.default_rng(seed)
    return [Boxes.of(t.xyxy, t.labels, ignore=rng.random(len(t)) < share) for t in truth]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("iou", [0.3, 0.5, 0.75])
def test_with_regions_to_ignore_average_precision_equals_faster_coco_eval_with_crowds(seed, iou):
    found, truth = scenes(seed)
    truth = with_regions(truth, seed)
    ours = ap50(found, truth, iou=iou)
    assert ours.value() == pytest.approx(coco_value(found, truth, iou), abs=1e-6)
    assert ours.value() != pytest.approx(ap50(found, scenes(seed)[1], iou=iou).value(), abs=1e-3)
    half = np.arange(0, len(truth), 2)
    taken = coco_value([found[i] for i in half], [truth[i] for i in half], iou)
    assert ours.take(half).value() == pytest.approx(taken, abs=1e-6)


def test_with_regions_to_ignore_recall_and_precision_equal_plain_loops() -> None:
    found, truth = scenes(5)
    truth = with_regions(truth, 5)
    hits = made = objects = 0
    for f, t in zip(found, truth, strict=True):
        f, real = _above(f, 0.6), ~t.ignore
        hit, _ = brute_force(f, Boxes(t.xyxy[real], t.labels[real], t.scores[real]), 0.5)
        inside = [
            any(
                f.labels[d] == t.labels[r] and _share_inside(f.xyxy[d], t.xyxy[r]) >= 0.5
                for r in np.flatnonzero(t.ignore)
            )
            for d in range(len(f))
        ]
        hits, objects = hits + sum(hit), objects + real.sum()
        made += sum(h or not i for h, i in zip(hit, inside, strict=True))
    assert recall(found, truth, min_score=0.6).value() == pytest.approx(hits / objects)
    assert precision(found, truth, min_score=0.6).value() == pytest.approx(hits / made)


def _share_inside(box: np.ndarray, region: np.ndarray) -> float:
    width, height = (
        max(min(box[i + 2], region[i + 2]) - max(box[i], region[i]), 0) for i in (0, 1)
    )
    return width * height / ((box[2] - box[0]) * (box[3] - box[1]))


def test_a_region_to_ignore_is_neither_missed_nor_are_detections_in_it_false() -> None:
    region = Boxes.of([[0, 0, 8, 8]], ignore=[True])
    inside, outside = Boxes.of([[1, 1, 3, 3], [2, 2, 4, 4]]), Boxes.of([[20, 20, 24, 24]])
    scored = ap50([Boxes.of([]), inside, outside, None], [region] * 4)
    assert scored.failure.tolist() == [False, False, True, True]
    assert scored.error.tolist() == [0, 0, 1, 1]
    assert recall([Boxes.of([]), inside], [region] * 2).failure.tolist() == [False, False]
    assert precision([inside, outside], [region] * 2).failure.tolist() == [False, True]
    counts = match([inside, outside], [region, region]).counts(0.0)
    assert counts.ignored.tolist() == [1, 1] and counts.objects.tolist() == [0, 0]
    other_class = Boxes.of([[1, 1, 3, 3]], labels=[1])
    assert ap50([other_class], [region]).failure.tolist() == [True]


def brute_force(found: Boxes, truth: Boxes, least: float) -> tuple[list[bool], set[int]]:
    """Hits by detection and the objects found, with plain loops."""
    hits, taken = [False] * len(found), set()
    for d in sorted(range(len(found)), key=lambda d: -found.scores[d]):
        best, best_iou = None, least
        for t in range(len(truth)):
            a, b = found.xyxy[d], truth.xyxy[t]
            shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(
                min(a[3], b[3]) - max(a[1], b[1]), 0
            )
            union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
            if found.labels[d] == truth.labels[t] and t not in taken and shared / union >= best_iou:
                best, best_iou = t, shared / union
        if best is not None:
            hits[d] = True
            taken.add(best)
    return hits, taken


def test_matching_equals_plain_loops() -> None:
    found, truth = scenes(7, n=30, classes=2)
    matched = match(found, truth, iou=0.4)
    for case in range(30):
        hits, taken = brute_force(found[case], truth[case], 0.4)
        assert matched.hit[matched.case == case].tolist() == hits
        assert (
            set(np.flatnonzero(np.isfinite(matched.found_at[matched.truth_case == case]))) == taken
        )


def test_recall_and_precision_count_at_the_score_threshold() -> None:
    found, truth = scenes(5)
    hits = sum(
        sum(brute_force(_above(f, 0.6), t, 0.5)[0]) for f, t in zip(found, truth, strict=True)
    )
    assert recall(found, truth, min_score=0.6).value() == pytest.approx(hits / sum(map(len, truth)))
    made = sum(len(_above(f, 0.6)) for f in found)
    assert precision(found, truth, min_score=0.6).value() == pytest.approx(hits / made)


def _above(boxes: Boxes, score: float) -> Boxes:
    keep = boxes.scores >= score
    return Boxes(boxes.xyxy[keep], boxes.labels[keep], boxes.scores[keep])


def test_missed_objects_and_false_detections_fail_a_case_and_low_scores_do_not() -> None:
    truth = [Boxes.of([[0, 0, 4, 4]])] * 4 + [Boxes.of([])] * 2
    hit, stray = [0, 0, 4, 4], [10, 10, 14, 14]
    found = [
        Boxes.of([hit]),
        Boxes.of([hit, stray], scores=[0.9, 0.2]),
        Boxes.of([hit, stray], scores=[0.9, 0.8]),
        Boxes.of([hit], scores=[0.2]),
        Boxes.of([]),
        None,
    ]
    scored = ap50(found, truth)
    assert scored.failure.tolist() == [False, False, True, True, False, True]
    assert scored.error == pytest.approx([0, 0, 1 / 3, 1, 0, 1])


def test_a_detection_of_the_wrong_class_finds_nothing() -> None:
    scored = recall([Boxes.of([[0, 0, 4, 4]], labels=[1])], [Boxes.of([[0, 0, 4, 4]], labels=[0])])
    assert scored.value() == 0.0


def test_classes_without_objects_do_not_count_and_no_object_at_all_has_no_value() -> None:
    truth = [Boxes.of([[0, 0, 4, 4]], labels=[2]), Boxes.of([])]
    found = [Boxes.of([[0, 0, 4, 4]], labels=[2]), Boxes.of([[0, 0, 4, 4]], labels=[0])]
    scored = ap50(found, truth)
    assert scored.value() == 1.0
    assert np.isnan(scored.value(np.array([0, 1])))


def test_an_overlap_of_exactly_the_threshold_counts() -> None:
    assert recall([Boxes.of([[0, 0, 2, 1]])], [Boxes.of([[0, 0, 2, 2]])]).value() == 1.0


def test_a_case_without_truth_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 of 2 cases have no target .*row 1"):
        ap50([Boxes.of([])] * 2, [Boxes.of([]), None])


def test_boxes_without_area_overlap_nothing() -> None:
    point = Boxes.of([[1, 1, 1, 1]])
    assert recall([point], [point]).value() == 0.0


def test_no_answer_is_a_false_detection_above_all_scores_and_as_many_as_the_worst_answer_at_each_score() -> (
    None
):
    box, stray = [0, 0, 4, 4], [[10, 10, 14, 14], [20, 20, 24, 24]]
    one, none = Boxes.of([box]), Boxes.of([])
    right = [Boxes.of([box], scores=[0.8])] * 4
    assert ap50([*right, *[None] * 4], [one] * 4 + [none] * 4).value() == pytest.approx(4 / 8)
    assert ap50([*right, *[None] * 4], [one] * 8).value() == pytest.approx(4 / 8 * 51 / 101)
    # A second false detection counts where its score does: above the right ones, or below them.
    for second, made in ((0.9, 4 + 2 * 5), (0.7, 4 + 1 * 5)):
        worst = Boxes.of(stray, scores=[0.95, second])
        assert ap50([*right, worst, *[None] * 4], [one] * 4 + [none] * 5).value() == pytest.approx(
            4 / made
        )
    assert ap50([None, none], [none, none]).value() == 0.0


def test_no_answer_costs_recall_an_object_and_precision_the_most_false_detections() -> None:
    box, stray = [0, 0, 4, 4], [[10, 10, 14, 14], [20, 20, 24, 24]]
    truth = [Boxes.of([box]), Boxes.of([box]), Boxes.of([])]
    found = [Boxes.of([box]), Boxes.of([box, *stray]), None]
    assert recall(found, truth).value() == pytest.approx(2 / 3)
    assert precision(found, truth).value() == pytest.approx(2 / 6)
    assert precision(found, truth).take(np.array([0, 2])).value() == pytest.approx(1 / 2)
