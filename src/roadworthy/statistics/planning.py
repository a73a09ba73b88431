"""How many cases would settle a finding that is inconclusive now.

>>> cases_to_settle(0.95, 0.92, n=200, confidence=0.975, method="wilson")
315
>>> cases_to_settle_mean(1.8, 2.0, half_width=0.4, n=100)
400
"""

from __future__ import annotations

import math

from .arguments import Sided
from .proportion import ProportionMethod, proportion_bounds

_MOST_CASES = 10**15


def _clears(value: float, limit: float, size: float, confidence: float, method: ProportionMethod) -> bool:
    sided: Sided = "lower" if value > limit else "upper"
    low, high = proportion_bounds(value * size, size, confidence=confidence, sided=sided, method=method)
    return bool(low >= limit) if value > limit else bool(high <= limit)


def cases_to_settle(
    value: float,
    limit: float,
    *,
    n: int,
    effective_n: float | None = None,
    confidence: float = 0.95,
    method: ProportionMethod = "wilson",
) -> int | None:
    """The smallest total number of cases whose one-sided bound clears the limit, if the value stays.

    The design effect n / effective_n stays too. None where the value is at the limit: no number settles it.
    At most n where the cases at hand already suffice.
    """
    if not (0.0 <= value <= 1.0 and 0.0 <= limit <= 1.0):
        raise ValueError(f"expected proportions, found {value!r} and {limit!r}; see cases_to_settle_mean")
    size = float(n) if effective_n is None else float(effective_n)
    if n < 1 or not 0.0 < size <= n * (1.0 + 1e-9):
        raise ValueError(f"expected n >= 1 and 0 < effective_n <= n, found {n!r} and {effective_n!r}")
    if value == limit:
        return None
    effect = n / size
    high = 1
    while not _clears(value, limit, high / effect, confidence, method):
        high *= 2
        if high > _MOST_CASES:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if _clears(value, limit, middle / effect, confidence, method):
            high = middle
        else:
            low = middle
    return high


def cases_to_settle_mean(value: float, limit: float, half_width: float, n: int) -> int | None:
    """The cases at which a half width that shrinks with the root of n equals the distance to the limit.

    `half_width` is the distance from the value to its bound on the limit's side. None where the value is at
    the limit, or where the half width is infinite.
    """
    if not (math.isfinite(value) and math.isfinite(limit)):
        raise ValueError(f"value and limit must be finite, found {value!r} and {limit!r}")
    if n < 1 or math.isnan(half_width) or half_width < 0.0:
        raise ValueError(f"expected n >= 1 and half_width >= 0, found n={n!r} and half_width={half_width!r}")
    if value == limit or math.isinf(half_width):
        return None
    needed = n * (half_width / abs(value - limit)) ** 2
    # A product such as 100 * 2.0000000000000004 ** 2 must not cost one more case.
    return max(1, math.ceil(needed * (1.0 - 1e-12))) if needed <= _MOST_CASES else None
