"""Who may ask: checks of Host, Origin and token, and the headers that every answer carries.

A page of another site that the operator's browser has open can send requests to 127.0.0.1: a foreign Origin gives it away,
and a foreign Host gives away a name that was made to point here (DNS rebinding).

>>> guard = Guard(host="127.0.0.1", token=None)
>>> guard.refusal({b"host": b"127.0.0.1:8321", b"origin": b"https://evil.example"})
(403, 'requests from https://evil.example are not taken; only pages of this service may send them')
>>> guard.refusal({b"host": b"localhost:8321"}) is None
True
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping

from roadworthy.web import ServiceError

ONCE = frozenset({b"host", b"origin", b"authorization"})
"""Headers by which it is decided who may ask: of two, one would be looked at and another one meant."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
PICTURE_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    *HEADERS[1:],
]
"""Of a picture that holds its own style, and nothing that runs."""
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.~-]+))(?::\d*)?", re.ASCII | re.IGNORECASE)
"""A number of six in brackets or a name, and a port: nothing else, so that no user can stand in front of another name."""


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("monitor.lan")
    (True, True, True, False, False)
    """
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def repeated(headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
    """Why a request is not taken that says twice who asks: status and sentence; None where it does not.

    >>> repeated([(b"host", b"localhost"), (b"origin", b"https://evil.example"), (b"origin", b"http://localhost")])
    (400, 'the header origin is there more than once; send one')
    """
    found = [name for name, _ in headers if name in ONCE]
    twice = next((name for name in found if found.count(name) > 1), None)
    return (
        None
        if twice is None
        else (400, f"the header {twice.decode()} is there more than once; send one")
    )


class Guard:
    """The checks of one service: the address it is bound to, further names it is known by, and its token."""

    def __init__(self, *, host: str, names: tuple[str, ...] = (), token: str | None) -> None:
        if not is_loopback(host) and not token:
            raise ServiceError(
                f"--host {host} can be reached from other machines and needs a token: set ROADWORTHY_TOKEN, or give --token; "
                "127.0.0.1 needs none"
            )
        self._names = LOOPBACK | {host.lower()} | {name.lower() for name in names}
        # Bound to every address, it is called by whichever the client knows; then the token alone tells friend from foe.
        self._any_name = host in ("0.0.0.0", "::") and not names
        self._seen: set[bytes | None] = set()
        """Host headers that were found right: most requests have one of these."""
        self._token = None if token is None else token.encode()

    def refusal(
        self, headers: Mapping[bytes, bytes], *, open_to_all: bool = False, probe: bool = False
    ) -> tuple[int, str] | None:
        """Why a request is not taken: status and sentence; None where it is.

        A probe may call the service by any of its addresses: it learns nothing, and only a name can be made to point elsewhere.
        """
        if headers.get(b"host") in self._seen and self._token is None and b"origin" not in headers:
            return None
        called = headers.get(b"host", b"").decode("latin-1")
        host = _name(called)
        if called and not host:
            return (
                400,
                f"Host is {called!r}; a name was expected, and a port behind it where there is one",
            )
        if not self._any_name and host not in self._names and not (probe and _is_address(host)):
            return (
                421,
                f"this service is not called {host!r}; it answers to {', '.join(sorted(self._names))} (--name adds another)",
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._own(origin.decode("latin-1"), headers):
            return (
                403,
                f"requests from {origin.decode('latin-1')} are not taken; only pages of this service may send them",
            )
        if (
            self._token is not None
            and not open_to_all
            and not self._known(headers.get(b"authorization", b""))
        ):
            return 401, "this service needs its token: send the header Authorization: Bearer TOKEN"
        if len(self._seen) < 16 and not probe:
            self._seen.add(headers.get(b"host"))
        return None

    def _known(self, authorization: bytes) -> bool:
        """Whether a header has the token; the name of the scheme may be written in any case (RFC 9110, 11.1)."""
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(
            token.lstrip(b" "), self._token or b""
        )

    def _own(self, origin: str, headers: Mapping[bytes, bytes]) -> bool:
        scheme, _, place = origin.partition("://")
        return (
            scheme in ("http", "https")
            and place.lower() == headers.get(b"host", b"").decode("latin-1").lower()
        )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """A Host header without its port; empty where it is none.

    >>> _name("[::1]:80"), _name("Localhost:80"), _name("10.0.0.1"), _name("127.0.0.1:80@evil")
    ('::1', 'localhost', '10.0.0.1', '')
    """
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""
