"""What to send back for exported cases, in ten lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roadworthy.data.values import Kind
from roadworthy.spec import Assessment

INPUTS = {
    "image": "one image a case: PNG without loss, or .npy where pixels are floating-point numbers",
    "frames": "one folder a case, its frames numbered from 000000",
    "audio": "one mono recording a case: wav, 32-bit float",
    "text": "inputs.jsonl: one line a case, {id, text}",
    "goal": "inputs.jsonl: one line a case, {id, goal}",
    "vector": "inputs.jsonl: one line a case, {id, vector}",
}
"""Kind of input -> how it was written."""

ANSWERS: dict[str, dict[str, Any]] = {
    "class_scores": {"scores": [0.1, 0.7, 0.2]},
    "vector": {"vector": [0.25]},
    "boxes": {"boxes": [[10, 20, 50, 80]], "labels": [0], "scores": [0.9]},
    "tracks": {"tracks": [[0, 1, 10, 20, 50, 80]]},
    "text": {"text": "what was said"},
    "episode": {"episode": {"turns": [], "outcome": {"success": True}}},
}
"""Kind of output -> an answer, as a line of the file that comes back holds it."""

MEANING = {
    "class_scores": "scores: one number a class, in the order of the classes (probabilities or logits)",
    "vector": "vector: the numbers that were predicted",
    "boxes": "boxes: corners x1 y1 x2 y2 in pixels; labels: class index; scores: confidence",
    "tracks": "tracks: one row an object and frame: frame, track number, x1, y1, x2, y2",
    "text": "text: the transcript",
    "episode": "episode: the turns, and the outcome that the goal is compared with",
}


def readme(
    spec: Assessment, kind: Kind, *, format: str, cases: int, failed: Mapping[str, str]
) -> str:
    """The text of README.txt."""
    output = spec.task.output.name
    example = json.dumps({"id": "CASE ID", **ANSWERS[output]})
    inputs = (
        "cases.npz: arrays id and input, one row a case" if format == "npz" else INPUTS[kind.name]
    )
    lines = [
        f"{cases} cases of the assessment {spec.title!r} ({spec.task.name}). Answer each of them and send one file back.",
        f"Inputs: {inputs}.",
        "cases.csv lists them: id, file, sample, circumstance (empty: unchanged), level, group. Use the ids exactly as they stand.",
        f"Answer as JSON lines (answers.jsonl), one line a case: {example}",
        f"  {MEANING[output]}.",
        f"  No answer: {json.dumps({'id': 'CASE ID', 'error': 'why'})}; a case that is left out counts as failed too.",
        _table(output),
        _npz(output),
        "Inputs are as the system would get them: do not augment, select or reorder by label; preprocess as in use.",
        f"Then name the file in {spec.document.path.name}, subject: {{task: {spec.task.name}, predictions: answers.jsonl}}, "
        f"and run: roadworthy assess {spec.document.path.name}",
    ]
    if failed:
        first = next(iter(failed))
        lines.append(
            f"{len(failed)} cases could not be made and count as failed, the first is {first}: {failed[first]}"
        )
    return "\n".join(lines) + "\n"


def _table(output: str) -> str:
    if output in ("class_scores", "vector"):
        key = next(iter(ANSWERS[output]))
        return f"Or as CSV with a header: id,{key}_0,{key}_1,…"
    if output == "text":
        return "Or as CSV with a header: id,text"
    return "Or as Parquet with the same fields as columns."


def _npz(output: str) -> str:
    if output in ("class_scores", "vector"):
        key = next(iter(ANSWERS[output]))
        return f"Or as npz: id (n) text, {key} (n, k) float32; np.savez('answers.npz', id=ids, {key}={key})"
    return "Or as several such files in one folder, each case in one of them."
