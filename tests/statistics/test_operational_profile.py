"""The operational profile agrees with loops, scipy and the real bootstrap."""

from __future__ import annotations

import io

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import gaussian_kde, norm

from roadworthy.statistics.partition import Centres, Grid
from roadworthy.statistics.profile import (
    Profile,
    class_weights,
    expert_weights,
    on_grid,
    row_sums,
    updated,
)

UNIT = [(0.0, 1.0), (0.0, 1.0)]


def rows(n: int = 300, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).beta(1, 3, (n, 2))


def density_by_loop(profile: Profile, x: np.ndarray) -> float:
    """Kernels and their images behind every face, one row after another."""
    total = 0.0
    for row, weight in zip(profile.points, profile.weights, strict=True):
        factor = weight
        for k, h in enumerate(profile.bandwidth):
            images = [row[k]]
            if profile.domain is not None:
                images += [2 * face - row[k] for face in profile.domain[k]]
            factor *= sum(norm.pdf(x[k], at, h) for at in images)
        total += factor
    return total


@pytest.mark.parametrize("domain", [None, UNIT])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_density_is_that_of_a_loop(domain, weighted):
    points = rows(60)
    weights = np.linspace(0, 3, 60) if weighted else None
    profile = Profile.fit(points, bandwidth="silverman", domain=domain, weights=weights)
    queries = np.random.default_rng(1).random((20, 2))
    expected = [np.log(density_by_loop(profile, x)) for x in queries]
    assert profile.log_density(queries) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_the_rules_are_scipys(rule):
    values, weights = np.random.default_rng(2).gamma(2, size=80), np.linspace(1, 2, 80)
    scipys = gaussian_kde(values, rule, weights=weights)
    ours = Profile.fit(values[:, None], bandwidth=rule, weights=weights)
    at = np.linspace(-1, 9, 30)
    assert ours.log_density(at[:, None]) == pytest.approx(scipys.logpdf(at), rel=1e-9)


def test_a_density_far_away_keeps_its_logarithm():
    profile = Profile.fit(rows(50), bandwidth=0.1)
    assert profile.log_density(np.array([[400.0, 300.0]]))[0] == pytest.approx(-1.247e7, rel=0.01)


def test_outside_the_domain_there_is_no_density():
    points = np.concatenate([rows(90), np.full((10, 2), 1.5)])
    profile = Profile.fit(points, domain=UNIT)
    assert profile.log_density(np.array([[1.01, 0.5]])) == -np.inf
    # Rows outside keep their weight: a tenth of the mass is in no cell.
    assert profile.cell_masses(Grid.over(UNIT, 0.1)).mass.sum() == pytest.approx(0.9, abs=1e-9)
    assert np.isinf(profile.leave_one_out()).sum() == 10
    assert np.isfinite(profile.threshold())


def test_the_mass_of_a_cell_is_the_densitys_integral():
    profile = Profile.fit(rows(40), domain=UNIT, weights=np.linspace(1, 2, 40))
    grid = Grid.over(UNIT, 0.25)
    masses = profile.cell_masses(grid).mass
    for cell in (0, 6, 15):
        (x, y), side = grid.corners(np.array([cell]))[0], 0.25

        def density(b: float, a: float) -> float:
            return float(np.exp(profile.log_density(np.array([[a, b]]))[0]))

        integral, _ = dblquad(density, x, x + side, y, y + side, epsabs=1e-6)
        assert masses[cell] == pytest.approx(integral, abs=1e-5)
    assert masses.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 4, 2), (2, 3, 2, 2)])
def test_sums_over_a_grid_are_those_of_einsum(shape, monkeypatch):
    monkeypatch.setattr("roadworthy.statistics.profile.MEMORY", 20)
    rng = np.random.default_rng(0)
    factors, weights = [rng.random((m, 7)) for m in shape], rng.random(7)
    letters = "abcd"[: len(shape)]
    product = np.einsum(",".join(f"{c}j" for c in letters) + f"->{letters}j", *factors)
    product = product.reshape(-1, 7)
    values = rng.random(len(product))
    assert on_grid(factors, weights=weights) == pytest.approx(product @ weights)
    assert row_sums(factors, values) == pytest.approx(values @ product)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["grid", "centres"])
