"""A function's fingerprint follows the values it holds: closures, defaults, globals, objects; what cannot be read counts as new."""

from __future__ import annotations

import functools
import sys
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


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary() | st.floats(), st.lists), st.data())
def test_equal_values_hash_equally_and_a_value_in_a_list_differs_from_itself(value, data):
    import copy

    assert content_of(holding(copy.deepcopy(value))) == content_of(holding(value))
    assert content_of(holding([value])) != content_of(holding(value))


def test_torch_models_are_told_apart_by_their_weights_and_settings():
    assert fingerprint(holding(linear(0))) == fingerprint(holding(linear(0))) != fingerprint(holding(linear(1)))
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
    assert not is_installed(__file__) and not is_installed(str(Path(sys.prefix).parent / "subject.py"))
