"""How many cases would settle a finding that is inconclusive now.

A plan that puts the bound of the expected outcome at the limit settles the matter every other time. Here the
number is planned for `power`: with so many cases, the bound clears the limit with that probability if the true
value is the one seen. For independent cases the probability is binomial; effective sizes of cases in groups,
and large numbers, use the normal approximation with a correction for continuity. The number always exceeds n.

>>> cases_to_settle(0.95, 0.92, n=200, confidence=0.975, method="wilson")
572
>>> cases_to_settle_mean(1.8, 2.0, half_width=0.4, n=100)
915
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .arguments import Sided, check_confidence
from .clusters import discounted_size
from .proportion import ProportionMethod, proportion_bounds

_MOST_CASES = 10**15
# Beyond so many cases the normal approximation is as good as the binomial, and a plan no more exact than that.
_MOST_BINOMIAL = 20_000
POWER = 0.8


def cases_to_settle(
    value: float,
    limit: float,
    *,
    n: int,
    effective_n: float | None = None,
    groups: int | None = None,
    confidence: float = 0.95,
    method: ProportionMethod = "wilson",
    power: float = POWER,
) -> int | None:
    """The smallest total number of cases above n at which the one-sided bound clears the limit with `power`.

    The design effect n / effective_n stays, and with `groups` the cases come in groups of the size seen, whose
    number gives the degrees of freedom of the (z / t)^2 discount. `confidence` is what the claim is judged with,
    corrected for multiplicity where it is. None where the value is at the limit: no number settles it.
    """
    if not (0.0 <= value <= 1.0 and 0.0 <= limit <= 1.0):
        raise ValueError(
            f"expected proportions, found {value!r} and {limit!r}; see cases_to_settle_mean"
        )
    size = float(n) if effective_n is None else float(effective_n)
    if n < 1 or not 0.0 < size <= n * (1.0 + 1e-9):
        raise ValueError(
            f"expected n >= 1 and 0 < effective_n <= n, found {n!r} and {effective_n!r}"
        )
    check_confidence(power)
    if value == limit:
        return None
    tail = 1.0 - check_confidence(confidence)

    def settles(total: int) -> bool:
        effective = total * size / n
        if groups is not None and groups < n:
            effective = discounted_size(effective, max(1.0, groups * total / n - 1.0), tail)
        return _power(value, limit, effective, confidence, method) >= power

    return smallest_number(settles, n + 1)


def smallest_number(settles: Callable[[int], bool], least: int) -> int | None:
    """The smallest number of cases that settles, by doubling and bisection.

    Power rises with the number but for the saw-tooth of whole successes.
    """
    high = least
    while not settles(high):
        high *= 2
        if high > _MOST_CASES:
            return None
    low = max(high // 2, least - 1)
    while high - low > 1:
        middle = (low + high) // 2
        if settles(middle):
            high = middle
        else:
            low = middle
    return high


def _power(
    value: float, limit: float, size: float, confidence: float, method: ProportionMethod
) -> float:
    """P(the bound clears the limit) for outcomes of `size` cases whose true proportion is `value`."""
    from scipy.special import bdtr, bdtrc, ndtr

    above = value > limit
    edge = _edge(limit, size, confidence, method, above)
    if edge is None:
        return 0.0
    spread = math.sqrt(value * (1.0 - value) * size)
    if spread == 0.0:
        return float(value * size >= edge if above else value * size <= edge)
    if size <= _MOST_BINOMIAL and size == int(size):
        return float(
            bdtrc(math.ceil(edge) - 1, int(size), value)
            if above
            else bdtr(math.floor(edge), int(size), value)
        )
    # Half a count against us: whole successes clear the edge more rarely than the normal curve says.
    distance = (value * size - edge) if above else (edge - value * size)
    return float(ndtr((distance - 0.5) / spread))


def _edge(
    limit: float, size: float, confidence: float, method: ProportionMethod, above: bool
) -> float | None:
    """The fewest (or, below the limit, the most) successes whose bound clears the limit; None where none does."""

    from scipy.special import betainc, betaincc

    def clears(successes: float) -> bool:
        if method == "clopper_pearson":
            # The exact bound clears where the limit's own tail is small enough; no need to solve for the bound.
            if above:
                return bool(
                    successes > 0
                    and betainc(successes, size - successes + 1.0, limit) <= 1.0 - confidence
                )
            return bool(
                successes < size
                and betaincc(successes + 1.0, size - successes, limit) <= 1.0 - confidence
            )
        sided: Sided = "lower" if above else "upper"
        low, high = proportion_bounds(
            successes, size, confidence=confidence, sided=sided, method=method
        )
        return bool(low >= limit) if above else bool(high <= limit)

    inner, outer = limit * size, size if above else 0.0
    if not clears(outer):
        return None
    # A hundredth of a success is finer than any plan.
    while abs(outer - inner) > 0.01:
        middle = (inner + outer) / 2.0
        if clears(middle):
            outer = middle
        else:
            inner = middle
    return outer


def cases_to_settle_mean(
    value: float,
    limit: float,
    half_width: float,
    n: int,
    *,
    confidence: float = 0.95,
    power: float = POWER,
) -> int | None:
    """The cases at which a half width that shrinks with the root of n clears the limit with `power`.

    `half_width` is the distance from the value to its one-sided bound at `confidence` on the limit's side. The
    estimate must fall z(power) standard errors on the right side, so n grows by ((z(confidence) + z(power)) /
    z(confidence))^2 beyond the number that puts the bound at the limit. None where the value is at the limit, or
    where the half width is infinite.
    """
    from scipy.special import ndtri

    if not (math.isfinite(value) and math.isfinite(limit)):
        raise ValueError(f"value and limit must be finite, found {value!r} and {limit!r}")
    if n < 1 or math.isnan(half_width) or half_width < 0.0:
        raise ValueError(
            f"expected n >= 1 and half_width >= 0, found n={n!r} and half_width={half_width!r}"
        )
    if check_confidence(confidence) <= 0.5 or check_confidence(power) <= 0.5:
        raise ValueError(
            f"a plan needs confidence and power above 0.5, found {confidence!r} and {power!r}"
        )
    if value == limit or math.isinf(half_width):
        return None
    z = float(ndtri(confidence))
    needed = n * (half_width / abs(value - limit) * (z + float(ndtri(power))) / z) ** 2
    # A product such as 100 * 2.0000000000000004 ** 2 must not cost one more case.
    return max(n + 1, math.ceil(needed * (1.0 - 1e-12))) if needed <= _MOST_CASES else None