def test_the_variance_is_the_bootstraps_and_the_full_deviation_too(weighted, kind):
    points = rows(200)
    rng = np.random.default_rng(5)
    values = rng.uniform(0.2, 2, 200) if weighted else np.ones(200)
    groups = np.arange(200) // 4
    grid = Grid.over([(0, 0.8), (0, 1)], 0.2)
    cells = grid if kind == "grid" else Centres.fit(rows(100, seed=9), 6, rng=rng)
    failing = rng.random(cells.cells)
    profile = Profile.fit(points, bandwidth=0.1, domain=UNIT, weights=values)
    masses = profile.cell_masses(cells)
    drawn, assembled, by_group = [], [], []

    def again(chosen: np.ndarray) -> tuple[np.ndarray, float]:
        redrawn = Profile.fit(points[chosen], bandwidth=0.1, domain=UNIT, weights=values[chosen])
        mass = redrawn.cell_masses(cells).mass
        return mass, mass @ failing + 1 - mass.sum()

    for _ in range(1_500):
        mass, total = again(rng.integers(200, size=200))
        drawn.append(mass)
        assembled.append(total)
        by_group.append(again((4 * rng.integers(50, size=50)[:, None] + np.arange(4)).ravel())[1])
    found = profile.smoothed(cells, failing)
    assert found.estimate == pytest.approx(np.mean(assembled), abs=0.003)
    assert np.sqrt(masses.variance) == pytest.approx(np.std(drawn, axis=0), rel=0.1, abs=1e-4)
    assert found.deviation == pytest.approx(np.std(assembled), rel=0.07)
    grouped = profile.smoothed(cells, failing, groups=groups)
    assert grouped.deviation == pytest.approx(np.std(by_group), rel=0.07)
    assert found.outside == pytest.approx(max(0.0, 1 - masses.mass.sum()))


def test_draws_of_every_cell_add_their_variance():
    profile, grid = Profile.fit(rows(), domain=UNIT), Grid.over(UNIT, 0.1)
    failing, noise = np.full(100, 0.3), np.full(100, 0.01)
    masses = profile.cell_masses(grid)
    sure, noisy = (profile.smoothed(grid, failing, variances=v) for v in (None, noise))
    added = (masses.mass**2 * noise).sum()
    # Cells that all fail alike have no variance by the profile; independent ones would.
    assert sure.deviation == pytest.approx(0, abs=1e-6)
    assert noisy.deviation**2 == pytest.approx(added, rel=1e-3)
    independent = (0.3**2 * masses.variance + 0.01 * masses.variance).sum() + added
    assert noisy.independent_deviation**2 == pytest.approx(independent)


def left_out_by_loop(points: np.ndarray, h: float) -> np.ndarray:
    result = []
    for x in points:
        others = points[(points != x).any(axis=1)]
        result.append(np.log(norm.pdf((x - others) / h).prod(axis=1).mean() / h**2))
    return np.array(result)


def test_a_row_and_its_copies_are_left_out_of_its_own_estimate():
    points = np.concatenate([rows(40), rows(40)[:15], rows(40)[:3]])
    profile = Profile.fit(points, bandwidth=0.05)
    assert profile.leave_one_out() == pytest.approx(left_out_by_loop(points, 0.05), rel=1e-6)
    assert profile.leave_one_out(np.array([3, 50])) == pytest.approx(
        left_out_by_loop(points, 0.05)[[3, 50]], rel=1e-6
    )


def test_the_likelihoods_bandwidth_is_that_of_a_search_over_a_loop():
    points = np.random.default_rng(3).normal([0, 0], [1, 1], (150, 2))
    points = (points - points.mean(axis=0)) / points.std(axis=0, ddof=1)
    tried = np.linspace(0.1, 1.0, 91)
    best = tried[np.argmax([left_out_by_loop(points, h).mean() for h in tried])]
    found = Profile.fit(points)
    assert found.bandwidth == pytest.approx([best, best], abs=0.015)
    assert not found.at_edge
    scaled = Profile.fit(points * [1, 1000])
    assert scaled.bandwidth == pytest.approx(found.bandwidth * [1, 1000], rel=1e-3)


def test_copies_do_not_drive_the_bandwidth_to_zero():
    points = rows(200)
    once, twice = Profile.fit(points), Profile.fit(np.repeat(points, 2, axis=0))
    assert twice.bandwidth == pytest.approx(once.bandwidth, rel=0.15)


def test_a_choice_at_the_edge_of_the_search_is_said():
    # Two points far apart, each with a nearly equal one: the likelihood rises as h falls.
    points = np.repeat(np.array([[0.0], [1.0]]), 30, axis=0)
    points = points + np.arange(60)[:, None] * 1e-9
    assert Profile.fit(points).at_edge


def test_few_of_many_rows_choose_nearly_the_same_bandwidth(monkeypatch):
    points = np.random.default_rng(4).normal(size=(2_000, 2))
    whole = Profile.fit(points)
    monkeypatch.setattr("roadworthy.statistics.profile.DRAWN", 500)
    assert Profile.fit(points).bandwidth == pytest.approx(whole.bandwidth, rel=0.2)


def test_reflection_keeps_the_density_at_a_face():
    points = np.random.default_rng(6).random((3_000, 2))
    at = np.array([[0.0, 0.5], [0.0, 0.0], [1.0, 1.0]])
    flat = Profile.fit(points, bandwidth=0.1, domain=UNIT).log_density(at)
    assert np.exp(flat) == pytest.approx(1, abs=0.25)
    half, quarter, _ = np.exp(Profile.fit(points, bandwidth=0.1).log_density(at))
    assert (half, quarter) == (pytest.approx(0.5, abs=0.1), pytest.approx(0.25, abs=0.07))


