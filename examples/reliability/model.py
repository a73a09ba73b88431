"""A network 2-16-2 in numpy."""

from pathlib import Path

import numpy as np

W = np.load(Path(__file__).parent / "weights.npz")


def answer(features):
    """Class scores of rows of two features."""
    hidden = np.tanh((4 * np.asarray(features) - 2) @ W["w1"].T + W["b1"])
    return hidden @ W["w2"].T + W["b2"]
