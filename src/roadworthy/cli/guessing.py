"""What a path is: the subject or the data of an assessment, from its name and a look inside. Nothing is imported or run.

>>> subject_at("http://127.0.0.1:8000", Path()).keys
{'server': 'http://127.0.0.1:8000', 'model': 'model'}
>>> data_at("fashion-mnist", Path()).keys
{'bundled': 'fashion-mnist', 'split': 'test'}
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roadworthy.cli import python_source
from roadworthy.data.samples import DataError
from roadworthy.subject.module import SubjectError

PREDICTIONS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".npz")
WEIGHTS = (".safetensors", ".pt", ".pth")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
BUNDLED = "fashion-mnist"


@dataclass(frozen=True)
class Guess:
    """What was found: the keys of the file's section, the task it speaks for, and what a reader should know."""

    keys: dict[str, Any]
    task: str = ""
    remarks: tuple[str, ...] = field(default=())
    absent: bool = False
    """Whether the file is not there yet."""
    vectors: bool = False
    """Whether the inputs are rows of numbers, which no transform changes."""


def subject_at(path: str, base: Path) -> Guess:
    """The subject section for a path, seen from the folder of the assessment file."""
    if path.startswith(("http://", "https://")):
        return Guess({"server": path, "model": "model"}, remarks=("model: the name of the model on the server",))
    place, colon, name = path.rpartition(":")
    if colon and place.endswith(".py"):
        return _python(base, place, name)
    file = base / path
    suffix = file.suffix.lower()
    if suffix == ".py":
        return _python(base, path)
    if suffix == ".onnx":
        return Guess({"onnx": path})
    if suffix in WEIGHTS:
        return _weights(base, path)
    if suffix in PREDICTIONS or (file.is_dir() and any(p.suffix.lower() in PREDICTIONS for p in file.iterdir())):
        return Guess({"predictions": path}, absent=not file.exists())
    raise SubjectError(
        f"{path} is no subject that can be recognised; it may be a .py file, .onnx, .safetensors or .pt beside the model's .py, "
        f"an http:// address, or predictions ({', '.join(PREDICTIONS)}, or a folder of them)"
    )


def data_at(path: str, base: Path) -> Guess:
    """The test section for a path."""
    if path in (BUNDLED, f"bundled:{BUNDLED}"):
        return Guess({"bundled": BUNDLED, "split": "test"}, "classification")
    place = base / path
    if not place.exists():
        raise DataError(f"there is no data at {path}, seen from {base.resolve()}")
    if place.is_dir():
        return _folder(path, place)
    name = place.name.lower().removesuffix(".gz")
    readers = {".npz": _npz, ".csv": _csv, ".tsv": _csv, ".json": _json, ".jsonl": _goals, ".ndjson": _goals}
    if "ubyte" in name or name.endswith(".idx"):
        return _idx(path, place)
    if place.suffix.lower() in readers:
        return readers[place.suffix.lower()](path, place)
    raise DataError(
        f"{path} is no data that can be recognised; it may be a folder of images by class, .npz, idx files, COCO .json, .csv, "
        "a folder of .wav with .txt, MOTChallenge sequences, or .jsonl with goals"
    )


def candidates(folder: Path) -> tuple[str | None, str | None]:
    """The likeliest subject and data in a folder, by name."""
    names = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".") and p.name != "runs")
    subject = data = None
    for name in names:
        role = _role(folder, name)
        if role == "subject" and (subject is None or _rank(name) < _rank(subject)):
            subject = name
        elif role == "data" and (data is None or ("test" in name and "test" not in data)):
            data = name
    return subject, data


def _role(folder: Path, name: str) -> str:
    place = folder / name
    suffix = place.suffix.lower()
    if suffix in (".onnx", *WEIGHTS) or (suffix == ".py" and python_source.read(place).usable):
        return "subject"
    if suffix in (".npz", ".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"):
        return "subject" if any(w in name.lower() for w in ("pred", "answer", "output")) else "data"
    try:
        data_at(name, folder)
    except (DataError, OSError, ValueError):
        return ""
    return "data"


def _rank(name: str) -> int:
    order = (".onnx", ".py", *WEIGHTS)
    suffix = Path(name).suffix.lower()
    return order.index(suffix) if suffix in order else len(order)


def _python(base: Path, path: str, name: str = "") -> Guess:
    file = base / path
    if not file.is_file():
        raise SubjectError(f"there is no file {path}, seen from {base.resolve()}")
    source = python_source.read(file)
    found = next((d for d in source.definitions if d.name == name), None) if name else source.best()
    if found is None:
        what = (
            f"no {name!r}" if name else "no function of one input, and no function or class that builds a torch model"
        )
        raise SubjectError(f"{path} has {what}; name one as {path}:NAME")
    keys: dict[str, Any] = {found.adapter: f"{path}:{found.name}"}
    if found.adapter == "torch":
        beside = sorted(p.name for p in file.parent.iterdir() if p.suffix in WEIGHTS)
        if len(beside) == 1:
            keys["weights"] = (Path(path).parent / beside[0]).as_posix()
    return Guess(keys)


