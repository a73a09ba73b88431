"""MNIST and Fashion-MNIST from end to end: pmi from data that do not judge it, beside the error on images that were kept apart.

    roadworthy data get mnist --into studies/reliability/cache          # and fashion-mnist
    python studies/reliability/images.py                                # writes tables/images.csv; ten minutes on two cores

The 60,000 training images are shuffled: 40,000 train the network (20,000 of them are the reference whose labels may reach
others), 10,000 are operation with 2,000 labels, 10,000 are kept apart and judge the bound. A row of its own has samples that
an autoencoder decodes from the profile: no label reaches them, so that they say nothing of pmi.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import roadworthy
from roadworthy.data.samples import load
from roadworthy.statistics.partition import nearest_within

HERE = Path(__file__).resolve().parent
CACHE, TABLE = HERE / "cache", HERE / "tables" / "images.csv"
SETS = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
PARTS = {
    "train": (0, 40_000),
    "reference": (0, 20_000),
    "operational": (40_000, 50_000),
    "test": (50_000, 60_000),
}
LABELLED, DECODED, BALLS = 2_000, 2_000, 50


def build() -> nn.Module:
    """Two convolutions of stride 2, 16 and 32 channels."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 49, 10),
    )


def train(images: np.ndarray, labels: np.ndarray, epochs: int = 4) -> nn.Module:
    """Adam, batches of 128."""
    torch.manual_seed(0)
    model, x = build(), torch.from_numpy(images).float().unsqueeze(1) / 255
    y, adam = torch.from_numpy(labels), None
    adam = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(128):
            adam.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            adam.step()
    return model


def prepared(name: str) -> Path:
    """The folder with the parts of a data set and the trained network."""
    folder = CACHE / f"{name}-run"
    if (folder / "weights.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    files = [next((CACHE / name).glob(f"train-{kind}-*")) for kind in ("images", "labels")]
    data = load({"idx": str(files[0]), "labels": str(files[1])}, base=HERE, name=name)
    order = np.random.default_rng(0).permutation(len(data))
    images, labels = (
        np.asarray(data.inputs[:])[order],
        np.asarray(data.targets)[order].astype(np.int64),
    )
    for part, (start, stop) in PARTS.items():
        known = labels[start:stop].copy()
        if part == "operational":
            known[LABELLED:] = -1
        np.savez(folder / f"{part}.npz", images=images[start:stop], labels=known)
    model = train(*(a[slice(*PARTS["train"])] for a in (images, labels)))
    save_file(model.state_dict(), folder / "weights.safetensors")
    return folder


def assessed(folder: Path) -> tuple[dict[str, float | str], roadworthy.Run]:
    """One row of the table."""
    started = time.perf_counter()
    content = {
        "name": folder.name,
        "subject": {
            "task": "classification",
            "torch": f"{__file__}:build",
            "weights": str(folder / "weights.safetensors"),
        },
        "data": {
            p: {"npz": str(folder / f"{p}.npz")} for p in ("reference", "operational", "test")
        },
        "reliability": {
            "unastuteness": {"inputs": BALLS, "parameters": {"particles": 100, "steps": 30}}
        },
        "media": "none",
    }
    run = roadworthy.assess(content, runs=CACHE / "runs")
    found = run.record.sections["reliability"]
    first, second = found.bounds[:2]
    error = 1 - run.finding("accuracy").value
    balls = found.unastuteness
    return {
        "labels": found.labelled,
        "failures": first.failures,
        "pmi": first.value,
        "bound": first.upper,
        "bound if r-separated": second.upper,
        "gain": found.gain,
        "held-out error": error,
        "bound / held-out": first.upper / error,
        "holds": str(error <= first.upper),
        "r": found.separation.r,
        "no label within r": found.evidence["no_label"],
        "unastuteness within r": balls.value,
        "queries a ball": balls.queries / balls.inputs,
        "outside profile": found.profile.left,
        "seconds": time.perf_counter() - started,
    }, run


def decoded(folder: Path, run: roadworthy.Run, r: float) -> dict[str, float]:
    """Samples of the profile, decoded: how many a label reaches, and what decoding loses."""
    from roadworthy.generative.vae import VAE
    from roadworthy.statistics.profile import Profile

    with np.load(run.folder / "supervisors" / "profile" / "supervisor.npz") as arrays:
        kept = {k: arrays[k] for k in arrays.files}
    coder = VAE.from_arrays(kept)
    profile = Profile.from_arrays(
        {k.removeprefix("profile."): v for k, v in kept.items() if k.startswith("profile.")}
    )
    made = coder.decode(profile.draw(DECODED, np.random.default_rng(0))).reshape(DECODED, -1)
    with np.load(folder / "reference.npz") as reference, np.load(folder / "test.npz") as test:
        known = reference["images"].reshape(len(reference["images"]), -1).astype(np.float32) / 255
        lost = coder.reconstruction_error(test["images"][:DECODED])
    _, rows = nearest_within(made.astype(np.float32), known, radius=r)
    return {
        "decoded: no label within r": float((rows < 0).mean()),
        "decoded: root mean squared loss": float(np.sqrt(lost.mean())),
    }


def main() -> None:
    """All data sets that are there."""
    names = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names.add_argument("names", nargs="*", default=list(SETS))
    rows = []
    for name in names.parse_args().names:
        if not (CACHE / name).exists():
            raise SystemExit(f"{name} is missing; run: roadworthy data get {name} --into {CACHE}")
        folder = prepared(name)
        row, run = assessed(folder)
        rows.append({"data": SETS[name]} | row | decoded(folder, run, float(row["r"])))
        for key, value in rows[-1].items():
            print(f"{key:32s} {value if isinstance(value, str) else format(value, '.5g')}")
    TABLE.parent.mkdir(exist_ok=True)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(
            {k: v if isinstance(v, str) else f"{v:.5g}" for k, v in r.items()} for r in rows
        )


if __name__ == "__main__":
    main()
