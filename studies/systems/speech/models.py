"""An acoustic encoder and two decoders of characters, after SpeechBrain's CRDNN recipes (Wang et al.
2022): convolutions, recurrent and dense layers; then a recurrent decoder whose attention knows where
it looked before (Chorowski et al. 2015), or a transformer. Needs torch and numpy alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

RATE, HOP, WINDOW, BANDS = 16000, 160, 400, 40
LETTERS = "\n abcdefghijklmnopqrstuvwxyz"
"""The first begins and ends every text, and is the blank of CTC in training."""
LONGEST = 64
"""Characters after which decoding is cut; a sentence of the grammar has at most 60."""
DENSE, ENCODED, STATE, DROPOUT = 96, 64, 192, 0.1


def _filters() -> np.ndarray:
    """Triangles that overlap by half on the mel scale, (bins, bands)."""
    mels = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    edges = 700 * (10 ** (mels / 2595) - 1)
    bins = np.linspace(0, RATE / 2, 257)[:, None]
    rise = (bins - edges[:-2]) / np.diff(edges)[:-1]
    return np.maximum(0, np.minimum(rise, (edges[2:] - bins) / np.diff(edges)[1:]))


_FILTERS = _filters()


def features(wave: np.ndarray) -> np.ndarray:
    """Log-mel energies of a wave in [-1, 1], 100 frames a second: half decibels from -60 dB, uint8."""
    padded = np.pad(wave.astype(np.float32), WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), 512)) ** 2
    decibels = 10 * np.log10(power @ _FILTERS + 1e-10)
    return np.clip(np.round(2 * (decibels + 60)), 0, 255).astype(np.uint8)


def marks(lengths: Tensor, longest: int) -> Tensor:
    """1 where a clip has a frame, (batch, frames, 1)."""
    return (torch.arange(longest, device=lengths.device) < lengths[:, None]).float()[..., None]


class Drop(nn.Module):
    """Dropout of whole channels: one mask for all frames or characters of a clip. Outside training
    it acts only while a mask is set, which then serves a whole pass (`drawn` in system.py)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.mask = width, None

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return x * F.dropout(torch.ones_like(x[:, :1]), DROPOUT)
        return x if self.mask is None else x * self.mask


class Encoder(nn.Module):
    """Features to a sequence of 25 vectors a second."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1)
        self.norms = nn.ModuleList([nn.LayerNorm([32, 20]), nn.LayerNorm([64, 10])])
        self.narrow = nn.Linear(640, 160)
        self.lower = nn.GRU(160, 128, batch_first=True, bidirectional=True)
        self.upper = nn.GRU(256, 128, batch_first=True, bidirectional=True)
        self.drops = nn.ModuleList([Drop(width) for width in (160, 256, 256, DENSE)])
        self.dense, self.last = nn.Linear(256, DENSE), nn.Linear(DENSE, ENCODED)

    def forward(self, frames: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What goes into the last layer, the sequence, and marks of what is real in it. What lies
        behind the end of a clip is kept 0, so that it reads as if it stood alone."""
        mean = (frames * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        x = ((frames - mean) * real / 20)[:, None]  # in units of 10 dB
        for convolution, norm in zip((self.first, self.second), self.norms, strict=True):
            real = real[:, ::2]
            x = (F.leaky_relu(norm(convolution(x).transpose(1, 2))) * real[..., None]).transpose(
                1, 2
            )
        x = self.drops[0](F.leaky_relu(self.narrow(x.transpose(1, 2).flatten(2))))
        lengths = real[..., 0].sum(1).long().cpu()
        for layer, drop in zip((self.lower, self.upper), self.drops[1:], strict=False):
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x = drop(pad_packed_sequence(layer(packed)[0], batch_first=True)[0])
        x = self.drops[3](F.leaky_relu(self.dense(x)))
        return x, self.last(x), real[:, : x.shape[1]]


class Decoder(nn.Module):
    """What both decoders share: `start` makes a state of an encoded sequence; `forward` takes all
    characters, or in decoding the newest alone, changes the state and gives what goes into `last`."""

    def decode(self, encoded: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """The likeliest characters one after the other, and what went into the last layer."""
        state, seen = self.start(encoded, real), []
        tokens = torch.zeros(len(encoded), 1, dtype=torch.long, device=encoded.device)
        ended = tokens[:, 0] > 0
        while len(seen) < LONGEST and not ended.all():
            seen.append(self(tokens[:, -1:], state))
            newest = self.last(seen[-1])[:, 0].argmax(1).masked_fill(ended, 0)
            ended = ended | (newest == 0)
            tokens = torch.cat([tokens, newest[:, None]], 1)
        return tokens[:, 1:], torch.cat(seen, 1)


class RecurrentDecoder(Decoder):
    """A gated recurrent unit that attends by content and by where it attended before."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), ENCODED)
        self.cell = nn.GRUCell(2 * ENCODED, STATE)
        self.query, self.key = nn.Linear(STATE, DENSE), nn.Linear(ENCODED, DENSE)
        self.place = nn.Conv1d(1, DENSE, 15, padding=7, bias=False)
        self.score = nn.Linear(DENSE, 1)
        self.dense, self.last = nn.Linear(STATE + ENCODED, DENSE), nn.Linear(DENSE, len(LETTERS))
        self.drops = nn.ModuleList([Drop(ENCODED), Drop(STATE + ENCODED), Drop(DENSE)])

    def start(self, encoded: Tensor, real: Tensor) -> dict[str, Any]:
        """Nothing was said and nothing attended."""
        none = (encoded.new_zeros(len(encoded), STATE), encoded[:, 0] * 0, encoded[..., 0] * 0)
        return {"fixed": (encoded, self.key(encoded), real[..., 0] == 0), "last": none}

    def forward(self, tokens: Tensor, state: dict[str, Any]) -> Tensor:
        (encoded, keys, off), (hidden, context, before) = state["fixed"], state["last"]
        given, found = self.drops[0](self.embed(tokens)), []
        for t in range(tokens.shape[1]):
            hidden = self.cell(torch.cat([given[:, t], context], 1), hidden)
            sought = self.place(before[:, None]).transpose(1, 2) + self.query(hidden)[:, None]
            scores = self.score(torch.tanh(keys + sought))[..., 0]
            weights = scores.masked_fill(off, -1e9).softmax(1)
            context, before = (weights[:, None] @ encoded)[:, 0], before + weights
            found.append(torch.cat([hidden, context], 1))
        state["last"] = hidden, context, before
        return self.drops[2](torch.tanh(self.dense(self.drops[1](torch.stack(found, 1)))))


class Block(nn.Module):
    """Attention to the characters so far, attention to the sequence, two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(DENSE) for _ in range(3)])
        self.own, self.memory = nn.Linear(DENSE, 3 * DENSE), nn.Linear(DENSE, 2 * DENSE)
        self.query = nn.Linear(DENSE, DENSE)
        self.outs = nn.ModuleList([nn.Linear(DENSE, DENSE), nn.Linear(DENSE, DENSE)])
        self.wide, self.narrow = nn.Linear(DENSE, 4 * DENSE), nn.Linear(4 * DENSE, DENSE)
        self.drops = nn.ModuleList([Drop(DENSE) for _ in range(3)])

    def forward(self, x: Tensor, past: list[Tensor], memory: Tensor, on: Tensor) -> Tensor:
        query, key, value = heads(self.own(self.norms[0](x)), 3)
        # What was computed for earlier characters is kept, so that a character costs one step.
        past[:] = [torch.cat(two, 2) for two in zip(past, (key, value), strict=True)]
        found = F.scaled_dot_product_attention(query, *past, is_causal=x.shape[1] > 1)
        x = x + self.drops[0](self.outs[0](found.transpose(1, 2).flatten(2)))
        (query,) = heads(self.query(self.norms[1](x)), 1)
        found = F.scaled_dot_product_attention(query, *memory, attn_mask=on)
        x = x + self.drops[1](self.outs[1](found.transpose(1, 2).flatten(2)))
        return x + self.drops[2](self.narrow(F.relu(self.wide(self.norms[2](x)))))


