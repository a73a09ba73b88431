"""Recipes: how the members of an ensemble are trained, and how a trained one is kept.

A recipe is a function in a Python file, ``recipe.py:train_member``, that returns a trained torch model. It is given what it
declares: ``seed`` (another whole number for each member) and ``data`` (the data set that the file names under `train`).
A member is trained on one thread, with the seeds of random, numpy and torch set, so that a recipe that draws from them without
a word about seeds gives the same member again.

A trained member is one safetensors file, and the note of what made it (recipe, seed, data) stands in that file's own header:
the two cannot come apart, and one renaming puts both there.

>>> member_seed(0, 0), member_seed(0, 1), member_seed(1, 0)
(1089287467, 1623484961, 202026896)
>>> member_file(Path("members"), 3).name
'member-3.safetensors'
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from roadworthy.data.load import load
from roadworthy.data.samples import Dataset
from roadworthy.data.seeds import key
from roadworthy.subject.adapters.loading import Found, digest_of, digest_parts, named_files, resolve
from roadworthy.subject.module import SubjectError

GIVEN = ("seed", "data")
"""What a recipe may declare."""
NOTE = "roadworthy"
"""The one key in a member's header: safetensors keeps several in no fixed order, and equal members shall be equal bytes."""


@dataclass(frozen=True)
class Recipe:
    """How members are trained: a function of the user's, what it is given, and the files that it reads by itself."""

    path: str
    base: Path
    seed: int = 0
    train: Mapping[str, Any] | None = None
    files: tuple[str, ...] = ()

    @cached_property
    def found(self) -> Found:
        """The function and the user's files behind it; one that asks for something else than `GIVEN` is refused."""
        found = resolve(self.path, self.base)
        if not callable(found.target):
            raise SubjectError(
                f"{self.path} is {type(found.target).__name__}, not a function that trains a member"
            )
        wanted = _wanted(found.target)
        odd = [name for name, required in wanted.items() if required and name not in GIVEN]
        if odd:
            raise SubjectError(
                f"the recipe {self.path} asks for {odd[0]!r}; it is given seed and, if it asks for it, data. Give "
                f"{odd[0]!r} a default"
            )
        if wanted.get("data") and self.train is None:
            raise SubjectError(
                f"the recipe {self.path} asks for data; name it under train, as in train: {{npz: train.npz}}"
            )
        if self.train is not None and "data" not in wanted:
            raise SubjectError(
                f"data is named under train, and the recipe {self.path} does not ask for it; write def "
                f"{found.name}(seed, data), or leave train out"
            )
        return found

    @cached_property
    def data(self) -> Dataset | None:
        """What is named under train."""
        return None if self.train is None else load(self.train, base=self.base, name="train")

    def note(self, number: int) -> dict[str, Any]:
        """What a member depends on. The same note is the same member."""
        return {
            "recipe": self._source,
            "seed": member_seed(self.seed, number),
            "data": "" if self.data is None else self.data.fingerprint,
            "files": self._files,
        }

    @cached_property
    def _source(self) -> str:
        return self.found.digest

    @cached_property
    def _files(self) -> str:
        return digest_of(*digest_parts(named_files(self.files, self.base))) if self.files else ""

    def member(self, number: int) -> Any:
        """The trained model, made in this process; the global generators and the number of threads are set for it."""
        import random

        import numpy as np
        import torch

        seed = member_seed(self.seed, number)
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
        wanted = _wanted(self.found.target)
        given = {name: {"seed": seed, "data": self.data}[name] for name in GIVEN if name in wanted}
        if self.train is None:
            given.pop("data", None)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  recipes may draw from the global generator
        torch.manual_seed(seed)
        model = self.found.target(**given)
        if not isinstance(model, torch.nn.Module):
            raise SubjectError(
                f"it returned {type(model).__name__}; the trained torch.nn.Module was expected"
            )
        learned = dict(model.named_parameters(remove_duplicate=False))
        for name, tensor in model.state_dict().items():
            # A buffer may be infinite on purpose, such as the mask of an attention; no number at all is none's purpose.
            sound = torch.isfinite(tensor) if name in learned else ~torch.isnan(tensor)
            if not bool(sound.all()):
                raise SubjectError(
                    f"its weights {name} hold NaN or infinite numbers: the training diverged"
                )
        return model


def member_seed(seed: int, number: int) -> int:
    """The seed of a member: 31 bits, which every library takes."""
    return key(seed, "member", number) % 2**31


def member_file(folder: Path, number: int) -> Path:
    """Where a member is kept."""
    return folder / f"member-{number}.safetensors"


def save_member(model: Any, file: Path, note: Mapping[str, Any]) -> None:
    """The model's weights with the note in their header, under a temporary name first: the file is whole or not there."""
    import torch
    from safetensors.torch import save

    # Clones, because tied weights share memory, which the format refuses.
    weights = {
        name: t.detach().cpu().contiguous().clone() for name, t in model.state_dict().items()
    }
    text = json.dumps({**note, "torch": torch.__version__}, sort_keys=True)
    unfinished = file.with_name(f".{file.stem}.{os.getpid()}.part")
    try:
        unfinished.write_bytes(save(weights, metadata={NOTE: text}))
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def read_note(file: Path) -> dict[str, Any]:
    """What made a member, as its file says; empty where it says nothing."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            text = (opened.metadata() or {}).get(NOTE, "{}")
        return dict(json.loads(text))
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise SubjectError(
            f"the member {file} cannot be read ({error}); remove it to train it again"
        ) from error


def _wanted(recipe: Any) -> dict[str, bool]:
    """The arguments of a recipe, and whether each must be given."""
    try:
        parameters = inspect.signature(recipe).parameters.values()
    except (TypeError, ValueError):
        return {"seed": True}
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {p.name: p.default is p.empty for p in named}
