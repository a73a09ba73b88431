"""Recipes: how the members of an ensemble are trained, and how a trained one is kept.

A recipe is a function in a Python file, ``recipe.py:train_member``, that returns a trained torch
model. It is given what it declares: ``seed`` (another whole number for each member) and ``data``
(the data set that the file names under `train`). A member is trained on one thread, with the seeds
of random, numpy and torch set, so that a recipe that draws from them without a word about seeds
gives the same member again.

A trained member is one safetensors file, and the note of what made it (recipe, seed, data) stands
in that file's own header: the two cannot come apart, and one renaming puts both there.

>>> member_seed(0, 0), member_seed(0, 1), member_seed(1, 0)
(1089287467, 1623484961, 202026896)
>>> member_file(Path("members"), 3).name
'member-3.safetensors'
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from roadworthy.data.samples import Dataset, load
from roadworthy.data.seeds import key
from roadworthy.subject.adapters.loading import (
    Found,
    digest_of,
    digest_parts,
    named_files,
    raised_in,
    resolve_path,
)
from roadworthy.subject.module import SubjectError

PAUSE_S = 0.05
"""Between two looks at the members that are being trained."""
GIVEN = ("seed", "data")
"""What a recipe may declare."""
NOTE = "roadworthy"
"""The one key in a member's header: safetensors keeps several in no fixed order, and equal members
shall be equal bytes."""


@dataclass(frozen=True)
class Recipe:
    """How members are trained: a function of the user's, what it is given, and the files that it
    reads by itself."""

    path: str
    base: Path
    seed: int = 0
    train: Mapping[str, Any] | None = None
    files: tuple[str, ...] = ()

    @cached_property
    def found(self) -> Found:
        """The function and the user's files behind it; one that asks for something else than
        `GIVEN` is refused."""
        found = resolve_path(self.path, self.base)
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
            "recipe": self.found.digest,
            "seed": member_seed(self.seed, number),
            "data": "" if self.data is None else self.data.fingerprint,
            "files": self._files,
        }

    @cached_property
    def _files(self) -> str:
        return digest_of(*digest_parts(named_files(self.files, self.base))) if self.files else ""

    def member(self, number: int) -> Any:
        """The trained model, made in this process; the global generators and the number of threads
        are set for it."""
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
    """The model's weights with the note in their header, under a temporary name first: the file is
    whole or not there."""
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


def members_of(
    recipe: Recipe, folder: Path, members: int, *, workers: int | None = None
) -> Generator[tuple[int, Path], None, None]:
    """Every member's number and file: first those that are there, then the others as they are
    trained, into `folder`, several at a time.

    Each missing member is trained alone in an interpreter of its own, so that the order and the
    number of workers change no bit of it. A file that something else made is never overwritten: the
    members in a folder may be those in use, and an assessment that quietly trains others would
    speak about a system nobody has.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "recipe.py").write_text("def train_member(seed, epochs): ...")
    >>> list(members_of(Recipe("recipe.py:train_member", folder), folder / "members", 2))
    Traceback (most recent call last):
    roadworthy.subject.module.SubjectError: the recipe recipe.py:train_member asks for 'epochs'; it is given seed and, if it asks
    for it, data. Give 'epochs' a default
    """
    if workers is not None and workers < 1:
        raise SubjectError(f"workers is {workers}; at least one must train")
    if folder.exists() and not folder.is_dir():
        raise SubjectError(
            f"weights names the file {folder}; with a recipe it is the folder where trained members are kept"
        )
    notes = [recipe.note(number) for number in range(members)]
    kept = [number for number in range(members) if member_file(folder, number).is_file()]
    others = [
        member_file(folder, number).name
        for number in kept
        if notes[number].items() - read_note(member_file(folder, number)).items()
    ]
    if others:
        raise SubjectError(
            f"{', '.join(others)} in {folder} were not made by the recipe {recipe.path} with this "
            "seed, data and files. Remove them, name another folder under weights, or list the "
            "files under weights to use them as they are"
        )
    yield from ((number, member_file(folder, number)) for number in kept)
    missing = [number for number in range(members) if number not in kept]
    if missing:
        yield from _trained(recipe, folder, missing, min(workers or cores(), len(missing)))


def _trained(
    recipe: Recipe, folder: Path, numbers: Sequence[int], workers: int
) -> Iterator[tuple[int, Path]]:
    """The members as they finish. The first that fails ends the others that are still at work;
    finished ones stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SubjectError(
            f"the folder {folder} for the members cannot be made ({error.strerror})"
        ) from error
    many = f"{len(numbers)} member{'s' * (len(numbers) > 1)}"
    _say(f"training {many} by {recipe.path} into {folder}, {workers} at a time")
    began, waiting, done = time.monotonic(), list(numbers), 0
    at_work: dict[int, subprocess.Popen[str]] = {}
    try:
        while waiting or at_work:
            while waiting and len(at_work) < workers:
                number = waiting.pop(0)
                at_work[number] = _start(recipe, folder, number)
            time.sleep(PAUSE_S)
            for number in [n for n, process in at_work.items() if process.poll() is not None]:
                _refuse_failed(at_work.pop(number), folder, number)
                done += 1
                spent = time.monotonic() - began
                _say(
                    f"member {number} is trained: {done} of {len(numbers)}, {spent:.0f} s, "
                    f"about {spent / done * (len(numbers) - done):.0f} s left"
                )
                yield number, member_file(folder, number)
    finally:
        for process in at_work.values():
            process.kill()
            process.wait()


