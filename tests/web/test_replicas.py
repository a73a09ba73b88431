"""Two replicas put together equal one that saw all: by file, by address, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from monitored import batch_of, bundle, counting_at, events, serving

from roadworthy.cli.app import run
from roadworthy.monitor import Bundle, Events, Monitor
from roadworthy.web.events import Label
from roadworthy.web.offline import questions, together


def state_of(path: Path, made: Bundle, items: list[dict], labels: list[Label] = []) -> None:  # noqa: B006
    counting = counting_at(path, made)
    for at in range(0, len(items), 70):
        counting.commit([batch_of(items[at : at + 70], made)])
    if labels:
        counting.commit([labels])
    counting.file.close()


def test_two_replicas_merged_equal_one_that_saw_all(made, tmp_path):
    stream = events(900, shifted=0.3)
    shared = stream[400:420]
    halves = (
        [e for i, e in enumerate(stream) if i % 2 or e in shared],
        [e for i, e in enumerate(stream) if not i % 2 or e in shared],
    )
    labels = [Label(f"e{i}", i % 4 > 0, 0.5) for i in range(0, 60)]
    for name, half, part in zip("ab", halves, (labels[1::2], labels[0::2]), strict=True):
        state_of(tmp_path / f"{name}.sqlite", made, half, part)
    state_of(tmp_path / "all.sqlite", made, stream, labels)
    state_of(tmp_path / "none.sqlite", made, [])
    whole, both = (
        together([str(tmp_path / x), str(tmp_path / y)]).monitor
        for x, y in (("all.sqlite", "none.sqlite"), ("a.sqlite", "b.sqlite"))
    )
    assert both.state.counted == 900 == whole.state.counted and both.state.taken.repeated == 20
    for name in ("100", "1000"):
        # When an alarm began is each replica's own, and so is how alike events were until then, by which the next is judged.
        own = {"alarm": both.alarm, "alarm_log_odds": both.risk(name).alarm_log_odds}
        assert both.risk(name).to_dict() == {**whole.risk(name).to_dict(), **own}
    oracle = Monitor(made)
    columns = {name: [e["scores"][name] for e in stream] for name in ("knn", "energy")}
    oracle.update(Events([e["id"] for e in stream], [e["time"] for e in stream], columns=columns))
    assert (both.state.buckets.total() == oracle.state.buckets.total()).all()
    assert both.risk("1000").risk == oracle.risk("1000").risk


def test_running_replicas_are_merged_into_a_state_that_a_service_goes_on_from(
    bundle_path, tmp_path, capsys
):
    with (
        serving(bundle_path, tmp_path / "a.sqlite") as a,
        serving(bundle_path, tmp_path / "b.sqlite") as b,
    ):
        a.post(events(200))
        b.post(events(200, first=100, shifted=0.02))
        into = tmp_path / "both.sqlite"
        capsys.readouterr()
        assert (
            run(
                [
                    "monitor",
                    "merge",
                    a.address,
                    b.address,
                    "--bundle",
                    str(bundle_path),
                    "--into",
                    str(into),
                    "--json",
                ]
            )
            == 0
        )
        told = json.loads(capsys.readouterr().out)
        assert told["events"]["accepted"] == 300 and told["events"]["repeated"] == 100
        assert run(["monitor", "merge", a.address, str(tmp_path / "b.sqlite")]) == 0
        assert "300 events of lesion-2.3.1" in capsys.readouterr().out
        assert run(["monitor", "merge", a.address, b.address]) == 2
        assert "--bundle" in capsys.readouterr().err
    with serving(bundle_path, into) as service:
        assert service.counted() == 300
        assert service.post(events(300)).json["repeated"] == 300


def test_replicas_of_other_bundles_and_single_states_are_refused(made, tmp_path, capsys):
    state_of(tmp_path / "a.sqlite", made, events(20))
    state_of(tmp_path / "b.sqlite", bundle(subject="lesion-2.4.0"), events(20))
    for sources, says in (
        (("a", "b"), "undles differ"),
        (("a",), "two states"),
        (("a", "none"), "no such state file"),
    ):
        assert run(["monitor", "merge", *(str(tmp_path / f"{s}.sqlite") for s in sources)]) == 2
        assert says in capsys.readouterr().err


def test_the_label_queue_draws_from_a_file_and_from_a_service(bundle_path, tmp_path, capsys):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(400, shifted=0.4))
        found = questions(service.address, 15)
        state = str(tmp_path / "s.sqlite")
        assert run(["monitor", "label-queue", state, "-n", "5"]) == 2
        assert "in use by a running monitor" in capsys.readouterr().err
        service.post([{"id": q["id"], "correct": True} for q in found], "/v1/labels")
        assert service.get("/v1/live")["total"]["labels"] == 15
        service.stop()
    assert run(["monitor", "label-queue", state, "-n", "15", "--json"]) == 0
    more = json.loads(capsys.readouterr().out)["questions"]
    assert len({q["id"] for q in (*found, *more)}) == 30
    assert run(["monitor", "label-queue", state, "-n", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t") == ["id", "probability", "time"] and len(lines) == 6
    assert run(["monitor", "label-queue", str(tmp_path / "nothing.sqlite")]) == 2
    assert run(["monitor", "label-queue", "http://127.0.0.1:1"]) == 2
    assert run(["monitor", "label-queue", str(tmp_path / "s.sqlite"), "--window", "7"]) == 2
    assert "window '7'" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--help", "serve"])
def test_the_first_word_is_a_bundle_or_a_command(word, capsys):
    run(["monitor", word])
    said = capsys.readouterr()
    assert "label-queue" in said.out or "BUNDLE" in said.err.upper()