class TransformerDecoder(Decoder):
    """Three blocks of attention with four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.widen = nn.Embedding(len(LETTERS), DENSE), nn.Linear(ENCODED, DENSE)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.norm, self.last = nn.LayerNorm(DENSE), nn.Linear(DENSE, len(LETTERS))
        self.drop = Drop(DENSE)

    def start(self, encoded: Tensor, real: Tensor) -> dict[str, Any]:
        """Nothing was said; keys and values of the sequence are made once."""
        x = placed(self.widen(encoded), 0)
        memory = [heads(block.memory(x), 2) for block in self.blocks]
        past = [[part[:, :, :0] for part in pair] for pair in memory]
        return {"memory": memory, "past": past, "on": (real[..., 0] > 0)[:, None, None]}

    def forward(self, tokens: Tensor, state: dict[str, Any]) -> Tensor:
        x = self.drop(placed(self.embed(tokens), state["past"][0][0].shape[2]))
        for block, past, memory in zip(self.blocks, state["past"], state["memory"], strict=True):
            x = block(x, past, memory, state["on"])
        return self.norm(x)


def heads(x: Tensor, parts: int) -> tuple[Tensor, ...]:
    """(batch, n, parts x width) to so many of (batch, 4, n, width / 4)."""
    return x.unflatten(2, (parts, 4, -1)).permute(2, 0, 3, 1, 4).unbind()


def placed(x: Tensor, begin: int) -> Tensor:
    """With sines and cosines of positions (Vaswani et al. 2017)."""
    at = torch.arange(begin, begin + x.shape[1], device=x.device)[:, None]
    angles = at * torch.exp(torch.arange(0, DENSE, 2, device=x.device) * -math.log(1e4) / DENSE)
    return x + torch.cat([angles.sin(), angles.cos()], 1)


DECODERS = {"recurrent": RecurrentDecoder, "transformer": TransformerDecoder}


class Recogniser(nn.Module):
    """An encoder and the decoder of that name."""

    def __init__(self, decoder: str) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), DECODERS[decoder]()


def read(tokens: Tensor) -> str:
    """The text before the first end, words apart by one space."""
    text = "".join(LETTERS[i] for i in tokens.tolist()).partition("\n")[0]
    return " ".join(text.split())
