"""Three networks see the same two frames, and a plain module averages their angles (Wang et al. 2022,
figure 2 A)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from models import NETWORKS

from roadworthy.data.values import IMAGE, VECTOR
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_model import TorchModule, load_weights
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System

HERE = Path(__file__).parent


def average(deep: np.ndarray, wide: np.ndarray, pooled: np.ndarray) -> np.ndarray:
    """The mean angle, case by case."""
    return (np.asarray(deep) + np.asarray(wide) + np.asarray(pooled)) / 3


def network(name: str) -> TorchModule:
    """One of the networks, with its weights."""
    model, file = NETWORKS[name](), HERE / f"{name}.safetensors"
    load_weights(model, file)
    return TorchModule(model.eval(), VECTOR, InputPreparation(scale=255), files=(file,))


def build() -> System:
    """frames -> three networks -> their mean."""
    joined = function_module(average, outputs={"angle": VECTOR}, batched=True)
    wires = {f"{name}.image": "input" for name in NETWORKS}
    wires |= {f"mean.{name}": f"{name}.output" for name in NETWORKS}
    modules = {name: network(name) for name in NETWORKS}
    return System({**modules, "mean": joined}, wires, "mean.angle", IMAGE)
