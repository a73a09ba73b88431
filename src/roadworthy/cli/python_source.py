"""What a Python file defines, read without running it: functions that answer, and what builds a torch model or a system."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

NAMES = ("build", "predict", "load", "model", "make", "create", "transcribe", "detect", "main")
"""Names that are likely meant, likeliest first."""


@dataclass(frozen=True)
class Definition:
    """A function or class that could be the subject, and the adapter it suits."""

    name: str
    adapter: str


@dataclass(frozen=True)
class Source:
    """A file's definitions, in its order."""

    definitions: tuple[Definition, ...]

    @property
    def usable(self) -> bool:
        """Whether one of them could be the subject."""
        return bool(self.definitions)

    def best(self) -> Definition | None:
        """The likeliest: a system before a model before a function, then by name."""
        order = ("system", "torch", "python")

        def key(d: Definition) -> tuple[int, int]:
            return order.index(d.adapter), NAMES.index(d.name) if d.name in NAMES else len(NAMES)

        return min(self.definitions, key=key, default=None)


def read(file: Path) -> Source:
    """The definitions of a file; a file that cannot be parsed has none.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "model.py"
    >>> _ = file.write_text("from torch import nn\\nclass Net(nn.Module): pass\\ndef build(): return Net()")
    >>> read(file).best()
    Definition(name='build', adapter='torch')
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return Source(())
    imported = {name for node in ast.walk(tree) for name in _imports(node)}
    models = {n.name for n in tree.body if isinstance(n, ast.ClassDef) and _is_model(n)}
    found = [_definition(node, models, imported) for node in tree.body]
    return Source(tuple(d for d in found if d is not None))


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [a.name.split(".")[0] for a in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0], *(a.name for a in node.names)]
    return []


def _is_model(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split(".")[-1] in ("Module", "Sequential") for base in node.bases)


def _definition(node: ast.stmt, models: set[str], imported: set[str]) -> Definition | None:
    if isinstance(node, ast.ClassDef):
        init = next(
            (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None
        )
        free = init is None or _required(init) <= 1
        return Definition(node.name, "torch") if node.name in models and free else None
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
        return None
    if _required(node) == 0:
        made = _returned(node)
        if "System" in made or ("System" in imported and "roadworthy" in imported):
            return Definition(node.name, "system")
        return (
            Definition(node.name, "torch")
            if "torch" in imported and (made & models or _builds(node, made))
            else None
        )
    return (
        Definition(node.name, "python")
        if _required(node) == 1 or {"state", "rng"} & _arguments(node)
        else None
    )


def _builds(node: ast.FunctionDef, made: set[str]) -> bool:
    """Whether it returns something of torch.nn, or is called as if it did."""
    return bool(made & {"Module", "Sequential", "nn"}) or node.name in NAMES


def _returned(node: ast.FunctionDef) -> set[str]:
    """The names in its return annotation and in what it returns."""
    parts: list[ast.AST] = [
        n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None
    ]
    if node.returns is not None:
        parts.append(node.returns)
    names = {n.id for p in parts for n in ast.walk(p) if isinstance(n, ast.Name)}
    return names | {n.attr for p in parts for n in ast.walk(p) if isinstance(n, ast.Attribute)}


def _required(node: ast.FunctionDef) -> int:
    return len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)


def _arguments(node: ast.FunctionDef) -> set[str]:
    return {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}
