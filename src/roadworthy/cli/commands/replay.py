"""``roadworthy replay BUNDLE today.parquet``: what a monitor would have said of a stream."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from roadworthy.cli import exits, output
from roadworthy.cli.options import BundleFile, Json
from roadworthy.cli.output import bundle_notes, cost_of, date_text, many, percent
from roadworthy.cli.progress import open_progress

if TYPE_CHECKING:
    from roadworthy.monitor import Alarm
    from roadworthy.monitor.replay import Replay, ReplayedWindow

LONG = 300_000
"""Events from which on progress is shown."""
MOST_ALARMS, MOST_PARTS, ROWS = 20, 5, 40
"""Alarms, parts without an estimate, and windows that a terminal shows."""
EPILOG = (
    "Exit codes: 0 nothing to report, 1 an alarm was raised or the last window is above the limit "
    "with P > 97.5%, 2 usage or file error, 3 no alarm, but part of the stream has no estimate."
)
ALARM = ("kind", "reason", "event", "time", "exceedance", "risk")
"""Fields in JSON."""
TABLES = (".csv", ".tsv", ".gz", ".parquet", ".pq")
WRITTEN = (".csv", ".parquet", ".pq")
"""How the name of a file of windows may end."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("replay", epilog=EPILOG)(_replay)


def _replay(
    bundle: BundleFile,
    stream: Annotated[Path, Argument(help="CSV, CSV.gz or Parquet with the same scores, by time.")],
    window: Annotated[int | None, Option(min=10, help="Events a window (the alarm's).")] = None,
    everything: Annotated[bool, Option("--all", help="Show every window.")] = False,
    truth: Annotated[Path | None, Option(help="A table of id and correct to compare with.")] = None,
    correct: Annotated[str | None, Option(help="Column of right and wrong (correct).")] = None,
    time: Annotated[str | None, Option(help="Column of the time (time).")] = None,
    id: Annotated[str | None, Option(help="Column of the event's id (id).")] = None,
    score: Annotated[list[str] | None, Option(help="NAME=COLUMN of a bundle's score.")] = None,
    out: Annotated[Path | None, Option(help="Write the windows to Parquet or CSV.")] = None,
    json: Json = False,
) -> int:
    """Estimate accuracy and cost of a stream without labels, window by window; show alarms.

    If the table says which answers were right, that is shown too; the estimates never see it.
    """
    from roadworthy.cli.options import named_scores, refuse_no_folder, refuse_own_input
    from roadworthy.data.samples import DataError
    from roadworthy.data.scores import open_scores
    from roadworthy.monitor import Bundle
    from roadworthy.monitor.replay import replay

    if bundle.suffix.lower() in TABLES:
        raise DataError(f"{bundle} is a table; expected: roadworthy replay BUNDLE STREAM")
    if out is not None:
        if out.suffix.lower() not in WRITTEN:
            raise DataError(f"--out {out}: the name must end in {', '.join(WRITTEN)}")
        refuse_no_folder("--out", out)
        refuse_own_input("--out", out, bundle, stream, truth)
    chosen = Bundle.load(bundle)
    file = open_scores(
        stream,
        correct=correct,
        time=time,
        id=id,
        columns=named_scores(chosen.calibration.names, score or []),
        skips=("kind", "group"),
    )
    size = window or int(chosen.watched)
    rows = file.opened.rows or 0
    with open_progress(quiet=json or rows < LONG) as progress:
        progress.stage("replaying", rows)
        found = replay(
            chosen,
            file,
            window=size,
            every=size if everything or out else None,
            truth=truth,
            progress=progress.advance,
        )
    if out is not None:
        _write(found, out)
    windows = found.windows if everything else _evenly(found.windows)
    if json:
        output.print_json(_content(bundle, stream, found, windows))
    else:
        _print(bundle, stream, found, windows)
        if out is not None:
            print(f"Wrote {many(len(found.windows), 'window')} to {out}")
    if found.alarmed or found.above is not None:
        return exits.BREACHED
    return exits.MET if found.complete else exits.INCONCLUSIVE


