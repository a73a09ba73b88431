"""Exit codes, and which error ends with which.

>>> VERDICTS["breached"], code_of(KeyboardInterrupt())
(1, 4)
"""

from __future__ import annotations

import errno
from typing import Any

MET, BREACHED, USAGE, INCONCLUSIVE, UNFINISHED = 0, 1, 2, 3, 4
CRASHED = 70
"""A bug (EX_SOFTWARE of sysexits.h), which must not be taken for a verdict."""

VERDICTS = {"met": MET, "no claims": MET, "breached": BREACHED, "inconclusive": INCONCLUSIVE}
"""A run's verdict -> the exit code of `roadworthy assess`."""

INTERRUPTED = 130
"""What a shell, and typer, call a program that was stopped by the keyboard."""

_REFUSED = {
    "BundleError",
    "DataError",
    "EventError",
    "ImportError",
    "OSError",
    "RegistryError",
    "ReportError",
    "ServiceError",
    "SpecError",
    "StoreError",
    "SubjectError",
}
"""Errors that the user can correct. By name: importing their modules would slow every start."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


def code_of(error: BaseException) -> int:
    """The exit code of an error."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if (
        names & {"Unfinished", "KeyboardInterrupt", "Abort"}
        or getattr(error, "errno", None) in _FULL
    ):
        return UNFINISHED
    return USAGE if names & _REFUSED or hasattr(error, "format_message") else CRASHED


def message_of(error: BaseException) -> str:
    """What to print, in one block."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "stopped by the keyboard before any case was run; the same command starts again"
    if hasattr(error, "format_message"):
        return _usage(error)
    if code_of(error) == CRASHED:
        return (
            f"{type(error).__name__}: {error}\n"
            "This is a bug in roadworthy, not in your files; set ROADWORTHY_DEBUG=1 to see where"
        )
    ours = type(error).__module__.startswith("roadworthy")
    if isinstance(error, OSError) and error.strerror and not ours:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error)


def _usage(error: Any) -> str:
    """What typer says of a command that was mistyped, and where to look."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "roadworthy"
    said = error.format_message() or "a command or its argument is missing"
    details = getattr(error.__cause__, "errors", None)
    given = details()[0].get("input") if callable(details) else None
    said += f"; found {given!r}" if given is not None else ""
    return f"{said}\n`{path.removesuffix(' serve')} --help` shows the options"
