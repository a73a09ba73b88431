"""Rules of the house that a person could break by accident: import order, exported names, what is never used, names."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import roadworthy

SOURCE = Path(roadworthy.__file__).parent
PROJECT = Path(__file__).parents[2]
ORDER = [
    "registry",
    "statistics",
    "numbers",
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
    "assessment",
    "conformance",
    "web",
    "cli",
    "__main__",
]
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Every node of a file; read once, whatever the number of rules."""
    return list(ast.walk(ast.parse(text_of(path))))


def breaches(rule: Callable[[Path], Iterator[str]]) -> list[str]:
    """What a rule finds wrong, in all files: one test says all of it."""
    assert len(FILES) > 100
    return [f"{path.relative_to(SOURCE)}{what}" for path in FILES for what in rule(path)]


def room_of(module: str) -> str:
    """``data`` for ``roadworthy.data.loaders.coco``."""
    return module.split(".")[1] if module.count(".") else ""


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_in(path: Path, node: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module of ours that a statement imports."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    if isinstance(node, ast.Import):
        yield from (
            (node.lineno, alias.name)
            for alias in node.names
            if alias.name.split(".")[0] == "roadworthy"
        )
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
        if base == "roadworthy":
            yield from ((node.lineno, f"roadworthy.{alias.name}") for alias in node.names)
        elif base.startswith("roadworthy."):
            yield node.lineno, base


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """The same of a whole file, wherever in it."""
    for node in nodes_of(path):
        yield from imports_in(path, node)


def imports_from_below(path: Path) -> Iterator[str]:
    own = room_of(module_of(path))
    if not own:
        return
    if own not in ORDER:
        yield f": {own} is not a room of the house; give it a place in the order"
        return
    for line, module in imports(path):
        other = room_of(module)
        if other and other != "__version__" and ORDER.index(other) > ORDER.index(own):
            yield f":{line}: {own} imports {module}, which is below it"


def test_a_room_imports_only_from_rooms_above_it():
    assert breaches(imports_from_below) == []


def test_the_reader_of_imports_reads_all_forms():
    package = SOURCE / "data" / "loaders" / "none.py"
    forms = "import roadworthy.spec\nfrom roadworthy import claims\nfrom ..values import KINDS\ndef f():\n from .. import samples\n"

    class Fake(type(package)):  # a path that holds these lines
        def read_text(self, *args, **kwargs):
            return forms

    found = [module for _, module in imports(Fake(package))]
    assert sorted(found) == [
        "roadworthy.claims",
        "roadworthy.data",
        "roadworthy.data.values",
        "roadworthy.spec",
    ]


SMALL = 60
"""Lines below which a file with one importer belongs into it."""
REASONS: dict[str, str] = {
    "conformance/executors.py": "rules stand in one file for each type of component",
    "conformance/sources.py": "rules stand in one file for each type of component",
}
"""Small files with one importer that stay, and why."""
SAME_NAME: dict[str, str] = {
    "add_to": "how every command adds itself to the application",
}
"""Public names that are defined more than once, and why."""


def is_component(node: ast.AST) -> bool:
    """Registered, and so called by its name in an assessment file."""
    decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", [])]
    return any(
        d.startswith(("register(", "registry.register(", "transform(", "geometry("))
        for d in decorators
    )


def importers() -> dict[str, set[str]]:
    """By file, the other files that import it; a name imported from a package counts for its module."""
    modules = {module_of(path): path for path in FILES}
    found: dict[str, set[str]] = {str(path.relative_to(SOURCE)): set() for path in FILES}
    for path in FILES:
        for node in nodes_of(path):
            imported = isinstance(node, ast.Import | ast.ImportFrom)
            names = [alias.name for alias in node.names] if imported else []
            for _, base in imports_in(path, node):
                for module in (base, *(f"{base}.{name}" for name in names)):
                    if module in modules and modules[module] != path:
                        found[str(modules[module].relative_to(SOURCE))].add(str(path))
    return found


def small_files() -> list[str]:
    """Files under 60 lines with exactly one importer; packages and files of components are none."""
    return sorted(
        name
        for name, by in importers().items()
        if len(by) == 1
        and text_of(SOURCE / name).count("\n") < SMALL
        and not name.endswith(("__init__.py", "__main__.py"))
        and not any(map(is_component, nodes_of(SOURCE / name)))
    )


def repeated_names() -> list[str]:
    """Public classes and functions that are defined at the top of more than one file."""
    places: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.parse(text_of(path)).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not node.name.startswith("_") and not is_component(node):
                places.setdefault(node.name, set()).add(str(path))
    return sorted(name for name, files in places.items() if len(files) > 1)


def test_a_small_file_with_one_importer_has_a_reason():
    assert set(small_files()) == set(REASONS), "merge it into its importer, or take it off the list"


def test_a_public_name_means_one_thing():
    assert set(repeated_names()) == set(SAME_NAME), "rename one of the two, or take it off the list"


def exports_of_nothing(path: Path) -> Iterator[str]:
    module = importlib.import_module(module_of(path))
    for name in getattr(module, "__all__", ()):
        if not hasattr(module, name):
            yield f": exports {name!r}, which it does not have"


def test_every_exported_name_exists():
    assert breaches(exports_of_nothing) == []


def unsafe(node: ast.AST) -> bool:
    """Imports a pickler, calls eval, exec or os.system, or asks for a shell, a pickle or weights that may hold code."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
        return bool(
            {n.split(".")[0] for n in names}
            & {"pickle", "cPickle", "dill", "cloudpickle", "joblib"}
        )
    if not isinstance(node, ast.Call):
        return False
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    owner = getattr(getattr(node.func, "value", None), "id", "")
    asked = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
    return (
        called in ("eval", "exec")
        or (owner, attribute) == ("os", "system")
        or any(asked.get(name) is True for name in ("shell", "allow_pickle"))
        or asked.get("weights_only") is False
    )


def test_what_is_unsafe_is_seen_in_all_its_forms():
    for text, seen in (
        ("import pickle", True),
        ("from joblib.x import load", True),
        ("eval('1')", True),
        ("os.system('ls')", True),
        ("run(a, shell=True)", True),
        ("np.load(a, allow_pickle=True)", True),
        ("torch.load(a, weights_only=False)", True),
        ("torch.load(a, weights_only=True)", False),
        ("run(a, shell=False)", False),
        ("import json", False),
        ("model.eval()", False),
    ):
        assert any(map(unsafe, ast.walk(ast.parse(text)))) is seen, text


def test_no_pickle_no_eval_no_shell():
    assert (
        breaches(lambda path: (f":{node.lineno}" for node in nodes_of(path) if unsafe(node))) == []
    )


def branches_on_the_task(path: Path) -> Iterator[str]:
    if room_of(module_of(path)) == "data":
        return
    for node in nodes_of(path):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            fixed = any(isinstance(o, ast.Constant) and isinstance(o.value, str) for o in operands)
            if fixed and any(map(is_task, operands)):
                yield f":{node.lineno}: dispatch on the kind, not on the task"


def test_nobody_branches_on_the_task_but_values_and_loaders():
    assert breaches(branches_on_the_task) == []


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


def says_nothing(path: Path) -> Iterator[str]:
    if text_of(path).strip() and not ast.get_docstring(nodes_of(path)[0]):
        yield ": no docstring says what it is for"


def test_a_module_says_what_it_is_for():
    assert breaches(says_nothing) == []


def loose_ends(path: Path) -> Iterator[str]:
    yield from (f": {found}" for found in re.findall(r"\b(?:TODO|FIXME|XXX)\b", text_of(path)))
    drawers = {"utils", "util", "helpers", "common", "core"}
    if {p.removesuffix(".py") for p in path.relative_to(SOURCE).parts} & drawers:
        yield " is a drawer for everything; name what it holds"


def test_no_loose_ends_and_no_drawers_for_everything():
    assert breaches(loose_ends) == []


HEAVY = ("torch", "cv2", "scipy", "pyarrow", "pydantic", "onnxruntime", "jinja2", "typer", "yaml")


def loaded_after(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after running some code."""
    report = (
        f"{code}\nimport sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def extras_by_hand(path: Path) -> Iterator[str]:
    if path.name != "registry.py":
        yield from (
            f":{i}"
            for i, line in enumerate(text_of(path).splitlines(), 1)
            if re.search(r"roadworthy\[\w", line)
        )


def test_how_an_extra_is_installed_is_said_in_one_place():
    """In a checkout and elsewhere it is not the same command: `registry.install` knows which."""
    assert breaches(extras_by_hand) == []


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
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["pytest"][
        "ini_options"
    ]
    assert "--doctest-modules" in settings["addopts"]
    assert "src" in settings["testpaths"]


def test_no_test_file_shares_its_name_with_another():
    # pytest imports test files by their bare names, so that two of one name hide each other
    names = [p.name for p in (PROJECT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
