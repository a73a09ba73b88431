"""What a path is: the subject or the data of an assessment, by its ending and a look inside.

Nothing is imported or run. What is not certain is left out, or marked for the user to check.

>>> subject_at("http://127.0.0.1:8000", Path()).keys
{'server': 'http://127.0.0.1:8000', 'model': 'model'}
>>> data_at("fashion-mnist", Path()).keys
{'bundled': 'fashion-mnist', 'split': 'test'}
"""

from __future__ import annotations

import ast
import csv
import itertools
import json
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from roadworthy.data.loaders.joining import in_order
from roadworthy.data.samples import DataError
from roadworthy.subject.module import SubjectError

PREDICTIONS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".npz")
WEIGHTS = (".safetensors", ".pt", ".pth")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
BUNDLED = "fashion-mnist"
FUNCTIONS = ("build", "predict", "load", "model", "make", "create", "transcribe", "detect", "main")
"""Names of functions that are likely the subject, likeliest first."""
LABELS, TARGETS = ("label", "labels", "class", "category"), ("target", "targets", "y", "y_test")
"""Names of columns and arrays that are to be predicted: classes, and classes or numbers."""
INPUTS = ("images", "x_test", "x", "inputs", "features")
LOOKED_AT = 2000
"""Rows of a table that are looked at."""


@dataclass(frozen=True)
class Discovery:
    """What a path is: keys of the assessment file, and the task they speak for."""

    keys: dict[str, Any]
    task: str = ""
    guessed: bool = False
    """Whether a key is a guess, for the user to check."""
    absent: bool = False
    """Whether the file is not there yet."""
    vectors: bool = False
    """Whether inputs are rows of numbers, which no transform changes."""
    classes: tuple[str, ...] = ()
    """The labels, in the order in which outputs are taken to stand for them."""


def subject_at(path: str, base: Path) -> Discovery:
    """The subject section for a path, seen from the folder of the assessment file."""
    if path.startswith(("http://", "https://")):
        return Discovery({"server": path, "model": "model"}, guessed=True)
    place, _, name = path.partition(".py:") if ".py:" in path else (path, "", "")
    file = base / (f"{place}.py" if name else path)
    suffix = file.suffix.lower()
    if suffix == ".py":
        return _python(f"{place}.py" if name else path, file, name)
    if suffix == ".onnx":
        return Discovery({"onnx": path})
    if suffix in WEIGHTS:
        if not (file.parent / "model.py").is_file():
            raise SubjectError(f"{path} holds weights; expected model.py, which builds it, beside")
        found = _python((Path(path).parent / "model.py").as_posix(), file.parent / "model.py", "")
        return replace(found, keys={**found.keys, "weights": path})
    inside = [p.suffix.lower() for p in file.iterdir()] if file.is_dir() else [suffix]
    if any(s in PREDICTIONS for s in inside):
        return Discovery({"predictions": path}, absent=not file.exists())
    raise SubjectError(
        f"{path} is no known subject; expected a .py file, .onnx, .safetensors or .pt beside "
        f"model.py, an http:// address, or predictions ({', '.join(PREDICTIONS)})"
    )


def data_at(path: str, base: Path, *, target: str | None = None) -> Discovery:
    """The test section for a path; `target` names the column or array to predict."""
    if path in (BUNDLED, f"bundled:{BUNDLED}"):
        return Discovery({"bundled": BUNDLED, "split": "test"}, "classification")
    place = base / path
    if not place.exists():
        raise DataError(f"there is no data at {path}, seen from {base.resolve()}")
    if place.is_dir():
        return _folder(path, place)
    suffix = place.suffix.lower()
    if "ubyte" in place.name.lower() or suffix == ".idx":
        return _idx(path, place)
    if suffix == ".npz":
        return _npz(path, place, target)
    if suffix in (".csv", ".tsv"):
        return _csv(path, place, target)
    if suffix in (".jsonl", ".ndjson"):
        return Discovery({"dialogue": path}, "dialogue")
    if suffix == ".json":
        return _json(path, place)
    raise DataError(
        f"{path} is no known form of data; expected a folder of images by class, .npz, idx files, "
        "COCO .json, .csv, a folder of .wav with .txt, MOTChallenge sequences, or .jsonl with goals"
    )


