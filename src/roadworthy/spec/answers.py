"""The assessment of a table of answers, without a file: columns are inferred and listed, claims are optional.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "answers.csv"
>>> _ = file.write_text("id,label,prediction,patient\\na,1,1,x\\nb,0,1,x\\n")
>>> print(text_of_answers(file))
name: answers
subject: {task: classification, predictions: answers.csv}
data:
  test: {predictions: answers.csv}
  group: patient
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from roadworthy.data.answers import SUFFIXES, read_answers
from roadworthy.data.samples import DataError
from roadworthy.spec.assessment import Assessment
from roadworthy.spec.document import SpecError

FILE = "assessment.yaml"


def is_table(path: Path) -> bool:
    """Whether a path names a table of answers, not an assessment file."""
    return path.suffix.lower() in SUFFIXES


def assessment_of_answers(
    path: Path, *, group: str | None = None, task: str | None = None, drop_unlabelled: bool = False
) -> Assessment:
    """The assessment of a table; runs lie beside it."""
    text = text_of_answers(path, group=group, task=task, drop_unlabelled=drop_unlabelled)
    return Assessment.parse(text, path.parent / FILE)


def text_of_answers(
    path: Path, *, group: str | None = None, task: str | None = None, drop_unlabelled: bool = False
) -> str:
    """The assessment file that stands for a table."""
    if not path.is_file():
        raise SpecError(f"{path}: there is no such file")
    try:
        found = read_answers(path, group=group, task=task, drop_unlabelled=drop_unlabelled)
    except DataError as error:
        raise SpecError(str(error)) from error
    name, more = _yaml(path.name), ""
    if task or drop_unlabelled:
        more = f", task: {found.task}" + ", drop_unlabelled: true" * drop_unlabelled
    lines = [
        f"name: {_yaml(path.stem)}",
        f"subject: {{task: {found.task}, predictions: {name}}}",
        "data:",
        f"  test: {{predictions: {name}{more}}}",
        *([f"  group: {_yaml(found.group)}"] if found.group else []),
        *([f"slices: [{', '.join(map(_yaml, found.slices))}]"] if found.slices else []),
        *(["supervisors: [max_softmax]"] if found.scores is not None else []),
    ]
    return "\n".join(lines)


def _yaml(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z][\w./-]*", word) else json.dumps(word, ensure_ascii=False)
