"""A torch model: a function (or class) that builds it, and its weights from safetensors or a ``weights_only`` file.

The model runs in evaluation mode and without gradients. Its answers are the same to the last bit whenever the batches are cut
at the same places; `batch` cuts them, inside the chunk that the plan gives (see `batches`). Passes with dropout and gradients are
made beside the answers, and change no bit of them (see `torch_passes`, `torch_gradients`).

>>> import tempfile
>>> import numpy as np
>>> from roadworthy.data.values import TASKS
>>> from roadworthy.subject.system import Cases
>>> folder = Path(tempfile.mkdtemp())
>>> source = "from torch import nn\\ndef build(): return nn.Sequential(nn.Flatten(), nn.Identity())"
>>> _ = (folder / "model.py").write_text(source)
>>> system = torch_model(path="model.py:build", base=folder, task=TASKS["classification"])
>>> system.run(Cases(["a"], np.array([[[0, 255]]], dtype=np.uint8)))["system"].output.tolist()
[[0.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import Boxes, Kind, Task
from roadworthy.registry import register
from roadworthy.subject.adapters.batches import numbers, pooled, refused, spans, takes_images
from roadworthy.subject.adapters.depths import by_depth
from roadworthy.subject.adapters.loading import Found, digest_of, existing_file, resolve
from roadworthy.subject.adapters.preparation import InputPreparation
from roadworthy.subject.adapters.torch_gradients import Gradients, scores_of
from roadworthy.subject.adapters.torch_gradients import refusal as gradient_refusal
from roadworthy.subject.adapters.torch_passes import Dropout, sites
from roadworthy.subject.adapters.torch_passes import refusal as dropout_refusal
from roadworthy.subject.adapters.weights import load_weights
from roadworthy.subject.module import Answers, Context, SubjectError
from roadworthy.subject.needs import PENULTIMATE, Gradient, Input, Layer, Passes, Request
from roadworthy.subject.passes import reduced
from roadworthy.subject.system import System, single


@register("adapters", "torch")
def torch_model(
    *,
    path: str,
    base: Path,
    task: Task,
    version: str = "",
    weights: str | None = None,
    input: InputPreparation | None = None,
    device: str = "cpu",
    batch: int = 256,
    threads: int = 1,
) -> System:
    """A torch model: ``model.py:build`` returns it, `weights` (.safetensors, or .pt of tensors alone) fill it."""
    takes_images(task, "torch")
    if batch < 1 or threads < 1:
        raise SubjectError(f"batch is {batch} and threads {threads}; both must be at least 1")
    torch = _torch()
    found = resolve(path, base)
    model = _built(found, path)
    file = None if weights is None else existing_file(weights, base, what="weights file")
    if file is not None:
        load_weights(model, file)
    try:
        model = model.to(torch.device(device)).eval()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise SubjectError(f"the device {device!r} cannot be used ({reason}); write device: cpu") from error
    module = TorchModule(
        model,
        task.output,
        InputPreparation.of(input),
        source=found.digest,
        device=device,
        batch_size=batch,
        threads=threads,
        files=(*found.files, *([file] if file else [])),
    )
    return single(module, task.input, version=version)


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
    with_dropout: dict[float | None, Dropout] = field(default_factory=dict, repr=False, compare=False)
    """The model with dropout switched on, by the rate that was asked for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", {"output": self.kind})

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model's source, of its weights as they were loaded, of the preparation, and of how it is run.

        Device, batch and threads change the last bits; and a run on a GPU must not consist of a CPU's answers.
        """
        import torch

        parts: list[str | bytes] = [self.source, repr(self.prepare), self.kind.name]
        parts += [_device_name(self.device), f"batch {self.batch_size}", f"threads {self.threads}"]
        for name, tensor in self.model.state_dict().items():
            values = tensor.detach().cpu().contiguous()
            parts += [f"{name} {values.dtype} {tuple(values.shape)}"]
            parts += [values.reshape(-1).view(torch.uint8).numpy().tobytes()]
        return digest_of(*parts)

    @cached_property
    def layers(self) -> dict[str, Any]:
        """The model's layers by name, in the order in which they were made."""
        return {name: layer for name, layer in self.model.named_modules() if name}

    @cached_property
    def head(self) -> Any | None:
        """The last layer with weights, whose input is the penultimate activation; None where a layer bears that name itself."""
        if PENULTIMATE in self.layers:
            return None
        return self.layers[self.weighted[-1]] if self.weighted else None

    @cached_property
    def weighted(self) -> list[str]:
        """The layers with weights, in order: those whose weight is a matrix or a kernel, which a normalisation's is not."""
        leaves = {name: m for name, m in self.layers.items() if not any(True for _ in m.children())}
        return [name for name, m in leaves.items() if getattr(getattr(m, "weight", None), "ndim", 0) >= 2]

    @cached_property
    def depths(self) -> dict[str, str]:
        """The layers that "early", "middle" and "late" stand for."""
        return by_depth(self.weighted, taken=self.layers)

    @cached_property
    def last(self) -> tuple[str, Any] | None:
        """The last layer with weights, and its name."""
        return (self.weighted[-1], self.layers[self.weighted[-1]]) if self.weighted else None

    @cached_property
    def gradients(self) -> Gradients:
        """The model's gradients; those by its last weights where they are parameters as they stand."""
        name = f"{self.last[0]}.weight" if self.last else ""
        names = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        return Gradients(self.model, name if name in names else None)

    def offers(self, request: Request) -> str | None:
        """Its input, its output, its layers, also by depth, the penultimate activation, passes with dropout, and gradients."""
        if isinstance(request, Passes):
            return dropout_refusal(request, self.kind, self.model, self.last)
        if isinstance(request, Gradient):
            parameters = sum(1 for _ in self.model.parameters())
            return gradient_refusal(request.definition, self.kind, self.prepare.dtype, self.gradients.head, parameters)
        # First the names that every model has: of a long list only the beginning is shown.
        known = [*([PENULTIMATE] if self.head is not None else []), *self.depths, *self.layers]
        return refused(request, known, where="the model")

    def step(self, inputs: Mapping[str, Any], state: Any, rng: Any) -> tuple[Mapping[str, Any], Any]:
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
            raw, seen = self._forward(prepared, wanted)
            answers.append(ANSWERS[self.kind.name](raw, len(prepared), self.kind))
            found = self._passes(kept, answers[-1], context) | self._norms(kept, answers[-1], context) | seen
            for request in granted:
                extras[request].append(kept if isinstance(request, Input) else found[request])
        return Answers({"output": _joined(answers)}, {r: np.concatenate(parts) for r, parts in extras.items()})

    def _passes(self, prepared: np.ndarray, answer: Any, context: Context) -> dict[Request, np.ndarray]:
        """What is asked of passes. Requests of the same number and rate read the same ones."""
        import torch

        asked: dict[tuple[int, float | None], list[Passes]] = {}
        for request in context.requests:
            if isinstance(request, Passes):
                asked.setdefault((request.n, request.rate), []).append(request)
        found: dict[Request, np.ndarray] = {}
        for (n, rate), requests in asked.items():
            if rate not in self.with_dropout:
                self.with_dropout[rate] = Dropout(self.model, sites(self.model, rate, self.last))
            batch = torch.from_numpy(prepared).to(self.device)
            raws = self.with_dropout[rate].passes(batch, n, seed=context.seed, module=context.module)
            with closing(raws), _threads(self.threads), _steady():
                read = (ANSWERS[self.kind.name](raw, len(prepared), self.kind) for raw in raws)
                columns = read if len(requests) == 1 else list(read)
                found.update({r: reduced(r, self.kind, answer, columns) for r in requests})
        return found

    def _norms(self, prepared: np.ndarray, answer: Any, context: Context) -> dict[Request, np.ndarray]:
        """The norms of gradients that are asked for; NaN where there is no answer that could have one."""
        import torch

        asked = [r for r in context.requests if isinstance(r, Gradient)]
        if not asked:
            return {}
        sound = np.isfinite(answer).all(axis=1)
        with _threads(self.threads), _steady():
            batch = torch.from_numpy(prepared).to(self.device)
            return {r: np.where(sound, self.gradients.norms(r.definition, batch), np.nan) for r in asked}

    def _forward(self, prepared: np.ndarray, wanted: Sequence[Layer]) -> tuple[Any, dict[Request, np.ndarray]]:
        import torch

        raw_layers: dict[str, Any] = {}
        hooks = []
        try:
            for name in {r.name for r in wanted}:
                if name == PENULTIMATE and self.head is not None:
                    hooks.append(self.head.register_forward_pre_hook(_keep_input(raw_layers, name)))
                else:
                    layer = self.layers[self.depths.get(name, name)]
                    hooks.append(layer.register_forward_hook(_keep(raw_layers, name)))
            with torch.inference_mode(), _threads(self.threads), _steady():
                raw = self.model(torch.from_numpy(prepared).to(self.device))
                return raw, {r: self._read(raw_layers, r, len(prepared)) for r in wanted}
        finally:
            for hook in hooks:
                hook.remove()

    def _read(self, raw_layers: Mapping[str, Any], request: Layer, n: int) -> np.ndarray:
        if request.name not in raw_layers:
            raise SubjectError(f"the model did not use its layer {request.name!r} in the forward pass")
        tensor = raw_layers[request.name]
        if not hasattr(tensor, "shape") or tensor.ndim == 0 or len(tensor) != n:
            found = tuple(tensor.shape) if hasattr(tensor, "shape") else type(tensor).__name__
            raise SubjectError(f"the layer {request.name!r} gave {found} for {n} images; one row an image was expected")
        # Conv1d and its like put out (n, channels, time); every other 3-D layer is read as (n, tokens, features).
        layer = self.layers.get(self.depths.get(request.name, request.name), self.head)
        features_last = not type(layer).__name__.lower().endswith("1d")
        return pooled(tensor.detach().float().cpu().numpy(), request.pool, features_last=features_last)


