"""A server has many models and versions: the sidecar counts the answers of one, and passes the others' on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler

import pytest
from monitored import Service, answering, serving, until

from roadworthy.cli.app import run
from roadworthy.web.ledger import Ledger
from roadworthy.web.merged_model import RememberedModel
from roadworthy.web.watched_model import Model, WatchedModel, asked_of

ROWS = 10


class Served(BaseHTTPRequestHandler):
    """Every model has the same two outputs; `chosen` is the version that answers where a request names none."""

    protocol_version = "HTTP/1.1"
    chosen = "1"
    broken = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        asked = asked_of(self.path)
        score = {"datatype": "FP64", "shape": [ROWS], "data": [0.0] * ROWS}
        outputs = [] if self.broken else [{"name": name, **score} for name in ("knn", "energy")]
        said = {
            "model_name": asked.name,
            "model_version": asked.version or self.chosen,
            "outputs": outputs,
        }
        body = json.dumps(
            {name: value for name, value in said.items() if value is not None}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def models() -> Iterator[tuple[str, type[Served]]]:
    handler = type("Configured", (Served,), {})
    with answering(handler) as address:
        yield address, handler


def ask(service: Service, model: str, times: int = 1) -> None:
    name, _, version = model.partition("/")
    path = f"/v2/models/{name}{f'/versions/{version}' if version else ''}/infer"
    for _ in range(times):
        reply = service.ask("POST", path, b'{"inputs": []}')
        assert reply.status == 200 and reply.json["model_name"] == name, (
            "whether it is counted or not"
        )


def became(service: Service) -> tuple[int, int]:
    """How many answers were counted, and how many left out as another model's."""
    text = service.ask("GET", "/metrics").body.decode()
    line = next(line for line in text.splitlines() if 'reason="another model"' in line)
    return service.counted() // ROWS, int(line.rsplit(" ", 1)[1])


def test_other_models_and_versions_of_a_server_are_passed_on_and_not_counted(bundle_path, tmp_path):
    state = tmp_path / "s.sqlite"
    with models() as (address, handler):
        with serving(bundle_path, state, "--proxy", address) as service:
            ask(service, "alpha", 3)
            until(lambda: became(service) == (3, 0))
            ask(service, "beta", 78)
            ask(service, "alpha/2", 2)
            ask(service, "alpha/1", 2)  # which is what it was before, by another name
            until(lambda: became(service) == (5, 80))
            assert (
                'roadworthy_sidecar_model_info{model="alpha"} 1'
                in service.ask("GET", "/metrics").body.decode()
            )
            assert service.ask("GET", "/health").status == 200, "nothing of this subject is lost"
            handler.broken = True
            ask(service, "beta", 40)
            until(lambda: became(service) == (5, 120))
            assert service.ask("GET", "/health").status == 200
            ask(service, "alpha", 40)
            until(lambda: service.ask("GET", "/health").status == 503)
            service.kill()
            said = service.process.stderr.read()
        assert said.count("answers of model 'alpha' are counted from now on") == 1
        assert (
            said.count(
                "an answer of model 'beta' was passed on and not counted: those of model 'alpha'"
            )
            == 1
        )
        assert (
            "an answer of model 'alpha/2' was passed on and not counted: those of model 'alpha', version 1 are"
            in said
        )
        handler.broken = False
        with serving(bundle_path, state, "--proxy", address) as service:
            ask(service, "beta", 2)
            ask(service, "alpha")
            until(lambda: became(service) == (6, 2))
            service.stop()
            assert (
                "answers of model 'alpha' are counted, as before the restart"
                in service.process.stderr.read()
            )
        with serving(bundle_path, state, "--proxy", address, "--model", "beta") as service:
            ask(service, "alpha", 2)
            ask(service, "beta")
            until(lambda: became(service) == (7, 2))


