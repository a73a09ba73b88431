"""Follow-up sets: test images as they are met in use, by the probabilities of circumstances (Wozniak et al. 2024, step 3).

For each image it is drawn which circumstances it meets, from the run's seed and its id, so that any number of workers writes
the same set. The mixture is that of the assessment file (``operation: {mixture: all}``), or all transforms that have a
probability. Labels become folders; boxes are carried along and become a COCO file, or YOLO or Pascal VOC files, one an image.
`frequencies.csv` says how often each circumstance was wanted and achieved.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy.assessment.export import planned
from roadworthy.cases.circumstance import Circumstance, Condition
from roadworthy.cases.generators import Mixture, MixturePart
from roadworthy.data.loaders.boxes import Size
from roadworthy.data.loaders.coco import coco_document
from roadworthy.data.loaders.voc import voc_document
from roadworthy.data.loaders.yolo import CLASSES_FILE, yolo_lines
from roadworthy.data.png import encode_png
from roadworthy.data.samples import DataError, Dataset
from roadworthy.data.seeds import generator
from roadworthy.data.values import BOXES, IMAGE, LABEL, Boxes, Unreadable
from roadworthy.execution.plan import Plan
from roadworthy.execution.progress import Progress, Silent
from roadworthy.spec import Assessment
from roadworthy.subject.system import INPUT
from roadworthy.subject.trace import whole_folder

BoxFormat = Literal["coco", "yolo", "voc"]
MOST_TRIES = 1000
"""Draws for one image until it meets any circumstance."""


@dataclass(frozen=True)
class Frequency:
    """How often a circumstance was wanted, and how often it was drawn."""

    circumstance: str
    wanted: float
    achieved: float


@dataclass(frozen=True)
class FollowUp:
    """What was written."""

    folder: Path
    cases: int
    frequencies: tuple[Frequency, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    """Images that could not be made, and why."""


@dataclass(frozen=True)
class _Drawn:
    """One image of the set: its sample, its id, and what it meets."""

    row: int
    case: str
    met: tuple[str, ...]


def make_follow_up(
    spec: Assessment,
    out: Path,
    *,
    n: int,
    only_changed: bool = False,
    boxes: BoxFormat = "coco",
    workers: int = 2,
    progress: Progress | None = None,
) -> FollowUp:
    """Write a set of `n` images; with `only_changed` each of them meets some circumstance. `boxes` are in that format."""
    show = progress or Silent()
    show.stage("loading data", 0)
    made = {
        name: c
        for name, c in spec.circumstances.items()
        if c.mixture or ((c.transform or c.transforms) and c.port == INPUT)
    }
    plan = planned(spec.model_copy(update={"circumstances": made, "supervisors": []}))
    data, mixture = plan.data["test"], _mixture(plan)
    if data.input_kind is not IMAGE or data.target_kind not in (LABEL, BOXES):
        raise DataError("a follow-up set is made of images with labels or boxes")
    if data.target_kind is not BOXES and boxes != "coco":
        raise DataError(f"the data has no boxes to be written as {boxes}; labels become folders")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} is there already and not empty; name a new folder")
    if only_changed and not mixture.probability_of_any():
        raise spec.error(("circumstances",), "every probability is 0; no image meets any of them")
    drawn = list(_draws(plan, mixture, n, only_changed))
    show.stage("writing images", n)
    condition = Condition("operation", transform=mixture)
    with whole_folder(out) as folder, ThreadPoolExecutor(workers) as pool:
        written = []
        for one in pool.map(lambda d: _write(plan, condition, folder, d), drawn):
            written.append(one)
            show.advance(1)
        frequencies = _frequencies(mixture, drawn, only_changed)
        _write_tables(folder, data, drawn, written, frequencies)
        if data.target_kind is BOXES:
            _write_boxes(folder, data, [w for w in written if not isinstance(w, Unreadable)], boxes)
    pairs = zip(drawn, written, strict=True)
    failed = {d.case: w.reason for d, w in pairs if isinstance(w, Unreadable)}
    return FollowUp(out, n - len(failed), frequencies, failed)


def _mixture(plan: Plan) -> Mixture:
    """That of the file, or all transforms that have a probability."""
    mixed = next((c for c in plan.circumstances if c.kind == "mixture"), None)
    if mixed is not None:
        return Mixture(mixed.members, mixed.exclusive)
    parts = [c for c in plan.circumstances if _has_probability(c)]
    if not parts:
        raise plan.spec.error(
            ("circumstances",), "no transform has a probability; add how often each is met in use"
        )
    members = tuple(MixturePart(c.name, c.probability or 0.0, tuple(c.chains())) for c in parts)
    return Mixture(members, tuple(tuple(group.of) for group in plan.spec.exclusive))


def _has_probability(c: Circumstance) -> bool:
    return c.kind == "transform" and c.probability is not None and c.port == "input"


def _draws(plan: Plan, mixture: Mixture, n: int, only_changed: bool) -> Iterator[_Drawn]:
    """Samples in rounds, each round in an order of its own; what each of them meets."""
    data, seed = plan.data["test"], plan.spec.seed
    for k in range(n):
        turn, at = divmod(k, len(data))
        if at == 0:
            order = generator(seed, "follow-up", turn).permutation(len(data))
        row = int(order[at])
        for attempt in range(MOST_TRIES if only_changed else 1):
            case = f"{data.ids[row]}~{turn}" + (f".{attempt}" if attempt else "")
            met = mixture.drawn(seed, case)
            if met or not only_changed:
                break
        yield _Drawn(row, case, met)


def _write(plan: Plan, condition: Condition, folder: Path, drawn: _Drawn) -> Any:
    """One image; where it stands in the folder, and its target; or why it cannot be made."""
    data = plan.data["test"]
    item = data.inputs[drawn.row : drawn.row + 1][0]
    made = plan.arriving(condition, drawn.case, item)
    if isinstance(made, Unreadable):
        return made
    assert data.targets is not None
    target = data.targets[drawn.row]
    if isinstance(condition.transform, Mixture) and condition.transform.carries:
        target = plan.moved(condition.transform, target, item, drawn.case)
    place = "images"
    if data.target_kind is LABEL:
        place = str(data.classes[int(target)] if data.classes else int(target)).replace("/", "_")
    name = f"{place}/{drawn.case.replace('/', '_').replace('~', '-')}.png"
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    image = np.asarray(made)
    if image.dtype.kind == "f":
        if not np.isfinite(image).all():
            return Unreadable("the image has NaN or infinite pixels; replace them, or leave it out")
        image = np.round(image * 255).astype(np.uint8)
    file.write_bytes(encode_png(image))
    return name, target, image.shape[:2]


def _frequencies(
    mixture: Mixture, drawn: list[_Drawn], only_changed: bool
) -> tuple[Frequency, ...]:
    """Each circumstance by itself, and none of them."""
    any_of = mixture.probability_of_any()
    scale = any_of if only_changed else 1.0
    counts = Counter(name for d in drawn for name in d.met)
    found = [
        Frequency(m.name, m.probability / scale, counts[m.name] / len(drawn))
        for m in mixture.members
    ]
    none = sum(not d.met for d in drawn) / len(drawn)
    return (*found, Frequency("none of them", 0.0 if only_changed else 1.0 - any_of, none))


def _write_tables(
    folder: Path,
    data: Dataset,
    drawn: list[_Drawn],
    written: list[Any],
    frequencies: tuple[Frequency, ...],
) -> None:
    """What each image met, and how often."""
    pairs = zip(drawn, written, strict=True)
    rows = [(d, w) for d, w in pairs if not isinstance(w, Unreadable)]
    with (folder / "cases.csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["image", "sample", "met"])
        table.writerows([w[0], data.ids[d.row], " + ".join(d.met)] for d, w in rows)
    with (folder / "frequencies.csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["circumstance", "wanted", "achieved"])
        table.writerows([f.circumstance, f.wanted, f.achieved] for f in frequencies)


def _write_boxes(folder: Path, data: Dataset, written: list[Any], form: BoxFormat) -> None:
    """The boxes of the images: annotations.json, or a file an image in labels/ (YOLO) or annotations/ (VOC)."""
    names = data.classes or tuple(str(i) for i in range(1 + _largest_label(written)))
    pictures = [
        (name.removeprefix("images/"), boxes, Size(width, height))
        for name, boxes, (height, width) in written
    ]
    if form == "coco":
        content = json.dumps(coco_document(pictures, names))
        (folder / "annotations.json").write_text(content, encoding="utf-8")
        return
    place = folder / ("labels" if form == "yolo" else "annotations")
    place.mkdir()
    if form == "yolo":
        (place / CLASSES_FILE).write_text("".join(f"{n}\n" for n in names), encoding="utf-8")
    for name, boxes, size in pictures:
        yolo = form == "yolo"
        text = yolo_lines(boxes, size) if yolo else voc_document(name, boxes, names, size)
        file = (place / name).with_suffix(".txt" if yolo else ".xml")
        file.write_text(text, encoding="utf-8")


def _largest_label(written: list[Any]) -> int:
    found = [
        boxes.labels.max() for _, boxes, _ in written if isinstance(boxes, Boxes) and len(boxes)
    ]
    return int(max(found, default=0))
