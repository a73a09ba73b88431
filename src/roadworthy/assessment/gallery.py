"""Pictures for the report: originals beside the cases made from them, and the worst failures. Content-addressed, small, few."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.assessment.observing import Seen, display
from roadworthy.data.png import encode_png
from roadworthy.data.values import FRAMES, GOAL, IMAGE, TEXT, Boxes, Unreadable
from roadworthy.execution.plan import Plan
from roadworthy.store import RunFolder
from roadworthy.store.record import Gallery, Pair

PAIRS_A_CONDITION = 4
WORST = 12
LARGEST_SIDE = 256


def make_gallery(plan: Plan, folder: RunFolder, seen: Sequence[Seen]) -> Gallery:
    """Choose, make again, and keep the pictures."""
    clean = seen[0]
    pairs: list[Pair] = []
    for s in seen[1:]:
        rows = _telling(s, clean)[:PAIRS_A_CONDITION]
        pairs.extend(_entry(plan, folder, s, clean, int(row)) for row in rows)
    worst = [_entry(plan, folder, s, clean, row) for s, row in _worst(seen)[:WORST]]
    return Gallery(pairs=pairs, worst=worst)


def _telling(here: Seen, clean: Seen) -> np.ndarray:
    """Cases that were right before and wrong here first, then the rest, in the order of the data."""
    failure = here.observed.failure
    before = (
        clean.observed.failure
        if here.observed.paired_with(clean.observed)
        else np.zeros(len(failure), bool)
    )
    turned = failure & ~before
    # Half of what is shown failed, half did not, so that the picture is not only of disasters.
    bad, good = np.flatnonzero(turned), np.flatnonzero(~failure)
    half = PAIRS_A_CONDITION // 2
    chosen = np.r_[bad[:half], good[: PAIRS_A_CONDITION - min(half, len(bad))]]
    if len(chosen) < PAIRS_A_CONDITION:
        others = np.setdiff1d(np.arange(len(failure)), chosen)
        chosen = np.r_[chosen, others[: PAIRS_A_CONDITION - len(chosen)]]
    return chosen


def _worst(seen: Sequence[Seen]) -> list[tuple[Seen, int]]:
    """Failures that looked safe to the first supervisor come first; without one, the largest errors. At most two a condition."""
    found: list[tuple[float, Seen, int]] = []
    for s in seen:
        rows = np.flatnonzero(s.observed.failure & ~s.observed.unanswered)
        if not rows.size:
            continue
        scores = next(iter(s.observed.scores.values()), None)
        badness = s.observed.scored.error[rows] if scores is None else -scores[rows]
        order = np.argsort(-badness, kind="stable")[:2]
        found.extend((float(badness[i]), s, int(rows[i])) for i in order)
    found.sort(key=lambda entry: -entry[0])
    return [(s, row) for _, s, row in found]


def _entry(plan: Plan, folder: RunFolder, here: Seen, clean: Seen, row: int) -> Pair:
    data = plan.data[here.condition.role]
    case = here.condition.case_id(data.ids[row])
    original = data.inputs[row : row + 1][0]
    made = _made(plan, here, original, case)
    paired = here.observed.paired_with(clean.observed)
    before = display(clean.system.output, data, data.classes, [row])[0] if paired else ""
    entry = Pair(
        sample=str(data.ids[row]),
        case=case,
        circumstance=here.condition.circumstance,
        level=here.condition.level,
        truth=display(data.targets, data, data.classes, [row])[0],
        prediction=display(here.system.output, data, data.classes, [row])[0],
        clean_prediction=before,
        failure=None if plan.spec.never_wrong else bool(here.observed.failure[row]),
        boxes=_boxes(data.targets, here.system.output, row),
    )
    frames = data.input_kind is FRAMES
    if data.input_kind in (IMAGE, FRAMES) and not isinstance(original, Unreadable):
        first = original[0] if frames else original
        entry.height, entry.width = np.asarray(first).shape[:2]
        entry.original = _keep(folder, first)
        if made is not None:
            entry.made = _keep(folder, made[0] if frames else made)
    elif data.input_kind in (TEXT, GOAL):
        entry.original_text = str(original)
        goal = data.input_kind is GOAL
        entry.made_text = _transcript(here.system.output[row]) if goal else str(made)
    return entry


def _made(plan: Plan, here: Seen, original: Any, case: str) -> Any:
    """The case's input again: the same seed gives the same case. Inner ports cannot be shown as inputs."""
    transform = here.condition.transform
    if transform is None or isinstance(original, Unreadable):
        return None
    if here.condition.port != "input":
        return original if plan.data[here.condition.role].input_kind is not GOAL else None
    if plan.data[here.condition.role].input_kind is FRAMES:
        return [
            transform.at_step(frame, plan.spec.seed, case, t) for t, frame in enumerate(original)
        ]
    return transform.at_step(original, plan.spec.seed, case)


def _transcript(episode: Any) -> str | None:
    if episode is None:
        return None
    return "\n".join(" / ".join(f"{k}: {v}" for k, v in turn.items()) for turn in episode.turns)


def _boxes(targets: Any, outputs: Any, row: int) -> dict[str, Any] | None:
    truth, found = targets[row], outputs[row]
    if not isinstance(truth, Boxes):
        return None
    return {
        "truth": truth.xyxy.tolist(),
        "prediction": found.xyxy.tolist() if isinstance(found, Boxes) else [],
    }


def _keep(folder: RunFolder, image: np.ndarray) -> str:
    """Keep a picture under the hash of its content; large ones are made smaller by whole steps."""
    image = np.asarray(image)
    step = max(1, -(-max(image.shape[:2]) // LARGEST_SIDE))
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    content = encode_png(image[::step, ::step])
    name = f"media/{hashlib.blake2b(content, digest_size=10).hexdigest()}.png"
    if not (folder.path / name).exists():
        folder.write_bytes(name, content)
    return name
