"""Gradients of a torch classifier, reduced in the pass to one norm a case.

- ``entropy_parameters``: |∇θ H|₂, H the entropy of the softmax, θ all parameters (Torpmann-Hagen et al. 2025, table
  2, as printed).
- ``ones_input``: |∇x L|₂, L the cross-entropy to all-ones targets, -Σ log p, x the input (Torpmann-Hagen et al. 2025
  as its authors coded it).
- ``uniform_last_layer``: |∇W KL(u ‖ p)|₁, u uniform, W the weights of the last layer (Huang, Geng
  and Li 2021, eq. 6).

Scores that are probabilities already are taken as they are, any others as logits. The model stays
in evaluation mode. Gradients by parameters are made for many cases at once where the model can be
vectorised (torch.func), else case by case.

>>> import torch
>>> model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False))
>>> with torch.no_grad():
...     _ = model[0].weight.copy_(torch.eye(2))
>>> given = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
>>> Gradients(model, "0.weight").norms("uniform_last_layer", given).round(4).tolist()
[2.7154, 0.0]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.probabilities import NEARLY
from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.registry import did_you_mean
from roadworthy.subject.adapters.torch_answers import score_tensor
from roadworthy.subject.module import SubjectError

MEMORY_MB = 256
"""How much the gradients of the cases that are differentiated at once may take."""

CUT_OFF = (
    "the model cuts gradients off (torch.no_grad, detach, or layers that have none): there is none"
)
"""A gradient that does not exist is no gradient of 0."""


def entropy(p: Any, log_p: Any) -> Any:
    """-Σ p log p."""
    return -(p * log_p).sum(-1)


def cross_entropy_to_ones(p: Any, log_p: Any) -> Any:
    """-Σ log p."""
    return -log_p.sum(-1)


def divergence_from_uniform(p: Any, log_p: Any) -> Any:
    """KL(u ‖ p) but for its constant, -Σ log p / C."""
    return -log_p.mean(-1)


@dataclass(frozen=True)
class GradientDefinition:
    """What is differentiated, by what, and which norm is taken."""

    loss: Callable[[Any, Any], Any]
    by: str
    """``input``, ``parameters`` or ``head``."""
    order: int


DEFINITIONS: Mapping[str, GradientDefinition] = {
    "entropy_parameters": GradientDefinition(entropy, "parameters", 2),
    "ones_input": GradientDefinition(cross_entropy_to_ones, "input", 2),
    "uniform_last_layer": GradientDefinition(divergence_from_uniform, "head", 1),
}


def gradient_refusal(
    name: str,
    kind: Kind,
    dtype: str,
    head: str | None,
    parameters: int,
    *,
    headless: str = "",
    scripted: bool = False,
) -> str | None:
    """Why a model does not give a gradient; None where it does. `headless` says why there are no
    last weights."""
    if name not in DEFINITIONS:
        return f"there is no gradient {name!r}{did_you_mean(name, DEFINITIONS)}; there are: {', '.join(DEFINITIONS)}"
    by = DEFINITIONS[name].by
    if kind is not CLASS_SCORES:
        return f"the gradient {name} is one of class scores, and the module gives {kind.name}"
    if by == "input" and not dtype.startswith("float"):
        return (
            f"the gradient {name} is taken by the input, and the model's is {dtype}, which has none"
        )
    if by != "input" and scripted:
        return f"the gradient {name} is taken by weights, and those of a scripted model cannot be replaced"
    if by == "parameters" and not parameters:
        return f"the gradient {name} is taken by weights, and the model has no layer with any"
    if by == "head" and head is None:
        return f"the gradient {name} is taken by the last layer's weights, and there are none: {headless}"
    return None


@dataclass
class Gradients:
    """Norms of a model's gradients, a number a case."""

    model: Any
    head: str | None = None
    """The name of the weights of the last layer."""
    memory_mb: int = MEMORY_MB
    vectorised: bool = True
    """Whether many cases are differentiated at once; found out at the first of them."""

    def norms(self, name: str, batch: Any) -> np.ndarray:
        """One float64 a row of the batch, which is left as it is."""
        import torch

        definition = DEFINITIONS[name]
        with torch.enable_grad():
            norms = (
                self._by_input(definition, batch)
                if definition.by == "input"
                else self._by_weights(definition, batch)
            )
        found: np.ndarray = norms.detach().cpu().numpy()
        return found

    def _by_input(self, definition: GradientDefinition, batch: Any) -> Any:
        """Cases do not depend on each other, so one backward pass of the sum gives the gradient of
        each."""
        given = batch.detach().clone().requires_grad_()
        # What is given to the model is no leaf: it may work in place on it.
        total = _losses(definition, self.model(given * 1)).sum()
        return _norms([input_gradient(total, given)], definition.order)

    def _by_weights(self, definition: GradientDefinition, batch: Any) -> Any:
        import torch

        parameters = self.model.named_parameters()
        if definition.by == "head":
            parameters = [(self.head, self.model.get_parameter(self.head))]
        weights = {name: p.detach() for name, p in parameters if p.is_floating_point()}
        size = sum(p.numel() * p.element_size() for p in weights.values())
        rows = max(1, self.memory_mb * 2**20 // max(size, 1))
        self._refuse_cut_off(definition, weights, batch[0])
        return torch.cat([self._chunk(definition, weights, part) for part in batch.split(rows)])

    def _chunk(self, definition: GradientDefinition, weights: Mapping[Any, Any], batch: Any) -> Any:
        if self.vectorised:
            try:
                return self._at_once(definition, weights, batch)
            except Exception:
                found = self._one_by_one(definition, weights, batch)
                # Case by case it went well, so it is not the cases: this model cannot be vectorised.
                self.vectorised = False
                return found
        return self._one_by_one(definition, weights, batch)

    def _refuse_cut_off(
        self, definition: GradientDefinition, weights: Mapping[Any, Any], case: Any
    ) -> None:
        """Vectorised, a gradient that cannot be taken is 0 without a word; so one case is tried by
        itself."""
        import torch

        leaves = {k: w.detach().requires_grad_() for k, w in weights.items()}
        loss = self._loss(definition, leaves, case.clone())
        found: Any = [None]
        if loss.requires_grad:
            found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        if all(g is None for g in found):
            raise SubjectError(f"{CUT_OFF} from the scores to the weights")

    def _loss(self, definition: GradientDefinition, weights: Mapping[Any, Any], case: Any) -> Any:
        from torch.func import functional_call

        return _losses(definition, functional_call(self.model, dict(weights), (case[None],)))[0]

    def _at_once(
        self, definition: GradientDefinition, weights: Mapping[Any, Any], batch: Any
    ) -> Any:
        from torch.func import grad, vmap

        def gradient(weights: Any, case: Any) -> Any:
            return grad(lambda w: self._loss(definition, w, case))(weights)

        found = vmap(gradient, in_dims=(None, 0))(dict(weights), batch.clone())
        return _norms(list(found.values()), definition.order)

    def _one_by_one(
        self, definition: GradientDefinition, weights: Mapping[Any, Any], batch: Any
    ) -> Any:
        import torch

        leaves = {k: w.detach().requires_grad_() for k, w in weights.items()}
        norms = []
        for case in batch:
            loss = self._loss(definition, leaves, case.clone())
            found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            norms.append(_norms([g[None] for g in found if g is not None], definition.order))
        return torch.cat(norms)


def input_gradient(total: Any, given: Any) -> Any:
    """The gradient of a sum of losses by a model's input; another of the same pass may follow."""
    import torch

    how: Any = {"retain_graph": True, "allow_unused": True}
    found = torch.autograd.grad(total, given, **how)[0] if total.requires_grad else None
    if found is None:
        raise SubjectError(f"{CUT_OFF} from the scores to the input")
    return found


def are_distributions(scores: Any) -> Any:
    """Which rows are probabilities, as a column; rounded ones are not (no gradient passes a rounding)."""
    return ((scores >= 0).all(-1) & ((scores.sum(-1) - 1).abs() < NEARLY)).unsqueeze(-1)


def _losses(definition: GradientDefinition, raw: Any) -> Any:
    """The loss of each row."""
    import torch

    scores = score_tensor(raw)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    known = are_distributions(scores)
    smallest = torch.finfo(scores.dtype).tiny
    log_p = torch.where(known, scores.clamp_min(smallest).log(), scores.log_softmax(-1))
    return definition.loss(torch.where(known, scores, scores.softmax(-1)), log_p)


def _norms(gradients: list[Any], order: int) -> Any:
    """The norm over all gradients together of each row, float64."""
    import torch

    parts = [
        torch.linalg.vector_norm(g.flatten(1), order, dim=1, dtype=torch.float64) for g in gradients
    ]
    return torch.linalg.vector_norm(torch.stack(parts), order, dim=0)
