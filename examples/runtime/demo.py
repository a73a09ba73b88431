"""Thirty seconds of a monitor at work: ``python examples/runtime/demo.py``; `make demo` ends with it. The core install is enough.

A classifier of clothes and its supervisors were calibrated on four kinds of shift (examples/scores). Two streams follow that nobody
has labelled: one with a shift of another kind, and one that is like nothing calibrated. What the classifier's own confidence
makes of them, what the monitor makes of them and, at the end, what was true. On a terminal it is paced; in a log it is not.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from drawing import ALARM, Axis, Frame, chart, legend
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import Costs, base_tree
from roadworthy.analysis.simulation.estimators import Cbpe
from roadworthy.data.scores import ScoreTable, open_table, read_scores
from roadworthy.monitor import Alarm, Bundle, Events, Monitor, Windows

SCORES = Path(__file__).parents[1] / "scores"
CONFIDENCE = "max_softmax"
"""The score that is 1 minus the classifier's confidence."""
WINDOW = 200
WRONG, TOLERABLE, UNIT = 4.0, 0.5, "EUR per case"
"""What a wrong answer costs (a parcel sent back), and the expected cost above which someone should know."""
WIDTH = 60
"""Columns of a chart."""
ALL, READING = 26.0, 11.0
"""Seconds on a terminal: everything together, and the pauses to read in; what is left is shared by the two streams."""
FALSE_ALARMS, A_DAY = "1 per month", 3000
COMMANDS = ("calibrate yours.csv", "replay yours.bundle.json today.csv")


@dataclass(frozen=True)
class Stream:
    """Scores as they come in, and a truth that the monitor never sees."""

    scores: ScoreTable
    kind: np.ndarray
    correct: np.ndarray

    @classmethod
    def read(cls, name: str) -> Stream:
        """A stream of examples/scores, and its truth in the same order."""
        (truth,) = open_table(SCORES / f"{name}_truth.parquet").pieces(
            ["id", "kind", "correct"], set(), 10**6
        )
        scores = read_scores(SCORES / f"{name}.parquet")
        if truth["id"].to_pylist() != list(scores.id):
            raise SystemExit(f"{name}_truth.parquet is not in the order of {name}.parquet")
        return cls(
            scores,
            np.array(truth["kind"].to_pylist()),
            np.array(truth["correct"].to_pylist(), dtype=bool),
        )

    @property
    def begins(self) -> int:
        """How many events come before the first shifted one."""
        return int((self.kind != "clean").argmax())

    def accuracy(self, end: int) -> float:
        """The truth about the last window."""
        return float(self.correct[max(0, end - WINDOW) : end].mean())


def before_release(stage: Stage) -> tuple[Bundle, Cbpe]:
    """What is done once: calibrate the monitor, set its alarm, and fit confidence to right answers on the clean rows."""
    table = read_scores(SCORES / "calibration.parquet", needs=("kind", "correct"))
    calibration = fit_calibration(table.columns, table.kind, table.correct)
    kinds = ", ".join(kind.replace("_", " ") for kind in calibration.kinds)
    stage.say(
        "\n[bold]After release, without labels[/bold]\n"
        f"A classifier of clothes, calibrated on {table.n:,} labelled rows:\n{kinds}.\n"
        f"A wrong answer costs {WRONG:.2f} EUR; up to {TOLERABLE:.2f} {UNIT} is tolerable.\n"
        f"False alarms accepted: {FALSE_ALARMS}, at {A_DAY:,} events a day."
    )
    bundle = Bundle.compile(
        calibration,
        base_tree(Costs(wrong=WRONG), unit=UNIT),
        subject="examples/fashion",
        tolerable=TOLERABLE,
        windows=Windows((WINDOW,)),
        false_alarms=FALSE_ALARMS,
        events_per_day=A_DAY,
    )
    clean = table.kind == "clean"
    return bundle, Cbpe.fit(1.0 - table.columns[CONFIDENCE][clean], table.correct[clean])


def watched(monitor: Monitor, confidence: Cbpe, scores: ScoreTable) -> Iterator[Frame]:
    """Hand the events over as they come, and look at the last window now and then."""
    right = confidence.probability(1.0 - scores.columns[CONFIDENCE])
    ends = np.linspace(0, scores.n, WIDTH + 1).astype(int)
    for start, end in pairwise(ends):
        part = slice(start, end)
        columns = {name: column[part] for name, column in scores.columns.items()}
        monitor.update(Events(id=scores.id[part], time=scores.time[part], columns=columns))
        state = monitor.risk(window=WINDOW)
        says = float(right[max(0, end - WINDOW) : end].mean())
        ours = state.accuracy, state.accuracy_low, state.accuracy_high
        yield Frame(int(end), says, *ours, state.cannot_tell, state.alarm, state.risk)


def alarm_line(alarms: Sequence[Alarm]) -> Text:
    """The alarm that is on."""
    last = [alarm for alarm in alarms if alarm.kind == "raised"][-1]
    text = Text("      ").append(f"ALARM after {last.event:,} events", ALARM)
    if last.risk is None or last.exceedance is None:
        return text.append(": unlike anything calibrated; no estimate of its cost")
    return text.append(
        f": {last.risk:.2f} {UNIT} expected, p(over {TOLERABLE:.2f}) = {last.exceedance:.2f}"
    )


