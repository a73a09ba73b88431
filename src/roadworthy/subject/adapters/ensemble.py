"""An ensemble of torch models: one network with several sets of weights, trained from a recipe or already there.

Its answer is the mean of its members' class probabilities (Lakshminarayanan et al. 2017, section 2.4; Weiss et al. 2022, section
VII-B), or of their vectors. Each member is one pass for supervisors that ask for ``Passes("ensemble", 0)``. What lies inside
a model (layers, gradients, dropout) is that of the first member: members share no features, so that a mean of their
activations means nothing.

>>> import tempfile
>>> from safetensors.numpy import save_file
>>> from roadworthy.data.values import TASKS
>>> from roadworthy.subject.system import Cases
>>> folder = Path(tempfile.mkdtemp())
>>> source = "from torch import nn\\ndef build(): return nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))"
>>> _ = (folder / "model.py").write_text(source)
>>> for name, way in (("a", 3), ("b", -3)):
...     save_file({"1.weight": way * np.eye(2, dtype=np.float32)}, folder / f"{name}.safetensors")
>>> files = ["a.safetensors", "b.safetensors"]
>>> system = ensemble(path="model.py:build", weights=files, base=folder, task=TASKS["classification"])
>>> system.run(Cases(["a"], np.array([[[0, 255]]], dtype=np.uint8)))["system"].output.tolist()
[[0.5, 0.5]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, VECTOR, Kind, Task
from roadworthy.registry import register
from roadworthy.subject.adapters.image_models import ImageModule, InputPreparation
from roadworthy.subject.adapters.loading import digest_of
from roadworthy.subject.adapters.torch_model import TorchModule, torch_model
from roadworthy.subject.module import Answers, Context, SubjectError
from roadworthy.subject.needs import Passes, Request
from roadworthy.subject.passes import finite_probabilities, reduced, why_not_reduced
from roadworthy.subject.system import System, single
from roadworthy.subject.training import Recipe, members_of

KIND = "ensemble"
"""The kind of passes that members are."""
MEMBERS = 5
"""How many a recipe trains unless told: where Lakshminarayanan et al. found little left to gain."""


@register("adapters", "ensemble")
def ensemble(
    *,
    path: str,
    base: Path,
    task: Task,
    weights: str | list[str],
    build: str | None = None,
    members: int | None = None,
    train: dict[str, Any] | None = None,
    files: list[str] = [],  # noqa: B006  a default that the file's schema shows; it is never changed
    seed: int = 0,
    workers: int | None = None,
    version: str = "",
    input: InputPreparation | None = None,
    device: str = "cpu",
    batch: int = 256,
    threads: int = 1,
) -> System:
    """An ensemble of torch models: ``recipe.py:train_member`` trains what is missing in the folder `weights`.

    The recipe returns a trained model and may ask for ``seed`` and ``data``, which is what `train` names as under data. The
    function `build` gives the network that the kept weights fill. `members` says how many (5), `seed` makes other ones,
    `workers` is how many are trained at a time (the cores there are), `files` lists what the recipe or the network reads by
    itself. With a list of files as `weights` nothing is trained, and the path is that of the function that builds the network.
    """
    if task.output not in (CLASS_SCORES, VECTOR):
        raise SubjectError(
            f"an ensemble gives the mean of class scores or vectors, and the task {task.name} {task.output}"
        )

    def member(network: str, file: Path) -> TorchModule:
        system = torch_model(
            path=network,
            base=base,
            task=task,
            weights=str(file.resolve()),
            input=input,
            device=device,
            batch=batch,
            threads=threads,
            files=files,
        )
        (module,) = system.modules.values()
        assert isinstance(module, TorchModule)
        return module

    if isinstance(weights, list):
        trains = {"build": build, "members": members, "train": train, "workers": workers}
        _refuse_with_files(path, [name for name, given in trains.items() if given])
        found = [member(path, base / Path(file).expanduser()) for file in weights]
        sources: tuple[Path, ...] = ()
    else:
        if build is None:
            raise SubjectError(
                f"the recipe {path} trains members, and build says which network their kept weights fill: write build: "
                "model.py:build. If the path is that function itself, list the files with weights: weights: [a.safetensors, …]"
            )
        recipe = Recipe(path, base, seed, train, tuple(files))
        folder = base / Path(weights).expanduser()
        count = _enough(MEMBERS if members is None else members)
        by_number: dict[int, TorchModule] = {}
        with closing(members_of(recipe, folder, count, workers=workers)) as ready:
            for number, file in ready:
                # At once: weights that do not fit the network are found before the others are trained.
                by_number[number] = member(build, file)
        found = [by_number[number] for number in sorted(by_number)]
        sources = recipe.found.files
    _enough(len(found))
    _refuse_equal(found, path)
    return single(EnsembleModule(tuple(found), task.output, sources), task.input, version=version)


@dataclass(frozen=True)
class EnsembleModule(ImageModule):
    """Members that answer together."""

    members: tuple[TorchModule, ...]
    kind: Kind
    sources: tuple[Path, ...] = ()
    """The recipe's files."""

    @property
    def first(self) -> TorchModule:
        """The member that stands for what lies inside."""
        return self.members[0]

    @property
    def files(self) -> tuple[Path, ...]:
        """The members' files and the recipe's, each once."""
        return tuple(dict.fromkeys([f for m in self.members for f in m.files] + list(self.sources)))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all members, in order: the first one's layers are those that supervisors read."""
        return digest_of("ensemble", *(m.fingerprint for m in self.members))

    def offers(self, request: Request) -> str | None:
        """A pass a member; anything else is for the first member to say."""
        if not isinstance(request, Passes) or request.kind != KIND:
            return self.first.offers(request)
        if request.n != 0:
            return f"it has {len(self.members)} members, one pass each, and {request.n} passes are asked for; n must be 0"
        return why_not_reduced(request, self.kind)

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The mean of the members' answers; NaN where one of them has none."""
        own = {r for r in context.requests if isinstance(r, Passes) and r.kind == KIND}
        first = self.first.batch(inputs, replace(context, requests=context.requests - own))
        others = [m.batch(inputs, replace(context, requests=frozenset())) for m in self.members[1:]]
        said = [_averaged_as(np.asarray(a.outputs["output"]), self.kind) for a in (first, *others)]
        # Divided at the end, as the summary of the passes is, so that both hold the same number.
        mean = (sum(said[1:], start=said[0]) / len(said)).astype(np.float32)
        return Answers(
            {"output": mean},
            {**first.extras, **{r: reduced(r, self.kind, mean, said) for r in own}},
        )


