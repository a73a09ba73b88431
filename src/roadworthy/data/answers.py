"""One table of answers: the truth and what was predicted, a row a case; the commonest artefact in a company.

Columns are found by name, whatever the case and punctuation (`NAMES`). Numeric columns named after the classes
(also ``p_cat``, ``prob_cat``, ``score_cat``) are scores. A column of groups says what belongs together; text and
whole numbers of few values are slices; the rest is not used. CSV (comma or semicolon), TSV, Parquet, JSON lines.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "answers.csv"
>>> _ = file.write_text("image,Label,y_pred,site\\na,cat,cat,A\\nb,dog,cat,B\\nc,dog,dog,A\\n")
>>> found = read_answers(file)
>>> found.task, found.classes, found.answers.tolist(), found.slices
('classification', ('cat', 'dog'), [0, 0, 1], ('site',))
>>> print(*found.notes, sep="\\n")
id: column image. Truth: column Label. Prediction: column y_pred.
Slices: site.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.loaders.files import WHOLE, CsvTable, typed
from roadworthy.data.loaders.joining import in_order
from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "case", "case_id", "sample", "image", "file", "filename"),
    "truth": ("label", "truth", "y_true", "target", "actual", "class", "ground_truth"),
    "prediction": ("prediction", "predicted", "y_pred", "pred", "output", "answer"),
    "confidence": ("confidence", "score", "prob", "probability", "max_prob"),
}
"""What is in a column -> its names, the first that is there is taken."""
GROUPS = (
    *("group", "patient", "patient_id", "subject", "subject_id", "speaker", "drive"),
    *("session", "scene", "video", "user"),
)
"""Columns that say what belongs together."""
MOST_SLICES, MOST_CLASSES = 20, 50
WHOLE_SUM = 0.01
"""By how much the probabilities of a row may differ from 1 in all."""
_WRITTEN_WHOLE = re.compile(r"-?\d+(\.0)?")
_PREFIX = re.compile(r"^(p|prob|score)_", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """The table by what its columns mean."""

    path: Path
    task: str
    ids: list[str]
    truth: np.ndarray
    """Class indices, or numbers."""
    answers: np.ndarray
    """Class indices, or numbers."""
    classes: tuple[str, ...] = ()
    scores: np.ndarray | None = None
    """A row of probabilities or logits a case, in the order of the classes."""
    group: str | None = None
    slices: tuple[str, ...] = ()
    metadata: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    named: bool = True
    """Whether the file names its classes; else they are numbers."""


def read_answers(
    path: Path,
    *,
    group: str | None = None,
    task: str | None = None,
    drop_unlabelled: bool = False,
) -> AnswerTable:
    """The table at a path; what cannot be meant is refused with the id and what to do."""
    columns = dict(read_columns(path))
    found, notes = _roles(path, columns)
    for role in set(found) & {"truth", "prediction"}:
        columns[found[role]] = _whole_cells(columns[found[role]])
    ids = columns[found["id"]] if "id" in found else [str(i) for i in range(_length(columns))]
    _refuse_repeated(path, ids)
    truth = columns[found["truth"]]
    empty = [i for i, cell in enumerate(truth) if cell == ""]
    if empty and not drop_unlabelled:
        raise DataError(
            f"{path.name}: id {ids[empty[0]]!r} has no {found['truth']} ({len(empty)} such rows); fill it, or leave such "
            "rows out with --drop-unlabelled"
        )
    if empty:
        kept = sorted(set(range(len(ids))) - set(empty))
        columns = {name: [cells[i] for i in kept] for name, cells in columns.items()}
        ids, truth = [ids[i] for i in kept], columns[found["truth"]]
        notes.append(f"{len(empty):,} rows without {found['truth']} are left out.")
    scored = _class_columns(columns, found)
    if "prediction" not in found and not scored:
        raise DataError(
            f"{path.name} has no column of predictions: {', '.join(NAMES['prediction'])}, or one numeric column a class; "
            f"it has: {', '.join(columns)}"
        )
    predicted = columns[found["prediction"]] if "prediction" in found else []
    if task is None:
        task = _task(truth, predicted, bool(scored))
        _refuse_one_probability(path, truth, predicted, task)
        if all(map(_is_number, truth)):
            notes.append(f"Task: {task}, as labels are numbers; --task decides.")
    used = {*found.values(), *scored.values()}
    rest = {name: cells for name, cells in columns.items() if name not in used}
    own, more = _group(group, rest, path)
    slices = tuple(n for n, cells in rest.items() if n != own and _is_slice(cells))
    unused = [n for n in rest if n != own and n not in slices]
    notes += [f"Scores: columns {', '.join(scored.values())}."] if scored else []
    notes += more
    notes += [f"Slices: {', '.join(slices)}."] if slices else []
    notes += [f"Not used: {', '.join(unused)}."] if unused else []
    common: dict[str, Any] = {
        "path": path,
        "ids": ids,
        "group": own,
        "slices": slices,
        "metadata": {name: typed(cells) for name, cells in rest.items()},
    }
    if task == "regression":
        numbers = [_numbers(path, ids, columns, found[r]) for r in ("truth", "prediction")]
        return AnswerTable(
            task=task, truth=numbers[0], answers=numbers[1], notes=tuple(notes), **common
        )
    return _classified(columns, found, scored, truth, predicted, notes, common)


def has_both(path: Path) -> bool:
    """Whether a table names the truth and a prediction, so that it is meant to be read whole."""
    names = {_plain(name) for name in read_columns(path)}
    truth, prediction = ({_plain(name) for name in NAMES[r]} for r in ("truth", "prediction"))
    return bool(names & truth and names & prediction)


def _classified(
    columns: Mapping[str, list[str]],
    found: Mapping[str, str],
    scored: Mapping[str, str],
    truth: list[str],
    predicted: list[str],
    notes: list[str],
    common: dict[str, Any],
) -> AnswerTable:
    path, ids = common["path"], common["ids"]
    labels = in_order(set(truth))
    strange = sorted(set(predicted) - set(labels) - {""})
    if scored:
        classes = tuple(scored)
    else:
        _refuse_shifted(path, labels, truth, predicted)
        _refuse_other_spelling(path, labels, strange, predicted)
        classes = (*labels, *strange)
        if strange:
            notes.append(f"Predictions that no label has, counted as wrong: {', '.join(strange)}.")
    place = {name: i for i, name in enumerate(classes)}
    right = np.array([place[word] for word in truth], dtype=np.int64)
    scores = None
    if scored:
        scores = np.stack([_numbers(path, ids, columns, c) for c in scored.values()], axis=1)
        scores, said = _whole_rows(path, ids, scores)
        notes += said
        answered = scores.argmax(axis=1)
        other = [i for i, word in enumerate(predicted) if place.get(word) != answered[i]]
        if other:
            i = other[0]
            raise DataError(
                f"{path.name}: id {ids[i]!r} has the prediction {predicted[i]!r}, and its largest score is that of "
                f"{classes[answered[i]]!r} ({len(other)} such rows); leave one of the two out"
            )
    else:
        answered = np.array([place.get(word, -1) for word in predicted], dtype=np.int64)
        if "confidence" in found:
            sure = _numbers(path, ids, columns, found["confidence"])
            scores = _spread(path, ids, answered, sure, len(classes))
    named = bool(scored) or not all(WHOLE.fullmatch(name) for name in labels)
    return AnswerTable(
        task="classification",
        truth=right,
        answers=answered,
        classes=classes,
        scores=scores,
        notes=tuple(notes),
        named=named,
        **common,
    )


def read_columns(path: Path) -> dict[str, list[str]]:
    """The cells of a table as text, by column."""
    about = path.stat()
    return _columns(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=2)
def _columns(path: Path, *_: int) -> dict[str, list[str]]:
    """Read once for the truth and for the answers."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return dict(CsvTable.read(path).columns)
    if suffix in (".jsonl", ".ndjson"):
        rows = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if line.strip():
                try:
                    rows.append(dict(json.loads(line)))
                except (ValueError, TypeError) as error:
                    raise DataError(
                        f"{path.name}, line {number}: is not a JSON object ({error})"
                    ) from None
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: [_text(row.get(name)) for row in rows] for name in names}
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path.name} cannot be read as Parquet: {error}") from error
        return {name: [_text(v) for v in table[name].to_pylist()] for name in table.column_names}
    raise DataError(f"{path.name} is no table of answers; {', '.join(SUFFIXES)} can be read")


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _length(columns: Mapping[str, list[str]]) -> int:
    return len(next(iter(columns.values()), []))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _roles(path: Path, columns: Mapping[str, list[str]]) -> tuple[dict[str, str], list[str]]:
    """What is in a column -> the column; what was found, in words."""
    by_name: dict[str, str] = {}
    for name in columns:
        by_name.setdefault(_plain(name), name)
    found, notes = {}, []
    for role, names in NAMES.items():
        there = [by_name[_plain(name)] for name in names if _plain(name) in by_name]
        if there:
            found[role] = there[0]
        if len(there) > 1:
            notes.append(f"{role.capitalize()}: {there[0]} is taken, not {', '.join(there[1:])}.")
    if "truth" not in found:
        raise DataError(
            f"{path.name} has no column of true labels: {', '.join(NAMES['truth'])}; it has: {', '.join(columns)}"
        )
    heads = [f"{'id' if r == 'id' else r.capitalize()}: column {c}." for r, c in found.items()]
    if "id" not in found:
        heads.append("id: the number of the row.")
    return found, [" ".join(heads), *notes]


