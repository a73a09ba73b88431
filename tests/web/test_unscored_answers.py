"""A post whose events say nothing is told why, on the short way as on the long one."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.web.batch import Batch, Single, why_unscored
from roadworthy.web.http_io import taken_words

NAMES = ("conf", "knn", "recon")


def learned(names: tuple[str, ...] = NAMES, *, holes: float = 0.0) -> Calibration:
    rng = np.random.default_rng(0)
    shifted = np.repeat([0, 1], 300)
    columns = {name: rng.normal(2.0 * shifted) for name in names}
    for column in columns.values():
        column[rng.random(600) < holes] = np.nan
    return calibrate(
        columns, np.where(shifted, "fog", "clean"), rng.random(600) < np.where(shifted, 0.5, 0.9)
    )


def single(scores: dict[str, float]) -> Single:
    return Single("a", 1.0, scores)


def test_what_one_event_lacks_is_named():
    known = learned()
    assert why_unscored(single({"conf": 0.1, "knn": 0.2, "recon": 0.3}), known) == ""
    expected = "lacks a score that every calibration row had: recon"
    assert why_unscored(single({"conf": 0.1, "knn": 0.2}), known) == expected
    assert why_unscored(single({"conf": 0.1, "knn": 0.2, "recon": np.nan}), known) == expected
    assert why_unscored(single({}), known) == "has no score at all"
    cells = known.place({"conf": [0.1, 0.1], "knn": [0.2, 0.2], "recon": [0.3, np.nan]})
    said = why_unscored(Batch(["a", "b"], np.zeros(2), cells), known)
    assert said == "lacks a score that every calibration row had", "cells alone do not say which"


@pytest.mark.parametrize("names", [NAMES, tuple("abcdefgh")])
@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_it_is_said_of_those_events_alone_that_have_no_place(names, holes):
    known, rng = learned(names, holes=holes), np.random.default_rng(1)
    for _ in range(60):
        scores = {name: float(rng.normal()) for name in names if rng.random() < 0.6}
        assert (known.place_one(scores) < 0) == bool(why_unscored(single(scores), known))


def test_the_words_stand_beside_the_numbers_only_where_there_are_some():
    from roadworthy.monitor import Taken

    assert (
        taken_words(Taken(1, 0, 0, 0))
        == b'{"accepted":1,"repeated":0,"late":0,"unscored":0,"ahead":0}'
    )
    assert taken_words(Taken(0, 0, 0, 1), {"why_unscored": "lacks it"}).endswith(
        b',"why_unscored":"lacks it"}'
    )
