"""What a supervisor asks of a module's trace: frozen requests that execution unites, so that one forward pass feeds all.

>>> Layer("fc1").column, Layer("fc1", "max").column
('layer.fc1', 'layer@max.fc1')
>>> Passes("dropout", n=10, rate=0.1).column
'passes.dropout.10.0.1'
>>> Passes("own", n=10, distance="iou").column
'passes.own.10.iou'
>>> Layer("fc1") in {Layer("fc1"), Output()}
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pool = Literal["none", "mean", "max"]
PENULTIMATE = "penultimate"
"""The name of what goes into a model's last layer with weights, whatever the model calls it."""
EARLY, MIDDLE, LATE = "early", "middle", "late"
"""The layers with weights a quarter, a half and three quarters of the way through a model, whatever it calls them."""


@dataclass(frozen=True)
class Output:
    """The module's own output."""

    column: str = "output"


@dataclass(frozen=True)
class Input:
    """The input as the module saw it."""

    column: str = "input"


@dataclass(frozen=True)
class Layer:
    """The activations of a layer; `pool` reduces what is spatial, "none" flattens it."""

    name: str
    pool: Pool = "mean"

    @property
    def column(self) -> str:
        """Its name in the trace; the pool stands before the layer's name, which may end in anything."""
        return f"layer.{self.name}" if self.pool == "mean" else f"layer@{self.pool}.{self.name}"


@dataclass(frozen=True)
class Passes:
    """Several stochastic passes through the module, summarised.

    Kinds: "dropout" (masks in the model), "ensemble" (one pass a member; n is 0), "own" (the module draws from its `rng`).
    Without a distance the summary is that of class probabilities; with one it is how far the passes lie from each other and
    from the module's answer.
    """

    kind: str
    n: int
    rate: float | None = None
    distance: str | None = None

    @property
    def column(self) -> str:
        """Its name in the trace."""
        parts = ["passes", self.kind, self.n, self.rate, self.distance]
        return ".".join(str(p) for p in parts if p is not None)


@dataclass(frozen=True)
class Gradient:
    """A gradient, reduced to one number a case in the pass itself."""

    definition: str

    @property
    def column(self) -> str:
        """Its name in the trace."""
        return f"gradient.{self.definition}"


@dataclass(frozen=True)
class Score:
    """The score of another supervisor."""

    name: str

    @property
    def column(self) -> str:
        """Its name in the trace."""
        return f"score.{self.name}"


Request = Output | Input | Layer | Passes | Gradient | Score
