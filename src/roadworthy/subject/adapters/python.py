"""A subject written in Python: a function that answers an input, or a function that builds a system of modules.

>>> import tempfile
>>> from roadworthy.data.values import TASKS
>>> from roadworthy.subject.system import Cases
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "subject.py").write_text("def predict(image): return [image.mean(), 1 - image.mean()]")
>>> system = python(path="subject.py:predict", base=folder, task=TASKS["classification"])
>>> import numpy as np
>>> system.run(Cases(["a"], np.full((1, 2, 2), 0.25)))["system"].output.tolist()
[[0.25, 0.75]]
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from roadworthy.data.values import BOXES, Task
from roadworthy.registry import register
from roadworthy.subject.adapters.loading import digest_of, digest_parts, named_files, resolve_path
from roadworthy.subject.adapters.maite import is_maite_model, maite_module
from roadworthy.subject.module import FunctionModule, Module, SubjectError, function_module
from roadworthy.subject.system import System, single


@register("adapters", "python")
def python(
    *,
    path: str,
    base: Path,
    task: Task,
    version: str = "",
    batched: bool | None = None,
    files: list[str] = [],  # noqa: B006  a default that the file's schema shows; it is never changed
) -> System:
    """A Python function: ``subject.py:predict``, or ``package.module:predict``.

    The function takes one input and returns one output; with `batched` (or an attribute ``predict.batched = True``) it
    takes all inputs of a chunk and returns as many outputs. An argument ``state`` is what it returned a step earlier
    (it then returns ``answer, state``), an argument ``rng`` a random generator of the case's own (with `batched` a list of
    them, one a case). What draws from it can be asked several times, which supervisors such as `vr` do.

    Answers are kept and used again as long as the function's file, the files beside it that it imports, `files` and `version`
    stay as they are. What else it reads or holds is not seen: list weights and tables under `files` (a folder stands for all
    files in it), and write a new `version` for the rest.

    A detector may also be a model in the form of MAITE, ``subject.py:model``.
    """
    found = resolve_path(path, base)
    if not callable(found.target):
        raise SubjectError(
            f"{path} is {type(found.target).__name__}, not a function; name a function of one input"
        )
    whole = bool(getattr(found.target, "batched", False)) if batched is None else batched
    more = named_files(files, base)
    mark = digest_of(found.digest, *digest_parts(more))
    if task.output is BOXES and is_maite_model(found.target):
        module = maite_module(found.target, mark=mark)
    else:
        outputs = {"output": task.output}
        module = function_module(found.target, outputs=outputs, batched=whole, mark=mark)
    module = dataclasses.replace(module, files=(*found.files, *more))
    return single(module, task.input, version=version)


@register("adapters", "system")
def system(
    *,
    path: str,
    base: Path,
    task: Task,
    version: str = "",
    files: list[str] = [],  # noqa: B006  a default that the file's schema shows; it is never changed
) -> System:
    """A function of no arguments that returns a `System` of several modules, or a `Module`: ``subject.py:build``.

    `files` lists what the answers depend on besides the Python files that are imported: weights, tables, or folders of them.
    """
    found = resolve_path(path, base)
    if not callable(found.target):
        raise SubjectError(
            f"{path} is {type(found.target).__name__}, not a function that builds a system"
        )
    try:
        built = found.target()
    except SubjectError:
        raise
    except Exception as error:
        raise SubjectError(
            f"{path} raised {type(error).__name__} while it built the system: {error}"
        ) from error
    if isinstance(built, Module):
        built = single(built, task.input)
    if not isinstance(built, System):
        raise SubjectError(
            f"{path} returned {type(built).__name__}; a System or a Module was expected"
        )
    if built.output_kind is not task.output or built.input_kind is not task.input:
        raise SubjectError(
            f"{path} built a system from {built.input_kind} to {built.output_kind}; the task {task.name} goes from "
            f"{task.input} to {task.output}"
        )
    more = named_files(files, base)
    mark = digest_of(found.digest, *digest_parts(more))
    modules = {n: _of_files(m, (*found.files, *more), mark) for n, m in built.modules.items()}
    return dataclasses.replace(
        built, modules=modules, version=version or built.version, mark=digest_of(built.mark, mark)
    )


def _of_files(module: Module, files: tuple[Path, ...], mark: str) -> Module:
    """A function with the files it came from; any other module has a fingerprint of its own."""
    if not isinstance(module, FunctionModule):
        return module
    return dataclasses.replace(
        module, mark=digest_of(module.mark, mark), files=module.files or files
    )
