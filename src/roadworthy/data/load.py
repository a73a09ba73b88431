"""From what an assessment file says about data to a data set: ``{idx: images.gz, labels: labels.gz}``.

The one key that names a loader carries its main path; the other keys are the loader's parameters.

>>> load({"bundled": "fashion-mnist", "split": "calibration", "n": 5}, base=Path(), name="calibration").name
'calibration'
>>> load({"cocoo": "a.json"}, base=Path(), name="test")
Traceback (most recent call last):
roadworthy.data.samples.DataError: data 'test': no key names a loader, found: cocoo (did you mean 'coco'?); one of audio,
bundled, coco, csv, dialogue, frames, idx, image_folder, npz is needed
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadworthy import registry
from roadworthy.data.samples import DataError, Dataset


def load(spec: Mapping[str, Any], *, base: Path, name: str) -> Dataset:
    """The data set that `spec` describes; paths are relative to `base`."""
    loaders = registry.components("loaders")
    named = [key for key in spec if key in loaders]
    if len(named) != 1:
        raise DataError(f"data {name!r}: {_which(spec, named, list(loaders))}")
    component = loaders[named[0]]
    given = {key: value for key, value in spec.items() if key != named[0]}
    reserved = [key for key in ("path", "base") if key in given]
    if reserved:
        raise DataError(
            f"data {name!r}: write the path as {named[0]}: PATH; the key {reserved[0]!r} is not known here"
        )
    try:
        parameters = component.check({"path": spec[named[0]], "name": name, **given, "base": base})
    except ValueError as error:
        raise DataError(f"data {name!r}: {_reason(error)}") from error
    try:
        data: Dataset = component.build(**parameters)
    except DataError as error:
        raise DataError(f"data {name!r}: {error}") from error
    except OSError as error:
        raise DataError(
            f"data {name!r}: {error.filename or spec[named[0]]} cannot be read ({error.strerror})"
        ) from error
    return data


def _which(spec: Mapping[str, Any], named: list[str], loaders: list[str]) -> str:
    if named:
        return f"the keys {' and '.join(named)} both name a loader; one data set is read by one of them"
    found = ", ".join(f"{key}{registry.did_you_mean(key, loaders)}" for key in spec) or "nothing"
    return f"no key names a loader, found: {found}; one of {', '.join(loaders)} is needed"


def _reason(error: ValueError) -> str:
    """What pydantic found, in one line."""
    details = getattr(error, "errors", None)
    if details is None:
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, e['loc']))}: {e['msg']} (found {e['input']!r})" for e in details()
    )
