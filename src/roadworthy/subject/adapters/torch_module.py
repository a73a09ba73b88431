"""A torch model as a module: it answers images in batches, shows its layers, and has passes and gradients made beside the answers.

>>> from torch import nn
>>> from roadworthy.data.values import CLASS_SCORES
>>> module = TorchModule(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU()), CLASS_SCORES, InputPreparation())
>>> module.order.head, module.offers(Layer("penultimate"))
('1', None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.subject.adapters.batches import pooled, refused, spans
from roadworthy.subject.adapters.depths import by_depth
from roadworthy.subject.adapters.loading import digest_of
from roadworthy.subject.adapters.preparation import InputPreparation
from roadworthy.subject.adapters.torch_affine import BENT, departure
from roadworthy.subject.adapters.torch_answers import answers_in, joined
from roadworthy.subject.adapters.torch_beside import Beside, nothing_of, told
from roadworthy.subject.adapters.torch_fingerprint import state_of
from roadworthy.subject.adapters.torch_gradients import Gradients
from roadworthy.subject.adapters.torch_gradients import refusal as gradient_refusal
from roadworthy.subject.adapters.torch_layers import (
    Order,
    defined,
    keep_input,
    keep_output,
    layers_of,
    noise,
    plausible_shapes,
    watched,
)
from roadworthy.subject.adapters.torch_passes import Dropout
from roadworthy.subject.adapters.torch_running import device_name, drawing, running
from roadworthy.subject.adapters.torch_sites import refusal as dropout_refusal
from roadworthy.subject.adapters.torch_sites import sites
from roadworthy.subject.module import Answers, Context, SubjectError
from roadworthy.subject.needs import PENULTIMATE, Gradient, Input, Layer, Passes, Request

NOT_LINEAR = (
    "it is a formula of a linear last layer, and the model's scores are not a linear function of its layer {!r} "
    "(a head that divides by lengths, or a layer before others)"
)
SCRIPTED = "the model is scripted, and nothing inside it can be seen"


@dataclass(frozen=True)
class TorchModule:
    """A torch model as a module that takes images in batches."""

    model: Any
    kind: Kind
    prepare: InputPreparation
    source: str = ""
    device: str = "cpu"
    batch_size: int = 256
    threads: int = 1
    files: tuple[Path, ...] = ()
    inputs: tuple[str, ...] = ("image",)
    batched: bool = True
    outputs: Mapping[str, Kind] = field(default_factory=dict)
    with_dropout: dict[tuple[float | None, str | None], Dropout] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The model with dropout switched on, by the rate that was asked for and the head."""
    by_head: dict[str | None, Gradients] = field(default_factory=dict, repr=False, compare=False)
    """Its gradients, by the head."""
    orders: dict[tuple[int, ...], Order] = field(default_factory=dict, repr=False, compare=False)
    """In which order it calls its layers, by the shape of an input."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", {"output": self.kind})

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model's source, of its state as it was loaded, of the preparation, and of how it is run.

        Device, batch and threads change the last bits; and a run on a GPU must not consist of a CPU's answers.
        """
        parts: list[str | bytes] = [self.source, repr(self.prepare), self.kind.name]
        parts += [device_name(self.device), f"batch {self.batch_size}", f"threads {self.threads}"]
        return digest_of(*parts, *state_of(self.model))

    @cached_property
    def layers(self) -> dict[str, Any]:
        """The model's layers by name, in the order in which they were made."""
        return layers_of(self.model)

    @cached_property
    def order(self) -> Order:
        """In which order it calls its layers, before an image was seen: on images of shapes that it may take."""
        for shape in plausible_shapes(self.layers, self.prepare):
            found = self._watched(noise(shape, self.prepare.dtype))
            if found is not None:
                return found
        return defined(self.layers)

    @property
    def depths(self) -> dict[str, str]:
        """The layers that "early", "middle" and "late" stand for."""
        return by_depth(self.order.weighted, taken=self.layers)

    @property
    def gradients(self) -> Gradients:
        """The model's gradients."""
        return self._gradients(self.order)

    def _gradients(self, order: Order) -> Gradients:
        """The model's gradients; those by its last weights where they are parameters as they stand."""
        if order.head not in self.by_head:
            name = f"{order.head}.weight"
            names = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
            self.by_head[order.head] = Gradients(self.model, name if name in names else None)
        return self.by_head[order.head]

    def offers(self, request: Request) -> str | None:
        """Its input, its output, its layers, also by depth, the penultimate activation, passes with dropout, and gradients."""
        order, scripted = self.order, self._scripted
        headless = SCRIPTED if scripted else order.reason
        if isinstance(request, Passes):
            head = None if order.head is None else (order.head, self.layers[order.head])
            return dropout_refusal(
                request, self.kind, self.model, head, headless=headless, called=order.widths
            )
        if isinstance(request, Gradient):
            of = sum(1 for _ in self.model.parameters())
            headless = headless or f"those of {order.head!r} are made from other ones, or packed"
            last = self.gradients.head
            refusal = gradient_refusal(
                request.definition,
                self.kind,
                self.prepare.dtype,
                last,
                of,
                headless=headless,
                scripted=scripted,
            )
            return refusal or self._cut_off(request)
        if (
            isinstance(request, Layer)
            and request.name not in self.layers
            and request.name == PENULTIMATE
            and headless
        ):
            return f"there is no penultimate activation to be seen: {headless}"
        # First the names that every model has: of a long list only the beginning is shown.
        named = PENULTIMATE not in self.layers and order.head is not None
        called = [name for name in self.layers if order.widths is None or name in order.widths]
        if (
            isinstance(request, Layer)
            and request.name in self.layers
            and request.name not in called
        ):
            return f"the model does not call its layer {request.name!r} when it answers"
        known = [*([PENULTIMATE] if named else []), *self.depths, *called]
        return refused(request, known, where="the model") or self._bent(request)

    def _bent(self, request: Request) -> str | None:
        """Why the scores are not linear in a layer of which that is asked, as far as noise can tell."""
        import torch

        if not (isinstance(request, Layer) and request.linear) or self.order.shape is None:
            return None
        name = self.depths.get(request.name, request.name)
        entering = name not in self.layers
        images = noise(self.order.shape, self.prepare.dtype)
        try:
            layer = self.layers[self.order.head or "" if entering else name]
            with running(self.threads), drawing(self.device, 0, "watched"):
                batch = torch.from_numpy(images).to(self.device)
                found = departure(
                    self.model, layer, batch, lambda raw: self._read(raw, 2), entering=entering
                )
        except Exception:
            # Images may fare better than noise.
            return None
        return NOT_LINEAR.format(request.name) if found > BENT else None

    def _cut_off(self, request: Gradient) -> str | None:
        """Why there is no such gradient, as far as noise can tell."""
        import torch

        if self.order.shape is None:
            return None
        try:
            with running(self.threads), drawing(self.device, 0, "gradient"):
                batch = torch.from_numpy(noise(self.order.shape, self.prepare.dtype)).to(
                    self.device
                )
                self.gradients.norms(request.definition, batch)
        except SubjectError as error:
            return str(error)
        except Exception:
            # Images may fare better than noise.
            return None
        return None

    def step(
        self, inputs: Mapping[str, Any], state: Any, rng: Any
    ) -> tuple[Mapping[str, Any], Any]:
        """One image."""
        answers = self.batch({"image": [inputs["image"]]}, Context(ids=("",)))
        return {"output": answers.outputs["output"][0]}, state

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The answers for the images, and the layers that are asked for, from one forward pass; passes and gradients beside it."""
        images = inputs["image"]
        answers: list[Any] = []
        granted = [r for r in context.requests if isinstance(r, Layer | Input | Passes | Gradient)]
        wanted = [r for r in granted if isinstance(r, Layer)]
        extras: dict[Request, list[np.ndarray]] = {r: [] for r in granted}
        for span in spans(len(context.ids), self.batch_size):
            prepared = self.prepare(images[span])
            # A copy for what comes later: the model may work in place. It gets the images themselves, as they lie in memory,
            # because another layout changes the last bits.
            kept = prepared.copy() if len(granted) > len(wanted) else prepared
            order = (
                self._order_of(kept)
                if any(not isinstance(r, Input) for r in granted)
                else Order((), None)
            )
            raw, seen = self._forward(prepared, wanted, order, context)
            answers.append(answers_in(raw, len(prepared), self.kind))
            with running(self.threads):
                beside = Beside(kept, answers[-1], self.kind, self.device, context)
                found = seen | self._passes(beside, order) | beside.norms(self._gradients(order))
            for r in granted:
                made = kept if isinstance(r, Input) else found.get(r)
                extras[r].append(self._nothing(r, answers[-1], order) if made is None else made)
        return Answers(
            {"output": joined(answers)}, {r: np.concatenate(parts) for r, parts in extras.items()}
        )

    def _passes(self, beside: Beside, order: Order) -> dict[Request, np.ndarray]:
        found: dict[Request, np.ndarray] = {}
        for (n, rate), requests in beside.passes_asked().items():
            key = rate, order.head
            if key not in self.with_dropout:
                head = None if order.head is None else (order.head, self.layers[order.head])
                self.with_dropout[key] = Dropout(
                    self.model, sites(self.model, rate, head), self._read
                )
            found |= beside.passes(self.with_dropout[key], n, requests)
        return found

    def _forward(
        self, prepared: np.ndarray, wanted: Sequence[Layer], order: Order, context: Context
    ) -> tuple[Any, dict[Request, Any]]:
        import torch

        kept: dict[str, Any] = {}
        hooks: list[Any] = []
        depths = by_depth(order.weighted, taken=self.layers)
        draws = drawing(self.device, context.seed, context.module, "answer", *context.drawn)
        try:
            for name in {r.name for r in wanted}:
                with told([r for r in wanted if r.name == name]):
                    hooks.append(self._watch(depths.get(name, name), name, kept, order))
            with torch.inference_mode(), running(self.threads), draws:
                raw = self.model(torch.from_numpy(prepared).to(self.device))
            found: dict[Request, Any] = {}
            for request in wanted:
                with told([request]):
                    layer = self.layers.get(
                        depths.get(request.name, request.name), self.layers.get(order.head or "")
                    )
                    found[request] = _pooled(kept, request, len(prepared), layer)
            return raw, found
        finally:
            for hook in hooks:
                hook.remove()

    def _watch(self, layer: str, name: str, kept: dict[str, Any], order: Order) -> Any:
        if layer in self.layers:
            return self.layers[layer].register_forward_hook(keep_output(kept, name))
        if name != PENULTIMATE or order.head is None:
            raise SubjectError(
                SCRIPTED if self._scripted else order.reason or f"the model has no layer {name!r}"
            )
        head = self.layers[order.head]
        return head.register_forward_pre_hook(keep_input(kept, name), with_kwargs=True)

    def _order_of(self, prepared: np.ndarray) -> Order:
        """The order for inputs of this shape, found on noise, or on images where the model does not bear noise."""
        shape = prepared.shape[1:]
        if shape not in self.orders:
            found = self._watched(noise(shape, str(prepared.dtype))) or self._watched(
                prepared[:2].copy()
            )
            if found is None:
                return self.order
            self.orders[shape] = found
            # What was offered before an image was seen holds unless it was a guess.
            if self.order.widths is None:
                object.__setattr__(self, "order", found)
        return self.orders[shape]

    def _watched(self, images: np.ndarray) -> Order | None:
        import torch

        if self._scripted:
            return None

        def seeded(batch: Any) -> Any:
            with drawing(self.device, 0, "watched"):
                return self.model(batch)

        try:
            with running(self.threads):
                batch = torch.from_numpy(images).to(self.device)
                return watched(
                    self.model, batch, lambda raw: self._read(raw, len(images)), run=seeded
                )
        except Exception:
            return None

    def _read(self, raw: Any, n: int) -> Any:
        return answers_in(raw, n, self.kind)

    def _nothing(self, request: Request, answer: Any, order: Order) -> np.ndarray:
        """NaN, as wide as what is asked for would be."""
        if not isinstance(request, Layer):
            return nothing_of(request, answer)
        name = by_depth(order.weighted, taken=self.layers).get(request.name, request.name)
        known = order.into_head if name == PENULTIMATE else (order.widths or {}).get(name, (1,))
        width = pooled(np.zeros((1, *known)), request.pool).shape[1:]
        return np.full((len(answer), *width), np.nan, dtype=np.float32)

    @cached_property
    def _scripted(self) -> bool:
        import torch

        return isinstance(self.model, torch.jit.ScriptModule)


def _pooled(kept: Mapping[str, Any], request: Layer, n: int, layer: Any) -> np.ndarray | None:
    if request.name not in kept:
        raise SubjectError(f"the model did not use its layer {request.name!r} in the forward pass")
    tensor = kept[request.name]
    if not hasattr(tensor, "shape") or tensor.ndim == 0 or len(tensor) != n:
        found = tuple(tensor.shape) if hasattr(tensor, "shape") else type(tensor).__name__
        raise SubjectError(
            f"the layer {request.name!r} gave {found} for {n} images; one row an image was expected"
        )
    # Conv1d and its like put out (n, channels, time); every other 3-D layer is read as (n, tokens, features).
    features_last = not type(layer).__name__.lower().endswith("1d")
    return pooled(tensor.detach().float().cpu().numpy(), request.pool, features_last=features_last)