def _keep(store: dict[str, Any], name: str) -> Callable[..., None]:
    def hook(layer: Any, arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) and output else output
        # The next layer may work in place.
        store[name] = first.clone() if hasattr(first, "clone") else first

    return hook


def _keep_input(store: dict[str, Any], name: str) -> Callable[..., None]:
    def hook(layer: Any, arguments: Any) -> None:
        store[name] = arguments[0]

    return hook


def _numbers(raw: Any, n: int, kind: Kind) -> np.ndarray:
    return numbers(scores_of(raw).detach().float().cpu().numpy(), n, kind)


def _boxes(raw: Any, n: int, kind: Kind) -> list[Boxes]:
    sound = isinstance(raw, list | tuple) and all(
        isinstance(r, Mapping) and {"boxes", "labels", "scores"} <= set(r) for r in raw
    )
    if not sound or len(raw) != n:
        raise SubjectError(
            f"the model returned {type(raw).__name__} for {n} images; a list with a dict of boxes (m, 4), labels (m,) and "
            "scores (m,) for each image was expected"
        )
    return [Boxes.of(*(r[key].detach().cpu().numpy() for key in ("boxes", "labels", "scores"))) for r in raw]


ANSWERS: dict[str, Callable[[Any, int, Kind], Any]] = {
    "class_scores": _numbers,
    "vector": _numbers,
    "boxes": _boxes,
}
"""How a raw answer is read, by the kind of value."""


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [item for part in parts for item in part]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """This many threads for now: their number changes the order of sums, and with it the last bits."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _steady() -> Iterator[None]:
    """On a GPU, kernels that give the same bits each time, in full float32."""
    import torch

    if not torch.cuda.is_available():
        yield
        return
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):  # type: ignore[no-untyped-call]
        yield


def _device_name(device: str) -> str:
    import torch

    known = torch.device(device)
    return f"{device} {torch.cuda.get_device_name(known)}" if known.type == "cuda" else device


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise SubjectError('the adapter torch needs torch; pip install "roadworthy[torch]"') from error
    return torch


def _built(found: Found, path: str) -> Any:
    import torch

    target = found.target
    if not isinstance(target, torch.nn.Module):
        if not callable(target):
            raise SubjectError(f"{path} is {type(target).__name__}, not a function that builds a model")
        try:
            target = target()
        except Exception as error:
            raise SubjectError(f"{path} raised {type(error).__name__} while it built the model: {error}") from error
    if not isinstance(target, torch.nn.Module):
        raise SubjectError(f"{path} returned {type(target).__name__}; a torch.nn.Module was expected")
    return target