def _write(found: Replay, path: Path) -> None:
    """The windows as a table."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rows = [window.record() for window in found.windows]
    # A column without values has the type that it has in other streams all the same.
    kinds = {"no_estimate": pa.string()} | dict.fromkeys(
        ("first_event", "last_event", "truth_known"), pa.int64()
    )
    table = pa.Table.from_pylist(
        rows, pa.schema([(name, kinds.get(name, pa.float64())) for name in rows[0]])
    )
    if path.suffix.lower() == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, compression="zstd")


def _evenly(windows: Sequence[ReplayedWindow], most: int = ROWS) -> Sequence[ReplayedWindow]:
    """All windows, or so many at even distances, the last one among them."""
    n = len(windows)
    return windows if n <= most else [windows[(i + 1) * n // most - 1] for i in range(most)]


def _print(path: Path, stream: Path, found: Replay, windows: Sequence[ReplayedWindow]) -> None:
    from roadworthy.numbers import amount

    bundle = found.bundle
    columns = {
        "Events": [f"{w.first:,}–{w.last:,}" for w in windows],
        "Until": [date_text(w.time) for w in windows],
        "Shifted": [percent(w.state.rate) if w.told else "" for w in windows],
        "Accuracy": [_accuracy(w) for w in windows],
        "Truth": [_truth(w) for w in windows],
        cost_of(bundle.unit): [
            f"{amount(w.state.risk)} [{amount(w.state.risk_low)}, {amount(w.state.risk_high)}]"
            if w.told
            else ""
            for w in windows
        ],
    }
    if bundle.tolerable is not None:
        columns[f"P(cost > {amount(bundle.tolerable)})"] = [
            percent(w.state.exceedance or 0.0) if w.told else "" for w in windows
        ]
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    output.print_lines(_head(path, stream, found, len(windows)))
    output.print_table(list(filled), zip(*filled.values(), strict=True), left=("Until", "Accuracy"))
    output.print_lines(_ending(found))


def _accuracy(window: ReplayedWindow) -> str:
    state = window.state
    if not window.told:
        return "no estimate"
    return (
        f"{percent(state.accuracy)} [{percent(state.accuracy_low)}, {percent(state.accuracy_high)}]"
    )


def _truth(window: ReplayedWindow) -> str:
    """The share of right answers, with the number of known outcomes if these are not all."""
    partly = "" if window.known == window.length else f" (of {window.known:,})"
    return "" if math.isnan(window.truth) else percent(window.truth) + partly


def _head(path: Path, stream: Path, found: Replay, rows: int) -> list[str]:
    """What stands above the table."""
    import numpy as np

    bundle, windows, calibration = found.bundle, found.windows, found.bundle.calibration
    every = f", one every {found.every:,}" if found.every != found.window else ""
    kinds = ", ".join(f"{kind} {calibration.rows(kind):,}" for kind in calibration.kinds)
    title = f"{bundle.title}: " if bundle.title != bundle.subject else ""
    accuracy = np.array([w.state.accuracy for w in windows])
    truth = np.array([w.truth for w in windows])
    lines = [
        f"{title}{stream}: {many(found.events, 'event')}, "
        f"{many(len(windows), 'window')} of {found.window:,}{every}",
        f"{path}: calibrated on rows of {kinds}",
        output.coverage_of(bundle),
        f"Not visible without labels: {'; '.join(bundle.blind_to)}.",
        *(f"warning: {warning}" for warning in bundle.warnings),
        *(f"note: {note}" for note in _notes(found)),
        "",
        f"accuracy  {output.bars(accuracy, np.array([w.told for w in windows]))}"
        "  from 0% ▁ to 100% █, ? no estimate",
    ]
    if np.isfinite(truth).any():
        lines.append(f"truth     {output.bars(truth, np.isfinite(truth))}")
    if rows < len(windows):
        lines.append(f"{rows} of {len(windows):,} windows; --all shows all, --out writes all")
    return lines


def _notes(found: Replay) -> list[str]:
    """Notes on the bundle and the stream."""
    counts = {
        "with a repeated id, counted once": found.repeated,
        "without an id": found.without_id,
        "with too few scores for an estimate": found.unscored,
    }
    counted = [f"{many(n, 'event')} {what}." for what, n in counts.items() if n]
    return list(dict.fromkeys([*bundle_notes(found.bundle), *found.notes, *counted]))


def _ending(found: Replay) -> list[str]:
    """What stands below the table: alarms, parts without an estimate, and the truth."""
    lines = [_alarm(found, alarm) for alarm in found.alarms[:MOST_ALARMS]]
    if len(found.alarms) > MOST_ALARMS:
        lines.append(f"… {len(found.alarms) - MOST_ALARMS:,} more; --json has all.")
    if not found.alarmed and found.bundle.tolerable is not None:
        lines.append(_no_alarm(found))
    return [*lines, *_silent(found), *_revealed(found)]


def _alarm(found: Replay, alarm: Alarm) -> str:
    from roadworthy.analysis.risk.tree import priced
    from roadworthy.numbers import amount

    bundle = found.bundle
    when = f" ({date_text(alarm.time)})" if not math.isnan(alarm.time) else ""
    at = f"event {alarm.event:,}{when}"
    if alarm.kind == "no estimate":
        return f"NO ESTIMATE at {at}, for a whole window: {alarm.reason}."
    if alarm.kind != "raised":
        return f"{'Alarm cleared' if alarm.kind == 'cleared' else 'Estimates again'} at {at}."
    if alarm.exceedance is None or alarm.risk is None:
        return f"ALARM at {at}: {alarm.reason or 'no estimate'}. The cost is unknown."
    return (
        f"ALARM at {at}: P(cost > {priced(bundle.tolerable or 0.0, bundle.unit)}) = "
        f"{percent(alarm.exceedance)}; expected cost {amount(alarm.risk)}."
    )


def _no_alarm(found: Replay) -> str:
    from roadworthy.analysis.risk.tree import priced

    limit = priced(found.bundle.tolerable or 0.0, found.bundle.unit)
    if found.above is None:
        return f"No alarm: P(cost > {limit}) or its evidence stayed below the alarm's threshold."
    return (
        f"No alarm was raised; the last window is above {limit} with P = {percent(found.above)}, but "
        "the evidence for shift was too weak for the false-alarm budget. Treat it as an alarm."
    )


def _silent(found: Replay) -> list[str]:
    """Neighbouring windows without an estimate, and why there is none."""
    groups = [
        list(run) for told, run in itertools.groupby(found.windows, lambda w: w.told) if not told
    ]
    lines = [
        f"No estimate, events {part[0].first:,} to {part[-1].last:,}: "
        f"{part[len(part) // 2].state.no_estimate}."
        for part in groups[:MOST_PARTS]
    ]
    if len(groups) > MOST_PARTS:
        lines.append(f"… and {len(groups) - MOST_PARTS:,} more such parts.")
    if not found.complete:
        lines.append("Treat missing estimates as an alarm: nothing is known about these events.")
    return lines


def _revealed(found: Replay) -> list[str]:
    """The estimates against known outcomes."""
    from roadworthy.statistics import wilson

    compared, (known, right) = found.compared, found.outcomes
    if compared is not None:
        share = percent(compared.covered / compared.windows)
        lines = [
            f"Truth: within the 95% interval in {compared.covered:,} of "
            f"{many(compared.windows, 'window')} ({share}); mean absolute error "
            f"{100 * compared.mean_absolute_error:.1f} pp."
        ]
        if missed := compared.above_tolerable_without_alarm:
            lines.append(f"No alarm was on in {many(missed, 'window')} above the limit.")
        return lines
    if not known:
        return []
    bounds = wilson(right, known)
    return [
        f"Truth of a sample: {right:,} of {known:,} known answers are right, "
        f"{percent(right / known)} [{percent(bounds.low)}, {percent(bounds.high)}] if drawn at "
        "random. Intervals are compared only if 90% of a window's outcomes are known."
    ]


def _content(
    path: Path, stream: Path, found: Replay, windows: Sequence[ReplayedWindow]
) -> dict[str, Any]:
    from dataclasses import asdict

    from roadworthy.web.views import risk_view

    bundle, calibration = found.bundle, found.bundle.calibration
    compared, (known, right) = found.compared, found.outcomes
    return {
        "bundle": str(path),
        "bundle_id": bundle.id,
        "subject": bundle.title,
        "stream": str(stream),
        "calibrated_on": list(calibration.kinds),
        "kinds": [
            {"kind": kind, "rows": calibration.rows(kind), "accuracy": calibration.accuracy(kind)}
            for kind in calibration.kinds
        ],
        "confidence": bundle.confidence,
        "coverage": bundle.coverage and asdict(bundle.coverage),
        "blind_to": list(bundle.blind_to),
        "unit": bundle.unit,
        "tolerable": bundle.tolerable,
        "events": found.events,
        "unscored": found.unscored,
        "repeated": found.repeated,
        "without_id": found.without_id,
        "window": found.window,
        "every": found.every,
        "windows_in_all": len(found.windows),
        "no_estimate": sum(not w.told for w in found.windows),
        "windows": [w.record() for w in windows],
        "at_the_end": [risk_view(state) for state in found.at_end],
        "alarms": [
            {name: getattr(alarm, name) for name in ALARM}
            | {"time": None if math.isnan(alarm.time) else alarm.time}
            for alarm in found.alarms
        ],
        "truth": compared and {**compared._asdict(), "said": _revealed(found)[1:]},
        "known_outcomes": {"known": known, "right": right} if known else None,
        "warnings": list(bundle.warnings),
        "notes": _notes(found),
    }
