"""``roadworthy replay BUNDLE today.parquet``: what a monitor would have said of a stream, window by window."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.analysis.risk.amounts import amount, priced
from roadworthy.cli import exits, showing
from roadworthy.cli.amounts import cost_of, is_date, line, many, moment, percent

if TYPE_CHECKING:
    from rich.console import Console

    from roadworthy.cli.replaying import Compared, Replayed
    from roadworthy.cli.stream_parts import Truth
    from roadworthy.monitor.bundle import Bundle

LONG = 300_000
"""Events from which on progress is shown."""
MOST_ALARMS = 20
"""Alarms that a terminal shows, the first and the last ones."""
MOST_PARTS = 5
"""Parts of a stream of which it is told why they cannot be told."""
ROWS = 40
"""Windows that a terminal shows."""

EPILOG = (
    "Exit codes: 0 nothing to report, 1 an alarm was raised, or the last window is all but surely above the "
    "tolerable, 2 usage or file error, 3 no alarm, but part of the stream cannot be "
    "told."
)
TABLES = (".csv", ".tsv", ".gz", ".parquet", ".pq")
WRITTEN = (".csv", ".parquet", ".pq")
"""What windows are written as, by how the name ends."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("replay", epilog=EPILOG)(replay)


def replay(
    bundle: Annotated[Path, typer.Argument(help="What `roadworthy calibrate` wrote.")],
    stream: Annotated[
        Path,
        typer.Argument(help="CSV, CSV.gz or Parquet with the same scores, in the order of time."),
    ],
    window: Annotated[
        int | None, typer.Option(min=10, help="Events a window (that of the alarm).")
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=1, help="Events from one window to the next.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every window, also where they do not fit a screen.")
    ] = False,
    truth: Annotated[
        Path | None, typer.Option(help="A table of id and correct, to be revealed beside.")
    ] = None,
    correct: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Whether the answer was right (correct).")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="When it happened (time).")
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The name of the event (id).")
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="Where a score of the bundle stands."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the windows to a Parquet or CSV file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> int:
    """Accuracy and cost of a stream without labels, window by window, with intervals; alarms; or why nobody can tell.

    Where the table says which answers were right, that is shown beside and held against the intervals; the estimates never see it.
    """
    from roadworthy.cli.replaying import replay as replayed
    from roadworthy.cli.scores_asked import scores_asked
    from roadworthy.data.scores import open_scores
    from roadworthy.monitor.bundle import Bundle

    _refuse_swapped(bundle, stream)
    if out is not None:
        _refuse_unwritable(out, bundle, stream, truth)
    chosen = Bundle.load(bundle)
    file = open_scores(
        stream,
        correct=correct,
        time=time,
        id=id,
        columns=scores_asked(chosen.calibration.names, score or []),
        skips=("kind", "group"),
    )
    known = None if truth is None else _truth(truth)
    size = window or (chosen.alarm.window if chosen.alarm else min(chosen.windows.lengths))
    step = every or (size if everything or out else None)
    rows = file.opened.rows
    with showing.shown(quiet=json or (rows or 0) < LONG) as progress:
        progress.stage("replaying", rows or 0)
        found = replayed(
            chosen, file, window=size, every=step, truth=known, advance=progress.advance
        )
    if out is not None:
        write(found, out)
    if json:
        showing.print_json(_content(chosen, bundle, stream, found, everything=everything))
    else:
        _print(chosen, bundle, stream, found, showing.console(), everything=everything)
        if out is not None:
            print(
                f"{many(len(found.ends), 'window')} {'is' if len(found.ends) == 1 else 'are'} in {out}"
            )
    return (
        exits.BREACHED
        if found.alarmed or found.above
        else exits.MET
        if found.whole
        else exits.INCONCLUSIVE
    )


def _truth(path: Path) -> Truth:
    """Outcomes by id; whatever else such a table says, it has no part in them."""
    from roadworthy.cli.stream_parts import Truth
    from roadworthy.data.samples import DataError
    from roadworthy.data.scores import plainly, read_scores

    try:
        return Truth(
            read_scores(path, columns=[], needs=("id", "correct"), skips=("kind", "group", "time"))
        )
    except DataError as error:  # options that choose columns are about the stream
        raise DataError(f"--truth: {plainly(error)}") from error


