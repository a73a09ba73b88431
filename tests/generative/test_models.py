"""The autoencoder and Glow from arrays to arrays: the same weights from the same seed, scores that are a picture's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.generative.canvas import Canvas
from roadworthy.generative.glow import Glow
from roadworthy.generative.vae import VAE

SHORT = {"epochs": 3, "seed": 5}
MODELS = {"vae": (VAE, "reconstruction_error"), "glow": (Glow, "log_likelihood")}
each = pytest.mark.parametrize("name", MODELS)


def stripes(n, seed=0, size=8):
    """Pictures of one bright stripe on a dark ground, with some noise."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 20, (n, size, size))
    pictures[np.arange(n), rng.integers(0, size, n)] += 200
    return pictures.astype(np.uint8)


TRAINING, OTHERS = stripes(60), stripes(20, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return {name: model.fit(TRAINING, **SHORT) for name, (model, _) in MODELS.items()}


def scores(name, model, pictures):
    return getattr(model, MODELS[name][1])(pictures)


@each
def test_the_same_seed_gives_the_same_weights_whatever_torch_did_before(name, fitted):
    torch.manual_seed(99)
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode():
            again = MODELS[name][0].fit(TRAINING, **SHORT).arrays()
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    first = fitted[name].arrays()
    assert first.keys() == again.keys()
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert torch.get_num_threads() == threads and torch.equal(torch.random.get_rng_state(), state)
    other = MODELS[name][0].fit(TRAINING, epochs=3, seed=6).arrays()
    assert any(
        not np.array_equal(first[key], other[key]) for key in first if key.startswith("weight")
    )


@each
def test_a_picture_scores_the_same_alone_in_any_order_and_in_any_memory(name, fitted):
    model = fitted[name]
    whole = scores(name, model, OTHERS)
    assert whole.dtype == np.float64 and whole.shape == (20,)
    order = np.random.default_rng(0).permutation(20)
    assert np.allclose(scores(name, model, OTHERS[order]), whole[order], rtol=1e-10)
    assert np.allclose(
        np.concatenate([scores(name, model, OTHERS[i : i + 1]) for i in range(20)]),
        whole,
        rtol=1e-10,
    )
    tight = MODELS[name][0].from_arrays(model.arrays(), memory_mb=1)
    assert np.allclose(scores(name, tight, OTHERS), whole, rtol=1e-10)


@each
def test_it_comes_back_from_arrays_and_scores_the_same(name, fitted):
    arrays = fitted[name].arrays()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())
    again = MODELS[name][0].from_arrays(arrays)
    assert np.allclose(scores(name, again, OTHERS), scores(name, fitted[name], OTHERS), rtol=1e-12)
    assert again.canvas == fitted[name].canvas


@each
def test_rows_without_a_picture_have_no_score_and_no_rows_are_no_scores(name, fitted):
    rows = OTHERS[:3].astype(np.float32)
    rows[1, 0, 0] = np.nan
    found = scores(name, fitted[name], rows)
    assert np.isnan(found).tolist() == [False, True, False]
    assert np.allclose(found[[0, 2]], scores(name, fitted[name], OTHERS[[0, 2]]))
    assert scores(name, fitted[name], OTHERS[:0]).shape == (0,)


@each
def test_constant_pixels_and_pictures_do_no_harm(name):
    for pictures in (
        np.zeros((10, 8, 8), np.uint8),
        np.full((10, 8, 8, 3), 255, np.uint8),
        TRAINING[:1],
    ):
        model = MODELS[name][0].fit(pictures, epochs=20)
        found = scores(name, model, np.concatenate([pictures[:1], 255 - pictures[:1]]))
        assert np.isfinite(found).all()
        assert all(np.isfinite(array).all() for array in model.arrays().values())


@each
def test_large_colour_pictures_of_odd_sizes_are_shrunk(name):
    pictures = np.random.default_rng(0).random((6, 75, 51, 3), dtype=np.float32)
    model = MODELS[name][0].fit(pictures, epochs=1)
    assert (model.canvas.height, model.canvas.width, model.canvas.channels) == (32, 20, 3)
    assert np.isfinite(scores(name, model, pictures)).all()


def test_the_reconstruction_error_is_that_of_the_reconstruction(fitted):
    again = fitted["vae"].reconstruct(OTHERS)
    assert again.shape == OTHERS.shape and again.dtype == np.float32
    expected = ((again - OTHERS / 255) ** 2).mean(axis=(1, 2))
    assert np.allclose(fitted["vae"].reconstruction_error(OTHERS), expected, rtol=1e-4)


def test_the_evidence_is_fit_less_divergence_at_the_mean_of_the_latents(fitted):
    vae = fitted["vae"]
    coder, pixels = vae._coder, torch.from_numpy(OTHERS[:, None] / 255)
    with torch.no_grad():
        mean, log_variance = coder.encode(pixels)
        deviation = coder.log_deviation.exp()
        fits = (
            torch.distributions.Normal(coder.decode(mean), deviation)
            .log_prob(pixels)
            .sum(dim=(1, 2, 3))
        )
        own = torch.distributions.Normal(mean, (log_variance / 2).exp())
        apart = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0)).sum(
            dim=1
        )
    assert np.allclose(vae.elbo(OTHERS), (fits - apart).numpy())
    assert np.allclose(vae.encode(OTHERS), mean.numpy())


def test_latents_decode_to_pictures(fitted):
    vae = fitted["vae"]
    assert np.allclose(vae.decode(vae.encode(OTHERS)), vae.reconstruct(OTHERS))
    drawn = vae.sample(4, np.random.default_rng(0))
    assert drawn.shape == (4, 8, 8) and np.array_equal(
        drawn, vae.sample(4, np.random.default_rng(0))
    )
    with pytest.raises(ValueError, match=r"\(n, 16\) was expected"):
        vae.decode(np.zeros((2, 3)))


def test_glow_gives_back_the_picture_of_its_latents(fitted):
    glow = fitted["glow"]
    latents = glow.latents(OTHERS)
    assert latents.shape == (20, 64)
    assert np.abs(glow.inverse(latents) - OTHERS / 255).max() < 1e-4
    drawn = glow.sample(3, np.random.default_rng(0))
    assert drawn.shape == (3, 8, 8) and np.array_equal(
        drawn, glow.sample(3, np.random.default_rng(0))
    )
    assert drawn.min() >= 0 and drawn.max() <= 1


def test_the_likelihoods_of_all_pictures_sum_to_about_one():
    """Of four pixels, over the levels that can be expected at all."""
    shades = [60, 90, 120, 150]
    pictures = (
        np.random.default_rng(0)
        .normal(shades, 1, (300, 4))
        .round()
        .astype(np.uint8)
        .reshape(-1, 2, 2)
    )
    glow = Glow.fit(pictures, levels=1, steps=2, hidden=4, epochs=10)
    around = [np.arange(shade - 6, shade + 7) for shade in shades]
    grid = np.stack(np.meshgrid(*around, indexing="ij"), axis=-1).reshape(-1, 2, 2).astype(np.uint8)
    assert np.exp(glow.log_likelihood(grid)).sum() == pytest.approx(1, abs=0.03)


def test_sizes_that_make_no_model_are_refused():
    canvas = Canvas.of(TRAINING)
    with pytest.raises(ValueError, match="at least 1"):
        VAE(canvas, latent=0, hidden=4)
    with pytest.raises(ValueError, match="at least 1"):
        Glow(canvas, levels=1, steps=0, hidden=4)
