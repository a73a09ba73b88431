"""Estimators of a cell's failure probability against closed forms, and their intervals over repetitions.

Repetitions are cells of one call: the same problem in each of them.
"""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from roadworthy import registry
from roadworthy.search.failures import Sampler, margin_of
from roadworthy.search.last_particle import last_particle
from roadworthy.search.laws import Normal, UniformBox
from roadworthy.search.monte_carlo import monte_carlo
from roadworthy.search.splitting import splitting
from roadworthy.spec.own import own_component

LEAST_COVERED = int(stats.binom.ppf(0.01, 200, 0.95))  # of 200 intervals, at 1% one-sided


def rng(seed=0):
    return np.random.default_rng(seed)


def unit_box(cells, size):
    return UniformBox(torch.zeros(cells, size).double(), torch.ones(cells, size).double())


def standard_normal(cells, size):
    return Normal(torch.zeros(cells, size), torch.ones(cells, size))


def half_space(cells, truth):
    return unit_box(cells, 2), lambda x, _: x[..., 0] - (1 - truth)


def disc(cells, truth):
    radius = math.sqrt(truth / math.pi)
    return unit_box(cells, 2), lambda x, _: radius - (x - 0.5).norm(dim=-1)


def half_space_in_20_dimensions(cells, truth):
    limit = stats.norm.isf(truth)
    return standard_normal(cells, 20), lambda x, _: x.sum(-1) / 20**0.5 - limit


def outside_a_ball_in_20_dimensions(cells, truth):
    limit = stats.chi2.isf(truth, 20)
    return standard_normal(cells, 20), lambda x, _: x.square().sum(-1) - limit


def inside_a_ball_in_20_dimensions(cells, truth):
    limit = stats.chi2.ppf(truth, 20)
    return standard_normal(cells, 20), lambda x, _: limit - x.square().sum(-1)


ONE_MODE = [
    half_space,
    disc,
    half_space_in_20_dimensions,
    outside_a_ball_in_20_dimensions,
    inside_a_ball_in_20_dimensions,
]


def covered(found, truth):
    return int(((found.low <= truth) & (found.high >= truth)).sum())


# Laws


@pytest.mark.parametrize("step", [0.05, 0.4, 1.0])
def test_a_reflected_step_leaves_inputs_uniform_in_the_box_of_their_cell(step):
    low, high = torch.tensor([[0.0, 0.2], [3.0, 0.5]]), torch.tensor([[1.0, 0.3], [7.0, 0.5]])
    law, cells, generator = UniformBox(low, high), torch.arange(2), torch.Generator().manual_seed(3)
    x = law.draw(cells, 5000, generator)
    for _ in range(30):
        x = law.move(x, cells, torch.full((2, 5000), step), generator)
    assert ((x >= low[:, None]) & (x <= high[:, None])).all()
    for cell, feature in ((0, 0), (0, 1), (1, 0)):
        values = (x[cell, :, feature] - low[cell, feature]) / (high - low)[cell, feature]
        assert stats.kstest(values.numpy(), "uniform").pvalue > 1e-3
    assert (x[1, :, 1] == 0.5).all()  # a pixel that cannot change stays


def test_a_reflected_step_is_as_likely_there_as_back():
    # From a third of the box, inputs between 0.2 and 0.3 are reached as often as the reverse.
    law, cells, generator = unit_box(1, 1), torch.zeros(1).long(), torch.Generator().manual_seed(4)
    x = law.draw(cells, 400_000, generator)
    y = law.move(x, cells, torch.full((1, 400_000), 0.8), generator)
    there = ((x < 0.1) & (y > 0.2) & (y < 0.3)).sum().item()
    back = ((y < 0.1) & (x > 0.2) & (x < 0.3)).sum().item()
    assert stats.binomtest(there, there + back, 0.5).pvalue > 1e-3 and there > 1000


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_a_crank_nicolson_step_leaves_inputs_normal(step):
    centre, deviation = torch.tensor([[5.0, -1.0]]), torch.tensor([[2.0, 0.1]])
    law, cells, generator = Normal(centre, deviation), torch.zeros(1).long(), torch.Generator()
    x = law.draw(cells, 5000, generator.manual_seed(5))
    y = law.move(x, cells, torch.full((1, 5000), step), generator)
    for feature in range(2):
        unit = ((y - centre) / deviation)[0, :, feature]
        assert stats.kstest(unit.numpy(), "norm").pvalue > 1e-3
    before, after = ((v - centre)[0, :, 0] for v in (x, y))
    assert np.corrcoef(before, after)[0, 1] == pytest.approx(math.sqrt(1 - step**2), abs=0.05)


