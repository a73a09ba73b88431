"""Supervisors that read the input alone: how unlike the reference pictures a picture is, whatever
the module makes of it.

`autoencoder` is the reconstruction error of a variational autoencoder (Weiss et al. 2022, VII-B,
after Stocco et al. 2020). `typicality` asks whether a picture is as likely under Glow as pictures
of its kind are (Nalisnick et al. 2019, equation 5 for one picture): likelihood alone calls plain
pictures normal, since they are likelier than any real one. `dlpra_typicality` is that likelihood
alone, as Torpmann-Hagen et al. 2025, table 2, has it.

They read pictures; any other input is refused in fitting. Larger pictures are shrunk to `side`
pixels. `epochs` is by default as many as some hundred updates of the weights need.

>>> from roadworthy.data.values import VECTOR
>>> def rows(pictures):
...     n = np.arange(len(pictures))
...     return ModuleTrace(n, n, np.full(len(n), None), n, VECTOR, n[:, None], {"input": pictures})
>>> shades = np.repeat(np.arange(0, 250, 10, dtype=np.uint8), 64).reshape(-1, 8, 8)
>>> autoencoder = Autoencoder(latent=2, epochs=80)
>>> autoencoder.fit(rows(shades), None)
>>> plain, checks = shades[12], np.indices((8, 8)).sum(axis=0).astype(np.uint8) % 2 * 255
>>> scores = autoencoder.score(rows(np.stack([plain, checks])))
>>> bool(scores[1] > 10 * scores[0])
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.generative.canvas import Canvas
from roadworthy.generative.training import torch_module
from roadworthy.registry import register
from roadworthy.statistics.neighbours import chunk_rows
from roadworthy.subject.needs import Input, Request
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.keeping import LearnedSupervisor

FEW = 100
"""Fewer reference pictures than this are said to be few."""


class InputSupervisor(LearnedSupervisor, ABC):
    """The contract's methods; a method adds the model it fits (`_learn`) and the risk that it sees
    (`_risk`)."""

    needs: tuple[Request, ...] = (Input(),)
    extra = ("torch", "torch")

    def __init__(
        self, *, epochs: int | None, side: int, seed: int, device: str, memory_mb: int
    ) -> None:
        super().__init__()
        chunk_rows(1, memory_mb)
        if epochs is not None and epochs < 1:
            raise ValueError(f"{self.name}: epochs is {epochs}; at least 1 was expected")
        self.epochs, self.side, self.seed = epochs, side, seed
        self.device, self.memory_mb = device, memory_mb
        self._options: dict[str, Any] = {
            "epochs": epochs,
            "side": side,
            "seed": seed,
            "device": device,
        }
        self._model: Any = None

    def applies_to(self, kind: Kind) -> str | None:
        """Any output: it reads the input alone."""
        return None

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Learn from the pictures of the rows that have an answer; NaN or infinite pixels among
        them are refused."""
        rows = np.flatnonzero(trace.ok)
        self._refuse_none(rows, trace)
        self.notes = (
            [f"fitted on {len(rows)} pictures, which are few for it"] if len(rows) < FEW else []
        )
        try:
            pictures = _taken(self._inputs(trace), rows)
            Canvas.of(pictures)  # refuses what is no picture, before the work
            torch_module()  # says which extra is missing
            self._learned = self._learn(pictures)
        except ValueError as error:
            raise ValueError(f"{self.name} cannot be fitted: {error}") from error
        self._forget()

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer, no picture, or a pixel that is no finite number."""
        self._refuse_unfitted()
        result = np.full(len(trace), np.nan)
        rows = np.flatnonzero(trace.ok)
        if not len(rows):
            return result
        if self._model is None:
            torch_module()
            self._model = self._rebuilt(self._learned)
        inputs = self._inputs(trace)
        size = chunk_rows(self._model.canvas.pixels, self.memory_mb, bytes_each=8)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            result[part] = self._risk(_taken(inputs, part))
        return result

    def _inputs(self, trace: ModuleTrace) -> np.ndarray | Sequence[Any]:
        column = Input().column
        if column not in trace.columns:
            raise ValueError(
                f"{self.name} reads {column!r}, and the trace has {', '.join(trace.columns) or 'no columns'}"
            )
        return trace.columns[column]

    def _forget(self) -> None:
        self._model = None

    @abstractmethod
    def _learn(self, pictures: np.ndarray | Sequence[Any]) -> dict[str, np.ndarray]:
        """The model's arrays, and what else it is judged by."""

    @abstractmethod
    def _rebuilt(self, learned: Mapping[str, np.ndarray]) -> Any:
        """The model from what was learned."""

    @abstractmethod
    def _risk(self, pictures: np.ndarray | Sequence[Any]) -> np.ndarray:
        """One number a picture; higher is riskier."""


