"""The monitor's service: scores come in over HTTP, and what they say about accuracy and cost goes out, live.

`roadworthy monitor BUNDLE` runs it (extra ``web``: uvicorn, httptools, uvloop, orjson). One event loop reads and answers,
one thread writes and counts; state is one SQLite file. ``app`` routes, ``events`` reads posts, ``keeper`` has groups of
them written before they are counted and counted before they are answered, ``counting`` is that thread's work, ``ledger``
the file, ``guard`` lets in, ``delivery`` sends alarms out, ``sidecar`` stands in front of a server of models.
"""

from __future__ import annotations


class ServiceError(ValueError):
    """Settings with which the service cannot run, and what to change."""
