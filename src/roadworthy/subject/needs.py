"""What a supervisor asks of a module's trace: frozen requests that execution unites, so that one forward pass feeds all.

>>> Layer("fc1").column
'layer.fc1'
>>> Passes("dropout", n=10, rate=0.1).column
'passes.dropout.10.0.1'
>>> Layer("fc1") in {Layer("fc1"), Output()}
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pool = Literal["none", "mean", "max"]
PENULTIMATE = "penultimate"
"""The name of what goes into a model's last layer with weights, whatever the model calls it."""


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
        """Its name in the trace."""
        return f"layer.{self.name}" + ("" if self.pool == "mean" else f".{self.pool}")


@dataclass(frozen=True)
class Passes:
    """Several stochastic passes through the module, summarised."""

    kind: str
    n: int
    rate: float | None = None

    @property
    def column(self) -> str:
        """Its name in the trace."""
        return f"passes.{self.kind}.{self.n}" + ("" if self.rate is None else f".{self.rate}")


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
