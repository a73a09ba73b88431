"""Every corruption of Hendrycks and Dietterich moves photos as far as imagecorruptions does (committed values)."""

from __future__ import annotations

import json

import numpy as np
import pytest
from oracle_statistics import FIGURES, LEVELS, ORACLE, SEEDS, over_seeds

from roadworthy.cases.transform import at_level

PEER = json.loads(ORACLE.read_text())
NOT_MONOTONE = {"glass_blur", "saturate", "frost"}
"""Corruptions whose levels do not grow in the peer either."""


@pytest.fixture(scope="module")
def ours():
    found: dict[tuple[str, int], dict[str, list[float]]] = {}

    def measured(name: str, level: int) -> dict[str, list[float]]:
        if (name, level) not in found:
            made = at_level(name, level, table="hendrycks")
            found[name, level] = over_seeds(lambda p, seed: made.at_step(p, seed, "photo"))
        return found[name, level]

    return measured


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", sorted(set(PEER) - {"frost"}))
def test_change_and_similarity_are_the_peers(ours, name, level):
    """Within 5% (of the change's deviation where its mean is small, and 0.005 of SSIM) and 3 standard errors."""
    mine, theirs = ours(name, level), PEER[name][str(level)]
    allowed = {
        "mean": 0.05 * max(abs(theirs["mean"][0]), theirs["deviation"][0]),
        "deviation": 0.05 * theirs["deviation"][0],
        "ssim": max(0.05 * theirs["ssim"][0], 0.005),
    }
    for figure, bound in allowed.items():
        (a, error), (b, other) = mine[figure], theirs[figure]
        assert abs(a - b) <= bound + 3 * np.hypot(error, other), (figure, a, b, bound)


@pytest.mark.parametrize("name", sorted(PEER))
def test_psnr_falls_with_the_level_where_the_peers_does(ours, name):
    peer = [PEER[name][str(level)]["psnr"][0] for level in LEVELS]
    assert (peer == sorted(peer, reverse=True)) is (name not in NOT_MONOTONE)
    mine = [ours(name, level)["psnr"][0] for level in LEVELS]
    if name not in NOT_MONOTONE:
        assert mine == sorted(mine, reverse=True)


def test_the_figures_are_those_that_the_peer_was_measured_by():
    assert SEEDS == 10 and set(PEER["fog"]["1"]) == set(FIGURES) and len(PEER) == 19
