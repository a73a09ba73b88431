"""A torch model: a function (or class) that builds it, and its weights from safetensors or a
``weights_only`` file.

The model runs in evaluation mode and without gradients. Its answers are the same to the last bit
whenever the batches are cut at the same places; `batch` cuts them, inside the chunk that the plan
gives. A model that draws by itself draws the same for the same seed, for all cases
of a batch together. Passes with dropout and gradients are made beside the answers, and change no
bit of them (see `torch_passes`, `torch_gradients`): where one cannot be had, the case is NaN there
and keeps its answer.

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

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind, Task
from roadworthy.registry import not_installed, register
from roadworthy.subject.adapters.image_models import (
    ImageModule,
    InputPreparation,
    by_depth,
    joined_columns,
    pooled,
    refused,
    spans,
    takes_images,
)
from roadworthy.subject.adapters.loading import (
    Found,
    digest_of,
    digest_parts,
    existing_file,
    named_files,
    resolve_path,
)
from roadworthy.subject.adapters.torch_answers import (
    answers_in,
    device_name,
    drawing,
    running,
    sound,
)
from roadworthy.subject.adapters.torch_gradients import Gradients, gradient_refusal
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
from roadworthy.subject.adapters.torch_passes import Dropout, dropout_refusal, sites
from roadworthy.subject.adapters.torch_query import TorchQuery
from roadworthy.subject.module import Answers, ClassNames, Context, SubjectError, own_classes
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
    files: list[str] = [],  # noqa: B006  a default that the file's schema shows; it is never changed
) -> System:
    """A torch model: ``model.py:build`` returns it, `weights` (.safetensors, or .pt of tensors
    alone) fill it.

    Answers are kept and used again as long as the model's file, the files beside it that it
    imports, its weights and its printed architecture stay as they are. `files` lists what else
    `build` or the model reads (a folder stands for all in it).
    """
    batch = takes_images(task, "torch", batch)
    if batch < 1 or threads < 1:
        raise SubjectError(f"batch is {batch} and threads {threads}; both must be at least 1")
    torch = _torch()
    found = resolve_path(path, base)
    model = _built(found, path)
    file = None if weights is None else existing_file(weights, base, what="weights file")
    if file is not None:
        load_weights(model, file)
    more = named_files(files, base)
    try:
        model = model.to(torch.device(device)).eval()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise SubjectError(
            f"the device {device!r} cannot be used ({reason}); write device: cpu"
        ) from error
    module = TorchModule(
        model,
        task.output,
        input or InputPreparation(),
        source=digest_of(found.digest, *digest_parts(more)) if more else found.digest,
        device=device,
        batch_size=batch,
        threads=threads,
        files=(*found.files, *([file] if file else []), *more),
    )
    # Now: a model may keep things in its attributes when it is run.
    assert module.fingerprint
    return single(module, task.input, version=version)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise SubjectError(not_installed("the adapter torch needs torch", "torch")) from error
    return torch


def _built(found: Found, path: str) -> Any:
    import torch

    target = found.target
    if not isinstance(target, torch.nn.Module):
        if not callable(target):
            raise SubjectError(
                f"{path} is {type(target).__name__}, not a function that builds a model"
            )
        try:
            target = target()
        except Exception as error:
            raise SubjectError(
                f"{path} raised {type(error).__name__} while it built the model: {error}"
            ) from error
    if not isinstance(target, torch.nn.Module):
        raise SubjectError(
            f"{path} returned {type(target).__name__}; a torch.nn.Module was expected"
        )
    return target


NESTED = ("state_dict", "model_state_dict", "model")
"""Under which keys training scripts keep the weights beside other things."""
MOST_SAID = 500
"""Letters of what torch says of weights that do not fit."""


def load_weights(model: Any, file: Path) -> None:
    """Fill a model with the weights of a file that can hold nothing but tensors; every key and shape
    must fit."""
    try:
        model.load_state_dict(_read(file))
    except RuntimeError as error:
        if isinstance(error, SubjectError):
            raise
        reason = " ".join(str(error).partition("\n")[2].split())[:MOST_SAID]
        raise SubjectError(f"the weights in {file.name} do not fit the model: {reason}") from error


def _read(file: Path) -> Mapping[str, Any]:
    if file.suffix == ".safetensors":
        return _safetensors(file)
    if file.suffix in (".pt", ".pth"):
        return _tensors_alone(file)
    raise SubjectError(
        f"the weights {file.name} are neither .safetensors nor .pt; other files may hold a pickle, which can run any code. "
        "Save the weights with safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"
    )


def _safetensors(file: Path) -> Mapping[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise SubjectError(not_installed(f"{file.name} needs safetensors", "torch")) from error
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise SubjectError(
            f"the weights {file.name} cannot be read as safetensors: {error}"
        ) from error


def _tensors_alone(file: Path) -> Mapping[str, Any]:
    import torch

    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise SubjectError(
            f"the weights {file.name} hold more than tensors, or are broken ({type(error).__name__}); a pickle that can run "
            "code is not loaded. Save them with torch.save(model.state_dict(), …) or as safetensors"
        ) from error
    for key in NESTED:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if (
        not isinstance(content, Mapping)
        or not content
        or not all(isinstance(v, torch.Tensor) for v in content.values())
    ):
        raise SubjectError(
            f"the weights {file.name} hold {type(content).__name__}, not tensors by name; save model.state_dict()"
        )
    return content


def state_of(model: Any) -> Iterator[str | bytes]:
    """What a torch model's answers depend on besides its source, piece by piece: its weights, its
    buffers, and its architecture as it is printed.

    Numbers that its modules hold as plain attributes (a temperature, a rate) count; what else they
    hold is not seen.

    >>> import torch
    >>> def mark(rate): return list(state_of(torch.nn.Sequential(torch.nn.Dropout(rate))))
    >>> mark(0.1) == mark(0.1), mark(0.1) == mark(0.5)
    (True, False)
    """
    from torch.utils import _pytree

    # An address in memory is another one in each process.
    yield re.sub(r"0x[0-9a-fA-F]{6,}", "", repr(model))
    entries = dict(model.state_dict())
    # Tensors of which the saved state does not speak.
    entries.update({name: buffer for name, buffer in model.named_buffers() if name not in entries})
    for name, entry in entries.items():
        # Quantised layers keep tuples, types and their packed weights there.
        for leaf in _pytree.tree_leaves(entry):
            yield f"{name} {getattr(leaf, 'dtype', '')} {tuple(getattr(leaf, 'shape', ()))}"
            yield _content(leaf)
    for name, module in model.named_modules():
        numbers = {k: v for k, v in vars(module).items() if isinstance(v, bool | int | float)}
        yield f"{name} {sorted(numbers.items())}"


def _content(leaf: Any) -> bytes:
    import torch

    if not isinstance(leaf, torch.Tensor):
        return repr(leaf).encode()
    values = leaf.detach().cpu()
    if values.is_quantized:
        values = torch.dequantize(values)
    if values.layout is not torch.strided:
        values = values.to_dense()
    content: bytes = values.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return content


@contextmanager
def warned(requests: Sequence[Request]) -> Iterator[None]:
    """In here, what goes wrong is said as a warning about the requests and does no harm to anything
    else: a supervisor never changes what the subject said, or how often it was right.

    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     with warned([Gradient("ones_input")]):
    ...         raise ValueError("no gradient")
    >>> str(said[0].message)
    'gradient.ones_input cannot be had of some cases: no gradient'
    """
    try:
        yield
    except Exception as error:
        for request in requests:
            warnings.warn(f"{request.column} cannot be had of some cases: {error}", stacklevel=3)


SCRIPTED = "the model is scripted, and nothing inside it can be seen"


@dataclass(frozen=True)
class TorchModule(ImageModule):
    """A torch model as a module: it answers images in batches, shows its layers, and has passes and
    gradients made beside the answers.

    >>> from torch import nn
    >>> from roadworthy.data.values import CLASS_SCORES
    >>> module = TorchModule(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU()), CLASS_SCORES, InputPreparation())
    >>> module.order.head, module.offers(Layer("penultimate"))
    ('1', None)
    """

    model: Any
    kind: Kind
    prepare: InputPreparation
    source: str = ""
    device: str = "cpu"
    batch_size: int = 256
    threads: int = 1
    files: tuple[Path, ...] = ()
    with_dropout: dict[float | None, Dropout] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The model with dropout switched on, by the rate that was asked for."""

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model's source, of its state as it was loaded, of the preparation, and of
        how it is run.

        Device, batch and threads change the last bits; and a run on a GPU must not consist of a
        CPU's answers.
        """
        parts: list[str | bytes] = [self.source, repr(self.prepare), self.kind.name]
        parts += [device_name(self.device), f"batch {self.batch_size}", f"threads {self.threads}"]
        return digest_of(*parts, *state_of(self.model))

    @property
    def classes(self) -> ClassNames | None:
        """From the model's `classes_`."""
        return own_classes(self.model)

    @cached_property
    def layers(self) -> dict[str, Any]:
        """The model's layers by name, in the order in which they were made."""
        return layers_of(self.model)

    @cached_property
    def order(self) -> Order:
        """In which order it calls its layers, before an image was seen: on images of shapes that it
        may take."""
        for shape in plausible_shapes(self.layers, self.prepare):
            found = self._watched(noise(shape, self.prepare.dtype))
            if found is not None:
                return found
        return defined(self.layers)

    @property
    def depths(self) -> dict[str, str]:
        """The layers that "early", "middle" and "late" stand for."""
        return by_depth(self.order.weighted, taken=self.layers)

    @cached_property
    def gradients(self) -> Gradients:
        """The model's gradients; those by its last weights where they are parameters as they stand."""
        name = f"{self.order.head}.weight"
        names = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        return Gradients(self.model, name if name in names else None)

    @property
    def _head(self) -> tuple[str, Any] | None:
        name = self.order.head
        return None if name is None else (name, self.layers[name])

    def offers(self, request: Request) -> str | None:
        """Its input, its output, its layers, also by depth, the penultimate activation, passes with
        dropout, and gradients."""
        order = self.order
        headless = SCRIPTED if self._scripted else order.reason
        if isinstance(request, Passes):
            return dropout_refusal(
                request, self.kind, self.model, self._head, headless=headless, called=order.widths
            )
        if isinstance(request, Gradient):
            return gradient_refusal(
                request.definition,
                self.kind,
                self.prepare.dtype,
                self.gradients.head,
                sum(1 for _ in self.model.parameters()),
                headless=headless or f"those of {order.head!r} are made from other ones, or packed",
                scripted=self._scripted,
            )
        called = [name for name in self.layers if order.widths is None or name in order.widths]
        if isinstance(request, Layer) and request.name in self.layers:
            uncalled = f"the model does not call its layer {request.name!r} when it answers"
            return None if request.name in called else uncalled
        if isinstance(request, Layer) and request.name == PENULTIMATE and headless:
            return f"there is no penultimate activation to be seen: {headless}"
        # First the names that every model has: of a long list only the beginning is shown.
        named = [PENULTIMATE] if order.head is not None else []
        return refused(request, [*named, *self.depths, *called], where="the model")

    def offers_query(self) -> str | None:
        """None if it gives class scores of pixels that have a gradient, else why a search cannot query it."""
        if self.kind is not CLASS_SCORES:
            return f"attacks change class scores, and the module gives {self.kind.name}"
        takes = self.prepare.dtype
        return None if takes[0] == "f" else f"the model takes {takes}, which has no gradient"

    def query(self, *, white: float = 255.0) -> TorchQuery:
        """What a search queries; `white` is that of the stored images, if `input.scale` is set."""
        refusal = self.offers_query()
        if refusal is not None:
            raise SubjectError(f"not applicable: {refusal}")
        return TorchQuery(self.model, self.prepare, self.device, self.threads, white)

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The answers for the images, and the layers that are asked for, from one forward pass;
        passes and gradients beside it."""
        import torch

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
            if any(not isinstance(r, Input) for r in granted):
                self._learn_order(kept)
            raw, seen = self._forward(prepared, wanted, context)
            answers.append(answers_in(raw, len(prepared), self.kind))
            with running(self.threads):
                batch = torch.from_numpy(kept).to(self.device)
                found = seen | self._passes(batch, answers[-1], context)
                found |= self._norms(batch, answers[-1], context)
            for r in granted:
                made = kept if isinstance(r, Input) else found.get(r)
                extras[r].append(self._nothing(r, answers[-1]) if made is None else made)
        return Answers(
            {"output": joined_columns(answers)},
            {r: np.concatenate(parts) for r, parts in extras.items()},
        )

    def _passes(self, batch: Any, answer: Any, context: Context) -> dict[Request, np.ndarray]:
        """What is asked of passes with dropout. Requests of one number and rate read the same passes;
        these go through all cases at once where that is right, else through one after the other."""
        found: dict[Request, np.ndarray] = {}
        passes = [r for r in context.requests if isinstance(r, Passes)]
        for n, rate in dict.fromkeys((r.n, r.rate) for r in passes):
            if rate not in self.with_dropout:
                places = sites(self.model, rate, self._head)
                self.with_dropout[rate] = Dropout(self.model, places, self._read)
            dropout, asked = (
                self.with_dropout[rate],
                [r for r in passes if (r.n, r.rate) == (n, rate)],
            )
            made: dict[Request, np.ndarray] = {}
            if dropout.together(batch):
                # If that fails, it is for some case under some mask: alone, only that one does.
                with warned(()):
                    made = self._reduced(dropout, asked, batch, answer, context)
            if not made:
                rows: list[dict[Request, np.ndarray]] = []
                for part in (slice(i, i + 1) for i in range(len(batch))):
                    rows.append({r: self._nothing(r, answer[part]) for r in asked})
                    with warned(asked):
                        rows[-1] |= self._reduced(
                            dropout, asked, batch[part], answer[part], context
                        )
                made = {r: np.concatenate([row[r] for row in rows]) for r in asked}
            found |= made
        return found

    def _reduced(
        self, dropout: Dropout, asked: Sequence[Passes], batch: Any, answer: Any, context: Context
    ) -> dict[Request, np.ndarray]:
        answer = sound(answer, self.kind)
        raws = dropout.passes(batch, asked[0].n, seed=context.seed, module=context.module)
        with closing(raws):
            read = (sound(self._read(raw, len(answer)), self.kind) for raw in raws)
            columns = read if len(asked) == 1 else list(read)
            return {r: reduced(r, self.kind, answer, columns) for r in asked}

    def _norms(self, batch: Any, answer: Any, context: Context) -> dict[Request, np.ndarray]:
        """The norms of gradients that are asked for; NaN where there is no answer that could have
        one."""
        found: dict[Request, np.ndarray] = {}
        for request in (r for r in context.requests if isinstance(r, Gradient)):
            norms, definition = np.full(len(batch), np.nan), request.definition
            with (
                warned([request]),
                drawing(self.device, context.seed, context.module, "gradient"),
            ):
                try:
                    norms = self.gradients.norms(definition, batch)
                except SubjectError:
                    raise
                except Exception:
                    # One case may be the reason, and the others have a gradient.
                    for i in range(len(batch)):
                        with warned([request]):
                            norms[i] = self.gradients.norms(definition, batch[i : i + 1])[0]
            found[request] = np.where(np.isfinite(answer).all(axis=1), norms, np.nan)
        return found

    def _forward(
        self, prepared: np.ndarray, wanted: Sequence[Layer], context: Context
    ) -> tuple[Any, dict[Request, Any]]:
        import torch

        kept: dict[str, Any] = {}
        hooks: list[Any] = []
        depths = self.depths if wanted else {}
        draws = drawing(self.device, context.seed, context.module, "answer", *context.drawn)
        try:
            for name in {r.name for r in wanted}:
                with warned([r for r in wanted if r.name == name]):
                    hooks.append(self._watch(depths.get(name, name), name, kept))
            with torch.inference_mode(), running(self.threads), draws:
                raw = self.model(torch.from_numpy(prepared).to(self.device))
            found: dict[Request, Any] = {}
            for request in wanted:
                with warned([request]):
                    layer = self.layers.get(
                        depths.get(request.name, request.name),
                        self.layers.get(self.order.head or ""),
                    )
                    found[request] = _pooled(kept, request, len(prepared), layer)
            return raw, found
        finally:
            for hook in hooks:
                hook.remove()

    def _watch(self, layer: str, name: str, kept: dict[str, Any]) -> Any:
        if layer in self.layers:
            return self.layers[layer].register_forward_hook(keep_output(kept, name))
        if name != PENULTIMATE or self._head is None:
            raise SubjectError(self.offers(Layer(name)) or f"the model has no layer {name!r}")
        return self._head[1].register_forward_pre_hook(keep_input(kept, name), with_kwargs=True)

    def _learn_order(self, prepared: np.ndarray) -> None:
        """Where the order of the layers was a guess, find it on noise of the images' shape, or on
        the images where the model does not bear noise."""
        if self.order.widths is not None:
            return
        noisy = noise(prepared.shape[1:], str(prepared.dtype))
        found = self._watched(noisy) or self._watched(prepared[:2].copy())
        if found is not None:
            vars(self)["order"] = found
            vars(self).pop("gradients", None)
            self.with_dropout.clear()

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

    def _nothing(self, request: Request, answer: Any) -> np.ndarray:
        """NaN for every case, as wide as what is asked for would be."""
        width: tuple[int, ...]
        if not isinstance(request, Layer):
            width = ()
            if isinstance(request, Passes):
                width = (2,) if request.distance is not None else (2 * answer.shape[1] + 1,)
            return np.full((len(answer), *width), np.nan)
        name, order = self.depths.get(request.name, request.name), self.order
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