@pytest.mark.parametrize(
    ("options", "first", "counted", "left_out"),
    [
        (("--model", "beta"), "alpha", ["beta"], ["alpha", "beta/2"]),
        (("--model", "beta"), "alpha", ["beta/2", "beta/2"], ["beta", "beta/1"]),
        (("--model", "alpha/2"), "alpha/1", ["alpha/2"], ["alpha", "beta", "beta/2"]),
        (("--model", "alpha/1"), "beta", ["alpha", "alpha/1"], ["alpha/2"]),
        ((), None, ["alpha/2", "alpha/2"], ["alpha", "alpha/1", "beta"]),
    ],
)
def test_a_version_that_is_named_is_the_only_one_that_is_counted(
    bundle_path, tmp_path, options, first, counted, left_out
):
    with (
        models() as (address, _),
        serving(bundle_path, tmp_path / "s.sqlite", "--proxy", address, *options) as service,
    ):
        if first is not None:
            ask(service, first)
            until(lambda: became(service) == (0, 1))
        for model in counted:
            ask(service, model)
        until(lambda: became(service) == (len(counted), int(first is not None)))
        for model in left_out:
            ask(service, model)
        until(lambda: became(service) == (len(counted), len(left_out) + int(first is not None)))


@pytest.mark.parametrize(("options", "status"), [((), 503), (("--model", "alpha/2"), 200)])
def test_clients_that_move_to_a_version_that_nobody_named_take_the_subject_with_them(
    bundle_path, tmp_path, options, status
):
    """A monitor that hears of nothing any more is not well, unless somebody said what it is to hear of."""
    with (
        models() as (address, _),
        serving(bundle_path, tmp_path / "s.sqlite", "--proxy", address, *options) as service,
    ):
        ask(service, "alpha/2", 30)
        until(lambda: became(service) == (30, 0))
        ask(service, "alpha/3", 60)
        until(lambda: became(service) == (30, 60))
        until(lambda: service.ask("GET", "/health").status == status)
        reasons = [
            window["cannot_tell"] or "" for window in service.ask("GET", "/v1/risk").json["windows"]
        ]
        assert all(
            ("it is of another version than model 'alpha/2'" in why) == (status == 503)
            for why in reasons
        )


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (
            None,
            "it does not say its version, and only those of model 'alpha/2' are counted; name it in the path, or count",
        ),
        ("3", "it is of another version than model 'alpha/2'; --model names the one to count"),
    ],
)
def test_a_server_that_no_longer_answers_as_the_version_that_is_named_is_no_calm(
    bundle_path, tmp_path, says, reason
):
    """Clients that name none go where the server sends them, whoever named the version to count."""
    with (
        models() as (address, handler),
        serving(
            bundle_path, tmp_path / "s.sqlite", "--proxy", address, "--model", "alpha/2"
        ) as service,
    ):
        handler.chosen = "2"
        ask(service, "alpha", 30)
        until(lambda: became(service) == (30, 0))
        handler.chosen = says
        ask(service, "alpha", 31)
        until(lambda: service.ask("GET", "/health").status == 503)
        assert all(
            reason in window["cannot_tell"]
            for window in service.ask("GET", "/v1/risk").json["windows"]
        )
        assert became(service) == (30, 31)


def test_answers_that_clients_leave_to_the_server_are_a_loss_as_long_as_nobody_says_otherwise():
    plain, canary = Model("alpha"), Model("alpha", "2")
    watched = WatchedModel("alpha/2", remark=lambda text: None)
    for _ in range(2):
        assert "and --model alpha/versions/2 those whose path has it" in watched.lost(plain, "1")
        assert (
            watched.lost(plain, None)
            and not watched.lost(Model("alpha", "1"), "1")
            and not watched.lost(Model("b"), "1")
        )
        assert watched.counts(canary, "2") and watched.counts(plain, "2"), (
            "whichever way others have come"
        )


