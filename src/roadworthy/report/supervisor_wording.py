"""The sentences about supervisors: what is recommended and why, how verdicts came about, who could not be asked.

>>> joined(["knn", "max_softmax", "vim"])
'knn, max_softmax and vim'
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from . import numbers
from .figure import place_name
from .notes import brief
from .run_view import RunView
from .supervisor_parts import Cover, Rate, Supervisor, Threshold


def recommended(view: RunView) -> str:
    """Which supervisors to run; empty where the run recommends none."""
    if view.recommended is None:
        return ""
    labels = {s.name: s.label for s in view.supervisors}
    return f"Recommended: {joined([labels.get(name, name) for name in view.recommended.names])}."


def not_recommended(view: RunView) -> str:
    """Why the run recommends no set, where it looked for one; else empty."""
    record = view.run.get("recommended")
    if view.recommended is not None or not isinstance(record, Mapping) or not record.get("why"):
        return ""
    return f"No set of supervisors is recommended. {_sentence(str(record['why']).strip(), ())}"


def on_top(view: RunView) -> str:
    """What the times of scoring leave out, where it is something; without a full stop."""
    by_passes: dict[int, list[str]] = {}
    for s in view.supervisors:
        if s.applicable and s.subject_passes:
            by_passes.setdefault(s.subject_passes, []).append(s.label)
    who = [f"about {k:,} for {joined(labels)}" for k, labels in sorted(by_passes.items())]
    if not who:
        return ""
    cost = f"which cost at most, in forward passes a case, {', '.join(who)}"
    return f"Score is without the passes or gradients of the subject itself, {cost}; dropout repeats only what follows it"


def recommended_because(view: RunView) -> str:
    """Why, in the run's own words."""
    why = view.recommended.why.strip() if view.recommended else ""
    return _sentence(why, {s.name for s in view.supervisors}) if why else ""


def recommended_rates(view: RunView) -> str:
    """What the recommended set misses at worst, on how many right answers it raises an alarm, and on what it was chosen."""
    found = view.recommended
    if found is None:
        return ""
    several = len(found.names) > 1
    parts = []
    if found.worst is not None:
        place, rate = found.worst
        widened = (
            f", widened for the worst of {found.places} places"
            if rate.interval and found.places > 1
            else ""
        )
        parts.append(
            f"{'miss' if several else 'misses'} {_rate(rate, widened)} of failures at worst ({_where(place)})"
        )
    if found.false_alarms is not None and found.false_alarms.value is not None:
        raised = "raise" if several else "raises"
        most = found.most_false_alarms
        at_most = (
            ""
            if most is None
            else f", at most {numbers.value(most[1], 'percent')} {_where(most[0])}"
        )
        parts.append(
            f"{raised} an alarm on {_rate(found.false_alarms)} of right answers on clean data{at_most}"
        )
    sentences = [f"{'Together they' if several else 'It'} {', and '.join(parts)}."] if parts else []
    if found.optimistic:
        sentences.append(
            "Chosen on the test cases themselves, which is optimistic: give calibration data to choose on."
        )
    elif found.chosen_on:
        sentences.append(f"Chosen on {found.chosen_on} data.")
    return " ".join(sentences)


def covered(view: RunView) -> str:
    """Who of the recommended set is best under which circumstance; empty where it has one member."""
    found = view.recommended
    if found is None or len(found.names) < 2 or not found.covers:
        return ""
    ranked = found.quantity.startswith("auc")
    who = [f"{c.circumstance}: {c.by}{_worth(c, ranked)}" for c in found.covers]
    told = "Who tells failures from right answers best, on the data that chose the set"
    heads = {"auc_failure": "The best AUC", "informedness": told}
    return f"{heads.get(found.quantity, 'Who catches most')}: {'; '.join(who)}."


def _worth(cover: Cover, ranked: bool) -> str:
    """The numbers behind the choice; what it catches stands beside the false alarms that this costs."""
    if cover.caught is not None and cover.false_alarms is not None:
        caught, false = (numbers.value(x, "percent") for x in (cover.caught, cover.false_alarms))
        return f" (catches {caught}, alarms on {false} of right answers)"
    return (
        ""
        if cover.rate is None
        else f" ({numbers.value(cover.rate, 'plain' if ranked else 'percent')})"
    )


def _where(place: str) -> str:
    return "on clean data" if place == "clean" else f"under {place_name(*_split(place))}"


def verdicts(view: RunView) -> str:
    """How scores became verdicts, where all thresholds were chosen in one way; else where to look."""
    found = [s.threshold for s in view.supervisors if s.threshold is not None]
    if not found:
        return ""
    alarm = "A score above the supervisor's threshold is an alarm"
    if len({t.ruled for t in found}) > 1:
        return f"{alarm}; each threshold's rule stands in the table of thresholds."
    return f"{alarm}. Thresholds by the rule {found[0].ruled}{_rows(found)}{_expected(found)}."


def inapplicable(view: RunView) -> list[tuple[str, list[str]]]:
    """Reasons why supervisors could not be asked, each with those whom it kept out."""
    found: dict[str, list[str]] = {}
    for s in view.supervisors:
        if not s.applicable:
            found.setdefault(s.because, []).append(s.label)
    return list(found.items())


def noted(supervisors: Sequence[Supervisor]) -> list[tuple[str, list[str]]]:
    """What supervisors remarked about themselves, each remark once with those who made it, in the order of the table.

    Remarks of one pattern (one for each class) are one.
    """
    found: dict[str, list[str]] = {}
    for s in supervisors:
        for note in brief(s.notes):
            found.setdefault(note, []).append(s.label)
    return list(found.items())


def said_elsewhere(view: RunView, note: str) -> bool:
    """Whether a note of the run only repeats what stands with the supervisors."""
    said = {
        f"supervisor {s.name} is not applicable, because {s.because}"
        for s in view.supervisors
        if not s.applicable
    }
    return note in said or note in {
        f"supervisor {s.name}: {n}" for s in view.supervisors for n in s.notes
    }


def other_notes(view: RunView) -> list[str]:
    """The notes of the run that stand nowhere else in a report."""
    return [note for note in view.run.get("notes") or () if not said_elsewhere(view, note)]


def joined(names: Sequence[str]) -> str:
    """Names as a sentence lists them."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _rate(rate: Rate, more: str = "") -> str:
    shown = numbers.estimate(rate.value, rate.interval, rate.n, "percent")
    ends = f" ({shown.interval} at {shown.confidence}{more})" if rate.interval else ""
    return f"{shown.value}{ends}"


def _rows(found: Sequence[Threshold]) -> str:
    """On what they were chosen; supervisors that some rows fitted have fewer left."""
    counts = sorted({t.chosen_on for t in found if isinstance(t.chosen_on, int)})
    named = sorted({t.rows for t in found if t.rows})
    if len(counts) > 1 and len(counts) == len(named):
        return f", chosen on {counts[0]:,} to {counts[-1]:,} rows"
    return f", chosen on {joined(named)}" if named else ""


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