def _averaged_as(answers: np.ndarray, kind: Kind) -> np.ndarray:
    """Class scores as probabilities, vectors as they are; float64. A row with a number that is not finite is NaN."""
    if kind is CLASS_SCORES:
        return finite_probabilities(answers)
    rows = answers.astype(np.float64)
    rows[~np.isfinite(rows).all(axis=1)] = np.nan
    return rows


def _enough(count: int) -> int:
    if count < 2:
        raise SubjectError(
            f"an ensemble has two members at least, and this one has {count}; one model alone is torch: …"
        )
    return count


def _refuse_with_files(path: str, given: Sequence[str]) -> None:
    """Settings of a training where there is none."""
    if given:
        raise SubjectError(
            f"weights lists files, so nothing is trained and {path} builds the network; {given[0]} says how members are "
            "trained. Leave it out, or give weights as the folder where trained members are kept"
        )


def _refuse_equal(members: Sequence[TorchModule], path: str) -> None:
    """Equal members never disagree, so that all scores of the ensemble would be those of one model."""
    seen: dict[str, int] = {}
    for number, member in enumerate(members):
        twin = seen.setdefault(member.fingerprint, number)
        if twin != number:
            raise SubjectError(
                f"the members {twin} and {number} have the same weights, so that they never disagree; each file must be listed "
                f"once, and a recipe must not set a seed of its own in place of the one it is given ({path})"
            )
