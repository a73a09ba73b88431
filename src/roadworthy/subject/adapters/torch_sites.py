"""The places in a torch model where values are dropped: its own layers of dropout, or what goes into its last layer.

>>> from torch import nn
>>> [site.name for site in sites(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3)), None, None)]
['1']
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.subject.needs import Passes

CHANNELS = ("Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout")
"""The layers that drop whole channels."""
ALPHA = ("AlphaDropout", "FeatureAlphaDropout")
"""The layers that keep mean and variance of scaled exponential units (Klambauer et al. 2017, section 2)."""
SATURATED = -1.0507009873554805 * 1.6732632423543772
"""What such a unit tends to for low inputs, -lambda alpha: what is dropped takes this value."""


@dataclass(frozen=True)
class Site:
    """A place in a model where values are dropped."""

    name: str
    layer: Any
    rate: float
    channels: bool = False
    alpha: bool = False
    before: bool = False
    """Whether it is the layer's input that is dropped, not its output."""

    def dropped(self, values: Any, kept: np.ndarray) -> Any:
        """The values where `kept` is true, as training would have them; kept broadcasts over the cases."""
        import torch

        mask = torch.from_numpy(kept).to(device=values.device, dtype=values.dtype)
        if self.rate >= 1:
            return values * mask
        if not self.alpha:
            return values * (mask / (1 - self.rate))
        scale = 1 / math.sqrt((1 - self.rate) * (1 + self.rate * SATURATED**2))
        return scale * (values * mask + SATURATED * (1 - mask) - SATURATED * self.rate)


def sites(model: Any, rate: float | None, head: tuple[str, Any] | None) -> list[Site]:
    """Where a model drops values: in its own layers of dropout, at `rate` or their own; if it has none, before its `head`."""
    from torch.nn.modules.dropout import _DropoutNd

    own = [
        (name, m, type(m).__mro__) for name, m in model.named_modules() if isinstance(m, _DropoutNd)
    ]
    found = [
        Site(
            name or "model",
            layer,
            layer.p if rate is None else rate,
            channels=any(t.__name__ in CHANNELS for t in types),
            alpha=any(t.__name__ in ALPHA for t in types),
        )
        for name, layer, types in own
    ]
    if not own and rate is not None and head is not None:
        found = [Site(head[0], head[1], rate, before=True)]
    return [site for site in found if site.rate > 0]


def refusal(
    request: Passes,
    kind: Kind,
    model: Any,
    head: tuple[str, Any] | None,
    *,
    headless: str = "",
    called: Any = None,
) -> str | None:
    """Why such passes cannot be made; None where they can.

    `headless` says why there is no head, and `called` names the layers that the model calls, as far as that is known.
    """
    if request.kind != "dropout":
        return f"a torch model makes passes of the kind dropout, and {request.kind} was asked for"
    if request.n < 1:
        return f"{request.n} passes were asked for; one at least is needed"
    if request.rate is not None and not 0 < request.rate < 1:
        return f"the rate of dropout is {request.rate}; a share between 0 and 1 was expected, such as 0.1"
    found = sites(model, request.rate, head)
    if not found:
        if request.rate is not None:
            return f"the model has no dropout layer, and none can be put before its last layer: {headless}"
        return "the model has no dropout layer that drops anything; give a rate, such as 0.1, to put it before the last layer"
    if called is not None and not any(site.name in called or site.layer is model for site in found):
        return uncalled(found)
    if request.distance is None:
        wrong = f"a summary of passes is one of class scores, and the module gives {kind.name}; ask with a distance"
        return None if kind is CLASS_SCORES else wrong
    from roadworthy.subject.variation import resolved

    try:
        resolved(request.distance, kind)
    except ValueError as error:
        return str(error)
    return None


def uncalled(found: Sequence[Site]) -> str:
    """What is wrong with dropout at places that a model does not pass."""
    names = ", ".join(site.name for site in found)
    return f"the model does not call {names} in its forward pass, so dropout there changes nothing"


def hooked(site: Site, calls: Counter[str], change: Callable[[Site, int, Any], Any]) -> Any:
    """Put what `change` makes of the values that pass a site in their place; the handle takes it away again."""

    def changed(values: Any) -> Any:
        calls[site.name] += 1
        return change(site, calls[site.name] - 1, values)

    def before(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (changed(args[0]), *args[1:]), kwargs
        first = next(iter(kwargs))
        return args, {**kwargs, first: changed(kwargs[first])}

    def after(layer: Any, args: tuple[Any, ...], output: Any) -> Any:
        # Some models drop in place and go on with what they gave.
        return output.copy_(changed(output)) if layer.inplace else changed(output)

    if site.before:
        return site.layer.register_forward_pre_hook(before, with_kwargs=True)
    return site.layer.register_forward_hook(after)
