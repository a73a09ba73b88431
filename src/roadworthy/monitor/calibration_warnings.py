"""What must be known about a calibration before any figure of its bundle is believed; it stands in the bundle, and is said again
wherever its figures are.

Each warning says what is wrong and what follows, then, behind a semicolon, what to do about it.

>>> in_short("15 clean rows are too few: no rate of false alarms holds; calibrate on more")
'15 clean rows are too few: no rate of false alarms holds'
>>> too_narrow(Coverage(0.95, 0.93, 60)) is None
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roadworthy.analysis.risk.calibration import FEW_OF_A_KIND
from roadworthy.monitor.risk_state import Coverage, Forecast

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.refusal import Separation

BEYOND = 3.0
"""Standard errors by which scores must tell shift from none."""
BELOW = 0.05
"""How far coverage may fall below the nominal before one is warned."""
FEW_CLEAN = 30
"""Clean rows below which nothing that is promised about them holds."""


def warnings_of(
    calibration: Calibration, separation: Separation, coverage: Coverage | None
) -> tuple[str, ...]:
    """All that there are, the gravest first."""
    found = (
        _untold(calibration, separation),
        _few_clean(calibration),
        _all_alike(calibration),
        one_kind(calibration),
        _few_of_a_kind(calibration),
        too_narrow(coverage),
    )
    return tuple(said for said in found if said is not None)


def expected_above(forecast: Forecast | None, tolerable: float, unit: str) -> str | None:
    """That the stream which is expected is not tolerable, or may not be: the alarm then says little."""
    if forecast is None or forecast.rate <= 0.0 or forecast.high <= tolerable:
        return None
    # The expectation itself, where it is above the limit, and not only what its interval leaves open.
    above = forecast.risk > tolerable
    up_to = "" if above else f", and up to {forecast.high:.4g} must be reckoned with"
    return (
        f"with {100 * forecast.rate:.3g}% of events shifted, as expected, the expected cost is {forecast.risk:.4g} {unit}"
        f"{up_to}, {'itself ' if above else ''}above the tolerable {tolerable:g}: alarms will be many; false alarms "
        "are counted without any shift"
    )


def in_short(warning: str) -> str:
    """Without the advice, for those who cannot calibrate again."""
    return warning.partition("; ")[0]


def few_kinds(calibration: Calibration) -> list[str]:
    """Kinds of shift of which there are too few independent rows."""
    rows = calibration.effective[1:]
    return [kind for kind, n in zip(calibration.kinds[1:], rows, strict=True) if n < FEW_OF_A_KIND]


def too_narrow(coverage: Coverage | None) -> str | None:
    """That intervals held the truth of unknown kinds much less often than they should."""
    if coverage is None or coverage.observed >= coverage.nominal - BELOW:
        return None
    return (
        f"under a kind of shift that it has not seen, the interval is right in {coverage.observed:.0%} of windows, not in "
        f"{coverage.nominal:.0%}: the calibrated kinds say too little about others, and intervals are to be read as too narrow; "
        "add kinds of shift"
    )


def one_kind(calibration: Calibration, *, add: str = "rows") -> str | None:
    """That nothing says how other kinds of shift differ from the one there is; `add` is what a user can add of others."""
    few = few_kinds(calibration)
    kinds = [kind for kind in calibration.kinds[1:] if kind not in few] or list(
        calibration.kinds[1:]
    )
    if len(kinds) != 1:
        return None
    enough = f" with {FEW_OF_A_KIND} rows or more" if len(calibration.kinds) > 2 else ""
    return (
        f"{kinds[0]} is the only kind of shift{enough}: nothing says how others differ from it, so that figures under any other "
        f"kind are a guess, and nobody could check how often their intervals hold; add {add} of other kinds"
    )


def _untold(calibration: Calibration, separation: Separation) -> str | None:
    if separation.enough:
        return None
    lumped = _of_few_groups(calibration)
    if lumped:
        most = max(n for n, _ in lumped)
        return (
            f"rows of {', '.join(kind for _, kind in lumped)} are of so few groups that they count for {_rows(most, 'row')} at "
            "most, too few to say whether the scores tell shift from none: every window of every stream will be 'cannot tell', "
            "and no alarm will ring by them; add rows of other groups, or, where rows of one group are independent of each "
            "other, name another column with --group, or none with --group none"
        )
    few = few_kinds(calibration)
    said, advice = "the scores do not tell", "add supervisors that tell shift, or rows"
    if separation.too_few:
        said, advice = "rows are too few to say whether the scores tell", "add rows"
    if few:
        advice = f"add rows of {' and '.join(few)}"
    return (
        f"{said} shift from none (told from clean {separation.auc:.2f} ± {BEYOND * separation.error:.2f}, where 0.50 is chance): "
        f"every window of every stream will be 'cannot tell', and no alarm will ring by them; {advice}"
    )


def _of_few_groups(calibration: Calibration) -> list[tuple[int, str]]:
    """Kinds, clean among them, of which there would be rows enough if they were independent, with how many are."""
    kinds = zip(calibration.effective, calibration.kinds, strict=True)
    return [
        (max(1, round(n)), kind) for n, kind in kinds if n < FEW_OF_A_KIND <= calibration.rows(kind)
    ]


def _few_clean(calibration: Calibration) -> str | None:
    rows = calibration.rows(calibration.kinds[0])
    if rows >= FEW_CLEAN:
        return None
    return (
        f"{_rows(rows, 'clean row')} {'is' if rows == 1 else 'are'} too few: neither the stated rate of false alarms nor how well "
        f"kinds are told from clean holds; calibrate on {FEW_CLEAN} clean rows at the least, better on some hundred"
    )


def _all_alike(calibration: Calibration) -> str | None:
    right, wrong = (int(n) for n in calibration.table.sum(axis=(0, 2)))
    if right and wrong:
        return None
    missing = "right" if wrong else "wrong"
    return (
        f"no {missing} answer in {_rows(right + wrong, 'row')}: how often answers are {missing} is not known, and no figure here "
        "says it; check the column of outcomes"
    )


def _few_of_a_kind(calibration: Calibration) -> str | None:
    few = few_kinds(calibration)
    if not few:
        return None
    rows = [calibration.rows(kind) for kind in few]
    alike = " of few groups" if max(rows) >= FEW_OF_A_KIND else ""
    said = (
        " and ".join(f"{_rows(n, 'row')} of {kind}" for n, kind in zip(rows, few, strict=True))
        + alike
    )
    too_few = f"{said} {'is' if rows == [1] else 'are'} too few"
    if len(few) == len(calibration.kinds) - 1:
        return f"{too_few}: whatever is said of shifted events rests on hardly anything; add rows"
    it = "that kind is" if len(few) == 1 else "those kinds are"
    return f"{too_few}: {it} left out of the bundle, of its figures and of its alarm; add rows"


def _rows(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
