"""The commands as one program; an error is one sentence and an exit code.

With ``--json`` standard output is JSON and nothing else, errors too: ``{"error": …, "kind": …,
"exit_code": …}``. ``--debug``, or ROADWORTHY_DEBUG=1, shows where an error was raised.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from roadworthy.cli import commands, exits, output

EPILOG = (
    "Exit codes: 0 claims met, 1 breached, 2 usage or file error, 3 inconclusive, 4 unfinished."
)


def program(only: str | None = None) -> typer.Typer:
    """The program with every command in `commands`, or with the one that is asked for."""
    app = typer.Typer(
        name="roadworthy",
        help="Is this AI system fit for the road, and is it still?",
        epilog=EPILOG,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def whole(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version and end.", callback=_version)
        ] = False,
        debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
    ) -> None:
        """Is this AI system fit for the road, and is it still?"""

    names = [info.name for info in pkgutil.iter_modules(commands.__path__)]
    for name in [only] if only in names else names:
        importlib.import_module(f"{commands.__name__}.{name}").add_to(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit code."""
    debug = "--debug" in arguments or os.environ.get("ROADWORTHY_DEBUG", "") not in ("", "0")
    given = [a for a in arguments if a != "--debug"] or ["--help"]
    try:
        code = program(given[0])(given, prog_name="roadworthy", standalone_mode=False)
        if code == exits.INTERRUPTED:
            raise KeyboardInterrupt
        output.flush()
        return int(code or 0)
    except SystemExit as ended:
        if _reader_left(ended):
            output.flush()
            return 0
        if debug:
            traceback.print_exc()
        return _report(_ended_by_subject(ended), as_json="--json" in given)
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        return _report(error, as_json="--json" in given)


def _reader_left(ended: SystemExit) -> bool:
    """Whether typer or rich ended the program because the reader of its output (`| head`) left."""
    cause = ended.__cause__ or ended.__context__
    return isinstance(cause, OSError) and cause.errno == errno.EPIPE


def _ended_by_subject(ended: SystemExit) -> Exception:
    """No command ends so itself: code that the user's files name did, and that is no verdict."""
    from roadworthy.subject.module import SubjectError

    code = "" if ended.code is None else repr(ended.code)
    return SubjectError(
        f"the subject called sys.exit({code}); it must raise an error or return instead"
    )


def _report(error: BaseException, *, as_json: bool) -> int:
    code, message = exits.code_of(error), exits.message_of(error)
    if as_json:
        print(json.dumps({"error": message, "kind": type(error).__name__, "exit_code": code}))
    else:
        lead = "unfinished" if code == exits.UNFINISHED else "error"
        print(f"{lead}: {message}", file=sys.stderr)
    return code


def _version(wanted: bool) -> None:
    if wanted:
        from roadworthy import __version__

        print(f"roadworthy {__version__}")
        raise typer.Exit
