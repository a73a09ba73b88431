"""The sentences about supervisors: what is recommended and why, how verdicts came about, who could not be asked.

>>> joined(["knn", "max_softmax", "vim"])
'knn, max_softmax and vim'
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import numbers
from .figure import place_name
from .run_view import RunView
from .supervisor_parts import Rate, Supervisor, Threshold


def recommended(view: RunView) -> str:
    """Which supervisors to run, and why; empty where the run recommends none."""
    if view.recommended is None:
        return ""
    labels = {s.name: s.label for s in view.supervisors}
    named = joined([labels.get(name, name) for name in view.recommended.names])
    why = view.recommended.why.strip()
    return f"Recommended: {named}." + (f" {_sentence(why, labels)}" if why else "")


def recommended_rates(view: RunView) -> str:
    """What the recommended set misses where it misses most, its false alarms, and on what it was chosen."""
    found = view.recommended
    if found is None:
        return ""
    subject, verb = ("Together they", "") if len(found.names) > 1 else ("It", "s")
    miss = "miss" + ("es" if verb else "")
    parts = []
    if found.worst is not None:
        place, rate = found.worst
        where = "on the clean data" if place == "clean" else f"under {place_name(*_split(place))}"
        parts.append(f"{miss} at most {_rate(rate)} of the failures ({where})")
    if found.false_alarms is not None and found.false_alarms.value is not None:
        parts.append(f"raise{verb} a false alarm in {_rate(found.false_alarms)} of the clean cases that are right")
    rates = f"{subject} {' and '.join(parts)}." if parts else ""
    if found.optimistic:
        chosen = (
            "Chosen on the test cases themselves, so these rates are optimistic: give calibration data to choose on."
        )
    else:
        chosen = f"Chosen on {found.chosen_on} data." if found.chosen_on else ""
    return " ".join(s for s in (rates, chosen) if s)


def verdicts(view: RunView) -> str:
    """How scores became verdicts, where all thresholds were chosen in one way; else where to look."""
    found = [s.threshold for s in view.supervisors if s.threshold is not None]
    if not found:
        return ""
    ways = {(t.ruled, t.chosen_on) for t in found}
    if len(ways) > 1:
        return "A score above the supervisor's threshold is an alarm; each threshold's rule stands in the table of thresholds."
    return f"A score above the supervisor's threshold is an alarm. Thresholds by {_chosen(found[0])}{_expected(found)}."


def inapplicable(view: RunView) -> list[tuple[str, list[str]]]:
    """Reasons why supervisors could not be asked, each with those whom it kept out."""
    found: dict[str, list[str]] = {}
    for s in view.supervisors:
        if not s.applicable:
            found.setdefault(s.because, []).append(s.label)
    return list(found.items())


def noted(supervisors: Sequence[Supervisor]) -> list[tuple[str, list[str]]]:
    """What supervisors remarked about themselves, each remark once with those who made it, in the order of the table."""
    found: dict[str, list[str]] = {}
    for s in supervisors:
        for note in s.notes:
            found.setdefault(note, []).append(s.label)
    return list(found.items())


def said_elsewhere(view: RunView, note: str) -> bool:
    """Whether a note of the run only repeats what stands with the supervisors."""
    return any(
        note == f"supervisor {s.name} is not applicable, because {s.because}"
        for s in view.supervisors
        if not s.applicable
    )


def joined(names: Sequence[str]) -> str:
    """Names as a sentence lists them."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _rate(rate: Rate) -> str:
    shown = numbers.estimate(rate.value, rate.interval, rate.n, "percent")
    ends = f" ({shown.interval} at {shown.confidence})" if rate.interval else ""
    return f"{shown.value}{ends}"


def _chosen(threshold: Threshold) -> str:
    return threshold.ruled + (f", chosen on {threshold.chosen_on}" if threshold.chosen_on else "")


def _expected(found: Sequence[Threshold]) -> str:
    rates = sorted({t.expected_rate for t in found if t.expected_rate is not None})
    if not rates:
        return ""
    low, high = (numbers.value(rate, "percent") for rate in (rates[0], rates[-1]))
    return f"; false alarms to expect: {low}" + (f" to {high}" if high != low else "")


def _split(place: str) -> tuple[str, float | None]:
    """Circumstance and level of ``snow@2``; a name that merely holds an @ stays whole."""
    name, at, level = place.rpartition("@")
    try:
        return (name, float(level)) if at else (place, None)
    except ValueError:
        return place, None


def _sentence(text: str, names: Collection[str]) -> str:
    """With a capital, unless it begins with the name of a component, and with a full stop."""
    text = text if text.split()[0] in names else text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."
