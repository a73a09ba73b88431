"""The service over HTTP, in a process of its own: what it takes, what it answers, and whom it lets in."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from monitored import START, SUBJECT, TOKEN, Service, events, ndjson, serving, until

from roadworthy.monitor import Bundle, Events, Monitor
from roadworthy.report import numbers


@pytest.fixture(scope="module")
def service(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(bundle_path, tmp_path_factory.mktemp("api") / "state.sqlite") as running:
        yield running


def outcome(**numbers: int) -> dict[str, int]:
    return {"accepted": 0, "repeated": 0, "late": 0, "unscored": 0, "ahead": 0, **numbers}


def test_events_are_counted_once_and_risk_is_what_the_library_says(service: Service, made: Bundle):
    batch = events(300, first=1000, shifted=0.3)
    assert service.post(batch).json == outcome(accepted=300)
    assert service.post(batch[:20] + events(5, first=1300)).json == outcome(accepted=5, repeated=20)
    assert service.post(events(1, first=1305)[0]).json == outcome(accepted=1)
    unscored = service.post({"id": "no score", "time": START + 1306, "scores": {}}).json
    assert unscored.pop("why_unscored") and unscored == outcome(unscored=1)
    everything = batch + events(5, first=1300) + events(1, first=1305)
    columns = {name: [e["scores"][name] for e in everything] for name in ("knn", "energy")}
    oracle = Monitor(made)
    oracle.update(
        Events([e["id"] for e in everything], [e["time"] for e in everything], columns=columns)
    )
    oracle.update_one("no score", START + 1306, {})
    found = {w["window"]: w for w in service.get("/v1/risk")["windows"]}
    for name in ("100", "1000"):
        expected = oracle.risk(name)
        for figure in (
            "n",
            "unscored",
            "rate",
            "accuracy",
            "risk",
            "risk_low",
            "risk_high",
            "exceedance",
            "log_odds",
        ):
            assert found[name][figure] == pytest.approx(getattr(expected, figure), rel=1e-9), figure
    assert [w["window"] for w in service.get("/v1/risk?window=1000")["windows"]] == ["1000"]


def test_late_events_and_events_ahead_of_the_clock_are_told_apart(service: Service):
    newest = {"id": "newest", "time": START + 20_000, "scores": {"knn": 0.0, "energy": 0.0}}
    assert service.post(newest).json == outcome(accepted=1)
    late = {**newest, "id": "late", "time": START + 20_000 - 3601}
    in_time = {**newest, "id": "out of order", "time": START + 20_000 - 3599}
    ahead = {**newest, "id": "ahead", "time": 5e9}
    found = service.post([late, in_time, ahead]).json
    why = {name: found.pop(name) for name in ("why_late", "why_ahead")}
    assert found == outcome(late=1, accepted=1, ahead=1)
    assert "2023-11-15 03:46:40 UTC" in why["why_late"] and "clock" in why["why_ahead"]


def test_a_batch_with_a_wrong_line_is_refused_whole(service: Service):
    before = service.counted()
    lines = ndjson(events(3, first=50_000)).split(b"\n")
    lines[1] = lines[1].replace(b'"knn": ', b'"knn": NaN, "was": ')
    reply = service.post(b"\n".join(lines))
    assert reply.status == 400 and reply.json["line"] == 2 and "NaN" in reply.json["error"]
    assert service.post(ndjson(events(3, first=50_000))[:-20]).json["line"] == 3
    other = service.post(
        [*events(1, first=50_000), {**events(1, first=50_001)[0], "subject": "lesion-2.4.0"}]
    )
    assert other.status == 409 and SUBJECT in other.json["error"] and other.json["line"] == 2
    assert service.counted() == before


def test_labels_are_weighed_by_how_they_were_drawn(service: Service):
    asked = service.ask("POST", "/v1/label-queue?n=30").json["questions"]
    assert len({q["id"] for q in asked}) == 30 and all(0 < q["probability"] <= 1 for q in asked)
    again = service.ask("POST", "/v1/label-queue?n=30").json["questions"]
    assert not {q["id"] for q in asked} & {q["id"] for q in again}
    labels = [{"id": q["id"], "correct": i % 5 > 0} for i, q in enumerate(asked)]
    reply = service.post([*labels, {"id": "nobody", "correct": True}], "/v1/labels").json
    assert (reply["taken"], reply["unknown"], reply["unknown_ids"]) == (30, 1, ["nobody"])
    assert reply["why_unknown"]
    audited = service.get("/v1/risk?window=1000")["windows"][0]["audited"]
    assert audited["labels"] == 30
    together = b'{"id": "e1", "correct": true}{"id": "e2", "correct": true}'
    assert "--data-binary" in service.post(together, "/v1/labels").json["error"]
    shown = service.ask("GET", "/metrics").body.decode()
    for name in ("labels", "accuracy", "risk_high"):
        found = re.search(
            rf'^roadworthy_audited_{name}{{window="1000"}} (.*)$', shown, re.MULTILINE
        )
        assert found is not None and float(found[1]) == pytest.approx(audited[name], rel=1e-6)
    dots = service.get("/v1/live")["labels"]
    assert sum(dot["n"] for dot in dots) == 30 and all(
        d["low"] <= d["accuracy"] <= d["high"] for d in dots
    )
    for wrong, says in (
        ({"id": "e1000", "correct": "yes"}, "true or false"),
        ({"id": "e1000", "correct": True, "probability": 0}, "above 0"),
        ({"id": "e1000", "right": True}, "Unknown key 'right'"),
        ({"correct": True}, "id must be"),
    ):
        refused = service.post(wrong, "/v1/labels")
        assert refused.status == 400 and says in refused.json["error"], refused.body
    known = asked[0]["id"]
    for key, value in (("subject", "lesion-2.4.0"), ("bundle", "0" * 16)):
        other = service.post(
            [{"id": known, "correct": True}, {"id": known, "correct": False, key: value}],
            "/v1/labels",
        )
        assert other.status == 409 and repr(value) in other.json["error"], other.body
    assert (
        service.post({"id": known, "correct": True, "subject": SUBJECT}, "/v1/labels").json["taken"]
        == 1
    )
    assert service.get("/v1/risk?window=1000")["windows"][0]["audited"]["labels"] == 30


def test_labels_that_count_as_sure_to_be_asked_for_are_told(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "state.sqlite") as service:
        service.post(events(40))
        asked = {q["id"] for q in service.ask("POST", "/v1/label-queue?n=5").json["questions"]}
        others = [f"e{i}" for i in range(40) if f"e{i}" not in asked]
        posts = [{"id": id, "correct": True} for id in (*asked, *others[:3])]
        posts += [{"id": id, "correct": True, "probability": 0.5} for id in others[3:7]]
        assert service.post(posts, "/v1/labels").json == {
            "taken": 12,
            "unknown": 0,
            "unknown_ids": [],
            "without_probability": 3,
        }


def test_readings_alarms_and_history_go_over_time(service: Service):
    service.post(events(200, first=30_000, shifted=0.02))
    service.post(events(200, first=30_200, shifted=0.9))
    alarms = until(
        lambda: [a for a in service.get("/v1/alarms")["alarms"] if a["kind"] == "raised"]
    )
    assert (
        alarms[-1]["alarm_log_odds"] >= 0.0
        and alarms[-1]["subject"] == SUBJECT
        and alarms[-1]["bundle"] in alarms[-1]["key"]
    )
    reading = service.get("/v1/history")["readings"][-1]
    assert reading["time"] == START + 30_399 and reading["alarm"]
    assert "reason" not in alarms[-1], "its figures are the reason of an alarm by the scores"
    live = service.get(f"/v1/live?after={START + 30_399}")
    assert live["history"] == [] and live["alarm"]
    spans = service.get("/v1/history?every=3600")["spans"]
    assert sum(s["n"] for s in spans) + sum(s["unscored"] for s in spans) == service.counted()


def test_prometheus_reads_what_it_is_doing(service: Service):
    text = service.ask("GET", "/metrics").body.decode()
    sample = re.compile(
        r'^[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (-?[0-9.e+-]+|[+-]Inf|NaN)$'
    )
    assert all(line.startswith("# ") or sample.match(line) for line in text.splitlines())
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert int(found["roadworthy_events_counted"]) == service.counted()
    assert 0 < float(found['roadworthy_accuracy{window="100"}']) < 1
    assert float(found["roadworthy_tolerable_risk"]) == 0.2
    buckets = [int(v) for k, v in found.items() if k.startswith("roadworthy_group_seconds_bucket")]
    assert (
        buckets == sorted(buckets)
        and buckets[-1] == int(found["roadworthy_group_seconds_count"]) > 0
    )


def test_the_bundle_says_what_the_numbers_rest_on(service: Service, made: Bundle):
    told = service.get("/v1/bundle")
    assert (
        told["id"] == made.id and told["kinds"][0]["rows"] == 800 and told["alarm"]["burden"] == 9.0
    )
    assert "synthetic" in told["notes"][0] and told["blind_to"]
    assert service.get("/health") == {"status": "ok", "bundle": made.id}


def test_unknown_paths_methods_and_parameters_are_refused_in_words(service: Service):
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/v1/events", 405),
        ("DELETE", "/v1/labels", 405),
        ("GET", "/v1/risk?window=7", 400),
        ("GET", "/v1/history?after=noon", 400),
        ("POST", "/v1/label-queue?n=0", 400),
        ("GET", "/assets/../page.html", 404),
    ):
        reply = service.ask(method, path)
        assert reply.status == status and reply.json["error"], path
    assert service.ask("POST", "/v1/events", b"x", Content_Encoding="gzip").status == 415


@pytest.mark.parametrize(
    "path",
    [
        "/health",
        "/livez",
        "/metrics",
        "/",
        "/assets/page.js",
        "/v1/risk",
        "/v1/nothing",
        "/v1/events",
    ],
)
def test_a_probe_that_wants_the_head_alone_gets_it(service: Service, path: str):
    whole, head = service.ask("GET", path), service.ask("HEAD", path)
    assert (head.status, head.body) == (whole.status, b"")
    assert {**head.headers, "date": "", "content-length": ""} == {
        **whole.headers,
        "date": "",
        "content-length": "",
    }
    assert int(head.headers["content-length"]) > 0


def test_pages_of_other_sites_and_other_names_are_turned_away(service: Service):
    body = json.dumps(events(1, first=90_000)[0]).encode()
    foreign = service.ask("POST", "/v1/events", body, Origin="https://evil.example")
    assert foreign.status == 403
    assert service.ask("GET", "/v1/risk", Host="evil.example").status == 421
    own = f"127.0.0.1:{service.port}"
    assert service.ask("POST", "/v1/events", body, Host=own, Origin=f"http://{own}").status == 200


def test_the_page_holds_no_data_and_runs_only_its_own_script(service: Service):
    page = service.ask("GET", "/")
    assert (
        SUBJECT.encode() not in page.body
        and b"<script>" not in page.body
        and b"style=" not in page.body
    )
    policy = page.headers["content-security-policy"]
    assert (
        "default-src 'none'" in policy
        and "unsafe" not in policy
        and "frame-ancestors 'none'" in policy
    )
    assert page.headers["x-content-type-options"] == "nosniff"
    for path in re.findall(rb'(?:src|href)="(/[^"]+)"', page.body):
        reply = service.ask("GET", path.decode())
        assert reply.status == 200, path


def test_other_addresses_need_the_token(bundle_path: Path, tmp_path: Path):
    with serving(
        bundle_path, tmp_path / "s.sqlite", "--host", "0.0.0.0", ROADWORTHY_TOKEN=TOKEN
    ) as service:
        assert service.ask("GET", "/").status == service.ask("GET", "/health").status == 200
        for path in ("/v1/risk", "/metrics", "/v1/state"):
            assert service.ask("GET", path).status == 401
            assert service.ask("GET", path, Authorization=f"Bearer {TOKEN.upper()}").status == 401
            assert service.ask("GET", path, Authorization=f"Bearer {TOKEN}").status == 200
        assert service.post(events(1)).status == 401


def test_one_connection_carries_many_posts_also_after_a_refusal(service: Service):
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as s:
        for i, (body, status) in enumerate(
            ((b"{", 400), (json.dumps(events(1, first=95_000)[0]).encode(), 200)) * 2
        ):
            s.sendall(
                b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )
            answer = b""
            while not answer.endswith(b"}"):
                answer += s.recv(4096)
            assert answer.startswith(b"HTTP/1.1 %d " % status), i


def test_many_clients_at_once_are_each_told_what_became_of_their_own(service: Service):
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(0)
    singles = [
        events(1, first=99_000 + int(i))[0] for i in rng.permutation(np.repeat(np.arange(60), 2))
    ]
    with ThreadPoolExecutor(12) as pool:
        replies = [r.json for r in pool.map(service.post, singles)]
    assert sum(r["accepted"] for r in replies) == sum(r["repeated"] for r in replies) == 60
    by_id: dict[str, int] = {}
    for single, reply in zip(singles, replies, strict=True):
        by_id[single["id"]] = by_id.get(single["id"], 0) + reply["accepted"]
    assert set(by_id.values()) == {1}


ROUTES = {
    *("POST /v1/events", "POST /v1/labels", "POST /v1/label-queue", "GET /v1/risk"),
    *("GET /v1/history", "GET /v1/alarms", "GET /v1/tree.svg", "GET /v1/bundle"),
    *("GET /v1/state", "GET /v1/live", "GET /metrics", "GET /health", "GET /livez"),
}
WINDOW_FIELDS = {
    *("window", "label", "n", "unscored", "effective_n", "wanted", "half_life", "start", "end"),
    *("rate", "rate_low", "rate_high", "accuracy", "accuracy_low", "accuracy_high"),
    *("risk", "risk_low", "risk_high", "unit", "tolerable", "exceedance", "log_odds"),
    *("alarm_log_odds", "alarm", "strangeness", "audited", "no_estimate", "notes", "confidence"),
    *("autocorrelation_time", "forecast", "coverage", "calibrated_on", "blind_to"),
}
BUNDLE_FIELDS = {
    *("id", "subject", "unit", "tolerable", "confidence", "scores", "windows", "watched", "prior"),
    *("alarm", "forecast", "coverage", "kinds", "calibrated_on", "blind_to", "notes", "made"),
    *("lateness_s", "id_horizon", "example"),
}
METRICS = {
    *("bundle_info", "events_total", "posts_refused_total", "events_counted"),
    *("newest_event_seconds", "risk", "risk_low", "risk_high", "accuracy", "accuracy_low"),
    *("accuracy_high", "rate", "rate_low", "rate_high", "exceedance", "log_odds"),
    *("alarm_log_odds", "strangeness", "n", "unscored", "effective_n", "no_estimate"),
    *("mostly_late", "tolerable_risk", "alarm", "alarm_by_labels", "alarms_total", "labels"),
    *("audited_risk", "audited_risk_low", "audited_risk_high", "audited_accuracy"),
    *("audited_accuracy_low", "audited_accuracy_high", "audited_labels", "group_seconds"),
    *("group_posts", "waiting_events", "state_bytes", "write_trouble"),
    *("sidecar_skipped_total", "sidecar_model_info", "upstream_up", "webhook_total"),
    *("webhook_waiting", "alarm_log_failed_total", "alarm_log_waiting"),
}


def test_routes_fields_and_metrics_are_those_that_others_rely_on(bundle_path, tmp_path):
    options = ("--webhook", "http://127.0.0.1:1/", "--alarm-log", str(tmp_path / "a.jsonl"))
    options += ("--proxy", "http://127.0.0.1:1", "--model", "m")
    with serving(bundle_path, tmp_path / "s.sqlite", *options) as service:
        service.post(events(200))
        service.post([{"id": f"e{i}", "correct": i % 9 > 0} for i in range(100, 200)], "/v1/labels")
        said = service.ask("GET", "/v1/nowhere").json["error"]
        assert set(re.findall(r"(?:GET|POST) /\w[\w/.-]*\w", said)) == ROUTES
        risk = service.get("/v1/risk")
        assert set(risk) == {"windows", "prior"}
        assert {name for w in risk["windows"] for name in w} == WINDOW_FIELDS
        assert set(service.get("/v1/bundle")) == BUNDLE_FIELDS
        text = service.ask("GET", "/metrics").body.decode()
        assert set(re.findall(r"^# TYPE roadworthy_(\w+) ", text, re.MULTILINE)) == METRICS
        assert "roadworthy_upstream_up 0" in text


def test_header_and_tree_of_the_page_are_of_one_moment(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        for first in range(0, 600, 100):
            service.post(events(100, first=first, shifted=first / 600))
            live = service.get("/v1/live?width=900")
            (shown,) = [w for w in live["windows"] if w["window"] == "100"]
            assert numbers.estimate(shown["risk"], None, None).value in live["tree"]
        assert "tree" not in service.get("/v1/live")
