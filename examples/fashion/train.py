"""Trains the classifier of `model.py` on all of Fashion-MNIST: ``python examples/fashion/train.py --source FOLDER``.

The epochs are fixed beforehand and the test split is looked at once, after training, so that its accuracy is an honest one.
`roadworthy.data.get.get` fetches the four files.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from model import build
from safetensors.torch import save_file
from torch import nn

from roadworthy.data.loaders.bundled import bundled
from roadworthy.data.loaders.idx import read_idx

HERE = Path(__file__).parent
SEED, EPOCHS, BATCH, RATE = 7, 10, 128, 2e-3


def training_data(source: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """All 60,000 training images in [0, 1], and their labels."""
    images = torch.from_numpy(read_idx(source / "train-images-idx3-ubyte.gz"))
    labels = torch.from_numpy(read_idx(source / "train-labels-idx1-ubyte.gz"))
    return images.unsqueeze(1).float() / 255, labels.long()


def train(images: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """Adam with one rise and fall of the learning rate; half of the images mirrored each time."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    model = build()
    steps = EPOCHS * (len(images) // BATCH)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE * 2, total_steps=steps)
    for epoch in range(EPOCHS):
        started, total = time.perf_counter(), 0.0
        order = torch.randperm(len(images))
        for batch in order[: len(order) // BATCH * BATCH].split(BATCH):
            mirrored = torch.rand(BATCH, 1, 1, 1) < 0.5
            shown = torch.where(mirrored, images[batch].flip(-1), images[batch])
            loss = nn.functional.cross_entropy(model(shown), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * BATCH
        print(
            f"epoch {epoch + 1}/{EPOCHS}: loss {total / len(images):.4f}, {time.perf_counter() - started:.0f} s"
        )
    return model.eval()


def test_accuracy(model: nn.Module) -> float:
    """The share of the bundled test split that the model gets right."""
    data = bundled(path="fashion-mnist", split="test")
    with torch.no_grad():
        scores = model(torch.from_numpy(data.inputs).unsqueeze(1).float() / 255)
    return float((scores.argmax(1) == torch.from_numpy(data.targets)).float().mean())


def export_onnx(model: nn.Module, file: Path) -> None:
    """The same network for ONNX Runtime, with any number of rows."""
    torch.onnx.export(
        model,
        (torch.zeros(1, 1, 28, 28),),
        file,
        input_names=["images"],
        output_names=["logits"],
        dynamic_axes={"images": {0: "n"}, "logits": {0: "n"}},
        dynamo=False,
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Train the example classifier")
    parser.add_argument("--source", type=Path, required=True, help="folder with the four idx files")
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    model = train(*training_data(chosen.source))
    save_file(model.state_dict(), HERE / "weights.safetensors")
    export_onnx(model, HERE / "model.onnx")
    print(f"accuracy on the bundled test split: {test_accuracy(model):.4f}")


if __name__ == "__main__":
    main()
