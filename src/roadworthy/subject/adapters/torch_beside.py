"""Passes and gradients made beside a torch model's answers, and what becomes of one that fails.

A request is a supervisor's. Where it cannot be met for a case, the case has NaN there and keeps its answer: a supervisor never
changes what the subject said, or how often it was right. What went wrong is told as a warning.

>>> import warnings
>>> with warnings.catch_warnings(record=True) as said:
...     warnings.simplefilter("always")
...     with told([Gradient("ones_input")]):
...         raise ValueError("no gradient")
>>> str(said[0].message)
'gradient.ones_input cannot be had of some cases: no gradient'
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.subject.adapters.torch_answers import answers_in, nothing_like, sound
from roadworthy.subject.adapters.torch_gradients import Gradients
from roadworthy.subject.adapters.torch_passes import Dropout
from roadworthy.subject.adapters.torch_running import drawing
from roadworthy.subject.module import Context, SubjectError
from roadworthy.subject.needs import Gradient, Passes, Request
from roadworthy.subject.passes import reduced


@contextmanager
def told(requests: Sequence[Request]) -> Iterator[None]:
    """In here, what goes wrong is told about the requests and does no harm to anything else."""
    try:
        yield
    except Exception as error:
        for request in requests:
            warnings.warn(f"{request.column} cannot be had of some cases: {error}", stacklevel=3)


def nothing_of(request: Request, answer: Any) -> np.ndarray:
    """NaN for every case, as wide as what is asked for would be."""
    width: tuple[int, ...] = ()
    if isinstance(request, Passes):
        width = (2,) if request.distance is not None else (2 * answer.shape[1] + 1,)
    return np.full((len(answer), *width), np.nan)


@dataclass(frozen=True)
class Beside:
    """A batch with its answers, and what is asked about it."""

    prepared: np.ndarray
    answer: Any
    kind: Kind
    device: str
    context: Context

    def passes_asked(self) -> dict[tuple[int, float | None], list[Passes]]:
        """The requests by number of passes and rate: those that share them read the same passes."""
        asked: dict[tuple[int, float | None], list[Passes]] = {}
        for request in self.context.requests:
            if isinstance(request, Passes):
                asked.setdefault((request.n, request.rate), []).append(request)
        return asked

    def passes(
        self, dropout: Dropout, n: int, requests: Sequence[Passes]
    ) -> dict[Request, np.ndarray]:
        """What is asked of n passes: through all cases at once where that is right, else through one after the other."""
        batch = self._batch()
        if dropout.together(batch):
            # If that fails, it is for some case under some mask: alone, only that one does.
            with told(()):
                return self._reduced(dropout, batch, slice(None), n, requests)
        rows: dict[Request, list[np.ndarray]] = {r: [] for r in requests}
        for part in (slice(i, i + 1) for i in range(len(batch))):
            one: dict[Request, np.ndarray] = {}
            with told(requests):
                one = self._reduced(dropout, batch[part], part, n, requests)
            for r in requests:
                rows[r].append(one[r] if r in one else nothing_of(r, self.answer[part]))
        return {r: np.concatenate(columns) for r, columns in rows.items()}

    def _reduced(
        self, dropout: Dropout, batch: Any, part: slice, n: int, requests: Sequence[Passes]
    ) -> dict[Request, np.ndarray]:
        answer = sound(self.answer[part], self.kind)
        raws = dropout.passes(batch, n, seed=self.context.seed, module=self.context.module)
        with closing(raws):
            read = (self._column(raw, answer) for raw in raws)
            columns = read if len(requests) == 1 else list(read)
            return {r: reduced(r, self.kind, answer, columns) for r in requests}

    def _column(self, raw: Any, answer: Any) -> Any:
        """The answers of a pass, None where it has none that are sound."""
        if raw is None:
            return nothing_like(answer)
        return sound(answers_in(raw, len(answer), self.kind), self.kind)

    def norms(self, gradients: Gradients) -> dict[Request, np.ndarray]:
        """The norms of gradients that are asked for; NaN where there is no answer that could have one."""
        found: dict[Request, np.ndarray] = {}
        for request in self.context.requests:
            if isinstance(request, Gradient):
                with told([request]):
                    norms = self._norms(gradients, request.definition)
                    found[request] = np.where(np.isfinite(self.answer).all(axis=1), norms, np.nan)
        return found

    def _norms(self, gradients: Gradients, definition: str) -> np.ndarray:
        batch = self._batch()
        with drawing(self.device, self.context.seed, self.context.module, "gradient"):
            try:
                return gradients.norms(definition, batch)
            except SubjectError:
                raise
            except Exception:
                # One case may be the reason, and the others have a gradient.
                norms = np.full(len(batch), np.nan)
                for i in range(len(batch)):
                    with told([Gradient(definition)]):
                        norms[i] = gradients.norms(definition, batch[i : i + 1])[0]
                return norms

    def _batch(self) -> Any:
        import torch

        return torch.from_numpy(self.prepared).to(self.device)
