"""The scores in an answer of a model server: one of each supervisor for each row, or NaN.

>>> output = b'{"name": "knn_distance", "datatype": "FP64", "shape": [2, 1], "data": [0.5, 3]}'
>>> answer = b'{"id": "r7", "outputs": [' + output + b"]}"
>>> found = scores_in(answer, {}, {"knn": "knn_distance", "energy": "energy"})
>>> found.id, found.columns["knn"].tolist(), found.columns["energy"].tolist(), found.lacking
('r7', [0.5, 3.0], [nan, nan], ("it has no output 'energy'",))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roadworthy.subject.adapters.inference_protocol import MalformedAnswer, decode_tensors
from roadworthy.web.http import Headers


@dataclass(frozen=True)
class Passed:
    """An answer of the model server."""

    status: int
    headers: Headers
    body: bytes
    bare: bool = False
    """Whether it has no body by its type (HEAD, 204, 304)."""


class Scores(NamedTuple):
    """The scores of an answer's rows."""

    id: str | None
    columns: dict[str, np.ndarray]
    lacking: tuple[str, ...]
    """Which scores are missing, and why."""


def scores_of(passed: Passed, outputs: Mapping[str, str]) -> Scores:
    """The scores in an answer."""
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in passed.headers}
    encoding = headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise MalformedAnswer(f"it is compressed ({encoding}), though it was asked for plain")
    return scores_in(passed.body, headers, outputs)


def scores_in(body: bytes, headers: Mapping[str, str], outputs: Mapping[str, str]) -> Scores:
    """The answer's id and the scores of its rows; raises `MalformedAnswer` if it has none."""
    answer = decode_tensors(body, headers)
    absent = [repr(output) for output in outputs.values() if output not in answer]
    found, lacking = (
        dict[str, np.ndarray](),
        [f"it has no output {', '.join(absent)}"] if absent else [],
    )
    for name, output in outputs.items():
        if output not in answer:
            continue
        try:
            tensor = answer[output]
        except MalformedAnswer as error:
            lacking.append(str(error))
            continue
        if tensor.size != (tensor.shape[0] if tensor.ndim else 1):
            lacking.append(
                f"output {output!r} has shape {tensor.shape}; a score is one number a row"
            )
        else:
            found[name] = column = tensor.astype(np.float64).reshape(-1)
            infinite = np.isinf(column)
            if infinite.any():
                lacking.append(
                    f"output {output!r} is infinite in {infinite.sum():,} of {len(column):,} rows"
                )
                column[infinite] = np.nan
    lengths = sorted({len(column) for column in found.values()})
    if not found:
        raise MalformedAnswer(
            f"{'; '.join(lacking)}; its outputs are: {', '.join(answer) or 'none'}"
        )
    if len(lengths) > 1:
        raise MalformedAnswer(
            f"the outputs have {lengths} rows; one score a row of each was expected"
        )
    given = answer.document.get("id")
    columns = {
        name: found[name] if name in found else np.full(lengths[0], np.nan) for name in outputs
    }
    own = given if isinstance(given, str) and given else None
    return Scores(own, columns, tuple(lacking))
