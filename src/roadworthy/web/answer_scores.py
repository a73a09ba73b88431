"""The scores in an answer of a model server: one of each supervisor for each row, or NaN.

>>> output = b'{"name": "knn_distance", "datatype": "FP64", "shape": [2, 1], "data": [0.5, 3]}'
>>> answer = b'{"id": "r7", "outputs": [' + output + b"]}"
>>> found = scores_in(answer, {}, {"knn": "knn_distance", "energy": "energy"})
>>> found.id, found.columns["knn"].tolist(), found.columns["energy"].tolist(), found.lacking
('r7', [0.5, 3.0], [nan, nan], ("it has no output 'energy'",))
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roadworthy.subject.adapters.inference_protocol import MalformedAnswer, decode
from roadworthy.web.http import Headers

UNPACKED = 64 << 20
"""Bytes of a compressed answer once it is unpacked."""


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


def encoding_of(passed: Passed) -> str:
    """How an answer is compressed; empty if it is not."""
    found = dict(passed.headers).get(b"content-encoding", b"").decode("latin-1").strip().lower()
    return "" if found == "identity" else found


def scores_of(passed: Passed, outputs: Mapping[str, str], take: Callable[[int], None]) -> Scores:
    """The scores in an answer, which may be compressed."""
    body, encoding = passed.body, encoding_of(passed)
    if encoding:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise MalformedAnswer(f"it is compressed ({encoding}), though it was asked for plain")
        unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        try:
            body = unpacking.decompress(body, UNPACKED)
        except zlib.error as error:
            raise MalformedAnswer(f"it is compressed, and cannot be unpacked ({error})") from None
        if unpacking.unconsumed_tail:
            raise MalformedAnswer(f"it is compressed, and larger than {UNPACKED:,} bytes")
        take(len(body))
    return scores_in(
        body, {k.decode("latin-1"): v.decode("latin-1") for k, v in passed.headers}, outputs
    )


def scores_in(body: bytes, headers: Mapping[str, str], outputs: Mapping[str, str]) -> Scores:
    """The answer's id and the scores of its rows; raises `MalformedAnswer` if it has none at all."""
    answer = decode(body, headers)
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
