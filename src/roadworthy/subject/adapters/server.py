"""A model behind a server that speaks the Open Inference Protocol v2 (Triton, KServe, MLServer, OpenVINO Model Server, …)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from roadworthy.data.values import BOXES, Kind, Task
from roadworthy.registry import did_you_mean, register
from roadworthy.subject.adapters.image_models import (
    ImageModule,
    InputPreparation,
    check_detector,
    joined_columns,
    padded,
    refused,
    spans,
    takes_images,
    tensor_answers,
)
from roadworthy.subject.adapters.inference_protocol import (
    DATATYPES,
    MalformedAnswer,
    Server,
    ServerRefused,
    encode_tensors,
)
from roadworthy.subject.adapters.loading import classes_in, digest_of
from roadworthy.subject.module import Answers, ClassNames, Context, SubjectError
from roadworthy.subject.needs import Input, Request
from roadworthy.subject.system import System, single


@register("adapters", "server")
def server(
    *,
    path: str,
    base: Path,
    task: Task,
    model: str,
    version: str = "",
    input: InputPreparation | None = None,
    input_name: str | None = None,
    output_name: str | None = None,
    batch: int = 64,
    timeout_s: float = 30.0,
    retries: int = 2,
) -> System:
    """A model on a server: its address, such as http://127.0.0.1:8000, and the name of the `model` there."""
    batch = takes_images(task, "server", batch)
    if batch < 1 or timeout_s <= 0 or retries < 0:
        raise SubjectError(
            f"batch is {batch}, timeout_s {timeout_s}, retries {retries}; they must be 1, above 0 and 0 at least"
        )
    there = Server(path.rstrip("/"), timeout_s, retries)
    try:
        if not there.is_ready():
            raise SubjectError(
                f"the server at {path} is not ready; wait until it has loaded the model {model!r}"
            )
        metadata = there.get(_path(model))
    except TimeoutError as error:
        raise SubjectError(f"{error}; correct the address, or set timeout_s") from error
    except ServerRefused as error:
        raise SubjectError(
            f"the server at {path} does not serve the model {model!r}: {error}"
        ) from error
    except MalformedAnswer as error:
        raise SubjectError(
            f"{path} does not support the Open Inference Protocol v2: {error}"
        ) from error
    given, answer = (
        _tensor(metadata, side, name, path)
        for side, name in (("inputs", input_name), ("outputs", output_name))
    )
    if task.output is BOXES:
        outputs = {str(t["name"]): t for t in metadata["outputs"]}
        check_detector(outputs)
        # Without an axis of images it answers one at a time.
        batch = batch if len(outputs["boxes"].get("shape") or ()) == 3 else 1
    module = ServerModule(
        there,
        model,
        task.output,
        input or InputPreparation(),
        metadata,
        given=given,
        asked=None if task.output is BOXES else answer["name"],
        binary=_binary(there),
        batch_size=batch,
    )
    return single(module, task.input, version=version)


@dataclass(frozen=True)
class ServerModule(ImageModule):
    """A served model as a module that takes images in batches."""

    server: Server
    model: str
    kind: Kind
    prepare: InputPreparation
    metadata: Mapping[str, Any]
    given: Mapping[str, Any]
    """The metadata of the tensor that takes the images."""
    asked: str | None
    """The tensor that answers; None asks for all."""
    binary: bool
    batch_size: int
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        wanted = DATATYPES.get(str(self.given.get("datatype")))
        if wanted != self.prepare.dtype:
            raise SubjectError(
                f"the model {self.model!r} takes {self.given.get('datatype')}, and the preparation makes "
                f"{self.prepare.dtype}; write input: {{dtype: {wanted or 'float32'}}}"
            )

    @property
    def classes(self) -> ClassNames | None:
        """Names in the model's metadata: beside the rest, or among its parameters or properties."""
        where = f"metadata of the model {self.model} at the server"
        parts = (self.metadata, *(self.metadata.get(k) for k in ("parameters", "properties")))
        found = (classes_in(part, where) for part in parts if isinstance(part, Mapping))
        return next(filter(None, found), None)

    @property
    def fingerprint(self) -> str:
        """A hash of the server's address, of what it says the model is, of the preparation, and of the batch.

        A server can change its model without a word: `version` in the file tells such subjects apart.
        """
        told = {
            key: self.metadata.get(key)
            for key in ("name", "versions", "platform", "inputs", "outputs")
        }
        parts = [
            self.server.address,
            self.model,
            repr(told),
            str(self.asked),
            repr(self.prepare),
            self.kind.name,
        ]
        return digest_of(*parts, f"batch {self.batch_size}")

    def offers(self, request: Request) -> str | None:
        """Its input and its output."""
        return refused(request, (), where="a server")

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The server's answers; one that it refuses raises, so that its images are asked one by one."""
        answers: list[Any] = []
        seen: list[np.ndarray] = []
        shape = self.given.get("shape") or [-1]
        fixed = int(shape[0]) if int(shape[0]) > 0 else None
        for span in spans(len(context.ids), fixed or self.batch_size):
            prepared = self.prepare(inputs["image"][span])
            sent = padded(prepared, fixed or 0)
            body, headers = encode_tensors(
                self.given["name"], sent, output=self.asked, binary=self.binary
            )
            tensors = self.server.infer(_path(self.model), body, headers)
            found = tensor_answers(tensors, self.asked, len(sent), self.kind)
            answers.append(found[: len(prepared)])
            seen.append(prepared)
        extras: dict[Request, np.ndarray] = {
            r: np.concatenate(seen) for r in context.requests if isinstance(r, Input)
        }
        return Answers({"output": joined_columns(answers)}, extras)


def _path(model: str) -> str:
    return f"/v2/models/{quote(model, safe='')}"


def _binary(there: Server) -> bool:
    """Whether the server takes tensors as bytes; one that does not tell gets JSON."""
    try:
        told = there.get("/v2")
    except (ServerRefused, MalformedAnswer):
        return False
    return isinstance(told, Mapping) and "binary_tensor_data" in (told.get("extensions") or ())


def _tensor(metadata: Any, side: str, wanted: str | None, path: str) -> Mapping[str, Any]:
    listed = metadata.get(side) if isinstance(metadata, Mapping) else None
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(t, Mapping) and "name" in t for t in listed)
    ):
        raise SubjectError(
            f"the server at {path} lists no {side} of the model; name a model with one image input"
        )
    names = [str(t["name"]) for t in listed]
    if wanted is not None and wanted not in names:
        raise SubjectError(
            f"the model's {side} have no {wanted!r}{did_you_mean(wanted, names)}; they are: {', '.join(names)}"
        )
    return dict(listed[names.index(wanted) if wanted else 0])
