"""Members of an ensemble from a recipe: those that are kept, and the missing ones, trained several at a time.

Each missing member is trained alone in an interpreter of its own, so that the order and the number of workers change no bit of
it. A file that something else made is never overwritten: the members in a folder may be those in use, and an assessment that
quietly trains others would speak about a system nobody has.

>>> import tempfile
>>> from roadworthy.subject.training import Recipe
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "recipe.py").write_text("def train_member(seed, epochs): ...")
>>> list(members_of(Recipe("recipe.py:train_member", folder), folder / "members", 2))
Traceback (most recent call last):
roadworthy.subject.module.SubjectError: the recipe recipe.py:train_member asks for 'epochs'; it is given seed and, if it asks
for it, data. Give 'epochs' a default
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from roadworthy.subject.module import SubjectError
from roadworthy.subject.training import Recipe, member_file, read_note, save_member

MADE_WITH = {
    "recipe": "another recipe",
    "seed": "another seed",
    "data": "other data",
    "files": "other files",
}
"""What a note holds, and how to say that it is not the same."""


def members_of(
    recipe: Recipe, folder: Path, members: int, *, workers: int | None = None
) -> Generator[tuple[int, Path], None, None]:
    """Every member's number and file: first those that are there, then the others as they are trained, into `folder`."""
    if workers is not None and workers < 1:
        raise SubjectError(f"workers is {workers}; at least one must train")
    if folder.exists() and not folder.is_dir():
        raise SubjectError(
            f"weights names the file {folder}; with a recipe it is the folder where trained members are kept"
        )
    notes = [recipe.note(number) for number in range(members)]
    kept = [number for number in range(members) if member_file(folder, number).is_file()]
    unlike = {number: _unlike(member_file(folder, number), notes[number]) for number in kept}
    others = [f"{member_file(folder, n).name} ({how})" for n, how in unlike.items() if how]
    if others:
        raise SubjectError(
            f"the folder {folder} holds what the recipe {recipe.path} as it is now did not make: {', '.join(others)}. "
            "Nothing is overwritten: name another folder under weights, or remove these files to train them again. To use "
            "them as they are, write ensemble: with the function that builds the network and weights: with the list of files"
        )
    yield from ((number, member_file(folder, number)) for number in kept)
    missing = [number for number in range(members) if number not in kept]
    if missing:
        yield from _trained(recipe, folder, missing, min(workers or _cores(), len(missing)))


def _unlike(file: Path, note: Mapping[str, Any]) -> str:
    """In what a kept member differs from what the recipe would make; empty where in nothing."""
    kept = read_note(file)
    if not kept:
        return "says nothing of a recipe"
    changed = [words for name, words in MADE_WITH.items() if kept.get(name) != note[name]]
    return f"made with {' and '.join(changed)}" if changed else ""


def _trained(
    recipe: Recipe, folder: Path, numbers: Sequence[int], workers: int
) -> Iterator[tuple[int, Path]]:
    """The members as they finish. The first that fails ends the others that are still at work; finished ones stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SubjectError(
            f"the folder {folder} for the members cannot be made ({error.strerror})"
        ) from error
    many = f"{len(numbers)} member{'s' * (len(numbers) > 1)}"
    _say(f"training {many} by {recipe.path} into {folder}, {workers} at a time")
    ended: queue.Queue[tuple[_Training, dict[str, Any] | None]] = queue.Queue()
    todo, running, began = list(numbers), set[_Training](), time.monotonic()
    try:
        while todo or running:
            while todo and len(running) < workers:
                running.add(_Training(recipe, folder, todo.pop(0), ended))
            training, answer = ended.get()
            running.remove(training)
            training.end()
            if answer is None or "error" in answer:
                raise SubjectError(training.failure(answer))
            spent = time.monotonic() - began
            left = len(todo) + len(running)
            ahead = f", about {left * training.seconds / workers:.0f} s left" if left else ""
            _say(
                f"member {training.number} is trained: {len(numbers) - left} of {len(numbers)}, {spent:.0f} s{ahead}"
            )
            yield training.number, member_file(folder, training.number)
    finally:
        for training in running:
            training.process.kill()
            training.end()


class _Training:
    """One member at work in its process. What the recipe prints goes to a file beside the weights."""

    def __init__(self, recipe: Recipe, folder: Path, number: int, ended: queue.Queue[Any]) -> None:
        self.number, self.began, self.seconds = number, time.monotonic(), 0.0
        self.log = member_file(folder, number).with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "roadworthy.subject.members"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(),
            )
        job = {
            "path": recipe.path,
            "base": str(recipe.base.resolve()),
            "seed": recipe.seed,
            "train": recipe.train,
            "files": recipe.files,
            "number": number,
            "folder": str(folder.resolve()),
        }
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # its end is noticed by the listener
            self.process.stdin.write(json.dumps(job, default=str) + "\n")
            self.process.stdin.flush()
        self.listener = threading.Thread(target=self._listen, args=(ended,), daemon=True)
        self.listener.start()

    def _listen(self, ended: queue.Queue[Any]) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.seconds = time.monotonic() - self.began
        ended.put((self, json.loads(line) if line.endswith("\n") else None))

    def end(self) -> None:
        """Wait for its end; it ends by itself when its input is closed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listener.join(timeout=5)
        self.process.stdout.close()
        if self.log.is_file() and not self.log.stat().st_size:
            self.log.unlink()

    def failure(self, answer: Mapping[str, Any] | None) -> str:
        """Which member failed, and why."""
        printed = f"; what it printed is in {self.log}" if self.log.is_file() else ""
        if answer is not None:
            return f"member {self.number} could not be trained: {answer['error']}{printed}"
        code = self.process.returncode
        cause = (
            f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
        )
        return (
            f"member {self.number} could not be trained: its process ended by {cause}; out of memory is the usual cause, and "
            f"fewer workers need less{printed}"
        )


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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _say(text: str) -> None:
    """To standard error, which is not the answer: training takes long, and silence would look like standing still."""
    print(text, file=sys.stderr, flush=True)


def _serve() -> None:
    """One member, in its own process. What the recipe prints cannot garble the answer, and the end of the caller is its end."""
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
        answer["error"] = _reason(error, recipe.base)
    out.write(json.dumps(answer) + "\n")
    out.flush()


def _end_with_the_caller() -> None:
    # The raw file: a thread that holds the lock of sys.stdin would break the end of the interpreter.
    while os.read(0, 1):
        continue
    os._exit(1)


def _reason(error: BaseException, folder: Path) -> str:
    """What was raised, and the last line of the user's own code that was reached."""
    traceback.print_exception(error)  # to the member's log
    if isinstance(error, SubjectError):
        return str(error)
    own = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if Path(f.filename).is_relative_to(folder)
    ]
    place = f"{Path(own[-1].filename).name}, line {own[-1].lineno}: " if own else ""
    text = str(error).strip().split("\n")[0]
    return f"{place}{type(error).__name__}" + (f": {text}" if text else "")


if __name__ == "__main__":
    _serve()
