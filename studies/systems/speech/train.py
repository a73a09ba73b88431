"""Trains an encoder with each decoder; needs torch, numpy and models.py alone.

    python studies/systems/speech/train.py --features studies/systems/cache/speech/features.npz \
        --out studies/systems/speech --device cuda

Writes OUT/{recurrent,transformer}.safetensors (fp16). `make.py --train N` makes the features. The
loss is the cross-entropy of characters and, at the encoder, CTC, as in SpeechBrain. 200 clips are
kept apart, to print the share of their sentences that are recognised without error.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from models import DECODERS, ENCODED, LETTERS, Recogniser, marks, read
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

SEED, APART, BATCH, RATE = 21, 200, 64, 2e-3
CTC = 0.3
"""Weight of the loss at the encoder."""


class Clips(NamedTuple):
    """All clips on one device, padded; characters include the end."""

    frames: Tensor
    lengths: Tensor
    tokens: Tensor
    characters: Tensor

    @classmethod
    def load(cls, file: Path, device: str, most: int | None) -> Clips:
        """The first so many clips of a file that make.py wrote."""
        with np.load(file) as found:
            lengths, texts = found["lengths"][:most], found["texts"][:most]
            parts = np.split(found["features"], np.cumsum(found["lengths"]))[: len(texts)]
        codes = [torch.tensor([LETTERS.index(c) for c in f"{text}\n"]) for text in texts]
        characters = torch.tensor([len(code) for code in codes])
        frames = pad_sequence([torch.from_numpy(p) for p in parts], batch_first=True)
        tokens = pad_sequence(codes, batch_first=True)
        return cls(*(t.to(device) for t in (frames, torch.tensor(lengths), tokens, characters)))

    def batches(self, rows: Tensor) -> list[Tensor]:
        """Clips of like length together, in random order."""
        near = self.lengths[rows] + 40 * torch.rand(len(rows), device=rows.device)
        parts = rows[near.argsort()].split(BATCH)
        return [parts[i] for i in torch.randperm(len(parts)).tolist()]

    def inputs(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Features, and marks of what is real in them."""
        real = marks(self.lengths[rows], int(self.lengths[rows].max()))
        return self.frames[rows, : real.shape[1]].float(), real


def gapped(frames: Tensor) -> Tensor:
    """With up to 10 frames and up to 5 bands of each clip at its mean (SpecAugment)."""
    for axis, most in ((1, 11), (2, 6)):
        at = torch.arange(frames.shape[axis], device=frames.device)
        begin, width = (
            torch.randint(0, n, (len(frames), 1), device=frames.device) for n in (len(at), most)
        )
        gap = ((at >= begin) & (at < begin + width)).unsqueeze(3 - axis)
        frames = torch.where(gap, frames.mean((1, 2), keepdim=True), frames)
    return frames


def loss(model: Recogniser, head: nn.Module, clips: Clips, rows: Tensor) -> Tensor:
    """Of one batch, each character given those before it."""
    frames, real = clips.inputs(rows)
    _, encoded, real = model.encoder(gapped(frames), real)
    characters = clips.characters[rows]
    tokens = clips.tokens[rows, : int(characters.max())]
    before = F.pad(tokens, (1, -1))
    found = model.decoder.last(model.decoder(before, model.decoder.start(encoded, real)))
    target = tokens.masked_fill(marks(characters, tokens.shape[1])[..., 0] == 0, -100)
    likely = head(encoded).log_softmax(2).transpose(0, 1)
    lengths = real[..., 0].sum(1).long()
    ctc = F.ctc_loss(likely, tokens, lengths, characters - 1, zero_infinity=True)
    return (1 - CTC) * F.cross_entropy(found.flatten(0, 1), target.flatten()) + CTC * ctc


@torch.no_grad()
def right(model: Recogniser, clips: Clips, rows: Tensor) -> float:
    """The share of sentences without any error."""
    _, encoded, real = model.eval().encoder(*clips.inputs(rows))
    found, _ = model.decoder.decode(encoded, real)
    model.train()
    pairs = zip(found, clips.tokens[rows], strict=True)
    return float(np.mean([read(tokens) == read(said) for tokens, said in pairs]))


def trained(name: str, clips: Clips, epochs: int, seconds: float) -> Recogniser:
    """A recogniser; the learning rate falls with the epochs, or with time if that is over sooner."""
    torch.manual_seed(SEED)
    device = clips.frames.device
    model = Recogniser(name).to(device).train()
    head = nn.Linear(ENCODED, len(LETTERS)).to(device)
    weights = [*model.parameters(), *head.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=RATE, weight_decay=1e-2)
    everyone = torch.arange(len(clips.frames), device=device)
    rows, apart = everyone[:-APART], everyone[-APART:]
    begun = time.monotonic()
    for epoch in range(epochs):
        total, parts = 0.0, clips.batches(rows)
        for i, part in enumerate(parts):
            spent = (time.monotonic() - begun) / seconds
            done = min(max((epoch + i / len(parts)) / epochs, spent), 1)
            rate = min(done / 0.1, (1 + math.cos(math.pi * done)) / 2)
            optimiser.param_groups[0]["lr"] = RATE * rate
            cost = loss(model, head, clips, part)
            optimiser.zero_grad()
            cost.backward()
            nn.utils.clip_grad_norm_(weights, 5.0)
            optimiser.step()
            total += cost.detach() / len(parts)
        share, now = right(model, clips, apart), time.monotonic() - begun
        print(f"{name} {epoch + 1}: loss {total:.3f}, right {share:.3f}, {now:.0f} s", flush=True)
        if done == 1:
            break
    return model


def save(model: nn.Module, file: Path) -> None:
    """The weights as fp16 safetensors, by hand: where training runs, the package may be missing."""
    header, data = {}, b""
    for name, weight in model.state_dict().items():
        raw = weight.cpu().half().numpy().tobytes()
        places = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "F16", "shape": list(weight.shape), "data_offsets": places}
        data += raw
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    file.write_bytes(struct.pack("<Q", len(head)) + head + data)


def main() -> None:
    """Both recognisers, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=150, help="at most, for each decoder")
    parser.add_argument("--clips", type=int, help="the first so many alone")
    parser.add_argument("--decoders", nargs="+", default=list(DECODERS))
    given = parser.parse_args()
    clips = Clips.load(given.features, given.device, given.clips)
    for name in given.decoders:
        model = trained(name, clips, given.epochs, given.seconds)
        save(model, given.out / f"{name}.safetensors")


if __name__ == "__main__":
    main()
