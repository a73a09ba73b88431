"""Replicas in front of a server of models are put together where they have counted one model, and go on with that one."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from monitored import Service, serving, until
from test_watched_model import ask, became, models

from roadworthy.cli.app import run
from roadworthy.monitor import Monitor
from roadworthy.store import StoreError
from roadworthy.web.merged_model import RememberedModel, model_in, one_model, state_type
from roadworthy.web.offline import kept
from roadworthy.web.watched_model import WatchedModel, asked_of

LESION, LESION_1, LESION_2 = (
    RememberedModel("lesion", None),
    *(RememberedModel("lesion", v) for v in "12"),
)


def as_versions(*versions: str) -> RememberedModel:
    return LESION._replace(versions=versions)


def remembered(named: str | None, *answers: tuple[str, str]) -> RememberedModel:
    """What a monitor remembers that was started with a --model and has heard answers, by path and version."""
    texts: list[str] = []
    watched = WatchedModel(named, remark=lambda said: None)
    watched.changed = lambda: watched.keep(texts.append)
    watched.recall(None)
    for path, version in answers:
        watched.counts(asked_of(f"/v2/models/{path}/infer"), version)
    found = RememberedModel.of(texts[-1])
    assert found is not None
    return found


def test_what_a_monitor_remembers_is_kept_as_it_was():
    for model in (
        remembered("lesion/1"),
        remembered(None, ("lesion/versions/2", "2")),
        remembered("lesion", ("lesion", "1"), ("lesion", "2")),
    ):
        assert RememberedModel.of(model.kept()) == model
        assert one_model({"a": model, "b": None, "c": model}.items()) == model
    assert one_model({"a": None, "b": None}.items()) is None


def test_once_an_answer_of_any_of_them_has_counted_a_name_with_a_slash_is_read_in_one_way():
    silent, heard = remembered("lesion/1"), remembered("lesion/1", ("lesion", "1"))
    assert silent.by_user and heard.by_user and not silent.counted and heard.counted
    both = one_model({"a": silent, "b": heard}.items())
    assert both is not None
    watched = WatchedModel(None, remark=lambda said: None)
    watched.recall(both.kept())
    assert not watched.counts(asked_of("/v2/models/lesion/1/infer"), None)
    assert watched.counts(asked_of("/v2/models/lesion/infer"), "1")


def test_what_a_header_says_is_read_however_it_is_written():
    kept = LESION_1.kept()
    for text in (
        state_type(kept).decode(),
        f'application/octet-stream;Model="{quote(kept, safe="")}"; charset=binary',
    ):
        assert RememberedModel.of(model_in(text)) == LESION_1
    assert model_in("application/octet-stream") is None
    for odd in ("no JSON", "[1]", '{"name": "lesion"}'):
        with pytest.raises(StoreError, match="of which model a state was counted cannot be read"):
            RememberedModel.of(odd)


def test_where_one_of_them_counted_what_clients_left_to_the_server_all_go_on_with_it():
    alone = LESION_1._replace(path_alone=True)
    for other, together in ((alone, True), (LESION_1, False), (as_versions("1"), False)):
        found = one_model([("a", alone), ("b", other)])
        assert found is not None and found.path_alone == together


def test_two_states_that_are_called_alike_are_two():
    with pytest.raises(StoreError, match="counts of two subjects"):
        one_model([("http://...@h", LESION), ("http://...@h", RememberedModel("other", None))])


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (
            LESION_1,
            RememberedModel("other", None),
            "a was counted of model 'lesion/1', and b of model 'other'",
        ),
        (
            as_versions("7"),
            RememberedModel("other", None, ("7",)),
            "'lesion', version 7, and b of model 'other', version 7",
        ),
        (LESION_1, LESION_2, "a was counted of model 'lesion/1', and b of model 'lesion/2'"),
        (LESION_1, as_versions("1", "2"), "'lesion/1', and b of model 'lesion', version 1 or 2"),
        (LESION_1, as_versions("2"), "'lesion/1', and b of model 'lesion', version 2"),
        (LESION_1, LESION, "'lesion/1', and b of model 'lesion':"),
    ],
)
def test_states_of_different_models_or_of_a_version_that_was_named_and_another_are_refused(
    one, other, says
):
    for states in ({"a": one, "b": other}, {"x": None, "a": one, "b": other}):
        with pytest.raises(
            StoreError, match="counts of two subjects do not add up; merge replicas of one model"
        ) as refused:
            one_model(states.items())
        assert says in str(refused.value)
    with pytest.raises(StoreError, match="counts of two subjects"):
        one_model({"b": other, "a": one}.items())


def test_versions_that_the_server_chose_are_one_subject():
    assert one_model(
        {"a": as_versions("1", "2"), "b": as_versions("2", "3")}.items()
    ) == as_versions("1", "2", "3")
    for states in ([LESION_1, as_versions("1")], [as_versions("1"), LESION_1]):
        assert one_model(zip("ab", states, strict=True)) == LESION_1, (
            "both have counted that one alone"
        )
    by_user = LESION_1._replace(by_user=True)
    assert one_model({"a": by_user, "b": by_user}.items()) == by_user
    assert one_model({"a": by_user, "b": LESION_1}.items()) == LESION_1, (
        "--model lesion goes on with version 1"
    )


def test_a_name_with_a_slash_is_the_same_before_and_after_the_first_answer():
    idle, busy = remembered("team/alpha"), remembered("team/alpha", ("team/alpha", "1"))
    assert (idle.version, busy.version, str(idle)) == ("alpha", None, str(busy))
    for states in ({"a": idle, "b": busy}, {"a": busy, "b": idle}):
        assert one_model(states.items()) == busy


def test_files_of_two_models_are_refused_and_nothing_is_written(made, tmp_path, capsys):
    files = [str(tmp_path / f"{name}.sqlite") for name in "ab"]
    for file, model in zip(files, (LESION_1, RememberedModel("other", None)), strict=True):
        kept(Monitor(made), Path(file), model=model)
    into = tmp_path / "both.sqlite"
    assert run(["monitor", "merge", *files, "--into", str(into)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        all(word in said for word in ("a.sqlite", "b.sqlite", "'lesion/1'", "'other'"))
        and not into.exists()
    )


def one_is_counted(service: Service) -> bool:
    return (
        became(service) == (1, 0)
        and "model=" in service.ask("GET", "/v1/state").headers["content-type"]
    )


def test_replicas_of_one_model_go_on_with_it_also_by_address(bundle_path, tmp_path, capsys):
    with models() as (address, handler):
        proxy, files = ("--proxy", address), [tmp_path / f"{name}.sqlite" for name in "abc"]
        with (
            serving(bundle_path, files[0], *proxy, "--model", "alpha") as a,
            serving(bundle_path, files[1], *proxy) as b,
            serving(bundle_path, files[2], *proxy, "--model", "beta") as c,
        ):
            for service, model in ((a, "alpha"), (b, "alpha"), (c, "beta")):
                ask(service, model)
                until(partial(one_is_counted, service))
                handler.chosen = "2"
            assert run(["monitor", "merge", str(files[0]), c.address]) == 2
            said = " ".join(capsys.readouterr().err.split())
            assert f"{c.address} of model 'beta', version 2" in said
            into = tmp_path / "both.sqlite"
            assert run(["monitor", "merge", str(files[0]), b.address, "--into", str(into)]) != 2
            assert "model 'alpha' has answered as version 1 and 2" in capsys.readouterr().out
            run(["monitor", "merge", a.address, b.address, "--bundle", str(bundle_path), "--json"])
            told = json.loads(capsys.readouterr().out)
            assert (told["model"], told["model_versions"]) == ("alpha", ["1", "2"])
        with serving(bundle_path, into, *proxy) as service:
            ask(service, "beta")
            ask(service, "alpha")
            until(lambda: became(service) == (3, 1))