def test_a_canary_is_counted_by_its_path_alone_where_somebody_says_so():
    plain, canary, texts = Model("alpha"), Model("alpha", "2"), list[str]()
    watched = WatchedModel("alpha/versions/2", remark=lambda text: None)
    watched.changed = lambda: watched.keep(texts.append)
    watched.recall(None)
    again, named = (WatchedModel(name, remark=lambda text: None) for name in (None, "alpha/2"))
    for one in (again, named):
        merged = RememberedModel.of(texts[-1])
        assert merged is not None
        one.recall(merged.kept())
    for one in (watched, again):
        assert one.counts(canary, "7"), "the path says which it is"
        assert (
            not one.may_be(plain)
            and not one.counts(plain, "2")
            and not one.counts(Model("alpha", "1"), "1")
        )
        assert (
            not one.lost(plain, "1")
            and not one.lost(plain, None)
            and not one.lost(Model("alpha", "1"), "1")
        )
    assert named.counts(plain, "2") and named.lost(plain, "1"), (
        "who names it in the other way means the other"
    )


def _stands_at(service: Service, counted: int, others: int) -> bool:
    return became(service) == (counted, others)


def test_what_is_served_beside_a_canary_rings_nothing_whether_or_not_it_has_scores(
    bundle_path, tmp_path
):
    state = tmp_path / "s.sqlite"
    with models() as (address, handler):
        for counted, options in (
            (1, ("--model", "alpha/versions/2")),
            (2, ()),
        ):  # and after a restart
            with serving(bundle_path, state, "--proxy", address, *options) as service:
                handler.broken = False
                ask(service, "alpha", 30)
                ask(service, "alpha/2", 1)
                handler.broken = True
                ask(service, "alpha", 30)
                until(partial(_stands_at, service, counted, 60))
                assert service.ask("GET", "/health").status == 200


@pytest.mark.parametrize(
    ("options", "says", "moved", "reason"),
    [
        (
            (),
            None,
            "alpha/1",
            "it is of another version than model 'alpha', whose answers say none; --model names",
        ),
        (
            (),
            "1",
            "alpha/2",
            "it is of another version than model 'alpha', version 1; --model names the one to count",
        ),
        (
            ("--model", "alpha"),
            "1",
            "alpha/2",
            "it is of another version than model 'alpha', version 1; --model names",
        ),
    ],
)
def test_clients_that_begin_to_name_a_version_take_the_subject_with_them(
    bundle_path, tmp_path, options, says, moved, reason
):
    """A canary that is most of what comes is said in the same way: the figures are of the rest."""
    with (
        models() as (address, handler),
        serving(bundle_path, tmp_path / "s.sqlite", "--proxy", address, *options) as service,
    ):
        handler.chosen = says
        ask(service, "alpha", 30)
        until(lambda: became(service) == (30, 0))
        ask(service, moved, 60)
        until(lambda: became(service) == (30, 60))
        until(lambda: service.ask("GET", "/health").status == 503)
        assert all(
            reason in window["cannot_tell"]
            for window in service.ask("GET", "/v1/risk").json["windows"]
        )


def test_who_named_a_version_and_then_none_takes_whichever_comes():
    plain, said = asked_of("/v2/models/lesion/infer"), list[str]()
    by_user, by_path = WatchedModel("lesion/2"), WatchedModel("lesion")
    by_user.recall(None)
    assert by_user.counts(plain, "2") and by_path.counts(
        asked_of("/v2/models/lesion/versions/2/infer"), "2"
    )
    named_later = WatchedModel("lesion/2")
    named_later.recall(by_path._text)
    for before, counts in ((by_user, True), (by_path, False), (named_later, True)):
        after = WatchedModel("lesion", remark=said.append)
        after.recall(before._text)
        assert after.counts(plain, "3") == counts
    assert (
        "answers of model 'lesion' are counted from now on, and those of model 'lesion/2' were before"
        in said[0]
    )


def test_a_name_with_a_slash_that_was_taken_for_a_version_is_understood_after_a_restart():
    before, after = WatchedModel("team/alpha"), WatchedModel()
    before.recall(None)
    after.recall(before._text)
    assert after.counts(asked_of("/v2/models/team/alpha/infer"), "1")


