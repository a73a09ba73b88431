"""Addresses of other services, checked before anything is sent to them.

>>> address_of("https://me:secret@alerts.example/hook?to=ops")
Address(secure=True, host='alerts.example', port=None, path='/hook?to=ops')
>>> address_of("https://me:secret@alerts.example/hook").authorization
'Basic bWU6c2VjcmV0'
>>> address_of("http://127.0.0.1:99999")
Traceback (most recent call last):
ValueError: its port is not a number from 1 to 65535
"""

from __future__ import annotations

import base64
import http.client
import re
import socket
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

_PLAIN = "/%:@!$&'()*+,;=-._~?[]"
"""Characters of a path and its query that go as they are."""
_NAME = re.compile(r"[\w.:%~-]+")
"""What a host name or address is made of; http.client would fail on a space."""


@dataclass(frozen=True)
class Address:
    """Where another service is."""

    secure: bool
    host: str
    port: int | None
    path: str
    authorization: str = field(default="", repr=False)
    """The header for the user and the password in the address; empty if there are none."""

    @property
    def prefix(self) -> str:
        """What further paths are appended to: a gateway may serve several services, by path.

        >>> address_of("http://gateway/a/").prefix, address_of("http://gateway").prefix
        ('/a', '')
        """
        return self.path.partition("?")[0].rstrip("/")

    def reach(self, timeout: float) -> None:
        """Open a connection and close it again; raises OSError if nobody answers."""
        port = self.port or (http.client.HTTPS_PORT if self.secure else http.client.HTTP_PORT)
        socket.create_connection((self.host, port), timeout=timeout).close()

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        """A connection, not opened yet."""
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=timeout)


def address_of(text: str) -> Address:
    """An address taken apart; raises ValueError with what is wrong with it."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError("it cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("it does not begin with http:// or https:// and a name")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        hint = (
            "; write the / ? and # of a password as %2F %3F and %23"
            if "@" in text and "@" not in parts.netloc
            else ""
        )
        raise ValueError(f"its port is not a number from 1 to 65535{hint}")
    if not _can_be_a_name(host):
        raise ValueError("its name is none that a machine can have")
    path = quote(parts.path or "/", safe=_PLAIN) + (
        f"?{quote(parts.query, safe=_PLAIN)}" if parts.query else ""
    )
    authorization = ""
    if parts.username is not None:
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(given.encode()).decode()
    return Address(parts.scheme == "https", host, port, path, authorization)


def without_password(text: str) -> str:
    """An address as it may be shown: nothing of what stands before the last @.

    >>> without_password("http://me:secret@alerts.example:99999/hook")
    'http://...@alerts.example:99999/hook'
    """
    before, sign, rest = text.rpartition("@")
    if not sign:
        return text
    scheme = next((s for s in ("http://", "https://") if before.lower().startswith(s)), "")
    return f"{scheme}...@{rest}"


def _can_be_a_name(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return _NAME.fullmatch(host) is not None