def candidates(folder: Path, *, target: str | None = None) -> tuple[list[str], list[str]]:
    """What could be the subject, and what the data; only what is called test, if anything is."""
    subjects, data = [], []
    for place in sorted(folder.iterdir()):
        name, suffix = place.name, place.suffix.lower()
        if name.startswith(".") or name == "runs":
            continue
        answers = any(word in name.lower() for word in ("pred", "answer", "output"))
        try:
            if suffix in (".py", ".onnx") or (suffix in PREDICTIONS and answers):
                subject_at(name, folder)
                subjects.append(name)
            else:
                data_at(name, folder, target=target)
                data.append(name)
        except (DataError, SubjectError, OSError, ValueError):
            continue
    return subjects, [name for name in data if "test" in name.lower()] or data


def _python(path: str, file: Path, name: str) -> Discovery:
    """A function or class of a Python file; what takes no argument builds a model."""
    if not file.is_file():
        raise SubjectError(f"there is no file {path}")
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise SubjectError(f"{path} cannot be read: {error}") from error
    defined = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    functions = [n for n, node in defined.items() if isinstance(node, ast.FunctionDef)]
    likely = [n for n in FUNCTIONS if n in functions] or (functions or list(defined))[:2]
    chosen = name or (likely[0] if likely and (len(likely) == 1 or likely[0] in FUNCTIONS) else "")
    if chosen not in defined:
        raise SubjectError(f"{path}: name the function or class, as in {path}:predict")
    node = defined[chosen]
    takes_input = isinstance(node, ast.FunctionDef) and (
        len(node.args.args) > len(node.args.defaults)
    )
    builds_system = "System(" in ast.unparse(tree)
    adapter = "python" if takes_input else "system" if builds_system else "torch"
    keys: dict[str, Any] = {adapter: f"{path}:{chosen}"}
    weights = sorted(p.name for p in file.parent.iterdir() if p.suffix in WEIGHTS)
    if adapter == "torch" and len(weights) == 1:
        keys["weights"] = (Path(path).parent / weights[0]).as_posix()
    return Discovery(keys, guessed=not name and len(defined) > 1)


def _folder(path: str, place: Path) -> Discovery:
    inside = sorted(place.iterdir())
    suffixes = {p.suffix.lower() for p in inside}
    if any((p / "img1").is_dir() for p in inside):
        return Discovery({"frames": path}, "tracking")
    if ".wav" in suffixes and (".txt" in suffixes or (place / "transcription").exists()):
        return Discovery({"audio": path}, "speech")
    if (place / "images").is_dir() and (place / "masks").is_dir():
        both = {"image_folder": f"{path}/images", "masks": f"{path}/masks"}
        return Discovery(both, "segmentation")
    idx = [p for p in inside if "images" in p.name and "ubyte" in p.name]
    if idx:
        chosen = next((p for p in idx if "t10k" in p.name or "test" in p.name), idx[0])
        return _idx((Path(path) / chosen.name).as_posix(), chosen)
    if any(f.suffix.lower() in PICTURES for p in inside if p.is_dir() for f in p.iterdir()):
        classes = in_order(p.name for p in inside if p.is_dir() and not p.name.startswith("."))
        return Discovery({"image_folder": path}, "classification", classes=classes)
    raise DataError(
        f"the folder {path} holds no known form of data; expected images in one subfolder a class, "
        ".wav with .txt, idx files or MOTChallenge sequences, or name a file in it"
    )


def _idx(path: str, place: Path) -> Discovery:
    labels = place.name.replace("images", "labels").replace("idx3", "idx1")
    if labels == place.name or not (place.parent / labels).is_file():
        raise DataError(f"{path} holds images; expected their labels ({labels}) beside it")
    return Discovery(
        {"idx": path, "labels": (Path(path).parent / labels).as_posix()}, "classification"
    )