@dataclass(frozen=True)
class Stage:
    """Where it is shown: live and paced on a terminal, line by line in a log, or only how each stream ends, for a picture."""

    console: Console
    mode: Literal["live", "log", "still"]
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def here(cls) -> Stage:
        """What fits where standard output goes."""
        console = Console(highlight=False)
        return cls(console, "live" if console.is_terminal else "log")

    def say(self, text: str | Text | Padding) -> None:
        """A line, or several."""
        if self.mode == "log":
            self.console.print(text, soft_wrap=True)
        else:
            self.console.print(text)

    def add(self, text: str) -> None:
        """A line under a chart."""
        self.say(f"      {text}" if self.mode == "log" else Padding(text, (0, 0, 0, 6)))

    def share(self, streams: int) -> float:
        """Seconds for one of so many streams that are still to come."""
        left = ALL - READING / 2 * streams - (time.monotonic() - self.began)
        return max(left / streams, 2.0)

    def pause(self, seconds: float) -> None:
        """Time to read, where somebody watches."""
        if self.mode == "live":
            time.sleep(seconds)


def play(
    stage: Stage, stream: Stream, bundle: Bundle, confidence: Cbpe, *, seconds: float
) -> tuple[list[Frame], Monitor]:
    """Show a stream as it comes in; then the truth."""
    monitor = Monitor(bundle)
    frames: list[Frame] = []
    truth = [stream.accuracy(int(end)) for end in np.linspace(0, stream.scores.n, WIDTH + 1)[1:]]
    axis = Axis.above(min(truth))

    def picture(*, revealed: bool = False) -> Group:
        known = truth if revealed else None
        under = [legend(frames[-1], truth=truth[-1] if revealed else None)]
        if frames[-1].alarm:
            under.append(alarm_line(monitor.alarms))
        if frames[-1].cannot_tell is not None:
            under.append(Text(f"      No estimate: {frames[-1].cannot_tell}.", "bold"))
        return Group(chart(frames, axis, WIDTH, truth=known), *under)

    looks = watched(monitor, confidence, stream.scores)
    if stage.mode != "live":
        for frame in looks:
            frames.append(frame)
            if stage.mode == "log" and (len(frames) % 6 == 0 or _news(frames)):
                stage.say(frame.line())
        stage.console.print(picture(revealed=True), soft_wrap=stage.mode == "log")
        return frames, monitor
    began = time.monotonic()
    with Live(console=stage.console, auto_refresh=False) as live:
        for frame in looks:
            frames.append(frame)
            live.update(picture(), refresh=True)
            stage.pause(max(0.0, began + seconds * len(frames) / WIDTH - time.monotonic()))
        stage.pause(1.0)
        live.update(picture(revealed=True), refresh=True)
    stage.pause(2.0)
    return frames, monitor


def _news(frames: Sequence[Frame]) -> bool:
    """Whether the last look changed what is said: an alarm, or that there is no estimate any more."""
    if len(frames) < 2:
        return False
    before, now = frames[-2:]
    return before.alarm != now.alarm or (before.cannot_tell is None) != (now.cannot_tell is None)


def first_story(stage: Stage, bundle: Bundle, confidence: Cbpe) -> None:
    """A shift of a kind that was not calibrated on."""
    stream = Stream.read("today")
    stage.say(
        f"\n[bold]Today's stream[/bold]: {stream.scores.n:,} events without a label. How many answers are right?\n"
    )
    frames, monitor = play(stage, stream, bundle, confidence, seconds=stage.share(2))
    alarms = [a for a in monitor.alarms if a.kind == "raised"]
    raised = [a for a in alarms if a.event > stream.begins]
    after = [f for f in frames if f.event >= stream.begins + WINDOW]
    truth = np.array([stream.accuracy(f.event) for f in after])
    off = [
        np.abs(np.array(says) - truth).mean()
        for says in ([f.confidence for f in after], [f.accuracy for f in after])
    ]
    held = np.mean([f.low <= stream.accuracy(f.event) <= f.high for f in frames])
    kind = str(stream.kind[stream.begins]).replace("_", " ")
    stage.add(f"The truth: {kind}, never calibrated on, began after event {stream.begins:,}.")
    points = [f"{100 * each:.0f}" for each in off]
    stage.add(
        f"Since then confidence was {points[0]} points off, roadworthy {points[1]}; its band held {held:.0%}."
    )
    if raised:
        delay = slice(stream.begins, raised[0].event)
        paid = WRONG * float((~stream.correct[delay]).sum())
        came = f"The alarm came {raised[0].event - stream.begins:,} events later; their mistakes cost {paid:,.0f} EUR."
        stage.add(f"{came} False alarms: {len(alarms) - len(raised)}.")
    stage.pause(2.5)


def second_story(stage: Stage, bundle: Bundle, confidence: Cbpe) -> None:
    """A stream that is like nothing calibrated."""
    stream = Stream.read("strange")
    stage.say(
        f"\n[bold]Another stream[/bold]: {stream.scores.n:,} events, unlike anything calibrated.\n"
    )
    frames, _ = play(stage, stream, bundle, confidence, seconds=stage.share(1))
    last = frames[-1]
    stage.add(
        f"The truth: {stream.accuracy(last.event):.0%} of the answers are right, and confidence says {last.confidence:.0%}."
    )
    stage.pause(1.5)


def command() -> str:
    """How `roadworthy` is called from here: by its name where that is found, else by the path of the one beside this Python."""
    beside = Path(sys.executable).with_name("roadworthy")
    if shutil.which(beside.name) or not beside.is_file():
        return beside.name
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)


def main(stage: Stage | None = None) -> None:
    """Both streams, and what to type for one's own."""
    stage = stage or Stage.here()
    bundle, confidence = before_release(stage)
    first_story(stage, bundle, confidence)
    second_story(stage, bundle, confidence)
    stage.say(
        "\nYour own file:\n" + "\n".join(f"[bold]{command()} {rest}[/bold]" for rest in COMMANDS)
    )


if __name__ == "__main__":
    main()
