"""The log says every trouble, and none of them again and again."""

from __future__ import annotations

from itertools import count

from roadworthy.web.remarks import MOST, Remarks


def test_reasons_that_begin_alike_are_all_said_and_numbers_make_no_new_one():
    said: list[str] = []
    remark = Remarks(said.append, clock=count().__next__)
    for why in (
        "no output 'knn'",
        "12 of 100 rows",
        "no output 'energy'",
        "1,013 of 100 rows",
        "no output 'knn'",
    ):
        remark(f"an answer of the server of models was not counted: {why}")
    assert [text.partition(": ")[2] for text in said] == [
        "no output 'knn'",
        "12 of 100 rows",
        "no output 'energy'",
    ]


def test_reasons_that_are_never_the_same_do_not_fill_the_log():
    said: list[str] = []
    remark = Remarks(said.append, clock=iter([0.0] * 20 + [61.0] * 20).__next__)
    for i in range(40):
        remark(f"an answer of the server of models was not counted: it is no JSON: {'x' * i}")
    assert len(said) == 2 * MOST
