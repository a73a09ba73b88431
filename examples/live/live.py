"""From the assessment to production: ``python examples/live/live.py``, ten seconds on two cores.

Assesses a classifier, loads it with its supervisors and the monitor that the run compiled into, and
feeds it images; then the lens becomes damp. First in this process, then through the service.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream import Stream, haze

import roadworthy

ASSESSMENT = Path(__file__).parent / "assessment.yaml"
BATCH = 20


def main(runs: Path | None = None) -> None:
    """Assess, then watch the same stream twice; the run lies under `runs`, or beside the file."""
    run = roadworthy.assess(ASSESSMENT, runs=runs)
    print(run)
    supervised = roadworthy.Supervised(run.folder)
    bundle, stream = run.folder / "monitor" / "bundle.json", Stream.failing(haze)
    print(supervised(stream.images[0]))
    in_process(supervised, bundle, stream)
    over_http(supervised, bundle, stream)


def in_process(supervised: roadworthy.Supervised, bundle: Path, stream: Stream) -> None:
    """A few lines in the program that runs the model."""
    monitor = roadworthy.Monitor(roadworthy.Bundle.load(bundle))
    for start in range(0, len(stream.images), BATCH):
        answers = supervised.batch(stream.images[start : start + BATCH])
        monitor.update(answers)
        if start + BATCH in (stream.begins, len(stream.images)):
            state = monitor.risk()
            print(f"In process, after {start + BATCH} images: {told(vars(state))}")
    print("In process:", *(f"alarm {a.kind} at event {a.event};" for a in monitor.alarms))


def over_http(supervised: roadworthy.Supervised, bundle: Path, stream: Stream) -> None:
    """The same events through the service, which may run elsewhere and keeps what it counted."""
    with service(bundle) as address:
        for start in range(0, len(stream.images), BATCH):
            answers = supervised.batch(stream.images[start : start + BATCH])
            ask(f"{address}/v1/events", [answer.event for answer in answers])
        windows = ask(f"{address}/v1/risk")["windows"]
        print(f"Over HTTP, after {len(stream.images)} images: {told(windows[0])}")
        alarms = ask(f"{address}/v1/alarms")["alarms"]
        print("Over HTTP:", *(f"alarm {a['kind']} at event {a['event']};" for a in alarms))


def told(state: dict[str, object]) -> str:
    """The estimate of a window, or why there is none."""
    if state["no_estimate"]:
        return f"no estimate: {state['no_estimate']}"
    right = "{accuracy:.0%} right ({accuracy_low:.0%} to {accuracy_high:.0%})"
    return f"{right}, {{risk:.2f}} {{unit}}".format(**state)


@contextmanager
def service(bundle: Path) -> Iterator[str]:
    """`roadworthy monitor` on a free port of 127.0.0.1, ended in the end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "roadworthy", "monitor", str(bundle)]
        state = ["--port", "0", "--state", f"{folder}/state.sqlite"]
        process = subprocess.Popen([*command, *state], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            said = process.stdout.readline()  # monitor of … at http://127.0.0.1:PORT (state: …
            yield re.findall(r"http://[\d.:]+", said)[0]
        finally:
            process.terminate()
            process.wait()


def ask(url: str, content: object = None) -> dict[str, object]:
    """GET, or POST if there is something to send."""
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
