"""Weights of a torch model from a file that can hold nothing but tensors: safetensors, or a ``.pt`` read with ``weights_only``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadworthy.registry import not_installed
from roadworthy.subject.module import SubjectError

NESTED = ("state_dict", "model_state_dict", "model")
"""Under which keys training scripts keep the weights beside other things."""
SHOWN = 4


def load_weights(model: Any, file: Path) -> None:
    """Fill a model with the weights of a file; every key and shape must fit."""
    weights = _read(file)
    own = model.state_dict()
    unlike = [
        f"{k} {tuple(weights[k].shape)} in the file, {tuple(own[k].shape)} in the model"
        for k in own
        if k in weights and weights[k].shape != own[k].shape
    ]
    problems = [
        _some("lacks", [k for k in own if k not in weights]),
        _some("has what the model has not:", [k for k in weights if k not in own]),
        _some("has other shapes:", unlike),
    ]
    found = [p for p in problems if p]
    if found:
        raise SubjectError(
            f"the weights in {file.name} do not fit the model: the file {'; it '.join(found)}"
        )
    model.load_state_dict(weights)


def _some(lead: str, keys: list[str]) -> str:
    if not keys:
        return ""
    return f"{lead} {', '.join(keys[:SHOWN])}" + (
        f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    )


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
