"""A torch classifier as something that a search can query: scores, and gradients by the pixels.

Pixels from 0 to 1 are prepared as in a run, so that the scores of unchanged images are the run's answers.
Probabilities are handed out as their logarithm: a softmax of them would flatten the loss. The model
stays as it is, and its parameters get no gradients.

>>> import torch
>>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Softmax(1))
>>> TorchQuery(model, InputPreparation()).scores(torch.tensor([[[0.0, 1.0]]])).exp().round(decimals=2)
tensor([[0.2700, 0.7300]])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_answers import drawing, running, score_tensor
from roadworthy.subject.adapters.torch_gradients import are_distributions, input_gradient
from roadworthy.subject.module import SubjectError

SHAPES = "attacks change grey or RGB images, not RGB ones that `input.channels: 1` rounds to grey"


@dataclass(frozen=True)
class TorchQuery:
    """Scores and gradients of a classifier. All rows of a call go through the model at once."""

    model: Any
    prepare: InputPreparation
    device: str = "cpu"  # where pixels must lie
    threads: int = 1
    white: float = 255.0  # in the stored images; read only if `input.scale` is set

    def scores(self, x: Any) -> Any:
        """Logits or log-probabilities, (n, classes)."""
        import torch

        with torch.no_grad(), running(self.threads), drawing(self.device, 0, "query"):
            return self._scores(x)

    def gradient(self, x: Any, loss: Callable[[Any], Any]) -> Any:
        """d loss / d x, shaped as x; of k losses a row, one after the other in a first axis."""
        import torch

        with torch.enable_grad(), running(self.threads), drawing(self.device, 0, "query"):
            given = x.detach().requires_grad_()
            losses = loss(self._scores(given))
            found = [input_gradient(total, given) for total in losses.sum(0).reshape(-1)]
        return torch.stack(found) if losses.ndim > 1 else found[0]

    def _scores(self, x: Any) -> Any:
        import torch

        answer = score_tensor(self.model(self._prepared(x)))
        scores = answer if answer.dtype == torch.float64 else answer.float()
        logs = scores.clamp_min(torch.finfo(scores.dtype).tiny).log()
        return torch.where(are_distributions(scores), logs, scores)

    def _prepared(self, x: Any) -> Any:
        """What `InputPreparation` makes of images, in torch, so that a gradient passes."""
        import torch

        values, rule = x if x.ndim == 4 else x.unsqueeze(-1), self.prepare
        if values.ndim != 4 or values.shape[3] not in (1, rule.channels or 3):
            raise SubjectError(f"pixels have the shape {tuple(x.shape)}; {SHAPES}")
        values = values.expand(-1, -1, -1, rule.channels or -1)
        values = values.flip(-1) if rule.colour == "bgr" else values
        values = values.to(torch.float64 if rule.dtype == "float64" else torch.float32)
        if rule.scale is not None:
            values = values * (self.white / rule.scale)
        for name, apply in (("mean", torch.sub), ("std", torch.div)):
            if getattr(rule, name) is not None:
                numbers = rule.per_channel(name, values.shape[3], np.float64)
                values = apply(values, torch.from_numpy(numbers).to(values))
        laid_out = values.permute(0, 3, 1, 2) if rule.layout == "nchw" else values
        # A copy: the model may work in place, and must not change the caller's images.
        copied = laid_out.clone(memory_format=torch.contiguous_format)
        return copied.to(getattr(torch, rule.dtype))
