"""What `make demo` ends with: the run that was just assessed, at work.

``python examples/live/demo.py [RUN]``; without a folder the newest run of examples/fashion.

The classifier of examples/fashion answers images that its run has not seen, with the supervisors of
that run; the monitor that the run compiled into reads their scores, and no labels. Then the camera
fails, in a way that is none of the circumstances of the run: twice, in two streams. What the
classifier's own confidence makes of them, what the monitor makes of them and, at the end, what was
true. On a terminal it is paced; in a log it is not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq
from drawing import ALARM, Frame, chart, legend
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.text import Text
from stream import Stream, haze, negative

from roadworthy import Bundle, Monitor, Supervised
from roadworthy.analysis.simulation.estimators import Cbpe
from roadworthy.monitor import Alarm
from roadworthy.store.runs import CALIBRATION, list_runs

RUNS, NAME = Path("runs"), "fashion"
"""Where `make demo` puts the run of examples/fashion/assessment.yaml."""
WIDTH = 60
"""Columns of a chart."""
ALL, READING = 26.0, 11.0
"""Seconds on a terminal: everything together, and the pauses to read in; the streams share the rest."""


@dataclass(frozen=True)
class Deployed:
    """A run in production, and for comparison an estimate from confidence alone."""

    run: Path
    supervised: Supervised
    bundle: Bundle
    confidence: Cbpe

    @classmethod
    def of(cls, run: Path) -> Deployed:
        """Load the run; confidence is fitted to right answers on its clean calibration cases."""
        table = pq.read_table(run / CALIBRATION)
        clean = np.asarray(table["circumstance"]) == ""
        confidence, correct = (np.asarray(table[c])[clean] for c in ("confidence", "correct"))
        bundle = Bundle.load(run / "monitor" / "bundle.json")
        return cls(run, Supervised(run), bundle, Cbpe.fit(confidence, correct))

    @property
    def window(self) -> int:
        """Events that an estimate looks back on."""
        return int(self.bundle.watched)

    @property
    def wrong(self) -> float:
        """What a wrong answer costs."""
        return self.bundle.tree.costs[1]


@dataclass
class Watched:
    """A stream as it is answered and watched."""

    stream: Stream
    deployed: Deployed
    monitor: Monitor = field(init=False)
    sure: list[float] = field(default_factory=list)
    """The confidence of every answer."""
    right: list[bool] = field(default_factory=list)
    """Which answers are right: revealed at the end."""

    def __post_init__(self) -> None:
        self.monitor = Monitor(self.deployed.bundle)

    def frames(self) -> Iterator[Frame]:
        """Answer images as they come, and look at the last window now and then."""
        window = self.deployed.window
        for start, end in pairwise(np.linspace(0, len(self.stream.truth), WIDTH + 1).astype(int)):
            answers = self.deployed.supervised.batch(self.stream.images[start:end])
            self.monitor.update(answers)
            self.sure += [answer.confidence for answer in answers]
            truth = self.stream.truth[start:end]
            self.right += [a.prediction == t for a, t in zip(answers, truth, strict=True)]
            state = self.monitor.risk()
            says = float(self.deployed.confidence.estimate(np.array(self.sure[-window:])))
            ours = state.accuracy, state.accuracy_low, state.accuracy_high
            yield Frame(int(end), says, *ours, state.no_estimate, state.alarm, state.risk)

    def accuracy(self, end: int) -> float:
        """The truth about the last window."""
        return float(np.mean(self.right[max(0, end - self.deployed.window) : end]))


@dataclass(frozen=True)
class Stage:
    """Where it is shown: paced on a terminal, line by line in a log, or only the ends of streams."""

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


def alarm_line(alarms: Sequence[Alarm], bundle: Bundle) -> Text:
    """The alarm that is on."""
    last = [alarm for alarm in alarms if alarm.kind == "raised"][-1]
    text = Text("      ").append(f"ALARM after {last.event:,} events", ALARM)
    if last.risk is None or last.exceedance is None:
        return text.append(": unlike anything calibrated; no estimate of its cost")
    return text.append(
        f": {last.risk:.2f} {bundle.unit} expected, "
        f"p(over {bundle.tolerable:.2f}) = {last.exceedance:.2f}"
    )


def play(stage: Stage, watched: Watched, *, seconds: float) -> list[Frame]:
    """Show a stream as it comes in; then the truth."""
    frames: list[Frame] = []
    monitor = watched.monitor

    def picture(*, revealed: bool = False) -> Group:
        known = [watched.accuracy(f.event) for f in frames] if revealed else None
        under = [legend(frames[-1], truth=known[-1] if known else None)]
        if frames[-1].alarm:
            under.append(alarm_line(monitor.alarms, monitor.bundle))
        if frames[-1].no_estimate is not None:
            under.append(Text(f"      No estimate: {frames[-1].no_estimate}.", "bold"))
        return Group(chart(frames, WIDTH, truth=known), *under)

    if stage.mode != "live":
        for frame in watched.frames():
            frames.append(frame)
            if stage.mode == "log" and (len(frames) % 6 == 0 or _news(frames)):
                stage.say(frame.line())
        stage.console.print(picture(revealed=True), soft_wrap=stage.mode == "log")
        return frames
    began = time.monotonic()
    with Live(console=stage.console, auto_refresh=False) as live:
        for frame in watched.frames():
            frames.append(frame)
            live.update(picture(), refresh=True)
            stage.pause(max(0.0, began + seconds * len(frames) / WIDTH - time.monotonic()))
        stage.pause(1.0)
        live.update(picture(revealed=True), refresh=True)
    stage.pause(2.0)
    return frames


def _news(frames: Sequence[Frame]) -> bool:
    """Whether the last look changed what is said: an alarm, or whether there is an estimate."""
    if len(frames) < 2:
        return False
    before, now = frames[-2:]
    return before.alarm != now.alarm or (before.no_estimate is None) != (now.no_estimate is None)


def introduce(stage: Stage, deployed: Deployed) -> None:
    """Whose monitor it is, and what it was calibrated on."""
    bundle = deployed.bundle
    rule, kinds = bundle.alarm, [k.replace("_", " ") for k in bundle.calibration.kinds]
    assert rule is not None
    stage.say(
        "\n[bold]After release, without labels[/bold]\n"
        f"The monitor of {deployed.run}, calibrated on:\n{', '.join(kinds)}.\n"
        f"A wrong answer costs {deployed.wrong:.2f} EUR; "
        f"up to {bundle.tolerable:.2f} {bundle.unit} is tolerable.\n"
        f"False alarms accepted: {rule.false_alarms}, at {rule.events_per_day:,.0f} events a day."
    )


def first_story(stage: Stage, deployed: Deployed) -> None:
    """A shift of a kind that was not calibrated on."""
    stream = Stream.failing(haze)
    stage.say(
        f"\n[bold]Today's stream[/bold]: {len(stream.truth):,} images without a label. "
        "How many answers are right?\n"
    )
    watched = Watched(stream, deployed)
    frames = play(stage, watched, seconds=stage.share(2))
    alarms = [a for a in watched.monitor.alarms if a.kind == "raised"]
    raised = [a for a in alarms if a.event > stream.begins]
    known = [f for f in frames if f.no_estimate is None]
    after = [f for f in known if f.event >= stream.begins + deployed.window]
    truth = np.array([watched.accuracy(f.event) for f in after])
    off = [
        np.abs(np.array(says) - truth).mean()
        for says in ([f.confidence for f in after], [f.accuracy for f in after])
    ]
    held = np.mean([f.low <= watched.accuracy(f.event) <= f.high for f in known])
    stage.add(f"The truth: haze, never calibrated on, began after event {stream.begins:,}.")
    points = [f"{100 * each:.0f}" for each in off]
    stage.add(
        f"Since then confidence was {points[0]} points off, roadworthy {points[1]}; "
        f"its band held {held:.0%}."
    )
    if raised:
        late = watched.right[stream.begins : raised[0].event]
        paid = deployed.wrong * late.count(False)
        came = f"The alarm came {len(late):,} events later; their mistakes cost {paid:,.0f} EUR."
        stage.add(f"{came} False alarms: {len(alarms) - len(raised)}.")
    stage.pause(2.5)


def second_story(stage: Stage, deployed: Deployed) -> None:
    """A stream that is like nothing calibrated."""
    stream = Stream.failing(negative)
    stage.say(
        f"\n[bold]Another stream[/bold]: {len(stream.truth):,} images; "
        "it becomes unlike anything calibrated.\n"
    )
    watched = Watched(stream, deployed)
    last = play(stage, watched, seconds=stage.share(1))[-1]
    stage.add(
        f"The truth: {watched.accuracy(last.event):.0%} of the answers are right, "
        f"and confidence says {last.confidence:.0%}."
    )
    stage.pause(1.5)


def newest_run() -> Path:
    """The last run that `make demo` made."""
    found = [run["folder"] for run in list_runs(RUNS) if run["name"] == NAME]
    if not found:
        raise SystemExit(
            f"No run of {NAME} under {RUNS}/. Run: "
            f"roadworthy assess examples/fashion/assessment.yaml --runs {RUNS}"
        )
    return RUNS / str(found[0])


def main(stage: Stage | None = None, run: Path | None = None) -> None:
    """Both streams, and what to read for one's own."""
    stage, run = stage or Stage.here(), run or newest_run()
    deployed = Deployed.of(run)
    introduce(stage, deployed)
    first_story(stage, deployed)
    second_story(stage, deployed)
    stage.say(
        "\nThe same in ten lines of Python, and over HTTP:\n[bold]examples/live/live.py[/bold]\n"
        f"The run that this monitor comes from:\n[bold]{run / 'report.html'}[/bold]"
    )


if __name__ == "__main__":
    main(run=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
