"""A torch classifier as something that a search can query: scores and gradients by the pixels.

Pixels come as a tensor from 0 to 1 on the model's device and are prepared as in a run (scale,
channels, colour order, mean, deviation, layout, type), so that the scores of unchanged images are the
run's answers. Scores that are probabilities are handed out as their logarithm: taking a softmax of
them again would flatten the loss. Gradients are taken by the pixels alone; the model's parameters
have none, and the model stays as it is.

>>> import torch
>>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Softmax(1))
>>> query = TorchQuery(model, InputPreparation())
>>> query.scores(torch.tensor([[[0.0, 1.0]]])).exp().tolist()  # doctest: +ELLIPSIS
[[0.268..., 0.731...]]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_answers import drawing, running, score_tensor
from roadworthy.subject.adapters.torch_gradients import are_distributions, input_gradient
from roadworthy.subject.module import SubjectError


def query_refusal(kind: Kind, dtype: str) -> str | None:
    """Why a torch model cannot be queried by a search; None if it can."""
    if kind is not CLASS_SCORES:
        return f"a search changes class scores, and the module gives {kind.name}"
    if not dtype.startswith("float"):
        return f"the model takes pixels of type {dtype}, and these have no gradient"
    return None


@dataclass(frozen=True)
class TorchQuery:
    """Scores and gradients of a classifier. All rows of a call go through the model at once."""

    model: Any
    prepare: InputPreparation
    device: str = "cpu"
    """Where pixels must lie."""
    threads: int = 1
    white: float = 255.0
    """What white is in the stored images; read only if `input.scale` is set."""

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
            totals = losses.sum(0).reshape(-1)
            found = [
                input_gradient(total, given, last=number == len(totals))
                for number, total in enumerate(totals, start=1)
            ]
        return torch.stack(found) if losses.ndim > 1 else found[0]

    def _scores(self, x: Any) -> Any:
        import torch

        answer = score_tensor(self.model(self._prepared(x)))
        scores = answer if answer.dtype == torch.float64 else answer.float()
        smallest = torch.finfo(scores.dtype).tiny
        return torch.where(are_distributions(scores), scores.clamp_min(smallest).log(), scores)

    def _prepared(self, x: Any) -> Any:
        """What `InputPreparation` makes of images, in torch, so that a gradient passes."""
        import torch

        values, rule = x if x.ndim == 4 else x.unsqueeze(-1), self.prepare
        channels = values.shape[-1]
        if values.ndim != 4 or channels not in (1, 3):
            raise SubjectError(
                f"a search changes images of shape (h, w) or (h, w, 1 or 3), found {tuple(x.shape[1:])}"
            )
        if (rule.channels, channels) == (1, 3):
            raise SubjectError(
                "input.channels is 1 and the images are in colour: grey levels are rounded, which has no "
                "gradient. Convert the images to grey first"
            )
        if rule.channels == 3:
            values = values.expand(-1, -1, -1, 3)
        if rule.colour == "bgr":
            values = values.flip(-1)
        working = np.float64 if rule.dtype == "float64" else np.float32
        values = values.to(torch.float64 if rule.dtype == "float64" else torch.float32)
        if rule.scale is not None:
            values = values * (self.white / rule.scale)
        for name, apply in (("mean", torch.sub), ("std", torch.div)):
            if getattr(rule, name) is not None:
                numbers = rule.per_channel(name, values.shape[3], working)
                values = apply(values, torch.from_numpy(numbers).to(values.device))
        laid_out = values.permute(0, 3, 1, 2) if rule.layout == "nchw" else values
        # A copy: the model may work in place, and must not change the caller's images.
        copied = laid_out.clone(memory_format=torch.contiguous_format)
        return copied.to(getattr(torch, rule.dtype))
