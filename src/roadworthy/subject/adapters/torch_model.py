"""A torch model: a function (or class) that builds it, and its weights from safetensors or a ``weights_only`` file.

The model runs in evaluation mode and without gradients. Its answers are the same to the last bit whenever the batches are cut
at the same places; `batch` cuts them, inside the chunk that the plan gives (see `batches`). A model that draws by itself draws the
same for the same seed, for all cases of a batch together. Passes with dropout and gradients are made beside the answers, and
change no bit of them (see `torch_passes`, `torch_gradients`): where one cannot be had, the case is NaN there and keeps its answer.

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

from pathlib import Path
from typing import Any

from roadworthy.data.values import Task
from roadworthy.registry import not_installed, register
from roadworthy.subject.adapters.batches import takes_images
from roadworthy.subject.adapters.loading import (
    Found,
    digest_of,
    digest_parts,
    existing_file,
    named_files,
    resolve,
)
from roadworthy.subject.adapters.preparation import InputPreparation
from roadworthy.subject.adapters.torch_module import TorchModule as TorchModule
from roadworthy.subject.adapters.weights import load_weights
from roadworthy.subject.module import SubjectError
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
    """A torch model: ``model.py:build`` returns it, `weights` (.safetensors, or .pt of tensors alone) fill it.

    Answers are kept and used again as long as the model's file, the files beside it that it imports, its weights and its
    printed architecture stay as they are. `files` lists what else `build` or the model reads (a folder stands for all in it).
    """
    takes_images(task, "torch")
    if batch < 1 or threads < 1:
        raise SubjectError(f"batch is {batch} and threads {threads}; both must be at least 1")
    torch = _torch()
    found = resolve(path, base)
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
        InputPreparation.of(input),
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