def _log(folder: Path, number: int) -> Path:
    """Where what the recipe prints goes."""
    return member_file(folder, number).with_suffix(".log")


def _start(recipe: Recipe, folder: Path, number: int) -> subprocess.Popen[str]:
    """A process that trains one member. Its input stays open while we live: where we end, it ends."""
    job = {
        "path": recipe.path,
        "base": str(recipe.base.resolve()),
        "seed": recipe.seed,
        "train": recipe.train,
        "files": recipe.files,
        "number": number,
        "folder": str(folder.resolve()),
    }
    with _log(folder, number).open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "roadworthy.subject.training"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            text=True,
            env=_environment(),
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # its end is noticed by whoever waits for it
        process.stdin.write(json.dumps(job, default=str) + "\n")
        process.stdin.flush()
    return process


def _refuse_failed(process: subprocess.Popen[str], folder: Path, number: int) -> None:
    """Read what a process that has ended answers; one that trained no member raises its reason."""
    with process:
        assert process.stdout is not None
        answer = process.stdout.readline()
    log = _log(folder, number)
    if not log.stat().st_size:
        log.unlink()
    error = json.loads(answer).get("error") if answer.endswith("\n") else ""
    if error is None:
        return
    if not error:
        code = process.returncode
        cause = f"signal {-code}" if code < 0 else f"exit status {code}"
        error = f"its process ended by {cause}; if memory ran out, use fewer workers"
    where = f"; what it printed is in {log}" if log.is_file() else ""
    raise SubjectError(f"member {number} could not be trained: {error}{where}")


def _environment() -> dict[str, str]:
    """The same packages as here; one thread, and no order that changes from process to process."""
    places = [p or os.getcwd() for p in sys.path]
    fixed = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    return {**os.environ, **fixed, "PYTHONPATH": os.pathsep.join(places)}


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _say(text: str) -> None:
    """To standard error, which is not the answer: training takes long, and silence would look like
    standing still."""
    print(text, file=sys.stderr, flush=True)


def _serve() -> None:
    """One member, in its own process. What the recipe prints cannot garble the answer, and the end
    of the caller is its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    number, folder = job.pop("number"), Path(job.pop("folder"))
    recipe = Recipe(**{**job, "base": Path(job["base"]), "files": tuple(job["files"])})
    answer = {}
    try:
        note = recipe.note(number)  # before the work: the recipe may be edited meanwhile
        save_member(recipe.member(number), member_file(folder, number), note)
    except (Exception, SystemExit) as error:
        traceback.print_exception(error)  # to the member's log
        own = isinstance(error, SubjectError)
        answer["error"] = str(error) if own else raised_in(error, recipe.base, place=recipe.path)
    out.write(json.dumps(answer) + "\n")
    out.flush()


def _end_with_the_caller() -> None:
    # The raw file: a thread that holds the lock of sys.stdin would break the end of the interpreter.
    while os.read(0, 1):
        continue
    os._exit(1)


if __name__ == "__main__":
    _serve()
