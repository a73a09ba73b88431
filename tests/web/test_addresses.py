"""Addresses of other services: what cannot be one is refused, what stands before the last @ is never shown, a path is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitored import serving

from roadworthy.cli.app import run
from roadworthy.monitor import Bundle, Monitor
from roadworthy.web.addresses import address_of, without_password


@pytest.mark.parametrize("host", ["a b", "a\x00b", "a<b", "a\\b", "a|b"])
def test_a_name_that_http_could_not_send_is_refused(host):
    with pytest.raises(ValueError, match="none that a machine can have"):
        address_of(f"http://{host}/")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[fe80::1%25eth0]", "my_monitor", "münchen.example", "a-b.example"],
)
def test_names_and_numbers_of_machines_are_taken(host):
    assert address_of(f"http://{host}:8321/").host == host.strip("[]")


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="@"), min_size=1),
    st.sampled_from("/?#:@ "),
)
def test_whatever_a_password_is_made_of_it_is_not_shown(password, odd):
    secret = f"<{password}{odd}>"
    for scheme in ("http://", "https://", "HTTP://", "ftp://", ""):
        shown = without_password(f"{scheme}me:{secret}@127.0.0.1:8321/hook")
        assert shown.endswith("...@127.0.0.1:8321/hook") and "<" not in shown and ">" not in shown


def test_an_address_without_a_password_is_shown_as_it_is():
    assert without_password("http://127.0.0.1:8321/a?b=c") == "http://127.0.0.1:8321/a?b=c"


@pytest.fixture
def gateway(made: Bundle) -> Iterator[tuple[str, list[str]]]:
    """Answers as monitors that have seen nothing, and notes which path was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            state = self.path.endswith("/v1/state")
            body = Monitor(made).to_bytes() if state else json.dumps({"questions": []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("path", "prefix"), [("", ""), ("/", ""), ("/a", "/a"), ("/a/b/", "/a/b")])
def test_a_monitor_behind_a_path_is_asked_there(gateway, path, prefix):
    address, asked = gateway
    assert run(["monitor", "label-queue", address + path, "-n", "3"]) == 0
    assert asked == [f"{prefix}/v1/label-queue?n=3"]


def test_two_monitors_behind_one_gateway_are_asked_each_by_its_own(gateway, bundle_path, capsys):
    address, asked = gateway
    assert run(
        ["monitor", "merge", f"{address}/a", f"{address}/b", "--bundle", str(bundle_path)]
    ) in (0, 3)
    assert asked == ["/a/v1/state", "/b/v1/state"]
    assert run(["monitor", "label-queue", f"{address}/a?x=1"]) == 2
    assert "it has a question mark" in capsys.readouterr().err and len(asked) == 2


def test_a_scheme_in_capitals_is_an_address_and_its_password_is_not_shown(capsys):
    assert run(["monitor", "label-queue", "HTTP://me:secret@127.0.0.1:1/"]) == 2
    said = capsys.readouterr().err
    assert "no monitor at http://...@127.0.0.1:1/" in said and "secret" not in said


def test_a_token_is_sent_as_the_service_reads_it_or_refused_unseen(bundle_path, tmp_path, capsys):
    with serving(
        bundle_path, tmp_path / "s.sqlite", "--token", "schlüssel-€-und-noch-mehr"
    ) as service:
        assert (
            run(["monitor", "label-queue", service.address, "--token", "schlüssel-€-und-noch-mehr"])
            == 0
        )
        assert run(["monitor", "label-queue", service.address, "--token", "schlüssel\n"]) == 2
    said = capsys.readouterr().err
    assert "no header can carry" in said and "schl" not in said