def test_the_threshold_leaves_one_in_a_hundred_of_further_rows_beyond():
    rng = np.random.default_rng(8)
    profile = Profile.fit(rng.normal(size=(2_000, 2)))
    beyond = -profile.log_density(rng.normal(size=(20_000, 2))) > profile.threshold()
    assert beyond.mean() == pytest.approx(0.01, abs=0.006)
    left = -profile.log_density(rng.normal(3, 1, (1_000, 2))) > profile.threshold()
    assert left.mean() > 0.5


def test_draws_follow_the_profile():
    profile, grid = Profile.fit(rows(50), domain=UNIT), Grid.over(UNIT, 0.2)
    drawn = profile.draw(40_000, np.random.default_rng(0))
    counted = np.bincount(grid.cell_of(drawn), minlength=25) / 40_000
    assert counted == pytest.approx(profile.cell_masses(grid).mass, abs=0.009)


@pytest.mark.parametrize("domain", [None, UNIT])
def test_plain_arrays_bring_it_back(domain):
    profile, file = Profile.fit(rows(), domain=domain), io.BytesIO()
    np.savez(file, **profile.arrays())
    file.seek(0)
    with np.load(file) as held:
        back = Profile.from_arrays(held)
    at = np.random.default_rng(0).random((9, 2))
    assert (back.log_density(at) == profile.log_density(at)).all()
    assert back.threshold() == profile.threshold()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidth": "gold"}, "bandwidth is 'gold'"),
        ({"bandwidth": -1.0}, "bandwidth is -1.0"),
        ({"weights": -np.ones(300)}, "weights must be"),
        ({"points": np.ones((300, 2))}, "does not vary"),
        ({"points": np.full((300, 2), np.nan)}, "finite numbers"),
        ({"domain": [(5, 6), (5, 6)]}, "0 rows in the domain"),
    ],
)
def test_what_has_no_profile_is_refused(change, message):
    arguments = {"points": rows()} | change
    with pytest.raises(ValueError, match=message):
        Profile.fit(arguments.pop("points"), **arguments)


def test_weights_of_classes_give_the_wanted_shares():
    rng = np.random.default_rng(0)
    classes = rng.choice(3, 30_000, p=[0.2, 0.5, 0.3])
    fixed = class_weights(classes, [0.6, 0.4, 0.0], sampled=[0.2, 0.5, 0.3])
    assert fixed.fixed
    assert fixed.largest == pytest.approx(3)
    assert fixed.values.mean() == pytest.approx(1, abs=0.02)
    counted = class_weights(classes, [0.6, 0.4, 0.0])
    assert not counted.fixed
    assert counted.values[classes == 0].sum() / counted.values.sum() == pytest.approx(0.6)
    assert counted.effective_size == pytest.approx(30_000 / (0.36 / 0.2 + 0.16 / 0.5), rel=0.02)
    with pytest.raises(ValueError, match="no weight can add it"):
        class_weights(np.zeros(5, dtype=int), [0.5, 0.5])
    with pytest.raises(ValueError, match="add up to 1"):
        class_weights(classes, [0.6, 0.6, 0.0])
    with pytest.raises(ValueError, match="label all rows"):
        class_weights(np.array([0, -1]), [0.5, 0.5])


def test_an_experts_factors_are_fixed_if_their_mean_and_largest_are_stated():
    factors = np.array([1.0, 1.0, 4.0, 2.0])
    assert expert_weights(factors).values == pytest.approx(factors / 2)
    assert not expert_weights(factors).fixed
    stated = expert_weights(factors, expected=1.6, largest=8.0)
    assert stated.fixed
    assert stated.largest == 5
    assert stated.values == pytest.approx(factors / 1.6)
    with pytest.raises(ValueError, match="exceeds the stated largest"):
        expert_weights(factors, expected=1.6, largest=3.0)
    with pytest.raises(ValueError, match="finite"):
        expert_weights(np.array([1.0, np.inf]))


def test_rows_after_a_change_start_a_new_profile():
    rng = np.random.default_rng(0)
    before, cells = rng.normal(size=(600, 2)), Centres(np.array([[-1.0, 0], [1, 0], [0, 3]]))
    profile = Profile.fit(before, bandwidth="scott")
    steady = updated(profile, rng.normal(size=(300, 2)), cells, bandwidth="scott")
    assert steady.changed_at is None
    assert len(steady.profile.points) == 900
    moved = updated(profile, rng.normal([1.5, 2], 1, (300, 2)), cells, bandwidth="scott")
    assert moved.changed_at == pytest.approx(600, abs=50)
    assert len(moved.profile.points) == 900 - moved.changed_at


def test_an_encoders_outputs_have_a_profile_over_centres():
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(800, 8))
    profile = Profile.fit(latent)
    cells = Centres.fit(rng.normal(size=(300, 8)), 12, rng=rng)
    masses = profile.cell_masses(cells)
    assert masses.mass.sum() == pytest.approx(1)
    assert masses.mass * 800 == pytest.approx(np.bincount(cells.cell_of(latent), minlength=12))
    assert masses.variance == pytest.approx(masses.mass * (1 - masses.mass) / 800)
    further = rng.normal(size=(500, 8))
    truth = norm.logpdf(further).sum(axis=1)
    assert np.corrcoef(truth, profile.log_density(further))[0, 1] > 0.9
