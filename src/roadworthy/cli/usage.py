"""What is wrong with a command that was typed: the option that was meant, the command that has it, and the value that was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def in_words(error: Any) -> str:
    """What typer says of it, with what it leaves out, and where to look."""
    context = getattr(error, "ctx", None)
    path = _called(context) if context is not None else "roadworthy"
    name = getattr(error, "option_name", None)
    said = error.format_message() if name is None or context is None else _no_option(name, context)
    said = said or "a command, or what it works on, was expected; nothing was given"
    return f"{said}{_found(error)}\n`{path} --help` shows what it takes"


def _called(context: Any) -> str:
    """A command as it is called: one that need not be named is its group."""
    above = context.parent
    unnamed = getattr(above.command, "unnamed", None) if above is not None else None
    return str(
        above.command_path
        if unnamed is not None and unnamed == context.info_name
        else context.command_path
    )


def _no_option(name: str, context: Any) -> str:
    """Of an option that a command does not have: the one that may be meant, or else the commands that have it."""
    from roadworthy.registry import did_you_mean

    own = set(_options(context.command))
    elsewhere = [
        path
        for path, command in _commands(context.find_root().command)
        if name in _options(command)
    ]
    if not elsewhere:
        return f"No such option: {name}{did_you_mean(name, sorted(own))}"
    have = "has" if len(elsewhere) == 1 else "have"
    return f"No such option: {name}; {', '.join(f'`roadworthy {path}`' for path in elsewhere)} {have} it"


def _found(error: Any) -> str:
    """The value that was given, where it is none of those that are taken."""
    details = getattr(getattr(error, "__cause__", None), "errors", None)
    given = details()[0].get("input") if callable(details) else None
    return f"; found {given!r}" if given is not None else ""


def _options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (name for name in parameter.opts if name.startswith("--"))


def _commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All commands below one, with how they are called."""
    for name, below in sorted(getattr(command, "commands", {}).items()):
        if not getattr(below, "hidden", False):
            called = path.rstrip() if name == getattr(command, "unnamed", None) else f"{path}{name}"
            yield called, below
            yield from _commands(below, f"{path}{name} ")