def _taken(inputs: np.ndarray | Sequence[Any], rows: np.ndarray) -> np.ndarray | Sequence[Any]:
    """Some rows, without a copy where they follow one another."""
    if not isinstance(inputs, np.ndarray):
        return [inputs[row] for row in rows]
    in_line = len(rows) > 0 and rows[-1] - rows[0] == len(rows) - 1
    return inputs[rows[0] : rows[-1] + 1] if in_line else inputs[rows]


@register("supervisors", "autoencoder")
class Autoencoder(InputSupervisor):
    """Mean squared error of what a variational autoencoder gives back: pictures unlike the
    reference are given back badly.

    `latent` numbers describe a picture: with fewer, less is given back.
    """

    name = "autoencoder"

    def __init__(
        self,
        *,
        latent: int = 16,
        epochs: int | None = None,
        side: int = 32,
        seed: int = 0,
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(epochs=epochs, side=side, seed=seed, device=device, memory_mb=memory_mb)
        self.latent = latent

    def _learn(self, pictures: np.ndarray | Sequence[Any]) -> dict[str, np.ndarray]:
        from roadworthy.generative.vae import VAE

        return VAE.fit(pictures, latent=self.latent, **self._options).arrays()

    def _rebuilt(self, learned: Mapping[str, np.ndarray]) -> Any:
        from roadworthy.generative.vae import VAE

        return VAE.from_arrays(learned, device=self.device, memory_mb=self.memory_mb)

    def _risk(self, pictures: np.ndarray | Sequence[Any]) -> np.ndarray:
        error: np.ndarray = self._model.reconstruction_error(pictures)
        return error


class _Likelihood(InputSupervisor):
    """What supervisors by Glow's likelihood share; the flow has `levels` of `steps`, with networks
    of `hidden` channels."""

    def __init__(
        self,
        *,
        levels: int = 2,
        steps: int = 4,
        hidden: int = 16,
        epochs: int | None = None,
        side: int = 32,
        seed: int = 0,
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(epochs=epochs, side=side, seed=seed, device=device, memory_mb=memory_mb)
        self.levels, self.steps, self.hidden = levels, steps, hidden

    def _learn(self, pictures: np.ndarray | Sequence[Any]) -> dict[str, np.ndarray]:
        from roadworthy.generative.glow import Glow

        sizes: dict[str, Any] = {"levels": self.levels, "steps": self.steps, "hidden": self.hidden}
        return Glow.fit(pictures, **sizes, **self._options).arrays()

    def _rebuilt(self, learned: Mapping[str, np.ndarray]) -> Any:
        from roadworthy.generative.glow import Glow

        return Glow.from_arrays(learned, device=self.device, memory_mb=self.memory_mb)

    def _risk(self, pictures: np.ndarray | Sequence[Any]) -> np.ndarray:
        unlikely: np.ndarray = -self._model.log_likelihood(pictures)
        return unlikely


@register("supervisors", "typicality")
class Typicality(_Likelihood):
    """How far a picture's log-likelihood under Glow lies from the mean of reference pictures, in
    nats.

    The mean is that of a share of the reference pictures, `held_out`, which the flow was not fitted
    on.
    """

    name = "typicality"

    def __init__(
        self,
        *,
        held_out: float = 0.2,
        levels: int = 2,
        steps: int = 4,
        hidden: int = 16,
        epochs: int | None = None,
        side: int = 32,
        seed: int = 0,
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        sizes: dict[str, Any] = {"levels": levels, "steps": steps, "hidden": hidden}
        super().__init__(
            **sizes, epochs=epochs, side=side, seed=seed, device=device, memory_mb=memory_mb
        )
        if not 0 < held_out < 1:
            raise ValueError(
                f"typicality: held_out is {held_out}; a share between 0 and 1 was expected"
            )
        self.held_out = held_out

    def _learn(self, pictures: np.ndarray | Sequence[Any]) -> dict[str, np.ndarray]:
        if len(pictures) < 2:
            raise ValueError("one picture cannot be both fitted on and held out; give two or more")
        kept = max(1, min(len(pictures) - 1, round(self.held_out * len(pictures))))
        order = np.random.default_rng(self.seed).permutation(len(pictures))
        learned = super()._learn(_taken(pictures, np.sort(order[kept:])))
        expected = self._rebuilt(learned).log_likelihood(_taken(pictures, np.sort(order[:kept])))
        return learned | {"expected": np.array(expected.mean())}

    def _risk(self, pictures: np.ndarray | Sequence[Any]) -> np.ndarray:
        return np.abs(super()._risk(pictures) + float(self._learned["expected"]))


@register("supervisors", "dlpra_typicality")
class DlpraTypicality(_Likelihood):
    """Minus the log-likelihood under Glow, which Torpmann-Hagen et al. 2025 calls typicality; plain
    pictures seem normal to it."""

    name = "dlpra_typicality"