def _npz(path: str, place: Path, target: str | None) -> Discovery:
    import numpy as np

    with np.load(place, allow_pickle=False) as archive:
        shapes = {name: archive[name].shape for name in archive.files}
        kinds = {name: archive[name].dtype.kind for name in archive.files}
    images = _first(shapes, INPUTS)
    labels = target or _first(shapes, (*LABELS, *TARGETS))
    if images is None or labels not in shapes:
        raise DataError(
            f"{path} holds the arrays {', '.join(shapes)}; expected images and labels; --target "
            "names the array to predict"
        )
    keys: dict[str, Any] = {"npz": path}
    keys |= {"images": images} if images != "images" else {}
    keys |= {"labels": labels} if labels != "labels" else {}
    task = "regression" if kinds[labels] == "f" else "classification"
    return Discovery(keys, task, vectors=len(shapes[images]) < 3)


def _csv(path: str, place: Path, target: str | None) -> Discovery:
    """A table of images or features; the column to predict goes by a name that says so."""
    with place.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter="\t" if place.suffix.lower() == ".tsv" else ",")
        header = [cell.strip() for cell in next(reader, [])]
        rows = [row for row in itertools.islice(reader, LOOKED_AT) if len(row) == len(header)]
    cells = {name: [row[at] for row in rows] for at, name in enumerate(header)}
    if {"audio", "transcript"} <= set(header):
        return Discovery({"audio": path}, "speech")
    chosen = target or _first(cells, (*LABELS, *TARGETS))
    pictured = [
        n for n in header if cells[n] and all(c.lower().endswith(PICTURES) for c in cells[n])
    ]
    features = [n for n in header if n != chosen and n.lower() != "id" and _numbers(cells[n])]
    if chosen not in cells or not (pictured or features):
        raise DataError(
            f"{path} has the columns {', '.join(header)}; expected an image or features, and a "
            "column to predict; --target names it"
        )
    numeric = (
        chosen.lower() not in LABELS
        and _numbers(cells[chosen])
        and not all(float(c).is_integer() for c in cells[chosen])
    )
    keys: dict[str, Any] = {"csv": path}
    if not pictured:
        keys["features"] = features
    elif pictured[0] != "image":
        keys["image"] = pictured[0]
    if numeric or chosen != "label":
        keys["target" if numeric else "label"] = chosen
    task = "regression" if numeric else "classification"
    classes = () if numeric else in_order(set(cells[chosen]))
    return Discovery(keys, task, not pictured, vectors=not pictured, classes=classes)


PREPARATION = ("scale", "mean", "std", "layout", "channels", "colour", "dtype")


def preparation_at(subject: Discovery, base: Path) -> tuple[dict[str, Any], bool]:
    """How images become a model's input, and whether its files say so; else it is assumed."""
    assumed: dict[str, Any] = {"scale": 255, "layout": "nchw", "colour": "rgb"}
    stored: dict[str, str] = {}
    weights, model = subject.keys.get("weights"), subject.keys.get("onnx")
    if weights and str(weights).endswith(".safetensors") and (base / weights).is_file():
        with (base / weights).open("rb") as content:
            header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
        stored = header.get("__metadata__", {})
    elif model and find_spec("onnx") and (base / model).is_file():
        import onnx

        found = onnx.load(str(base / model), load_external_data=False)
        stored = {prop.key: prop.value for prop in found.metadata_props}
    stated = {}
    for key in (k for k in PREPARATION if k in stored):
        try:
            stated[key] = json.loads(stored[key])
        except ValueError:
            stated[key] = stored[key]
    return (stated, True) if stated else (assumed, False)


def _json(path: str, place: Path) -> Discovery:
    document = json.loads(place.read_text(encoding="utf-8"))
    if isinstance(document, list):
        return Discovery({"dialogue": path}, "dialogue")
    if not isinstance(document, dict) or not {"images", "annotations"} <= set(document):
        raise DataError(f"{path} is neither COCO (images and annotations) nor a list of goals")
    first = document["images"][0]["file_name"] if document["images"] else ""
    folders = [place.parent, *sorted(p for p in place.parent.iterdir() if p.is_dir())]
    images = next((f for f in folders if (f / first).is_file()), place.parent / "images")
    shown = (Path(path).parent / images.relative_to(place.parent)).as_posix()
    return Discovery({"coco": path, "images": shown}, "detection")


def _first(names: dict[str, Any], wanted: tuple[str, ...]) -> str | None:
    return next((n for w in wanted for n in names if n.lower() == w), None)


def _numbers(cells: list[str]) -> bool:
    try:
        return bool(cells) and all(float(c) == float(c) for c in cells)
    except ValueError:
        return False