@pytest.mark.parametrize(
    ("named", "again"), [(None, None), ("lesion/2", "lesion/2"), ("lesion/2", None)]
)
def test_a_stray_request_does_not_change_what_has_been_counted(named, again):
    """A slash may be one of a name only as long as no answer has said what it is."""
    canary, stray = (
        asked_of("/v2/models/lesion/versions/2/infer"),
        asked_of("/v2/models/lesion/2/infer"),
    )
    said: list[str] = []
    before, after = WatchedModel(named), WatchedModel(again, remark=said.append)
    before.recall(None)
    assert before.counts(canary, "2")
    after.recall(before._text)
    assert not after.may_be(stray) and not after.counts(stray, "1")
    assert (
        "'lesion/2', which is its name, was passed on" in said[-1]
        and "'lesion/2' (version 2 of 'lesion')" in said[-1]
    )
    assert after.counts(canary, "2") and after.model == ("lesion", "2")


def test_who_named_a_version_is_remembered_once_an_answer_has_counted():
    kept = None
    for named, asked, version in (
        ("lesion/2", None, None),
        (None, "lesion", "2"),
        ("lesion", "lesion", "3"),
    ):
        watched = WatchedModel(named)
        watched.recall(kept)
        assert asked is None or watched.counts(Model(asked), version)
        kept = watched._text
    assert json.loads(kept) == {
        "name": "lesion",
        "version": None,
        "versions": ["3"],
        "by_user": False,
        "counted": True,
        "path_alone": False,
    }


def test_an_answer_without_scores_says_nothing_about_a_name_with_a_slash():
    watched = WatchedModel("lesion/2")
    assert watched.may_be(Model("lesion/2")), "its answer may have scores"
    assert watched.counts(Model("lesion", "2"), "2") and not watched.may_be(Model("lesion/2"))


def test_a_server_that_moves_on_to_another_version_is_counted_and_remarked_once():
    said: list[str] = []
    watched = WatchedModel(remark=said.append)
    kept: list[str] = []
    watched.changed = lambda: watched.keep(kept.append)
    for version in ("1", "1", "2", "1", "2", None):
        assert watched.counts(Model("alpha"), version)
    assert len(said) == 2 and said[1].startswith(
        "model 'alpha' answers as version 2, and did as 1: both are counted"
    )
    assert "--model alpha/2 counts this one alone" in said[1] and len(kept) == 3
    assert watched.counts(Model("alpha", "2"), None) and not watched.counts(
        Model("alpha", "3"), "3"
    )
    again = WatchedModel(remark=said.append)
    again.recall(kept[-1])
    del said[:]
    assert again.counts(Model("alpha"), "2") and said == []
    assert again.counts(Model("alpha"), "3") and "answers as version 3, and did as 2" in said[0], (
        "also after a restart"
    )


def test_every_version_that_a_server_moves_on_to_is_said(caplog):
    watched = WatchedModel("alpha")
    for version in "12343":
        assert watched.counts(Model("alpha"), version)
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert said == [f"model 'alpha' answers as version {v}, and did as {v - 1}" for v in (2, 3, 4)]


