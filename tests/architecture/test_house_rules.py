"""Rules of the house that a person could break by accident: import order, exported names, what is never used, size."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import roadworthy

SOURCE = Path(roadworthy.__file__).parent
PROJECT = Path(__file__).parents[2]
ORDER = [
    "registry",
    "statistics",
    "finding",
    "data",
    "distances",
    "measures",
    "subject",
    "generative",
    "search",
    "cases",
    "supervisors",
    "analysis",
    "claims",
    "spec",
    "store",
    "monitor",
    "report",
    "execution",
    "web",
    "cli",
    "conformance",
]
FILES = sorted(SOURCE.rglob("*.py"))
each_file = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))


def room_of(module: str) -> str:
    """``data`` for ``roadworthy.data.loaders.coco``."""
    return module.split(".")[1] if module.count(".") else ""


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module of ours that a file imports, wherever in the file."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "roadworthy")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            if base == "roadworthy":
                yield from ((node.lineno, f"roadworthy.{alias.name}") for alias in node.names)
            elif base.startswith("roadworthy."):
                yield node.lineno, base


@each_file
def test_a_room_imports_only_from_rooms_above_it(path):
    own = room_of(module_of(path))
    if not own:
        return
    assert own in ORDER, f"{own} is not a room of the house; give it a place in the order"
    for line, module in imports(path):
        other = room_of(module)
        if other == "__version__":
            continue
        assert not other or ORDER.index(other) <= ORDER.index(own), (
            f"{path}:{line}: {own} imports {module}, which is below it"
        )


def test_the_reader_of_imports_reads_all_forms():
    package = SOURCE / "data" / "loaders" / "none.py"
    forms = "import roadworthy.spec\nfrom roadworthy import claims\nfrom ..values import KINDS\ndef f():\n from .. import samples\n"

    class Fake(type(package)):  # a path that holds these lines
        def read_text(self, *args, **kwargs):
            return forms

    found = [module for _, module in imports(Fake(package))]
    assert sorted(found) == ["roadworthy.claims", "roadworthy.data", "roadworthy.data.values", "roadworthy.spec"]


@each_file
def test_every_exported_name_exists(path):
    module = importlib.import_module(module_of(path))
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name), f"{module.__name__} exports {name!r}, which it does not have"


@each_file
def test_no_pickle_no_eval_no_shell(path):
    for node in ast.walk(ast.parse(path.read_text())):
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not {n.split(".")[0] for n in names} & {"pickle", "cPickle", "dill", "cloudpickle", "joblib"}, where
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            assert called not in ("eval", "exec"), where
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            assert (attribute, getattr(getattr(node.func, "value", None), "id", "")) != ("system", "os"), where
            for keyword in node.keywords:
                true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                assert not (keyword.arg in ("shell", "allow_pickle") and true), where
                false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                assert not (keyword.arg == "weights_only" and false), where


@each_file
def test_nobody_branches_on_the_task_but_values_and_loaders(path):
    if room_of(module_of(path)) == "data":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare):
            continue
        operands = [node.left, *node.comparators]
        fixed = any(isinstance(o, ast.Constant) and isinstance(o.value, str) for o in operands)
        assert not (fixed and any(map(is_task, operands))), (
            f"{path}:{node.lineno}: dispatch on the kind, not on the task"
        )


def is_task(node: ast.expr) -> bool:
    """``task``, ``spec.task``, ``task.name`` or ``subject["task"]``; what a task takes and gives is another thing."""
    if isinstance(node, ast.Attribute) and node.attr == "name":
        return is_task(node.value)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == "task"
    return (node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")) == "task"


def test_a_branch_on_the_task_is_seen_in_all_its_forms():
    for text, seen in (
        ("task", True),
        ("spec.task", True),
        ("task.name", True),
        ("subject['task']", True),
        ("task.output.name", False),
    ):
        assert is_task(ast.parse(text, mode="eval").body) is seen


@each_file
def test_files_stay_small(path):
    lines = len(path.read_text().splitlines())
    assert lines <= 400, f"{path} has {lines} lines; a file that long holds more than one thought"


@each_file
def test_a_module_says_what_it_is_for(path):
    content = path.read_text()
    assert not content.strip() or ast.get_docstring(ast.parse(content))


@each_file
def test_no_loose_ends_and_no_drawers_for_everything(path):
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", path.read_text())
    assert not {p.removesuffix(".py") for p in path.relative_to(SOURCE).parts} & {
        "utils",
        "util",
        "helpers",
        "common",
        "core",
    }


HEAVY = ("torch", "cv2", "scipy", "pyarrow", "pydantic", "onnxruntime", "jinja2", "typer", "yaml")


def loaded_after(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after running some code."""
    report = f"{code}\nimport sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import roadworthy") == set()


def test_looking_at_every_room_loads_neither_torch_nor_opencv_nor_onnxruntime():
    code = "from roadworthy import registry\nfor room in registry.ROOMS: registry.components(room)"
    assert not loaded_after(code) & {"torch", "cv2", "onnxruntime"}


def test_reading_an_assessment_loads_neither_torch_nor_opencv():
    code = (
        "from roadworthy.spec import Assessment\n"
        "Assessment.parse('subject: {task: detection, python: a.py:b}\\ndata: {test: {npz: a.npz}}', 'a.yaml')"
    )
    assert not loaded_after(code) & {"torch", "cv2", "onnxruntime", "pyarrow"}


def test_doctests_are_collected():
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "--doctest-modules" in settings["addopts"]
    assert "src" in settings["testpaths"]


def test_no_test_file_shares_its_name_with_another():
    # pytest imports test files by their bare names, so that two of one name hide each other
    names = [p.name for p in (PROJECT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