def _weights(base: Path, path: str) -> Guess:
    file = base / path
    if not file.is_file():
        raise SubjectError(f"there is no file {path}, seen from {base.resolve()}")
    models = [
        p for p in sorted(file.parent.glob("*.py")) if (d := python_source.read(p).best()) and d.adapter == "torch"
    ]
    models.sort(key=lambda p: p.name != "model.py")
    if not models:
        raise SubjectError(f"{path} holds weights; the .py file that builds the model was expected beside it")
    best = python_source.read(models[0]).best()
    assert best is not None
    return Guess({"torch": f"{(Path(path).parent / models[0].name).as_posix()}:{best.name}", "weights": path})


def _folder(path: str, place: Path) -> Guess:
    inside = sorted(place.iterdir())
    if any((p / "img1").is_dir() for p in inside):
        return Guess({"frames": path}, "tracking")
    if any(p.suffix.lower() == ".wav" for p in inside):
        return Guess({"audio": path}, "speech")
    idx = [p for p in inside if "images" in p.name and "ubyte" in p.name]
    if idx:
        chosen = next((p for p in idx if "t10k" in p.name or "test" in p.name), idx[0])
        return _idx((Path(path) / chosen.name).as_posix(), chosen)
    if any(f.suffix.lower() in IMAGES for p in inside if p.is_dir() for f in p.iterdir()):
        return Guess({"image_folder": path}, "classification")
    tables = [p for p in inside if p.suffix.lower() in (".npz", ".csv", ".json")]
    if len(tables) == 1:
        return data_at((Path(path) / tables[0].name).as_posix(), Path(*place.parts[: -len(Path(path).parts)] or ["."]))
    raise DataError(
        f"the folder {path} holds no data that can be recognised; images in one subfolder a class, .wav with .txt, idx files or "
        "MOTChallenge sequences were expected, or name a file in it"
    )


def _idx(path: str, place: Path) -> Guess:
    labels = place.name.replace("images", "labels").replace("idx3", "idx1")
    if labels == place.name or not (place.parent / labels).is_file():
        raise DataError(f"{path} holds images; the file of their labels ({labels}) was expected beside it")
    return Guess({"idx": path, "labels": (Path(path).parent / labels).as_posix()}, "classification")


def _npz(path: str, place: Path) -> Guess:
    import numpy as np

    with np.load(place, allow_pickle=False) as archive:
        names = list(archive.files)
        shapes = {n: archive[n].shape for n in names}
        kinds = {n: archive[n].dtype.kind for n in names}
    keys: dict[str, Any] = {"npz": path}
    images = _first(names, "images", "x_test", "x", "inputs", "features") or next(
        (n for n in names if len(shapes[n]) in (3, 4)), None
    )
    labels = _first(names, "labels", "y_test", "y", "targets", "target")
    if images is None or labels is None:
        raise DataError(f"{path} holds the arrays {', '.join(names)}; images and labels were expected among them")
    keys |= {"images": images} if images != "images" else {}
    keys |= {"labels": labels} if labels != "labels" else {}
    task = "regression" if kinds[labels] == "f" else "classification"
    return Guess(keys, task, vectors=len(shapes[images]) < 3)


def _first(names: list[str], *wanted: str) -> str | None:
    return next((n for w in wanted for n in names if n.lower() == w), None)


def _csv(path: str, place: Path) -> Guess:
    with place.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter="\t" if place.suffix.lower() == ".tsv" else ",")
        header, first = next(reader, []), next(reader, [])
    if {"audio", "transcript"} <= set(header):
        return Guess({"audio": path}, "speech")
    label = _first(header, "label", "class", "target", "y")
    keys: dict[str, Any] = {"csv": path}
    image = _first(header, "image", "file", "filename", "path")
    if image is None:
        features = [h for h, cell in zip(header, first, strict=False) if h not in (label, "id") and _number(cell)]
        keys["features"] = features
    elif image != "image":
        keys["image"] = image
    if label is None:
        numbers = [h for h, cell in zip(header, first, strict=False) if h != image and _number(cell)]
        if image is None or not numbers:
            raise DataError(
                f"{path} has the columns {', '.join(header)}; a column label, or a number to predict, was expected"
            )
        keys |= {"label": None, "target": numbers[0]}
        return Guess(
            keys, "regression", (f"target: {numbers[0]} is the first column of numbers; name the one to predict",)
        )
    keys |= {"label": label} if label != "label" else {}
    return Guess(keys, "classification", vectors=image is None)


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _json(path: str, place: Path) -> Guess:
    document = json.loads(place.read_text(encoding="utf-8"))
    if isinstance(document, dict) and {"images", "annotations"} <= set(document):
        return Guess({"coco": path, "images": _image_folder(path, place, document)}, "detection")
    if isinstance(document, list):
        return _goals(path, place)
    raise DataError(f"{path} is neither COCO (images and annotations) nor a list of goals")


def _image_folder(path: str, place: Path, document: dict[str, Any]) -> str:
    """The folder beside a COCO file in which its first image lies."""
    first = document["images"][0]["file_name"] if document["images"] else ""
    folders = [place.parent, *sorted(p for p in place.parent.iterdir() if p.is_dir())]
    found = next((f for f in folders if (f / first).is_file()), place.parent / "images")
    return (Path(path).parent / found.relative_to(place.parent)).as_posix()


def _goals(path: str, place: Path) -> Guess:
    return Guess({"dialogue": path}, "dialogue")