def test_what_is_remembered_yields_to_what_is_named(tmp_path):
    kept: list[str] = []

    def recalled(named: str | None, before: str | None) -> tuple[Model | None, list[str]]:
        said: list[str] = []
        watched = WatchedModel(named, remark=said.append)
        watched.changed = lambda: watched.keep(kept.append)
        watched.recall(before)
        return watched.model, said

    lesion_2 = json.dumps({"name": "lesion", "version": "2", "versions": []})
    found, said = recalled(None, lesion_2)
    assert found == ("lesion", "2") and "as before the restart" in said[0] and kept == []
    assert recalled("lesion/2", lesion_2) == (Model("lesion", "2"), [])
    assert [json.loads(text)["by_user"] for text in kept] == [True], (
        "who names it now is remembered"
    )
    assert recalled("lesion", lesion_2) == (found, said), (
        "of whichever version a request comes first"
    )
    found, said = recalled("lesion/3", lesion_2)
    assert found == ("lesion", "3") and '"3"' in kept[-1]
    assert said[0].startswith(
        "answers of model 'lesion/3' are counted from now on, and those of model 'lesion/2' were before"
    )
    found, said = recalled("other", lesion_2)
    assert (
        found is None
        and "'other' are counted from now on, and those of model 'lesion/2'" in said[0]
        and len(kept) == 2
    )
    assert recalled(None, None) == (None, [])
    ledger = Ledger(tmp_path / "s.sqlite", bundle="0123abcd", content="{}")
    assert ledger.model() is None
    for text in (lesion_2, kept[-1]):
        ledger.keep_model(text)
        assert ledger.model() == text
    ledger.close()


def test_which_model_is_counted_is_kept_as_soon_as_it_can_be(bundle_path, tmp_path):
    """Where it was not, the first answer after a restart said which it is."""
    state = tmp_path / "s.sqlite"
    with models() as (address, _), serving(bundle_path, state, "--proxy", address) as service:
        other = sqlite3.connect(state, isolation_level=None)
        refused = "create trigger no before insert on meta when new.key = 'model' begin select raise(abort, 'not now'); end"
        other.execute(refused)
        ask(service, "alpha")
        until(lambda: became(service) == (1, 0))
        assert other.execute("select value from meta where key = 'model'").fetchall() == []
        other.execute("drop trigger no")
        until(
            lambda: other.execute("select value from meta where key = 'model'").fetchall(),
            seconds=20.0,
        )
        other.close()


def test_a_version_that_nobody_says_is_not_taken_for_the_one_that_is_named():
    said: list[str] = []
    watched = WatchedModel("alpha/2", remark=said.append)
    assert watched.may_be(Model("alpha")), "its answer may say which it is"
    assert not watched.counts(Model("alpha"), None)
    assert said == [
        "an answer of model 'alpha' that does not say its version was passed on and not counted: those of model 'alpha/2' are"
    ]


def test_a_name_may_have_a_slash_in_it():
    said, kept = list[str](), list[str]()

    def watching(named: str) -> WatchedModel:
        watched = WatchedModel(named, remark=said.append)
        watched.changed = lambda: watched.keep(kept.append)
        watched.recall(kept[-1] if kept else None)
        return watched

    watched = watching("team/alpha")
    assert not watched.counts(asked_of("/v2/models/team/infer"), "1"), (
        "which says nothing about the other"
    )
    assert said == [
        "an answer of model 'team/1' was passed on and not counted: those of model 'team/alpha' are"
    ]
    assert watched.counts(asked_of("/v2/models/team/alpha/infer"), "1") and watched.model == (
        "team/alpha",
        None,
    )
    assert not watched.counts(Model("team", "alpha"), None), (
        "the first that counts says which it is"
    )
    assert watching("team/alpha").model == ("team/alpha", None), "also after a restart"
    kept.clear()
    watched = watching("team/alpha/2")
    assert watched.counts(Model("team/alpha"), "2") and watched.model == ("team/alpha", "2")
    assert not watched.counts(Model("team/alpha"), "1") and not watched.counts(
        Model("team/alpha/2"), "1"
    )


@pytest.mark.parametrize("named", ["/2", "alpha/", "alpha/versions/", "alpha/versions/2/3"])
def test_a_model_that_can_be_none_is_refused_at_the_start(bundle_path, tmp_path, capsys, named):
    options = [
        "--state",
        str(tmp_path / "s.sqlite"),
        "--port",
        "0",
        "--proxy",
        "http://127.0.0.1:1",
        "--model",
        named,
    ]
    assert run(["monitor", str(bundle_path), *options]) == 2
    assert f"--model {named!r} is no model; write NAME or NAME/VERSION" in capsys.readouterr().err
