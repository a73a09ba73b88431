"""Who may ask: checks of Host, Origin and token, and the headers that every answer carries.

A page of another site that is open in the operator's browser can send requests to 127.0.0.1: its
Origin gives it away. A foreign Host gives away a name that was made to point here (DNS rebinding).

>>> guard = Guard(host="127.0.0.1", token=None)
>>> guard.refusal({b"host": b"127.0.0.1:8321", b"origin": b"https://evil.example"})
(403, 'Requests from https://evil.example are not allowed.')
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
"""Headers that decide who may ask: of two, one would be checked and the other one used."""
SHORTEST_TOKEN = 16
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
PICTURE_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    *HEADERS[1:],
]
"""Headers of a picture that holds its own style, and nothing that runs."""
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.~-]+))(?::\d*)?", re.ASCII | re.IGNORECASE)
"""An IPv6 address in brackets or a name, and a port; nothing else, so that no user name fits in."""


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "monitor.lan")]
    [True, True, True, False, False]
    """
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def repeated(headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
    """Status and sentence if a header that decides who may ask stands there twice.

    >>> repeated([(b"host", b"localhost"), (b"origin", b"https://a"), (b"origin", b"https://b")])
    (400, 'The header origin is there more than once. Send one.')
    """
    found = [name for name, _ in headers if name in ONCE]
    if len(found) == len(set(found)):
        return None
    twice = next(name for name in found if found.count(name) > 1)
    return 400, f"The header {twice.decode()} is there more than once. Send one."


class Guard:
    """The checks of one service: the address it is bound to, its further names, and its token."""

    def __init__(self, *, host: str, names: tuple[str, ...] = (), token: str | None) -> None:
        if not is_loopback(host) and not token:
            raise ServiceError(
                f"--host {host} can be reached from other machines and needs a token: set "
                "ROADWORTHY_TOKEN, or give --token. 127.0.0.1 needs none."
            )
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ServiceError(
                f"The token has {len(token)} characters; at least {SHORTEST_TOKEN} are needed. "
                "`openssl rand -hex 16` makes one."
            )
        self._names = LOOPBACK | {host.lower()} | {name.lower() for name in names}
        # Bound to every address, it is called by whichever the client knows: the token decides.
        self._any_name = host in ("0.0.0.0", "::") and not names
        self._seen: set[bytes | None] = set()
        """Host headers that were found right: most requests have one of these."""
        self._token = None if token is None else token.encode()

    def refusal(
        self, headers: Mapping[bytes, bytes], *, open_to_all: bool = False, probe: bool = False
    ) -> tuple[int, str] | None:
        """Status and sentence if a request is not allowed.

        A probe may call the service by any of its addresses: it learns nothing, and only a name can
        be made to point elsewhere.
        """
        if headers.get(b"host") in self._seen and self._token is None and b"origin" not in headers:
            return None
        called = headers.get(b"host", b"").decode("latin-1")
        host = _name(called)
        if called and not host:
            return 400, f"Host is {called!r}; a name with an optional port was expected."
        if not self._any_name and host not in self._names and not (probe and _is_address(host)):
            names = ", ".join(sorted(self._names))
            return (
                421,
                f"This service is not called {host!r}. Its names: {names} (--name adds one).",
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._own(origin.decode("latin-1"), headers):
            return 403, f"Requests from {origin.decode('latin-1')} are not allowed."
        if (
            self._token is not None
            and not open_to_all
            and not self._known(headers.get(b"authorization", b""))
        ):
            return 401, "This service needs its token. Send the header Authorization: Bearer TOKEN."
        if len(self._seen) < 16 and not probe:
            self._seen.add(headers.get(b"host"))
        return None

    def _known(self, authorization: bytes) -> bool:
        """Whether a header has the token; the scheme is case-insensitive (RFC 9110, 11.1)."""
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
    """A Host header without its port; empty if it is not one.

    >>> _name("[::1]:80"), _name("Localhost:80"), _name("10.0.0.1"), _name("127.0.0.1:80@evil")
    ('::1', 'localhost', '10.0.0.1', '')
    """
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""
