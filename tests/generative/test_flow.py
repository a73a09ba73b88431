"""The flow's layers against the Jacobian that autograd finds, their inverses, and densities that sum to one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from roadworthy.generative.glow import ActNorm, Coupling, Flow, Mixing

SHAPES = {"grey": (1, 4, 4), "colour": (3, 2, 2), "odd": (3, 3, 5), "single": (2, 1, 1)}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def unsettled(network, seed=0):
    """The network with weights that are far from those it begins with."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return network.double()


def flow_of(shape, levels=2):
    torch.manual_seed(0)
    return unsettled(Flow(*shape, levels=levels, steps=2, hidden=4))


def pictures(shape, n=3):
    return (
        torch.rand(n, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 0.5
    )


@every_shape
def test_the_log_determinant_is_that_of_the_jacobian(shape):
    flow = flow_of(shape, levels=1 if shape[1] % 2 else 2)
    for x in pictures(shape):
        found = flow(x[None])[1]

        def latents(flat):
            return torch.cat([z.flatten() for z in flow(flat.reshape(1, *shape))[0]])

        jacobian = torch.autograd.functional.jacobian(latents, x.flatten())
        assert float(torch.linalg.slogdet(jacobian).logabsdet) == pytest.approx(
            float(found[0].detach()), abs=1e-9
        )


@every_shape
def test_the_inverse_undoes_the_flow(shape):
    flow = flow_of(shape, levels=1 if shape[1] % 2 else 2)
    x = pictures(shape)
    assert torch.allclose(flow.inverse(flow(x)[0]), x, atol=1e-9)
    single = flow.float()
    assert torch.allclose(single.inverse(single(x.float())[0]), x.float(), atol=1e-4)


@pytest.mark.parametrize(
    "layer", [ActNorm(4), Mixing(4), Coupling(4, 3, 3, 5)], ids=lambda layer: type(layer).__name__
)
def test_each_layer_says_how_it_grows(layer):
    layer, x = unsettled(layer), pictures((4, 3, 3), n=2)
    jacobian = torch.autograd.functional.jacobian(
        lambda flat: layer(flat.reshape(1, 4, 3, 3))[0].flatten(), x[:1].flatten()
    )
    assert float(torch.linalg.slogdet(jacobian).logabsdet) == pytest.approx(
        float(layer(x)[1][0].detach()), abs=1e-9
    )
    assert torch.allclose(layer.inverse(layer(x)[0]), x, atol=1e-10)


def test_the_density_of_two_numbers_sums_to_one():
    flow = flow_of(SHAPES["single"], levels=1)
    axis = torch.linspace(-25, 25, 401, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).reshape(-1, 2, 1, 1)
    with torch.no_grad():
        total = flow.log_density(grid).exp().sum() * (axis[1] - axis[0]) ** 2
    assert float(total) == pytest.approx(1, abs=1e-3)


def test_the_density_is_the_normal_one_where_the_flow_changes_nothing():
    flow = Flow(2, 1, 1, levels=1, steps=1, hidden=2).double()
    x = pictures((2, 1, 1), n=5)
    rotation = flow.levels[0].steps[1]._weight()
    assert torch.allclose(rotation @ rotation.T, torch.eye(2, dtype=torch.float64), atol=1e-6)
    expected = -0.5 * x.square().sum(dim=(1, 2, 3)) - math.log(2 * math.pi)
    assert torch.allclose(flow.log_density(x), expected, atol=1e-6)


def test_the_first_batch_sets_every_channel_to_mean_0_and_deviation_1():
    layer, x = ActNorm(3).double(), pictures((3, 6, 6), n=8) * 7 + 2
    layer.initialise(x)
    y = layer(x)[0].detach().numpy()
    assert np.allclose(y.mean(axis=(0, 2, 3)), 0) and np.allclose(y.std(axis=(0, 2, 3)), 1)


def test_a_channel_that_does_not_vary_is_only_moved():
    layer = ActNorm(2)
    layer.initialise(torch.full((4, 2, 3, 3), 5.0))
    assert torch.equal(layer(torch.full((1, 2, 3, 3), 5.0))[0], torch.zeros(1, 2, 3, 3))


def test_one_channel_of_odd_size_is_refused():
    with pytest.raises(ValueError, match="cannot be squeezed"):
        Flow(1, 3, 4, levels=1, steps=1, hidden=2)
