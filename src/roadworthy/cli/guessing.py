"""What a path is: the subject or the data of an assessment, from its name and a look inside. Nothing is imported or run.

>>> subject_at("http://127.0.0.1:8000", Path()).keys
{'server': 'http://127.0.0.1:8000', 'model': 'model'}
>>> data_at("fashion-mnist", Path()).keys
{'bundled': 'fashion-mnist', 'split': 'test'}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roadworthy.cli import columns, python_source
from roadworthy.data.samples import DataError
from roadworthy.subject.module import SubjectError

PREDICTIONS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".npz")
TABLES = (".csv", ".tsv")
DATA_OF_TEST = "data 'test': "
WEIGHTS = (".safetensors", ".pt", ".pth")
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
        return Guess(
            {"server": path, "model": "model"},
            remarks=("model: the name of the model on the server",),
        )
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
    if suffix in PREDICTIONS or (
        file.is_dir() and any(p.suffix.lower() in PREDICTIONS for p in file.iterdir())
    ):
        return Guess({"predictions": path}, absent=not file.exists())
    raise SubjectError(
        f"{path} is no subject that can be recognised; it may be a .py file, .onnx, .safetensors or .pt beside the model's .py, "
        f"an http:// address, or predictions ({', '.join(PREDICTIONS)}, or a folder of them)"
    )


def data_at(path: str, base: Path, *, target: str | None = None, task: str | None = None) -> Guess:
    """The test section for a path; `target` names the column or array to predict, `task` says what it is."""
    if path in (BUNDLED, f"bundled:{BUNDLED}"):
        return Guess({"bundled": BUNDLED, "split": "test"}, "classification")
    place = base / path
    if not place.exists():
        raise DataError(f"there is no data at {path}, seen from {base.resolve()}")
    if place.is_dir():
        return _folder(path, place, target, task)
    name, suffix = place.name.lower().removesuffix(".gz"), place.suffix.lower()
    readers = {".json": _json, ".jsonl": _goals, ".ndjson": _goals}
    if "ubyte" in name or name.endswith(".idx"):
        return _idx(path, place)
    if suffix == ".npz":
        return _npz(path, place, target)
    if suffix in TABLES:
        return _csv(path, place, target, task)
    if suffix in readers:
        return readers[suffix](path, place)
    raise DataError(
        f"{path} is no data that can be recognised; it may be a folder of images by class, .npz, idx files, COCO .json, .csv, "
        "a folder of .wav with .txt, MOTChallenge sequences, or .jsonl with goals"
    )


def candidates(folder: Path) -> tuple[str | None, str | None]:
    """The likeliest subject and data in a folder, by name and a look inside."""
    names = sorted(
        p.name for p in folder.iterdir() if not p.name.startswith(".") and p.name != "runs"
    )
    subject = data = None
    for name in names:
        role = _role(folder, name)
        if role == "subject" and (subject is None or _rank(name) < _rank(subject)):
            subject = name
        elif role == "data" and (
            data is None or _data_rank(folder, name) < _data_rank(folder, data)
        ):
            data = name
    return subject, data


def with_metadata(data: Guess, path: str, base: Path) -> Guess:
    """The data with a table beside it whose column `id` names its samples; one that does not fit is a remark."""
    from roadworthy.data.samples import load

    folder = (base / path).parent if path not in (BUNDLED, f"bundled:{BUNDLED}") else base
    beside = sorted(folder.iterdir()) if folder.is_dir() else []
    for file in beside:
        if file.suffix.lower() not in TABLES or file == base / path or _predictions(file.name):
            continue
        header = columns.read(file).header
        if "id" not in header:
            continue
        shown = (Path(path).parent / file.name).as_posix()
        try:
            load({**data.keys, "metadata": shown}, base=base, name="test")
        except (DataError, ImportError, OSError) as error:
            remark = (
                f"metadata: {shown}   # does not fit yet: {str(error).removeprefix(DATA_OF_TEST)}"
            )
            return replace(data, remarks=(*data.remarks, remark))
        others = ", ".join(h for h in header if h != "id")
        remark = f"{shown} has the columns {others}: for slices, where and group"
        return replace(data, keys={**data.keys, "metadata": shown}, remarks=(*data.remarks, remark))
    return data


def _role(folder: Path, name: str) -> str:
    place = folder / name
    suffix = place.suffix.lower()
    if suffix in (".onnx", *WEIGHTS) or (suffix == ".py" and python_source.read(place).usable):
        return "subject"
    if suffix in PREDICTIONS and _predictions(name):
        return "subject"
    try:
        data_at(name, folder)
    except (DataError, OSError, ValueError):
        return ""
    return "data"


def _predictions(name: str) -> bool:
    return any(word in name.lower() for word in ("pred", "answer", "output"))


def _data_rank(folder: Path, name: str) -> tuple[int, bool]:
    """A table that names its inputs before other forms, those before bare tables (which may be metadata), then by name."""
    if Path(name).suffix.lower() not in TABLES:
        kind = 1
    else:
        kind = 0 if columns.read(folder / name).whole else 2
    return kind, "test" not in name.lower()


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
            f"no {name!r}"
            if name
            else "no function of one input, and no function or class that builds a torch model"
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
        p
        for p in sorted(file.parent.glob("*.py"))
        if (d := python_source.read(p).best()) and d.adapter == "torch"
    ]
    models.sort(key=lambda p: p.name != "model.py")
    if not models:
        raise SubjectError(
            f"{path} holds weights; the .py file that builds the model was expected beside it"
        )
    best = python_source.read(models[0]).best()
    assert best is not None
    return Guess(
        {"torch": f"{(Path(path).parent / models[0].name).as_posix()}:{best.name}", "weights": path}
    )


def _folder(path: str, place: Path, target: str | None, task: str | None) -> Guess:
    inside = sorted(place.iterdir())
    if any((p / "img1").is_dir() for p in inside):
        return Guess({"frames": path}, "tracking")
    if {".wav"} <= {p.suffix.lower() for p in inside} and any(
        p.suffix.lower() == ".txt" or p.name == "transcription" for p in inside
    ):
        return Guess({"audio": path}, "speech")
    idx = [p for p in inside if "images" in p.name and "ubyte" in p.name]
    if idx:
        chosen = next((p for p in idx if "t10k" in p.name or "test" in p.name), idx[0])
        return _idx((Path(path) / chosen.name).as_posix(), chosen)
    if any(f.suffix.lower() in columns.PICTURES for p in inside if p.is_dir() for f in p.iterdir()):
        return Guess({"image_folder": path}, "classification")
    tables = [p for p in inside if p.suffix.lower() in (".npz", ".csv", ".json")]
    if len(tables) == 1:
        above = Path(*place.parts[: -len(Path(path).parts)] or ["."])
        return data_at((Path(path) / tables[0].name).as_posix(), above, target=target, task=task)
    raise DataError(
        f"the folder {path} holds no data that can be recognised; images in one subfolder a class, .wav with .txt, idx files or "
        "MOTChallenge sequences were expected, or name a file in it"
    )


def _idx(path: str, place: Path) -> Guess:
    labels = place.name.replace("images", "labels").replace("idx3", "idx1")
    if labels == place.name or not (place.parent / labels).is_file():
        raise DataError(
            f"{path} holds images; the file of their labels ({labels}) was expected beside it"
        )
    return Guess({"idx": path, "labels": (Path(path).parent / labels).as_posix()}, "classification")


def _npz(path: str, place: Path, target: str | None) -> Guess:
    import numpy as np

    with np.load(place, allow_pickle=False) as archive:
        names = list(archive.files)
        shapes = {n: archive[n].shape for n in names}
        kinds = {n: archive[n].dtype.kind for n in names}
    keys: dict[str, Any] = {"npz": path}
    images = _first(names, "images", "x_test", "x", "inputs", "features") or next(
        (n for n in names if len(shapes[n]) in (3, 4)), None
    )
    numbers = [n for n in names if n != images and len(shapes[n]) == 1 and kinds[n] in "iuf"]
    labels = target or _first(names, "labels", "label", "y_test", "y", "targets", "target")
    labels = labels or (numbers[0] if len(numbers) == 1 else None)
    if images is None or labels not in names:
        raise DataError(
            f"{path} holds the arrays {', '.join(names)}; images and labels were expected among them; "
            "--target names the array to predict"
        )
    keys |= {"images": images} if images != "images" else {}
    keys |= {"labels": labels} if labels != "labels" else {}
    task = "regression" if kinds[labels] == "f" else "classification"
    return Guess(keys, task, vectors=len(shapes[images]) < 3)


def _first(names: list[str], *wanted: str) -> str | None:
    return next((n for w in wanted for n in names if n.lower() == w), None)


def _csv(path: str, place: Path, target: str | None, task: str | None) -> Guess:
    found = columns.read(place, target=target, task=task)
    if found.speech:
        return Guess({"audio": path}, "speech")
    if found.target is None or (found.image is None and not found.features):
        raise DataError(
            f"{path} has the columns {', '.join(found.header)}; an image or features, and a column to predict, were "
            "expected; --target names the column to predict, --data other data"
        )
    keys: dict[str, Any] = {"csv": path}
    if found.image is None:
        keys["features"] = list(found.features)
    elif found.image != "image":
        keys["image"] = found.image
    if found.numeric:
        keys["target"] = found.target
    elif found.target != "label":
        keys["label"] = found.target
    place_of = "first" if found.image else "last"
    remark = f"{found.target} is the {place_of} column of numbers; name the one to predict (or use init --target)"
    return Guess(
        keys,
        "regression" if found.numeric else "classification",
        () if found.named else (remark,),
        vectors=found.image is None,
    )


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
