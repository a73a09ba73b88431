"""A function's fingerprint follows the values it holds: closures, defaults, globals, objects; what cannot be read counts as new."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.data.values import VECTOR
from roadworthy.subject.captured import Opaque, content_of, is_installed
from roadworthy.subject.module import function_module

TABLE = {"k": np.arange(3)}


class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.by * x

    def answer(self, x):
        return self.by * x


def holding(value):
    def f(x):
        return value, x

    return f


def with_default(value):
    def f(x, value=value):
        return value, x

    return f


def reading_a_global(x):
    return TABLE["k"] * x


def fingerprint(function, **more):
    return function_module(function, outputs={"y": VECTOR}, **more).fingerprint


def linear(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))


PAIRS = [
    (1, 2),
    (1, "1"),
    (1, True),
    ([1, 2], [12]),
    (["a", "bc"], ["ab", "c"]),
    ((1, 2), [1, 2]),
    (np.zeros(5000), np.eye(1, 5000)[0]),
    (np.zeros(2, np.int32), np.zeros(2, np.int64)),
    ({"a": 1}, {"a": 2}),
    (Scale(2), Scale(3)),
    (functools.partial(pow, 2), functools.partial(pow, 3)),
    (holding(holding(1)), holding(holding(2))),
    (Scale(2).answer, Scale(3).answer),
    (Path("a"), Path("b")),
]


@pytest.mark.parametrize("wrap", [holding, with_default, lambda v: functools.partial(pow, mod=v)])
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[str(i) for i in range(len(PAIRS))])
def test_two_values_in_one_closure_are_two_subjects(wrap, one, other):
    assert content_of(wrap(one)) == content_of(wrap(one)) != content_of(wrap(other))


@given(
    st.recursive(st.none() | st.integers() | st.text() | st.binary() | st.floats(), st.lists),
    st.data(),
)
def test_equal_values_hash_equally_and_a_value_in_a_list_differs_from_itself(value, data):
    import copy

    assert content_of(holding(copy.deepcopy(value))) == content_of(holding(value))
    assert content_of(holding([value])) != content_of(holding(value))


def test_torch_models_are_told_apart_by_their_weights_and_settings():
    assert (
        fingerprint(holding(linear(0)))
        == fingerprint(holding(linear(0)))
        != fingerprint(holding(linear(1)))
    )
    other = linear(0)
    other[1].p = 0.1
    assert fingerprint(holding(other)) != fingerprint(holding(linear(0)))
    trained = linear(0)
    module = function_module(holding(trained), outputs={"y": VECTOR})
    before = module.fingerprint
    with torch.no_grad():
        trained[0].weight += 1
    assert module.fingerprint != before


def test_two_lambdas_of_one_file_are_two_functions():
    assert fingerprint(lambda x: 2 * x) != fingerprint(lambda x: 3 * x)


def test_callable_objects_and_methods_are_read_with_their_object():
    assert fingerprint(Scale(2)) == fingerprint(Scale(2)) != fingerprint(Scale(3))
    assert fingerprint(Scale(2).answer) != fingerprint(Scale(3).answer)


def test_globals_that_a_function_reads_count(monkeypatch):
    before = fingerprint(reading_a_global)
    assert fingerprint(reading_a_global) == before
    monkeypatch.setitem(TABLE, "k", np.arange(4))
    assert fingerprint(reading_a_global) != before


def test_sets_do_not_depend_on_their_order():
    words = [f"w{i}" for i in range(50)]
    assert content_of(holding(set(words))) == content_of(holding(set(words[20:] + words[:20])))


def test_a_value_that_cannot_be_read_makes_the_fingerprint_its_own_unless_it_is_marked():
    class Handle:
        __slots__ = ()  # a value with nothing to see but its address

    function = holding(Handle())
    with pytest.raises(Opaque, match="Handle cannot be hashed by its content"):
        content_of(function)
    module = function_module(function, outputs={"y": VECTOR})
    assert module.fingerprint == module.fingerprint
    assert fingerprint(function) != fingerprint(function)
    assert (
        fingerprint(function, mark="v1")
        == fingerprint(holding(Handle()), mark="v1")
        != fingerprint(function, mark="v2")
    )


def test_values_in_a_ring_end():
    ring: list = [1]
    ring.append(ring)
    assert content_of(holding(ring)) == content_of(holding(ring))


def test_loggers_and_locks_are_no_part_of_the_answer():
    import logging
    import threading

    assert content_of(holding((logging.getLogger("a"), threading.Lock())))


def test_what_is_installed_and_what_is_not():
    assert is_installed(np.__file__) and is_installed(functools.__file__)
    assert not is_installed(__file__) and not is_installed(
        str(Path(sys.prefix).parent / "subject.py")
    )


@dataclasses.dataclass
class Loaded:
    name: str = "net"

    def load(self, weights):
        self.weights = weights
        return self


class Listed(list):
    pass


class Mapped(dict):
    pass


class Slotted:
    __slots__ = ("__hidden", "by")

    def __init__(self, by):
        self.by = by
        self.__hidden = by

    def __repr__(self):
        return "Slotted"


class Within(Slotted):
    __slots__ = ("more",)


class Wrapper:
    def __init__(self, function, by):
        functools.update_wrapper(self, function)
        self.by = by

    def __call__(self, x):
        return self.by * x


class Number(float):
    pass


class Text(str):
    __slots__ = ()


def bearing(value, weights):
    value.weights = weights
    return value


Point = collections.namedtuple("Point", "x y")

MAKERS = {
    "dataclass with weights outside its fields": lambda k: Loaded().load(k),
    "list with attributes": lambda k: bearing(Listed([1]), k),
    "dict with attributes": lambda k: bearing(Mapped(a=1), k),
    "number with attributes": lambda k: bearing(Number(1), k),
    "ordered dict with attributes": lambda k: bearing(collections.OrderedDict(a=1), k),
    "function with attributes": lambda k: bearing(holding(1), k),
    "text": lambda k: Text(k),
    "slots": Slotted,
    "slots of a base": Within,
    "wrapper with state": lambda k: Wrapper(reading_a_global, k),
    "namespace of an array": lambda k: types.SimpleNamespace(w=np.array([1 + k * 1e-12])),
    "named tuple": lambda k: Point(k, 0),
    "deque by its length": lambda k: collections.deque([1], maxlen=k + 5),
    "dict by its default": lambda k: collections.defaultdict(functools.partial(int, k)),
    "enum": lambda k: enum.Enum("Level", {"LOW": k}).LOW,
    "long pattern": lambda k: re.compile("a" * 300 + str(k)),
    "names of an array's columns": lambda k: np.zeros(1, [(f"c{k}", "f8")]),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_all_that_a_value_holds_counts(make):
    assert (
        content_of(holding(make(1))) == content_of(holding(make(1))) != content_of(holding(make(2)))
    )


def in_a_notebook(monkeypatch, source, *, name="a_notebook"):
    """A function as a notebook defines it: of a module without a file."""
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, "<cell>", "exec"), vars(module))
    return module.f


CELL = """
class Model:
    factor = {factor}
    def predict(self, x):
        return {body}
    @property
    def size(self):
        return {size}
    @classmethod
    def made(cls):
        return super().__new__(cls)