def test_laws_refuse_what_is_no_law():
    with pytest.raises(ValueError, match="low <= high"):
        UniformBox(torch.ones(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="deviation > 0"):
        Normal(torch.ones(2, 3), torch.zeros(2, 3))


# Margins


def test_a_margin_is_the_highest_other_score_less_the_own_one():
    scores = rng(1).normal(size=(3 * 4, 5))
    labels = [4, 0, 2]
    margin = margin_of(lambda x: scores[x.numpy().astype(int)[:, 0]], labels, batch=5)
    found = margin(torch.arange(12.0).reshape(3, 4, 1), torch.arange(3))
    for row, own in enumerate(np.repeat(labels, 4)):
        wanted = max(s for c, s in enumerate(scores[row]) if c != own) - scores[row, own]
        assert found.flatten()[row].item() == pytest.approx(wanted, abs=1e-12)


def test_margins_belong_to_the_cells_asked_for_and_nan_and_ties_fail():
    table = torch.tensor([[1.0, 1.0], [torch.nan, 0.0], [0.0, torch.nan], [2.0, -torch.inf]])
    margin = margin_of(lambda x: table[x[:, 0].long()], [1, 0])
    found = margin(torch.arange(4.0).reshape(1, 4, 1), torch.tensor([1]))
    assert found.tolist() == [[0.0, torch.inf, torch.inf, -torch.inf]]


@pytest.mark.parametrize("name", ["monte_carlo", "splitting", "last_particle"])
def test_the_size_of_batches_changes_nothing(name):
    # Element by element, so that sums do not depend on how many rows there are.
    def scores(x):
        return torch.stack([x[:, 0] * x[:, 1], 0.9 - 0.2 * x[:, 1]], 1)

    estimator, law = registry.get("failure_estimators", name).build, unit_box(3, 2)
    fewer = {} if name == "monte_carlo" else {"particles": 40, "steps": 10}
    found = [
        estimator(margin_of(scores, [1, 1, 0], batch=batch), law, rng(2), **fewer)
        for batch in (37, 10**6)
    ]
    for one, other in zip(found[0], found[1], strict=True):
        np.testing.assert_array_equal(one, other)


# Monte Carlo


def test_monte_carlo_gives_the_exact_interval_and_jeffreys_variance():
    limits = torch.tensor([[0.7], [2.0], [-1.0]])
    found = monte_carlo(lambda x, c: x[..., 0] - limits[c], unit_box(3, 1), rng(), draws=2500)
    fails = round(found.probability[0] * 2500)
    assert fails == pytest.approx(750, abs=100)
    for cell, count in enumerate((fails, 0, 2500)):
        wanted = stats.binomtest(count, 2500).proportion_ci(0.95, "exact")
        assert (found.low[cell], found.high[cell]) == pytest.approx(tuple(wanted), rel=1e-9)
        posterior = stats.beta(count + 0.5, 2500 - count + 0.5)
        assert found.variance[cell] == pytest.approx(posterior.var(), rel=1e-9)
    assert found.found.tolist() == [True, False, True]
    assert found.probability[1] == found.high[1] and found.probability[2] == 1.0
    assert found.queries.tolist() == [2500] * 3


def test_a_law_that_only_draws_is_for_monte_carlo_alone():
    class Drawn:
        def __len__(self):
            return 1

        def draw(self, cells, n, generator):
            return torch.rand(len(cells), n, 1, generator=generator)

    def margin(x, cells):
        return x[..., 0] - 0.5

    assert covered(monte_carlo(margin, Drawn(), rng()), 0.5) == 1
    for estimator in (splitting, last_particle):
        with pytest.raises(ValueError, match="use monte_carlo for Drawn"):
            estimator(margin, Drawn(), rng())


# Splitting


@pytest.mark.parametrize("truth", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("problem", ONE_MODE)
def test_splitting_finds_rare_failures(problem, truth):
    law, margin = problem(10, truth)
    found = splitting(margin, law, rng(1), particles=300)
    deviation = math.sqrt((found.variance / found.probability**2).mean() / 10)
    assert found.found.all() and found.probability.mean() / truth == pytest.approx(
        1, abs=4 * deviation
    )


@pytest.mark.parametrize("truth", [1e-3, 1e-9])
@pytest.mark.parametrize("problem", [half_space, disc])
def test_intervals_of_splitting_hold_with_few_particles(problem, truth):
    law, margin = problem(200, truth)
    found = splitting(margin, law, rng(2), particles=100)
    assert LEAST_COVERED <= covered(found, truth) < 200


@pytest.mark.slow
@pytest.mark.parametrize("truth", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("problem", ONE_MODE)
def test_intervals_of_splitting_hold_on_one_mode(problem, truth):
    law, margin = problem(200, truth)
    found = splitting(margin, law, rng(3), particles=300)
    assert LEAST_COVERED <= covered(found, truth) < 200
    assert found.probability.mean() / truth == pytest.approx(1, abs=0.15)


def test_variance_interval_and_queries_of_splitting_follow_from_its_levels():
    law, limits = unit_box(4, 2), torch.tensor([[0.5], [0.999], [0.99999], [1 - 1e-7]])
    found = splitting(lambda x, c: x[..., 0] - limits[c], law, rng(4), particles=500, steps=40)
    for cell in range(1, 4):
        levels = math.floor(-math.log10(found.probability[cell]) - 1e-9)
        last = found.probability[cell] * 10**levels
        relative = (levels * 9 + (1 - last) / last) / 500
        assert found.variance[cell] / found.probability[cell] ** 2 == pytest.approx(relative)
        reach = stats.norm.isf(0.025) * math.sqrt(relative)
        centre = math.log(found.probability[cell]) + relative / 2
        assert math.log(found.low[cell]) == pytest.approx(centre - reach)
        assert math.log(found.high[cell]) == pytest.approx(centre + reach)
        assert found.queries[cell] == 500 + levels * 500 * 40
    # A cell that fails often needs no level: its interval is exact.
    wanted = stats.binomtest(round(found.probability[0] * 500), 500).proportion_ci(0.95, "exact")
    assert (found.low[0], found.high[0]) == pytest.approx(tuple(wanted), rel=1e-9)


def test_the_step_is_adapted_at_every_move_to_an_acceptance_of_20_to_45_percent():
    law, level = standard_normal(3, 50), torch.tensor([2.0, 3.0, 4.0]).double()
    sampler = Sampler.of(lambda x, _: x.sum(-1) / 50**0.5, law, rng(5))
    start = sampler.drawn(400)
    start = start._replace(x=start.x + level.reshape(-1, 1, 1) / 50**0.5)
    start = start._replace(margin=sampler.margin(start.x, start.cells))
    low = torch.full((3,), -torch.inf).double()
    now = start._replace(margin=start.margin.clamp(min=level[:, None] + 1e-9))
    sampler.move(now, level, steps=40, gain=2.0)
    accepted, step = sampler.move(now, level, steps=20, gain=2.0), now.step.clone()
    assert ((accepted > 0.2) & (accepted < 0.45)).all()
    assert (sampler.move(now, low, steps=1, gain=2.0) == 1).all() and (now.step > step).all()


def test_nothing_found_gives_an_upper_bound_of_the_last_level():
    def never(x, cells):
        return -torch.exp(-x[..., 0])

    for estimator in (splitting, last_particle):
        found = estimator(never, standard_normal(2, 1), rng(6), particles=100, steps=20, least=1e-5)
        assert not found.found.any() and (found.low == 0).all()
        assert (found.probability == found.high).all()
        assert ((found.high > 1e-6) & (found.high < 2e-4)).all()
        assert found.variance == pytest.approx(found.high**2 / 4)


@pytest.mark.parametrize("estimator", [splitting, last_particle])
def test_on_a_plateau_monte_carlo_is_used_and_said(estimator):
    def votes(x, cells):  # cell 0 knows right and wrong alone; 1 input in 500 fails in both
        rare = (x[..., 0] > 1 - 0.002).double()
        return torch.where(cells[:, None] == 0, 2 * rare - 1, x[..., 0] - 0.998)

    found = estimator(votes, unit_box(2, 1), rng(7), particles=200, steps=20)
    assert len(found.notes) == 1 and found.notes[0].startswith("Cell 0: scores lie on a plateau")
    draws = found.queries[0] - 200
    fails = round(found.probability[0] * draws)
    wanted = stats.binomtest(fails, int(draws)).proportion_ci(0.95, "exact")
    assert (found.low[0], found.high[0]) == pytest.approx(tuple(wanted), rel=1e-6)
    assert (found.low < 0.0021).all() and (found.high > 0.0019).all()


def test_runs_that_disagree_are_said_and_widen_the_interval():
    # The steep mode carries 92% of the failures, and is hardly seen before the last levels.
    truth = 1 - stats.norm.cdf(5) * stats.norm.cdf(4.5)

    def two_modes(x, cells):
        return torch.maximum(x[..., 0] - 5, 4 * (x[..., 1] - 4.5))

    law = standard_normal(40, 2)
    alone = splitting(two_modes, law, rng(8), particles=300)
    runs = splitting(two_modes, law, rng(8), particles=300, runs=5)
    assert covered(alone, truth) <= 20 and alone.notes == ()
    assert len(runs.notes) >= 30 and "5 independent runs disagree" in runs.notes[0]
    assert covered(runs, truth) >= 30
    said = [int(note.split(":")[0].removeprefix("Cell ")) for note in runs.notes]
    assert (np.log(runs.high / runs.low)[said] > np.median(np.log(alone.high / alone.low))).all()


def test_runs_that_agree_are_pooled():
    law, margin = half_space(100, 1e-5)
    one, five = (splitting(margin, law, rng(9), particles=100, runs=runs) for runs in (1, 5))
    assert len(five.notes) <= 6
    assert five.queries.mean() == pytest.approx(5 * one.queries.mean(), rel=0.02)
    width = np.log(one.high / one.low).mean() / np.log(five.high / five.low).mean()
    assert width == pytest.approx(math.sqrt(5), rel=0.1)
    assert covered(five, 1e-5) >= 89


# Last particle


def test_the_last_particle_counts_deaths_with_an_exact_interval():
    law, limits = standard_normal(3, 3), torch.tensor([[2.0], [3.0], [-9.0]])
    found = last_particle(
        lambda x, c: x[..., 0] - limits[c], law, rng(10), particles=50, confidence=0.9
    )
    for cell in range(3):
        deaths = round(math.log(found.probability[cell]) / math.log(1 - 1 / 50))
        most = stats.chi2.ppf(0.95, 2 * deaths + 2) / 2
        fewest = stats.chi2.ppf(0.05, 2 * deaths) / 2 if deaths else 0.0
        assert found.low[cell] == pytest.approx(math.exp(-most / 50))
        assert found.high[cell] == pytest.approx(math.exp(-fewest / 50))
    assert found.probability[2] == 1.0 and (found.variance > 0).all()


@pytest.mark.parametrize(("truth", "problem"), [(1e-3, half_space), (1e-2, disc)])
def test_intervals_of_the_last_particle_hold(truth, problem):
    law, margin = problem(200, truth)
    found = last_particle(margin, law, rng(11), particles=40)
    assert LEAST_COVERED <= covered(found, truth) < 200


@pytest.mark.slow
@pytest.mark.parametrize("truth", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("problem", ONE_MODE)
def test_intervals_of_the_last_particle_hold_on_one_mode(problem, truth):
    law, margin = problem(200, truth)
    found = last_particle(margin, law, rng(12))
    assert LEAST_COVERED <= covered(found, truth) < 200


# The registry


@pytest.mark.parametrize(
    ("estimator", "wrong"),
    [
        (splitting, {"particles": 10}),
        (splitting, {"runs": 0}),
        (last_particle, {"least": 0.0}),
        (last_particle, {"steps": 0}),
        (monte_carlo, {"draws": 0}),
        (splitting, {"confidence": 95}),
    ],
)
def test_parameters_out_of_range_are_refused(estimator, wrong):
    law, margin = half_space(1, 0.1)
    with pytest.raises(ValueError, match=str(next(iter(wrong)))):
        estimator(margin, law, rng(), **wrong)


def test_a_users_own_estimator_is_named_by_its_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from roadworthy.search.monte_carlo import monte_carlo\n"
        "def few(margin, law, rng, *, confidence: float = 0.95):\n"
        "    return monte_carlo(margin, law, rng, confidence=confidence, draws=10)\n"
    )
    own = own_component("failure_estimators", "mine.py:few", tmp_path)
    law, margin = half_space(2, 0.5)
    try:
        assert own.bind(confidence=0.8)(margin, law, rng()).queries.tolist() == [10, 10]
    finally:
        registry.remove("failure_estimators", "mine.py:few")


def test_the_estimators_need_neither_pydantic_nor_torch_to_be_imported():
    code = (
        "import roadworthy.search.splitting, sys; print({'pydantic', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