def _refuse_swapped(bundle: Path, stream: Path) -> None:
    from roadworthy.data.samples import DataError

    if bundle.suffix.lower() not in TABLES:
        return
    if stream.suffix.lower() == ".json":
        raise DataError(
            f"the bundle comes first, then the stream: roadworthy replay {stream} {bundle}"
        )
    raise DataError(
        f"{bundle} is a table; first comes the bundle that `roadworthy calibrate` made of one, then the stream"
    )


def _refuse_unwritable(out: Path, *inputs: Path | None) -> None:
    """Before any work: what could not be written at its end."""
    from roadworthy.cli.options import refuse_no_folder, refuse_own_input
    from roadworthy.data.samples import DataError

    if out.suffix.lower() not in WRITTEN:
        raise DataError(
            f"--out {out}: windows are written to {', '.join(WRITTEN)}; choose one of these endings"
        )
    refuse_no_folder("--out", out)
    refuse_own_input("--out", out, *inputs)


def write(found: Replayed, path: Path) -> None:
    """The windows as a table."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rows = [found.record(at) for at in range(len(found.ends))]
    # A column in which nothing stands today has the type of tomorrow's all the same.
    kinds = {"cannot_tell": pa.string()} | dict.fromkeys(
        ("first_event", "last_event", "truth_known"), pa.int64()
    )
    table = pa.Table.from_pylist(
        rows, pa.schema([(name, kinds.get(name, pa.float64())) for name in rows[0]])
    )
    if path.suffix.lower() == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, compression="zstd")


def shown(n: int, most: int = ROWS) -> list[int]:
    """Which of n windows are shown: all, or so many at even distances, the last one among them.

    >>> shown(3), shown(100, 4)
    ([0, 1, 2], [24, 49, 74, 99])
    """
    return list(range(n)) if n <= most else [(i + 1) * n // most - 1 for i in range(most)]


def _print(
    bundle: Bundle, path: Path, stream: Path, found: Replayed, out: Console, *, everything: bool
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(range(len(found.ends))) if everything else shown(len(found.ends))
    for text in head(bundle, path, stream, found, len(rows)):
        out.print(Text(text), soft_wrap=True)
    timed, labelled = (
        bool((found.times == found.times).any()),
        bool((found.truth == found.truth).any()),
    )
    unit = bundle.tree.unit
    until = "Until (UTC)" if any(map(is_date, found.times)) else "Until"
    headers = [
        "Events",
        *([until] if timed else []),
        "Shifted",
        "Accuracy",
        *(["Truth"] if labelled else []),
    ]
    headers += [
        cost_of(unit),
        *([f"Above {amount(bundle.tolerable)}"] if bundle.tolerable is not None else []),
    ]
    table = Table(box=box.SIMPLE_HEAD)
    for header in headers:
        table.add_column(
            header, justify="left" if header in (until, "Accuracy") else "right", overflow="fold"
        )
    for at in rows:
        table.add_row(*map(Text, _row(bundle, found, at, timed=timed, labelled=labelled)))
    out.print(table)
    for text in ending(bundle, found):
        out.print(Text(text), soft_wrap=True)


def head(bundle: Bundle, path: Path, stream: Path, found: Replayed, rows: int) -> list[str]:
    """What stands above the table."""
    from roadworthy.cli import resting_on
    from roadworthy.cli.cautions import warnings_in_short

    every = f", one every {found.every:,}" if found.every != found.window else ""
    if int(found.ends[-1]) % found.every:
        every += ", the last at the end of the stream"
    # A table calibrated by hand names its subject after itself, which line two says.
    called = f"{bundle.title}: " if bundle.title != bundle.subject else ""
    rows_of, *rest = resting_on.lines(bundle, found)
    lines = [
        f"{called}{stream}: {many(found.events, 'event')}, {many(len(found.ends), 'window')} of {found.window:,}{every}",
        f"{path}: {rows_of}",
        *rest,
    ]
    lines += [f"warning: {said}" for said in warnings_in_short(bundle)]
    lines += [f"note: {note}" for note in (*resting_on.cautions(bundle, stream), *found.notes)]
    if found.repeated:
        repeat = (
            "repeats the id of another and is"
            if found.repeated == 1
            else "repeat the id of another and are"
        )
        lines.append(f"note: {many(found.repeated, 'event')} {repeat} counted once")
    if found.nameless:
        have = "has no id, and" if found.nameless == 1 else "have no id, and each"
        lines.append(f"note: {many(found.nameless, 'event')} {have} counts as one of its own")
    lines += [
        "",
        f"accuracy  {line(found.estimates.accuracy, found.told)}  from 0 ▁ to 1 █, ? cannot tell",
    ]
    if (found.truth == found.truth).any():
        lines.append(f"truth     {line(found.truth, found.truth == found.truth)}")
    if rows < len(found.ends):
        lines.append(
            f"{rows} of {len(found.ends):,} windows (--all shows every one, --out writes every one)"
        )
    return lines


def _row(bundle: Bundle, found: Replayed, at: int, *, timed: bool, labelled: bool) -> list[str]:
    e = found.estimates
    last = int(found.ends[at])
    cells = [
        f"{last - found.window + 1:,}–{last:,}",
        *([moment(float(found.times[at]), zone=False)] if timed else []),
    ]
    true = [_true(found, at)] if labelled else []
    if e.cannot_tell[at] is not None:
        return [
            *cells,
            "",
            "cannot tell",
            *true,
            "",
            *([""] if bundle.tolerable is not None else []),
        ]
    cells += [
        f"{e.rate[at]:.0%}",
        f"{e.accuracy[at]:.2f} [{e.accuracy_low[at]:.2f}, {e.accuracy_high[at]:.2f}]",
        *true,
    ]
    cells.append(f"{amount(e.risk[at])} [{amount(e.risk_low[at])}, {amount(e.risk_high[at])}]")
    return [*cells, *([f"{e.exceedance[at]:.1%}"] if bundle.tolerable is not None else [])]


def _true(found: Replayed, at: int) -> str:
    """The share of right answers, and of how many events where not of all of the window."""
    if found.truth[at] != found.truth[at]:
        return ""
    known = int(found.known[at])
    return f"{found.truth[at]:.2f}" + ("" if known == found.window else f" (of {known:,})")


def ending(bundle: Bundle, found: Replayed) -> list[str]:
    """What stands below the table: alarms, what cannot be told and why, and how the truth compares."""
    from roadworthy.cli.revealing import against, of_a_sample
    from roadworthy.cli.windows_besides import end_lines

    lines = end_lines(found.at_end)
    alarms = [_alarm(bundle, found, alarm) for alarm in found.alarms]
    if len(alarms) > MOST_ALARMS:
        alarms[MOST_ALARMS // 2 : -MOST_ALARMS // 2] = [
            f"… {len(alarms) - MOST_ALARMS:,} more (--json has them all) …"
        ]
    lines += alarms
    if not any(alarm.kind == "raised" for alarm in found.alarms) and bundle.tolerable is not None:
        lines.append(_no_alarm(bundle, found, bundle.tolerable))
    lines += _doubts(found)
    if found.compared is not None:
        lines += [_revealed(found, found.compared), *against(bundle, found)]
    else:
        lines += of_a_sample(found)
    return lines


def _no_alarm(bundle: Bundle, found: Replayed, tolerable: float) -> str:
    from roadworthy.cli.alarm_words import never_looked

    limit, rule = priced(tolerable, bundle.unit), bundle.alarm
    unseen = never_looked(rule, found.events) if rule else None
    if found.above is None:
        where = "" if found.whole else ", as far as it can be told"
        if unseen is not None:
            return f"No alarm: it {unseen}."
        if not where and found.seemed_above and rule and rule.keeps_rate:
            return (
                f"No alarm: where the cost seems above {limit}, that is not so much likelier than no shift at all; chance alone "
                f"would do as much more often than {rule.false_alarms}."
            )
        return f"No alarm: at no time was it likely enough that the cost is above {limit}{where}."
    why = ""
    if unseen is not None:
        why = f": the alarm {unseen}"
    elif rule and rule.keeps_rate:
        looked = found.events // rule.stride * rule.stride
        asks = (
            "asks for more"
            if looked == found.events
            else f"asked for more when it looked last, at event {looked:,}"
        )
        why = f"; it was set to ring {rule.false_alarms} at most without shift, and {asks}"
    elif rule:  # where it is sure it has nothing to prove, but reads another window, or the same one with fewer draws
        why = (
            f"; over the last {rule.window:,} events, as the alarm reads them, it was never as sure"
        )
    return (
        f"No alarm was raised although the cost of the last window is above {limit} with a probability of {found.above:.1%}{why}. "
        "Take that as seriously as an alarm."
    )


def _alarm(bundle: Bundle, found: Replayed, alarm: Any) -> str:
    when = found.time_of(alarm.event)
    at = f"event {alarm.event:,}" + (f" ({moment(when)})" if when == when else "")
    if alarm.kind == "cannot tell":
        return f"CANNOT TELL at {at}, for a whole window: {alarm.reason}."
    if alarm.kind != "raised":
        return (
            f"Alarm cleared at {at}."
            if alarm.kind == "cleared"
            else f"Figures can be relied on again at {at}."
        )
    if alarm.exceedance is None or alarm.risk is None:
        return f"ALARM at {at}: {alarm.reason or 'its window cannot be told'}; how much that costs cannot be told."
    # The windows of the table may be of another length than the one that the alarm watches.
    rule = bundle.alarm
    over = f"over the last {rule.window:,} events " if rule and rule.window != found.window else ""
    return (
        f"ALARM at {at}: {over}the cost may be above {priced(bundle.tolerable or 0.0, bundle.unit)} (probability "
        f"{alarm.exceedance:.1%}); expected {amount(alarm.risk)}."
    )


def _doubts(found: Replayed) -> list[str]:
    """Neighbouring windows that cannot be told, as one sentence."""
    silent = [at for at, reason in enumerate(found.estimates.cannot_tell) if reason is not None]
    lines = []
    for _, run in itertools.groupby(enumerate(silent), lambda pair: pair[1] - pair[0]):
        part = [at for _, at in run]
        first, last = int(found.ends[part[0]]) - found.window + 1, int(found.ends[part[-1]])
        reason = found.estimates.cannot_tell[part[len(part) // 2]]
        which = f"events {first:,} to {last:,}"
        if found.every > found.window:  # what lies between them was not read
            every = (
                "every window that was read"
                if len(part) == len(found.ends)
                else many(len(part), "window")
            )
            which = f"{every}, from event {first:,} to {last:,}"
        lines.append(f"Cannot tell, {which}, because {reason}.")
    if len(lines) > MOST_PARTS:
        lines = [*lines[:MOST_PARTS], f"… and {len(lines) - MOST_PARTS:,} more such parts."]
    lines += [f"note: {note}" for note in found.out_of_reach]
    warning = "Take that as seriously as an alarm: no figure stands for these events."
    return lines if found.whole else [*lines, warning]


def _revealed(found: Replayed, compared: Compared) -> str:
    silent = int((~found.told).sum())
    more = f"; {silent:,} that it could not tell are left out" if silent else ""
    return (
        f"Truth revealed: it lies within the 95% interval in {compared.covered:,} of {many(compared.windows, 'window')} "
        f"({percent(compared.covered / compared.windows)}), and the estimate is off by {compared.mean_absolute_error:.3f} "
        f"on average{more}."
    )


def _content(
    bundle: Bundle, path: Path, stream: Path, found: Replayed, *, everything: bool
) -> dict[str, Any]:
    from roadworthy.cli import resting_on
    from roadworthy.cli.cautions import warnings_in_short
    from roadworthy.cli.revealing import sampled, unseen_in
    from roadworthy.cli.windows_besides import end_records

    sample = sampled(found)
    rows = range(len(found.ends)) if everything else shown(len(found.ends))
    return {
        "bundle": str(path),
        "bundle_id": bundle.id,
        "subject": bundle.title,
        "stream": str(stream),
        "calibrated_on": list(bundle.calibration.kinds),
        **resting_on.content(bundle),
        "unit": bundle.tree.unit,
        "tolerable": bundle.tolerable,
        "events": found.events,
        "unscored": found.unscored,
        "repeated": found.repeated,
        "without_id": found.nameless,
        "window": found.window,
        "every": found.every,
        "windows_in_all": len(found.ends),
        "cannot_tell": int((~found.told).sum()),
        "windows": [found.record(at) for at in rows],
        "at_the_end": end_records(found.at_end),
        "alarms": [
            {
                "kind": a.kind,
                "reason": a.reason,
                "event": a.event,
                "time": t if (t := found.time_of(a.event)) == t else None,
                "exceedance": a.exceedance,
                "risk": a.risk,
            }
            for a in found.alarms
        ],
        "truth": None
        if found.compared is None
        else {**found.compared._asdict(), **unseen_in(bundle, found)},
        "known_outcomes": None if sample is None else sample._asdict(),
        "warnings": warnings_in_short(bundle),
        "notes": [*resting_on.cautions(bundle, stream), *found.notes, *found.out_of_reach],
    }
