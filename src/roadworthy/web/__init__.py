"""The monitor's service: scores come in over HTTP; accuracy, cost and alarms go out, live.

`roadworthy monitor BUNDLE` runs it (extra ``web``: uvicorn, httptools, uvloop, orjson). One event
loop reads and answers, one thread writes and counts, and the state is one SQLite file.

| file | what it holds |
| --- | --- |
| ``service`` | settings, start and end |
| ``connection``, ``http``, ``guard`` | limits of a connection; requests and answers; who may ask |
| ``app``, ``views``, ``pages``, ``metrics`` | routes; what they answer |
| ``events`` | posts of events and labels, checked |
| ``keeper``, ``counting``, ``state_file`` | group commit; the thread that counts; the file |
| ``clock``, ``lateness``, ``history`` | time; events refused as late; points of the charts |
| ``webhook`` | alarms on their way out |
| ``sidecar``, ``answer_scores`` | in front of a model server |
| ``offline``, ``addresses``, ``log`` | states from outside; addresses; throttled warnings |
"""

from __future__ import annotations


class ServiceError(ValueError):
    """Settings with which the service cannot run, and what to change."""
