"""A bundle with all windows, a prior and a name for people: what the service shows of them, and whom it takes for its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import monitored
import numpy as np
import pytest
from monitored import SUBJECT, Service, events, serving

from roadworthy.cli.app import run
from roadworthy.monitor import Bundle, EventError, Events, Monitor, Windows
from roadworthy.monitor.bundle import RatePrior, expected_state
from roadworthy.web.offline import kept
from roadworthy.web.state_file import beside

TITLE = "withrisk 1.0"


@pytest.fixture(scope="module")
def titled() -> Bundle:
    plain = monitored.bundle()
    made = replace(
        plain,
        made={**plain.made, "subject": TITLE},
        windows=Windows((100, 1000), 60.0, True),
        prior=RatePrior(0.04, 50.0),
    )
    return replace(made, self_test=expected_state(made))


@pytest.fixture(scope="module")
def service(titled: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("titled")
    titled.save(folder / "lesion.json")
    with serving(folder / "lesion.json", folder / "state.sqlite") as running:
        yield running


def test_windows_and_prior_are_told_by_names_that_people_understand(service: Service):
    before = service.get("/v1/risk")
    assert before["prior"] == pytest.approx({"rate": 0.04, "events": 50.0})
    assert all(w["rate"] is None for w in before["windows"]), "no event has come yet"
    batch = [*events(900, first=0), *events(150, first=900, shifted=1.0)]
    assert service.post(batch).status == 200
    found = {w["window"]: w for w in service.get("/v1/risk")["windows"]}
    assert {name: w["label"] for name, w in found.items()} == {
        "100": "100 events",
        "1000": "1,000 events",
        "decay": "fading, half after 60 events",
        "adaptive": "since the last change",
    }
    weights = 2.0 ** (-np.arange(len(batch)) / 60.0)
    independent = found["100"]["effective_n"] / found["100"]["n"]
    n_eff = weights.sum() ** 2 / (weights**2).sum()
    assert found["decay"]["effective_n"] / independent == pytest.approx(n_eff, rel=1e-5)
    assert (
        found["adaptive"]["n"] == pytest.approx(150, abs=20)
        and found["1000"]["rate"] < found["adaptive"]["rate"]
    )
    shown = service.get("/v1/bundle")
    assert shown["prior"] == before["prior"] and {w["label"] for w in shown["windows"]} == {
        w["label"] for w in found.values()
    }
    metrics = service.ask("GET", "/metrics").body.decode()
    for name in ("decay", "adaptive"):
        line = next(
            text
            for text in metrics.splitlines()
            if text.startswith(f'roadworthy_rate{{window="{name}"}}')
        )
        assert float(line.split()[1]) == pytest.approx(found[name]["rate"])
    assert [w["window"] for w in service.get("/v1/risk?window=decay")["windows"]] == ["decay"]


def test_events_and_labels_may_call_the_subject_as_people_do(service: Service):
    for i, name in enumerate((TITLE, SUBJECT)):
        one, *many = ({**event, "subject": name} for event in events(4, first=2000 + 10 * i))
        assert service.post(one).json["accepted"] == 1 and service.post(many).json["accepted"] == 3
        label = {"id": one["id"], "correct": True, "subject": name}
        assert service.post(label, "/v1/labels").json["taken"] == 1
    mixed = [
        {**event, "subject": (TITLE, SUBJECT)[i % 2]}
        for i, event in enumerate(events(4, first=3000))
    ]
    assert service.post(mixed).json["accepted"] == 4


@pytest.mark.parametrize("wrong", ["withrisk 1.1", "", None, ["withrisk 1.0"]])
def test_another_subject_is_refused_with_the_names_that_are_taken(service: Service, wrong: object):
    event = {**events(1, first=9000)[0], "subject": wrong}
    for posted in (event, [event, event]):
        reply = service.post(posted)
        assert (
            reply.status == 409
            and repr(SUBJECT) in reply.json["error"]
            and repr(TITLE) in reply.json["error"]
        )
    reply = service.post({"id": "e1", "correct": True, "subject": wrong}, "/v1/labels")
    assert reply.status == 409 and repr(TITLE) in reply.json["error"]


def test_the_library_takes_both_names_too(titled: Bundle):
    monitor = Monitor(titled)
    for name in (TITLE, SUBJECT):
        monitor.update(Events(None, None, columns={"knn": [0.0], "energy": [0.0]}), subject=name)
    assert monitor.state.counted == 2
    with pytest.raises(EventError, match=f"this monitor watches '{SUBJECT}' or '{TITLE}'"):
        monitor.update_one("x", 1.0, {"knn": 0.0, "energy": 0.0}, subject="withrisk")


def test_the_label_queue_finds_the_only_state_of_a_folder(
    titled: Bundle, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run(["monitor", "label-queue", "-n", "3"]) == 2
    said = capsys.readouterr().err
    assert "*.state.sqlite" in said and "http://127.0.0.1:8321" in said
    monitor = Monitor(titled)
    rng = np.random.default_rng(0)
    monitor.update(
        Events(
            list("abcdefgh"),
            None,
            columns={"knn": rng.normal(size=8), "energy": rng.normal(size=8)},
        )
    )
    kept(monitor, beside(Path("lesion.bundle.json")))
    assert run(["monitor", "label-queue", "-n", "3"]) == 0
    said = capsys.readouterr()
    assert (
        said.err.strip() == "state: lesion.bundle.state.sqlite" and len(said.out.splitlines()) == 4
    )
    kept(Monitor(titled), beside(Path("another.json")))
    assert run(["monitor", "label-queue", "-n", "3"]) == 2
    assert "another.state.sqlite, lesion.bundle.state.sqlite" in capsys.readouterr().err
