"""Networks that drop values in every way a person could write it, and the loop over explicit masks that they are held to."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_model import TorchModule
from roadworthy.subject.module import Context

SEED, N = 11, 7


class Counted(nn.Conv2d):
    """A convolution that counts how often it is run, and on how many images."""

    def forward(self, x):
        runs = self.__dict__.setdefault("runs", [])
        runs.append(len(x))
        return super().forward(x)


def flat_net():
    return nn.Sequential(
        Counted(1, 4, 3),
        nn.ReLU(inplace=True),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(144, 8),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(8, 3),
    )


class Residual(nn.Module):
    """Blocks of which each changes what the other gave in place; functions between them; dropout at the end."""

    def __init__(self):
        super().__init__()
        self.conv = Counted(1, 4, 3, padding=1)
        self.block = nn.Sequential(
            nn.BatchNorm2d(4), nn.ReLU(inplace=True), Counted(4, 4, 3, padding=1)
        )
        self.drop = nn.Dropout(0.4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = self.conv(x)
        doubled = y * 2
        nn.functional.relu(y, inplace=True)
        z = self.block(y)
        z += y
        z[:, 0] = doubled[:, 0]
        return self.head(self.drop(torch.relu(z).mean((2, 3))))


class Twice(nn.Module):
    """One layer called before and after the dropout, which is called twice itself."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.mix = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = self.mix(self.first(x.flatten(1)))
        h = self.mix(self.drop(h.tanh()))
        return self.head(self.drop(h))


class Nested(nn.Module):
    """Dropout of whole channels inside a block, after one that holds none; an answer with a name."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before = nn.Sequential(Counted(4, 4, 3), nn.ReLU(inplace=True))
            self.inner = nn.ModuleDict({"drop": nn.Dropout2d(0.5)})
            self.after = nn.Conv2d(4, 4, 3)

        def forward(self, x):
            return self.after(self.inner["drop"](self.before(x))) + x[:, :, 2:-2, 2:-2]

    def __init__(self):
        super().__init__()
        self.stem = Counted(1, 4, 3)
        self.block = Nested.Block()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return {"logits": self.head(self.block(self.stem(x).relu_()).amax((2, 3)))}


class InputChanged(nn.Module):
    """It centres the images in place, and drops in place."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5, inplace=True)
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        x.sub_(0.5)
        flat = x.flatten(1)
        self.drop(flat)
        return self.head(flat)


class Collecting(nn.Module):
    """Its front leaves something behind in another place than its answer."""

    class Leaving(nn.Module):
        def forward(self, x):
            self.left = getattr(self, "left", [])
            self.left.append(x.flatten(1))
            return x.flatten(1) * 2

    def __init__(self):
        super().__init__()
        self.front = Collecting.Leaving()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        h = self.front(x)
        left = self.front.left
        self.front.left = []
        return self.head(self.drop(h) + left[0])


class Windows(nn.Module):
    """Four windows of each image are rows of their own while values are dropped."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        windows = x.unfold(2, 4, 4).unfold(3, 4, 4).reshape(-1, 16)
        return self.head(self.drop(windows)).unflatten(0, (-1, 4)).mean(1)


class TokensFirst(nn.Module):
    """The cases lie along the second axis, as torch's transformers have it by default."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(x[:, 0].transpose(0, 1)).mean(0))


class ChangedLater(nn.Module):
    """After the dropout it changes what came before, by way of a view of it, and uses it again."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(inplace=True))
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = self.front(x)
        part = h[:, :4]
        dropped = self.drop(h)
        part.mul_(2)
        h += 1
        return self.head(dropped + h)


NETS = (
    flat_net,
    Residual,
    Twice,
    Nested,
    InputChanged,
    Collecting,
    Windows,
    TokensFirst,
    ChangedLater,
)


class Masked(nn.Module):
    """An explicit mask in the place of a layer of dropout: the oracle."""

    def __init__(self, name, layer, number, axis, each):
        super().__init__()
        self.name, self.layer, self.number, self.axis, self.each, self.calls = (
            name,
            layer,
            number,
            axis,
            each,
            0,
        )

    def forward(self, x):
        rng = generator(SEED, "model", "dropout", self.number, self.name, self.calls)
        self.calls += 1
        rows = [x.shape[i] if i != self.axis else self.each for i in range(x.ndim)]
        if type(self.layer).__name__ == "Dropout2d":
            rows[2:] = [1] * (len(rows) - 2)
        keep = torch.from_numpy(rng.random(rows, dtype=np.float32) >= self.layer.p)
        repeats = [x.shape[self.axis] // self.each if i == self.axis else 1 for i in range(x.ndim)]
        keep = keep.repeat(repeats).expand_as(x)
        dropped = torch.where(keep, x / (1 - self.layer.p), torch.zeros_like(x))
        return x.copy_(dropped) if self.layer.inplace else dropped


def explicit(model, images, n, axis=0, each=1):
    """Whole passes, each by a copy of the model with masks in the place of its dropout."""
    outputs = []
    for number in range(n):
        changed = copy.deepcopy(model)
        for name, layer in list(changed.named_modules()):
            if isinstance(layer, nn.modules.dropout._DropoutNd):
                parent, _, own = name.rpartition(".")
                holder = changed.get_submodule(parent)
                masked = Masked(name, layer, number, axis, each)
                holder.__setitem__(own, masked) if isinstance(holder, nn.ModuleDict) else setattr(
                    holder, own, masked
                )
        with torch.no_grad():
            raw = changed(images.clone())
        outputs.append((raw["logits"] if isinstance(raw, dict) else raw).numpy())
    return np.stack(outputs)


def made(build):
    torch.manual_seed(3)
    model = build().eval()
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
    return model


def images(n=5):
    return np.random.default_rng(1).integers(0, 250, (n, 8, 8), dtype=np.uint8)


def prepared(n=5):
    return torch.from_numpy(images(n)[:, None].astype(np.float32) / np.float32(255))


def module_of(model, **more):
    return TorchModule(model, CLASS_SCORES, InputPreparation(), **more)


def ask(module, *requests, rows=slice(None), seed=SEED, n=5):
    taken = images(n)[rows]
    return module.batch(
        {"image": taken},
        Context(list(map(str, range(len(taken)))), frozenset(requests), seed, "model"),
    )
