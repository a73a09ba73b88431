"""The learned modules: two understandings and a policy, each a small torch network with dropout of
0.1 before its last layer, as modules that show their penultimate layer and make passes.
"""

from __future__ import annotations

import functools
import itertools
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from town import ACTIONS, FIND, SLOTS, TELL, features

from roadworthy.data.seeds import generator
from roadworthy.data.values import Kind
from roadworthy.subject.adapters.loading import digest_of
from roadworthy.subject.module import Answers, Context
from roadworthy.subject.needs import Input, Layer, Output, Passes, Request
from roadworthy.subject.passes import reduced, why_not_reduced

DROPOUT = 0.1
WIDTH = 96
BUCKETS = 4096
LONGEST, PARTS = 40, 12
"""Words of a turn and trigrams of a word that are read."""


def words(text: str) -> list[str]:
    """Small letters; a time is one word."""
    return re.findall(r"\d+:\d+|[a-z]+|\d+", text.lower())


def ngrams(text: str) -> list[str]:
    """Words, and pairs of neighbours."""
    found = words(text)
    return found + [f"{a} {b}" for a, b in itertools.pairwise(found)]


class Net(nn.Module):
    """A body, dropout, and a linear head."""

    def __init__(self, body: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body, self.dropout = body, nn.Dropout(DROPOUT)
        self.head = nn.Linear(width, classes)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.head(self.dropout(self.body(given)))  # type: ignore[no-any-return]


class Trigrams(nn.Module):
    """A convolution over words; a word is the mean of its character trigrams."""

    def __init__(self, size: int = 48) -> None:
        super().__init__()
        self.parts = nn.Embedding(BUCKETS, size, padding_idx=0)
        self.window = nn.Conv1d(size, WIDTH, 3, padding=1)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        known = (given > 0).sum(-1, keepdim=True).clamp(min=1)
        read = self.parts(given).sum(-2) / known
        return torch.relu(self.window(read.transpose(1, 2))).amax(-1)


def bag_net(vocabulary: int, classes: int) -> Net:
    """A perceptron on a bag of words and pairs."""
    return Net(nn.Sequential(nn.Linear(vocabulary, WIDTH), nn.ReLU()), WIDTH, classes)


def trigram_net(classes: int) -> Net:
    return Net(Trigrams(), WIDTH, classes)


def policy_net() -> Net:
    width, seen = 32, len(FIND) + len(SLOTS) + 7
    body = nn.Sequential(nn.Linear(seen, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return Net(body, width, len(ACTIONS))


def as_bag(text: str, *, places: Mapping[str, int]) -> np.ndarray:
    """Which known words and pairs a text has; unknown ones are not seen."""
    row = np.zeros(len(places), dtype=np.float32)
    row[[places[gram] for gram in ngrams(text) if gram in places]] = 1
    return row


def as_trigrams(text: str) -> np.ndarray:
    """The trigrams of each word, as buckets; 0 is none."""
    row = np.zeros((LONGEST, PARTS), dtype=np.int64)
    for i, word in enumerate(words(text)[:LONGEST]):
        marked = f"<{word}>"
        for j in range(min(PARTS, len(marked) - 2)):
            row[i, j] = 1 + zlib.crc32(marked[j : j + 3].encode()) % (BUCKETS - 1)
    return row


def label_names(values: Mapping[str, Sequence[str]]) -> list[str]:
    """What an understanding can hear, each with a probability of its own."""
    informs = [f"inform {slot} {value}" for slot in SLOTS for value in values[slot]]
    return [*(f"domain {d}" for d in FIND), "bye", *(f"request {s}" for s in TELL), *informs]


def heard(scores: np.ndarray, *, labels: Sequence[str]) -> dict[str, Any]:
    """The acts that are more likely than not; of a slot's values the likeliest."""
    acts: dict[str, Any] = {}
    for i in np.argsort(scores):
        if scores[i] <= 0:
            continue
        act, *what = labels[i].split(" ", 2)
        if act == "inform":
            acts.setdefault("inform", {})[what[0]] = what[1]
        elif act == "request":
            acts.setdefault("request", {})[what[0]] = "yes"
        else:
            acts[act] = what[0] if what else "yes"
    return acts


@dataclass(frozen=True)
class NetworkModule:
    """A network between two functions: one prepares what it reads, one reads its scores."""

    port: str
    output: str
    kind: Kind
    net: Net
    read: Callable[[Any], np.ndarray]
    answer: Callable[[np.ndarray], Any]
    files: tuple[Path, ...]
    batched = True

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.port,)

    @property
    def outputs(self) -> Mapping[str, Kind]:
        return {self.output: self.kind}

    @functools.cached_property
    def fingerprint(self) -> str:
        return digest_of(self.port, repr(self.net), *(file.read_bytes() for file in self.files))

    def offers(self, request: Request) -> str | None:
        if isinstance(request, Output | Input) or request == Layer("penultimate"):
            return None
        if isinstance(request, Passes) and request.kind == "dropout":
            return why_not_reduced(request, self.kind)
        return "the network shows its penultimate layer and makes passes with dropout, no more"

    def step(self, inputs: Mapping[str, Any], state: Any, rng: Any) -> tuple[dict[str, Any], Any]:
        answers = self.batch({self.port: [inputs[self.port]]}, Context([""]))
        return {self.output: answers.outputs[self.output][0]}, state

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        given = torch.from_numpy(np.stack([self.read(value) for value in inputs[self.port]]))
        with torch.no_grad():
            seen = self.net.body(given)
            column = self._answers(self.net.head(seen))
        extras: dict[Request, np.ndarray] = {}
        for request in context.requests:
            if isinstance(request, Layer):
                extras[request] = seen.numpy()
            elif isinstance(request, Passes):
                passes = [self._pass(seen, request, i, context) for i in range(request.n)]
                extras[request] = reduced(request, self.kind, column, passes)
        return Answers({self.output: column}, extras)

    def _answers(self, scores: torch.Tensor) -> Any:
        made = [self.answer(row) for row in scores.numpy()]
        return np.stack(made) if isinstance(made[0], np.ndarray) else made

    def _pass(self, seen: torch.Tensor, request: Passes, number: int, context: Context) -> Any:
        """One mask for all cases, by seed, module and pass."""
        rate = DROPOUT if request.rate is None else request.rate
        draws = generator(context.seed, context.module, "dropout", number)
        kept = draws.random(seen.shape[1], dtype=np.float32) >= rate
        with torch.no_grad():
            return self._answers(
                self.net.head(seen * torch.from_numpy(kept / np.float32(1 - rate)))
            )


def loaded(net: Net, file: Path) -> Net:
    """The network with the weights of a file, in single precision."""
    net.load_state_dict({name: tensor.float() for name, tensor in load_file(file).items()})
    return net.eval()


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities of actions."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def policy_row(belief: Mapping[str, Any]) -> np.ndarray:
    return np.array(features(belief), dtype=np.float32)
