"""How often the attacks of the Adversarial Robustness Toolbox 1.20.1 succeed, kept in art_oracle.json.

    .venv-peers/attacks/bin/python tests/cases/oracle_art.py    # environment: benchmarks/peers-attacks.txt

The network of examples/fashion and the first 1,000 bundled test images. Success is the share of images
right when clean that are wrong when attacked. PGD starts at random: the rate of each seed is kept.
Of DeepFool the mean L2 distance of those images is kept too, because nearly all of them succeed.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ORACLE = Path(__file__).with_name("art_oracle.json")
IMAGES = 1000
LINF = {f"{levels}/255": levels / 255 for levels in (2, 4, 8)}
L2 = {"0.25": 0.25, "0.5": 0.5, "1": 1.0}
OVERSHOOTS = {"1e-6": 1e-6, "0.02": 0.02}
SEEDS = 5
PGD_STEP, BIM_STEP, STEPS, DEEPFOOL_STEPS = 1 / 8, 1 / 3, 20, 50


def network() -> Any:
    """The example's trained network."""
    file = ROOT / "examples" / "fashion" / "model.py"
    spec = importlib.util.spec_from_file_location("fashion_model", file)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module.load()


def test_images(n: int = IMAGES) -> tuple[np.ndarray, np.ndarray]:
    """Pixels from 0 to 1, (n, 28, 28) float32, and labels."""
    file = ROOT / "src" / "roadworthy" / "data" / "bundled" / "fashion-mnist-test.npz"
    with np.load(file, allow_pickle=False) as arrays:
        pixels = arrays["images"][:n].astype(np.float32) / np.float32(255)
        return pixels, arrays["labels"][:n].astype(np.int64)


def classifier() -> Any:
    """The network as ART takes it."""
    import torch
    from art.estimators.classification import PyTorchClassifier

    return PyTorchClassifier(
        model=network(),
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=(1, 28, 28),
        nb_classes=10,
        clip_values=(0.0, 1.0),
        device_type="cpu",
    )


def main() -> None:
    """Write the file."""
    import torch
    from art.attacks.evasion import (
        BasicIterativeMethod,
        DeepFool,
        FastGradientMethod,
        ProjectedGradientDescent,
    )

    model = classifier()
    pixels, labels = test_images()
    images = pixels[:, None]
    right = model.predict(images).argmax(1) == labels
    iterated = {"max_iter": STEPS, "batch_size": 250, "verbose": False}

    def success(made: np.ndarray) -> float:
        return float((model.predict(made).argmax(1) != labels)[right].mean())

    def rate(attack: Any) -> float:
        return success(attack.generate(images, y=labels))

    found: dict[str, Any] = {"right_when_clean": int(right.sum())}
    for norm, order, sizes in (("linf", np.inf, LINF), ("l2", 2, L2)):
        for name, eps in sizes.items():
            found[f"fgsm {norm} {name}"] = rate(FastGradientMethod(model, norm=order, eps=eps))
            rates = []
            for seed in range(SEEDS):
                np.random.seed(seed)  # noqa: NPY002  ART draws from numpy's own generator
                torch.manual_seed(seed)
                attack = ProjectedGradientDescent(
                    model,
                    norm=order,
                    eps=eps,
                    eps_step=eps * PGD_STEP,
                    num_random_init=1,
                    **iterated,
                )
                rates.append(rate(attack))
            found[f"pgd {norm} {name}"] = rates
    for name, eps in LINF.items():
        step = eps * BIM_STEP
        found[f"bim linf {name}"] = rate(
            BasicIterativeMethod(model, eps=eps, eps_step=step, **iterated)
        )
    for name, overshoot in OVERSHOOTS.items():
        attack = DeepFool(
            model, max_iter=DEEPFOOL_STEPS, epsilon=overshoot, batch_size=250, verbose=False
        )
        made = attack.generate(images)
        distance = np.linalg.norm((made - images).reshape(len(images), -1), axis=1)
        found[f"deepfool l2 {name}"] = {
            "success": success(made),
            "distance": float(distance[right].mean()),
        }
    ORACLE.write_text(json.dumps(found, indent=1) + "\n")
    print(ORACLE.read_text())


if __name__ == "__main__":
    main()
