"""``roadworthy monitor BUNDLE``: the service; ``label-queue`` and ``merge`` on its state files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from roadworthy.cli import exits, showing

MERGE_EPILOG = (
    "Exit codes: 0 no alarm, 1 the alarm of all together is on, 2 usage or file error, "
    "3 no estimate. The state is written unless the code is 2."
)
QUEUE_EPILOG = "Exit codes: 0 done, 2 usage or file error."


class _BundleFirst(TyperGroup):
    """A group whose first argument may be a bundle: then it is ``serve``."""

    unnamed = "serve"
    """The command that need not be named, and is shown as the group itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [self.unnamed, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """As if the group had the arguments and options of ``serve``, which need not be named."""
        shown = copy.copy(self)
        shown.params = list(self.commands[self.unnamed].params)
        shown.commands = {
            name: command for name, command in self.commands.items() if name != self.unnamed
        }
        shown.subcommand_metavar = "| COMMAND [ARGS]..."
        TyperGroup.format_help(shown, ctx, formatter)


def add_to(app: typer.Typer) -> None:
    """Make them commands."""
    group = typer.Typer(
        cls=_BundleFirst,
        help="Watch the risk of a subject in use: `roadworthy monitor BUNDLE` runs the service.",
        no_args_is_help=True,
    )
    group.command(_BundleFirst.unnamed)(serve)
    group.command("label-queue", epilog=QUEUE_EPILOG)(label_queue)
    group.command("merge", epilog=MERGE_EPILOG)(merge)
    app.add_typer(group, name="monitor")


def serve(
    bundle: Annotated[Path, typer.Argument(help="What `roadworthy calibrate` wrote.")],
    state: Annotated[
        Path | None, typer.Option(help="The state file; beside the bundle by default.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Any but a loopback address needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8321,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="ROADWORTHY_TOKEN",
            help="What clients must send as Authorization: Bearer TOKEN; 16 characters or more.",
        ),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A further name by which clients call this machine.")
    ] = None,
    webhook: Annotated[str | None, typer.Option(help="Alarms are posted to this address.")] = None,
    alarm_log: Annotated[
        Path | None, typer.Option(help="Alarms are added to this file, one JSON object a line.")
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="Stand in front of this Open Inference Protocol v2 server; needs --model."
        ),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="With --proxy: SCORE=OUTPUT, if an output is not named like its score."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Required with --proxy: the model that is counted, NAME or NAME/versions/V."
        ),
    ] = None,
    ids_unique: Annotated[
        bool,
        typer.Option(
            "--ids-unique",
            help="With --proxy: ids of requests are unique; the same id is the same events.",
        ),
    ] = False,
    body_limit: Annotated[int, typer.Option(min=1, help="Megabytes a post may have.")] = 8,
    max_state: Annotated[
        int | None, typer.Option(min=1, help="Megabytes the state file may have.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Run the service: events in over HTTP, risk, alarms and a live page out."""
    from roadworthy.cli.options import refuse_own_input
    from roadworthy.web.service import Settings, check_extra
    from roadworthy.web.service import serve as run
    from roadworthy.web.state_file import beside

    check_extra()
    for_models = {"--score": score, "--model": model, "--ids-unique": ids_unique}
    given = [option for option, value in for_models.items() if value]
    if proxy is None and given:
        raise typer.BadParameter(f"{given[0]} needs --proxy")
    state = state or beside(bundle)
    if alarm_log is not None:
        refuse_own_input("--alarm-log", alarm_log, bundle, state)
    settings = Settings(
        bundle=bundle,
        state=state,
        host=host,
        port=port,
        token=token or None,
        names=tuple(name or ()),
        body_limit=body_limit << 20,
        max_state_bytes=None if max_state is None else max_state << 20,
        webhook=webhook,
        alarm_log=alarm_log,
        proxy=proxy,
        outputs=dict(_pair(text) for text in score or ()),
        model=model,
        ids_unique=ids_unique,
    )

    def ready(address: str) -> None:
        if json:
            showing.print_json(
                {"address": address, "state": str(settings.state), "bundle": str(settings.bundle)}
            )
        else:
            print(
                f"monitor of {settings.bundle} at {address} (state: {settings.state}); Ctrl-C ends it"
            )
        showing.flush()

    run(settings, ready=ready)


def _pair(text: str) -> tuple[str, str]:
    name, sign, output = text.partition("=")
    if not (name and sign and output):
        raise typer.BadParameter(f"{text!r} is not SCORE=OUTPUT, as in --score knn=knn_distance")
    return name, output


def label_queue(
    state: Annotated[
        str | None,
        typer.Argument(
            help="A state file, or the address of a monitor; default: the state in this folder."
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many.")] = 100,
    window: Annotated[
        str | None, typer.Option(help="From which window; default: the longest.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="ROADWORTHY_TOKEN", help="Token of the running monitor.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the inputs to label next; their probabilities are kept with the state."""
    from roadworthy.cli.amounts import moment
    from roadworthy.web.offline import only_state, questions

    chosen = state or only_state(Path())
    found = questions(chosen, n, window=window, token=token)
    if json:
        showing.print_json({"questions": found})
        return
    if state is None:
        showing.console(stderr=True).print(f"state: {chosen}", soft_wrap=True)
    print("id\tprobability\ttime")
    for question in found:
        print(f"{question['id']}\t{question['probability']:.6g}\t{moment(question['time'])}")


def merge(
    sources: Annotated[
        list[str],
        typer.Argument(help="Two or more state files or addresses of running monitors."),
    ],
    into: Annotated[Path | None, typer.Option(help="A new state file for all of it.")] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Their bundle, if no source is a state file.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="ROADWORTHY_TOKEN", help="Token of the running monitors.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> int:
    """Merge the states of replicas: an event that two of them saw counts once."""
    from roadworthy.cli.amounts import many
    from roadworthy.cli.merging import (
        again,
        alarm_line,
        tolerable_line,
        unproven_line,
        window_line,
    )
    from roadworthy.web import views
    from roadworthy.web.offline import kept, together

    monitor, alarmed = together(sources, bundle=bundle, token=token)
    if into is not None:
        kept(monitor, into)
    windows = [views.risk_view(monitor.risk(name)) for name in monitor.bundle.windows.names]
    taken, watched = monitor.state.taken, monitor.bundle.watched
    untold = monitor.cannot_tell or any(w["cannot_tell"] for w in windows if w["window"] == watched)
    code = exits.BREACHED if monitor.alarm else exits.INCONCLUSIVE if untold else exits.MET
    if json:
        content = {
            "events": taken._asdict(),
            "alarm": monitor.alarm,
            "alarm_by_labels": monitor.alarm_by_labels,
        }
        content |= {"alarm_of": list(alarmed), "cannot_tell": untold}
        showing.print_json({**content, "windows": windows, "into": into})
        return code
    out = showing.console()
    out.print(
        f"{many(monitor.state.counted, 'event')} of {monitor.bundle.subject}{again(taken.repeated)}",
        soft_wrap=True,
    )
    out.print(tolerable_line(monitor.bundle), soft_wrap=True)
    for window in windows:
        of = "of " if window["window"].isdigit() else ""
        out.print(f"  window {of}{window['label']}: {window_line(window)}", soft_wrap=True)
    unproven = unproven_line(monitor, windows)
    if unproven:
        out.print(unproven, soft_wrap=True)
    if into is not None:
        out.print(f"state: {into}", soft_wrap=True)
    out.print(alarm_line(monitor, alarmed, untold=bool(untold)), soft_wrap=True)
    return code