def _refuse_repeated(path: Path, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(f"{path.name}: the id {name!r} stands in two rows; keep one row a case")
        seen.add(name)


def _class_columns(columns: Mapping[str, list[str]], found: Mapping[str, str]) -> dict[str, str]:
    """Class -> its column of scores, in the header's order; empty unless all labels have one."""
    labels = set(columns[found["truth"]]) - {""}
    rest = [name for name in columns if name not in (found["truth"], found.get("id"))]
    for strip in (lambda name: name, lambda name: _PREFIX.sub("", name)):
        classes = {strip(name): name for name in rest}
        if labels <= set(classes):
            prefixed = [n for n in rest if _PREFIX.match(n)]
            chosen = prefixed if all(classes[c] in prefixed for c in labels) else rest
            named = {strip(n): n for n in chosen if strip(n) in labels or n in prefixed}
            if all(typed(columns[n]).dtype.kind in "if" for n in named.values()):
                return named
    return {}


def _task(truth: Sequence[str], predicted: Sequence[str], scored: bool) -> str:
    """Classes if labels are text, or whole numbers of few values that predictions have too."""
    labels, answers = set(truth), set(predicted)
    words = not all(_is_number(w) for w in labels)
    few = len(labels) <= MOST_CLASSES and all(WHOLE.fullmatch(w) for w in labels | answers - {""})
    return "classification" if scored or words or few else "regression"


def _refuse_one_probability(
    path: Path, truth: Sequence[str], predicted: Sequence[str], task: str
) -> None:
    """Labels 0 and 1 beside a number between: which class it is of, and where it is cut, is not guessed."""
    shares = all(_is_number(word) and 0 <= float(word) <= 1 for word in predicted)
    if task == "regression" and shares and set(truth) == {"0", "1"}:
        raise DataError(
            f"{path.name}: labels are 0 and 1, and predictions lie between, such as {predicted[0]}; predict a class, "
            "or give the probabilities as columns p_0 and p_1; --task regression reads numbers"
        )


def _whole_cells(cells: list[str]) -> list[str]:
    """Whole numbers that were written as 1.0 (a column that once had gaps) are 1; others as they are."""
    if not all(cell == "" or _WRITTEN_WHOLE.fullmatch(cell) for cell in cells):
        return cells
    return [cell.removesuffix(".0") for cell in cells]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _group(
    given: str | None, rest: Mapping[str, list[str]], path: Path
) -> tuple[str | None, list[str]]:
    """The column of what belongs together, and what is said of it."""
    if given is not None:
        if given not in rest:
            raise DataError(
                f"{path.name} has no column {given!r} to group by{did_you_mean(given, rest)}; it has: {', '.join(rest)}"
            )
        return given, [f"Groups: column {given}, {len(set(rest[given])):,} of them."]
    wanted = [_plain(name) for name in GROUPS]
    there = [n for n in rest if _plain(n) in wanted and len(set(rest[n])) < len(rest[n])]
    if len(there) > 1:
        return None, [f"No groups: {' or '.join(there)} could be. Choose with --group COLUMN."]
    if not there:
        return None, []
    return there[0], [f"Groups: column {there[0]}, {len(set(rest[there[0]])):,} of them."]


def _is_slice(cells: Sequence[str]) -> bool:
    kind = typed(cells).dtype.kind
    return kind in "iO" and 1 < len(set(cells)) <= min(MOST_SLICES, len(cells) - 1)


def _numbers(
    path: Path, ids: Sequence[str], columns: Mapping[str, list[str]], name: str
) -> np.ndarray:
    values = np.empty(len(ids))
    for i, cell in enumerate(columns[name]):
        try:
            values[i] = float(cell)
        except ValueError:
            values[i] = np.nan
        if not np.isfinite(values[i]):
            comma = "; write decimals with a point" if re.fullmatch(r"-?\d+,\d+", cell) else ""
            raise DataError(f"{path.name}: id {ids[i]!r} has {name} {cell!r}, not a number{comma}")
    return values


def _whole_rows(path: Path, ids: Sequence[str], scores: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Probabilities that sum to 1, or logits as they are."""
    sums = scores.sum(axis=1)
    off = (np.abs(sums - 1.0) > WHOLE_SUM) | (scores < 0.0).any(axis=1)
    if not off.any():
        return scores / sums[:, None], []
    if off.all() and (scores < 0.0).any():
        return scores, ["Scores do not sum to 1 and some are negative: read as logits."]
    i = int(off.argmax())
    raise DataError(
        f"{path.name}: id {ids[i]!r} has scores that sum to {sums[i]:.4g} ({int(off.sum())} such rows); give probabilities "
        "that sum to 1, or logits in all rows"
    )


def _spread(
    path: Path, ids: Sequence[str], answered: np.ndarray, sure: np.ndarray, count: int
) -> np.ndarray:
    """The confidence at the answer, and what is left spread evenly over the other classes."""
    wrong = np.flatnonzero((sure > 1.0) | (sure < 0.0))
    if len(wrong):
        i = int(wrong[0])
        cure = "; divide by 100" if sure[i] > 1.0 else ""
        raise DataError(
            f"{path.name}: id {ids[i]!r} has the confidence {sure[i]:g}; 0 to 1 is expected{cure}"
        )
    low = np.flatnonzero((sure <= 1.0 / count) & (answered >= 0))
    if len(low):
        i = int(low[0])
        raise DataError(
            f"{path.name}: id {ids[i]!r} has the confidence {sure[i]:g}, and the answer is one of {count} classes: its "
            f"probability is above {1.0 / count:.3g}. Leave the column out, or give one column a class"
        )
    rows = np.repeat(((1.0 - sure) / max(count - 1, 1))[:, None], count, axis=1)
    at = answered >= 0
    rows[np.flatnonzero(at), answered[at]] = sure[at]
    return rows


def _refuse_shifted(
    path: Path, labels: Sequence[str], truth: Sequence[str], predicted: Sequence[str]
) -> None:
    """Refuse numbers that are off by one: 1 to 10 against 0 to 9."""
    if not all(WHOLE.fullmatch(word) for word in (*labels, *predicted)):
        return
    gaps = np.array([int(t) - int(p) for t, p in zip(truth, predicted, strict=True)])
    now = float((gaps == 0).mean())
    for by in (1, -1):
        moved = float((gaps == by).mean())
        if moved > 0.5 and moved > now + 0.1:
            raise DataError(
                f"{path.name}: labels and predictions are shifted by one: {now:.1%} are equal, {moved:.1%} if predictions "
                f"are {'raised' if by > 0 else 'lowered'} by 1. Number both in the same way"
            )


def _refuse_other_spelling(
    path: Path, labels: Sequence[str], strange: Sequence[str], predicted: Sequence[str]
) -> None:
    odd = [word for word in predicted if word in set(strange)]
    if 2 * len(odd) > len(predicted):
        raise DataError(
            f"{path.name}: {len(odd)} of {len(predicted)} predictions are none of the labels, such as {odd[0]!r}"
            f"{did_you_mean(odd[0], labels)}; labels are: {', '.join(labels[:6])}. Name both in the same way"
        )
