"""Cases between two classes of real pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from roadworthy.cases.ambiguous.between_classes import ACROSS, ALONG, GRID, _centres, fit_pairs
from roadworthy.data.samples import load
from roadworthy.generative.raae import CONVOLUTIONAL, PairAutoencoders, _Frame

SHAPE = (24, 28)  # not square
TROUSERS, DRESS = 1, 3


def pictures(n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Trousers, dresses and sandals of the bundled Fashion-MNIST, as classes 0, 1 and 2."""
    data = load({"bundled": "fashion-mnist", "split": "reference"}, base=Path(), name="reference")
    labels = np.asarray(data.targets)
    rows = np.flatnonzero(np.isin(labels, (TROUSERS, DRESS, 5)))[:n]
    images = np.asarray(data.inputs[:])[rows][:, 2:26]
    return images, np.searchsorted([TROUSERS, DRESS, 5], labels[rows])


@pytest.fixture(scope="module")
def fitted():
    images, labels = pictures()
    return fit_pairs(images, labels, 3, pairs=[(0, 1)], autoencoders=3, epochs=70)


def test_drawn_cases_lie_between_the_two_classes(fitted):
    made = fitted.draw(60, np.random.default_rng(0))
    assert made.images.shape == (60, *SHAPE) and made.images.dtype == np.uint8
    assert np.allclose(made.probabilities.sum(axis=1), 1)
    assert (made.probabilities[:, 2] == 0).all()
    assert (np.abs(made.probabilities[:, 0] - made.probabilities[:, 1]) <= 0.25 + 1e-6).all()
    assert (made.pair == [0, 1]).all()
    # Between the legs a dress is bright and trousers are dark: what is drawn is in between.
    images, labels = pictures()
    between = [images[labels == k][:, 14:22, 13:15].mean() for k in (0, 1)]
    drawn = made.images[:, 14:22, 13:15].mean()
    assert between[0] + 10 < drawn < between[1] - 10


def test_a_hard_label_is_drawn_from_the_distribution(fitted):
    made = fitted.draw(40, np.random.default_rng(0))
    drawn = np.array([made.drawn_labels(np.random.default_rng(k)) for k in range(400)])
    shares = (drawn == 1).mean(axis=0)
    assert np.abs(shares - made.probabilities[:, 1]).max() < 4 * 0.5 / np.sqrt(400)


def test_two_sets_can_come_from_different_autoencoders(fitted):
    assert len(fitted.accepted()[0, 1]) >= 2
    sets = [
        fitted.draw(20, np.random.default_rng(0), use=lambda k, odd=odd: k % 2 == odd)
        for odd in (0, 1)
    ]
    assert not np.array_equal(sets[0].images, sets[1].images)


def test_cells_are_drawn_as_fast_as_the_picture_changes(fitted):
    part = fitted.parts[0]
    centres, _ = _centres(2)
    z = np.broadcast_to(centres[::97], (len(part.pairs), len(centres[::97]), 2))
    step = 1e-2
    changes = [
        (part.decode(z + d) - part.decode(z - d)) / (2 * step)
        for d in (np.array([step, 0]), np.array([0, step]))
    ]
    expected = np.sqrt(sum((c.astype(float) ** 2).sum(axis=2) for c in changes))
    assert np.allclose(part.density(z), expected, rtol=0.05, atol=1e-2)
    assert len(centres) == GRID**2
    assert np.abs(centres[:, 0]).max() < ACROSS and np.abs(centres[:, 1]).max() < ALONG


def test_one_autoencoder_alone_decodes_as_among_the_others(fitted):
    part = fitted.parts[0]
    z = np.random.default_rng(1).normal(size=(len(part.pairs), 5, 2))
    together, labels = part.decode(z), part.second_class(z)
    for row in range(len(part.pairs)):
        assert np.allclose(part.one(row).decode(z[row : row + 1])[0], together[row], atol=1e-5)
        assert np.allclose(part.one(row).second_class(z[row : row + 1])[0], labels[row], atol=1e-5)


def test_convolutional_autoencoders_take_images_of_any_size_and_colour(tmp_path):
    images, labels = pictures(300)
    colour = np.stack([images[:, 1:], images[:, 1:] // 2, images[:, 1:]], axis=-1)  # 23 x 28 x 3
    found = fit_pairs(
        colour, labels, 3, pairs=[(0, 1), (0, 2)], autoencoders=1, epochs=2, form=CONVOLUTIONAL
    )
    part = found.parts[0]
    z = np.random.default_rng(0).normal(size=(2, 4, CONVOLUTIONAL.latent))
    together = part.decode(z)
    assert together.shape == (2, 4, 23 * 28 * 3)
    for row in (0, 1):
        assert np.allclose(part.one(row).decode(z[row : row + 1])[0], together[row], atol=1e-5)
    again = PairAutoencoders.from_arrays(part.arrays())
    assert np.allclose(again.decode(z), together, atol=1e-6)
    assert np.allclose(again.second_class(z), part.second_class(z), atol=1e-6)
    frames = [_Frame((23, 28, 3), back=back) for back in (False, True)]
    rows = torch.as_tensor(colour[:5].reshape(1, 5, -1).astype(np.float32))
    assert torch.equal(frames[1](frames[0](rows)), rows)


def test_training_is_kept_and_found_again(tmp_path):
    images, labels = pictures(300)
    said = []
    how = {"pairs": [(0, 1)], "autoencoders": 1, "epochs": 3, "keep": tmp_path}
    first = fit_pairs(images, labels, 3, **how, progress=said.append)
    again = fit_pairs(images, labels, 3, **how)
    z = np.zeros((1, 1, 2))
    assert np.array_equal(first.parts[0].decode(z), again.parts[0].decode(z))
    assert said[-1] == 1.0 and len(list(tmp_path.iterdir())) == 1
    fit_pairs(images, labels, 3, **{**how, "epochs": 4})
    assert len(list(tmp_path.iterdir())) == 2


def test_a_class_with_few_images_and_rejected_pairs_are_named():
    images, labels = pictures(300)
    keep = (labels != 2) | (np.cumsum(labels == 2) <= 10)
    found = fit_pairs(images[keep], labels[keep], 3, autoencoders=1, epochs=1)
    assert "class 2 has 10 images; 50 or more were expected" in found.nothing[0, 2]
    if (0, 1) in found.nothing:
        assert "rejected" in found.nothing[0, 1]
    nothing = fit_pairs(images[keep], labels[keep], 3, pairs=[(0, 2)], autoencoders=1, epochs=1)
    with pytest.raises(ValueError, match=r"no case can be made.*class 2 has 10 images"):
        nothing.draw(10, np.random.default_rng(0))


def test_floats_beyond_white_are_refused():
    images, labels = pictures(200)
    standard = (images - images.mean()) / images.std()
    with pytest.raises(ValueError, match="from 0 to 1 was expected"):
        fit_pairs(standard, labels, 3, pairs=[(0, 1)], epochs=1)


def test_images_without_height_and_width_are_refused():
    with pytest.raises(ValueError, match="images \\(n, height, width"):
        fit_pairs(np.zeros((4, 3)), np.zeros(4, int), 2)
