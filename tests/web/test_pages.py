"""The event tree as a picture of the service: it draws what the window says now, or says that it draws what was calibrated."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as Xml

import monitored
import pytest

from roadworthy.analysis.risk.prototypes import POLYP_COSTS, detector_tree
from roadworthy.analysis.risk.tree import evaluate, expectation
from roadworthy.monitor import Events, Monitor
from roadworthy.monitor.bundle import expected_state
from roadworthy.report import numbers
from roadworthy.web.pages import tree_now, tree_picture

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return ["".join(e.itertext()) for e in Xml.fromstring(picture).iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def priced():
    bundle = replace(
        monitored.bundle(tolerable=None), tree=detector_tree(POLYP_COSTS, unit="USD per patient")
    )
    return replace(bundle, tolerable=1925.0, self_test=expected_state(bundle))


@pytest.mark.parametrize("width", [360, 920])
def test_the_picture_shows_the_branches_and_the_cost_of_the_window(priced, width):
    monitor = Monitor(priced)
    stream = monitored.events(300, shifted=0.4)
    columns = {name: [e["scores"][name] for e in stream] for name in ("knn", "energy")}
    monitor.update(Events(None, None, columns=columns))
    now = tree_now(monitor, monitor.risk())
    assert now.instead is None and expectation(priced.tree, now.parameters) == pytest.approx(
        monitor.risk().risk
    )
    said = texts(tree_picture(priced, now, width=width))
    assert said[0] == "Now, window of 100 events"
    for branch in evaluate(priced.tree, now.parameters).branches:
        assert numbers.value(branch.share, "percent") in said, branch
    shown = numbers.estimate(monitor.risk().risk, None, None).value
    assert (
        shown in said
        and any("1,925" in text for text in said)
        and any(" at 95%" in text for text in said)
    )
    longer = monitor.risk("1000")
    found = expectation(priced.tree, tree_now(monitor, longer).parameters)
    assert found == pytest.approx(longer.risk)


@pytest.mark.parametrize("width", [336, 920])
def test_the_picture_says_which_share_of_shift_it_has_where_another_one_is_told(priced, width):
    monitor = Monitor(priced)
    stream = monitored.events(300)
    monitor.update(
        Events(
            None,
            None,
            columns={name: [e["scores"][name] for e in stream] for name in ("knn", "energy")},
        )
    )
    now = tree_now(monitor, monitor.risk())
    mean, told = f"{now.parameters['p_shift']:.1%}", f"{now.state.rate:.1%}"
    assert mean != told
    picture = tree_picture(priced, now, width=width)
    said = f"The tree uses the mean rate of shift, {mean}; the estimate (median) is {told}."
    assert " ".join(texts(picture)).endswith(said), (
        "in as many lines as it takes, and nothing is cut"
    )
    assert said in picture
    height = float(Xml.fromstring(picture).get("viewBox").split()[3])
    assert max(float(e.get("y")) for e in Xml.fromstring(picture).iter(f"{SVG}text")) < height
    same = now._replace(state=replace(now.state, rate=now.parameters["p_shift"]))
    assert "median" not in tree_picture(priced, same, width=width)
    late = tree_now(monitor, monitor.risk(), late="most events are late")
    assert "median" not in tree_picture(priced, late, width=width)


def test_what_cannot_be_told_is_drawn_as_calibrated_and_says_so(priced):
    monitor = Monitor(priced)
    said = texts(tree_picture(priced, tree_now(monitor, monitor.risk())))[0]
    assert said.startswith("No estimate now. As calibrated, 5.0% shifted: ")
    monitor.update(Events(["a"], [1.0], columns={"knn": [0.1], "energy": [0.1]}))
    late = tree_now(monitor, monitor.risk(), late="most events are late <b>")
    assert late.parameters["p_shift"] == 0.05
    picture = tree_picture(priced, late)
    assert texts(picture)[0].endswith("5.0% shifted: most events are late <b>")
    assert " at 95%" not in picture, "no interval of a window that cannot be told"


def test_the_service_draws_it_by_itself_and_lets_nothing_run_in_it(tmp_path):
    path = tmp_path / "bundle.json"
    monitored.bundle(subject='<script>alert("1")</script>').save(path)
    with monitored.serving(
        path, tmp_path / "state.sqlite", ROADWORTHY_TOKEN=monitored.TOKEN
    ) as service:
        assert service.ask("GET", "/v1/tree.svg").status == 401
        bearer = {"Authorization": f"Bearer {monitored.TOKEN}"}
        assert service.post(monitored.events(200, shifted=0.9), **bearer).status == 200
        reply = service.ask("GET", "/v1/tree.svg", **bearer)
        assert reply.status == 200 and reply.headers["content-type"].startswith("image/svg+xml")
        assert (
            reply.headers["content-security-policy"]
            == "default-src 'none'; style-src 'unsafe-inline'"
        )
        assert (
            reply.headers["x-content-type-options"] == "nosniff"
            and reply.headers["cache-control"] == "no-store"
        )
        picture = reply.body.decode()
        assert not list(Xml.fromstring(picture).iter(f"{SVG}script")) and "<script" not in picture
        assert not re.search(r"(?:href|src|url\()", picture), "nothing is fetched"
        risk = service.get("/v1/risk?window=100", **bearer)["windows"][0]["risk"]
        assert numbers.estimate(risk, None, None).value in texts(picture)
        for wrong, status in (("width=10", 400), ("width=x", 400), ("window=7", 400)):
            assert service.ask("GET", f"/v1/tree.svg?{wrong}", **bearer).status == status
        assert service.ask("POST", "/v1/tree.svg", b"", **bearer).status == 405