model = Model()
def f(x):
    return model.predict(x)
"""


def test_a_class_without_a_file_is_read_by_its_methods_and_attributes(monkeypatch):
    start = {"factor": 1, "body": "x", "size": 1}
    before = content_of(in_a_notebook(monkeypatch, CELL.format(**start)))
    assert content_of(in_a_notebook(monkeypatch, CELL.format(**start))) == before
    for change in ({"factor": 2}, {"body": "x + 1"}, {"size": 2}):
        assert content_of(in_a_notebook(monkeypatch, CELL.format(**start | change))) != before


def test_a_class_made_without_a_module_does_not_pass_as_a_builtin():
    def made(body):
        names: dict = {}
        exec(CELL.format(factor=1, body=body, size=1), names)
        return names["f"]

    assert content_of(made("x")) == content_of(made("x")) != content_of(made("x + 1"))


def test_what_is_replaced_in_a_class_at_run_time_counts(monkeypatch):
    function = holding(Scale(2))
    before = content_of(function)
    with monkeypatch.context() as patch:
        patch.setattr(Scale, "answer", lambda self, x: 0)
        assert content_of(function) != before
    with monkeypatch.context() as patch:
        patch.setattr(Scale, "extra", 1, raising=False)
        assert content_of(function) != before
    assert content_of(function) == before


def test_a_global_that_only_a_method_reads_counts(monkeypatch):
    class Reads:
        def answer(self, x):
            return TABLE["k"] * x

    function = holding(Reads())
    before = content_of(function)
    monkeypatch.setitem(TABLE, "k", np.arange(4))
    assert content_of(function) != before


def test_a_repr_is_trusted_only_where_it_says_all(tmp_path):
    class Silent(BaseException):
        def __repr__(self):
            return "Silent"

    (tmp_path / "a").write_text("a")
    with (tmp_path / "a").open() as file:
        for value in (Silent(1), file, np.frompyfunc(abs, 1, 1)):
            with pytest.raises(Opaque):
                content_of(holding(value))


def test_modules_sets_and_classes_in_a_ring_end():
    child, parent = torch.nn.Linear(1, 1), torch.nn.Module()
    child.weight.data.fill_(1), child.bias.data.fill_(1)
    parent.child, child.up = child, [parent]

    class Member:
        kinds: set = set()

        def __init__(self):
            self.others = {1}

        def kin(self):
            return super().__init__()

    Member.kinds.add(Member)
    one = Member()
    one.others.add(one)
    for value in (child, one):
        assert content_of(holding(value)) == content_of(holding(value))


def test_copying_an_object_does_not_change_its_class():
    import copy

    value = Within(1)
    before = content_of(holding(value))
    assert content_of(holding(copy.deepcopy(value))) == before == content_of(holding(value))
