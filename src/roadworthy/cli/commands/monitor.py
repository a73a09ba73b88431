"""``roadworthy monitor BUNDLE``: the service; ``label-queue`` and ``merge`` on its state files."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from roadworthy.cli import exits, output
from roadworthy.cli.options import BundleFile, Json, Token
from roadworthy.cli.output import many, percent

if TYPE_CHECKING:
    from roadworthy.monitor import Monitor

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
    group.command(_BundleFirst.unnamed)(_serve)
    group.command("label-queue", epilog=QUEUE_EPILOG)(_label_queue)
    group.command("merge", epilog=MERGE_EPILOG)(_merge)
    app.add_typer(group, name="monitor")


def _serve(
    bundle: BundleFile,
    state: Annotated[Path | None, Option(help="The state file (beside the bundle).")] = None,
    host: Annotated[str, Option(help="Any but a loopback address needs a token.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0 takes any free one.")] = 8321,
    token: Token = None,
    name: Annotated[list[str] | None, Option(help="A further name of this machine.")] = None,
    webhook: Annotated[str | None, Option(help="Alarms are posted to this address.")] = None,
    alarm_log: Annotated[Path | None, Option(help="File to which alarms are added.")] = None,
    proxy: Annotated[str | None, Option(help="The model server to stand in front of.")] = None,
    model: Annotated[str | None, Option(help="Its model: NAME or NAME/versions/V.")] = None,
    score: Annotated[list[str] | None, Option(help="SCORE=OUTPUT of the model.")] = None,
    ids_unique: Annotated[bool, Option("--ids-unique", help="Same id: same events.")] = False,
    body_limit: Annotated[int, Option(min=1, help="Megabytes a post may have.")] = 8,
    max_state: Annotated[int | None, Option(min=1, help="Megabytes of the state file.")] = None,
    json: Json = False,
) -> None:
    """Run the service: events in over HTTP, risk, alarms and a live page out."""
    from roadworthy.cli.options import refuse_own_input
    from roadworthy.web.service import Settings, check_extra, serve
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
            output.print_json({"address": address, "state": str(state), "bundle": str(bundle)})
        else:
            print(f"monitor of {bundle} at {address} (state: {state}); Ctrl-C ends it")
        output.flush()

    serve(settings, ready=ready)


def _pair(text: str) -> tuple[str, str]:
    name, sign, output = text.partition("=")
    if not (name and sign and output):
        raise typer.BadParameter(f"{text!r} is not SCORE=OUTPUT, as in --score knn=knn_distance")
    return name, output


def _label_queue(
    state: Annotated[
        str | None,
        Argument(
            help="A state file, or the address of a monitor; default: the state in this folder."
        ),
    ] = None,
    n: Annotated[int, Option("-n", min=1, max=10_000, help="How many.")] = 100,
    window: Annotated[str | None, Option(help="From which window; default: the longest.")] = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """List the inputs to label next; their probabilities are kept with the state."""
    from roadworthy.web.offline import only_state, questions

    chosen = state or only_state(Path())
    found = questions(chosen, n, window=window, token=token)
    if json:
        output.print_json({"questions": found})
        return
    if state is None:
        output.console(stderr=True).print(f"state: {chosen}", soft_wrap=True)
    print("id\tprobability\ttime")
    for question in found:
        print(
            f"{question['id']}\t{question['probability']:.6g}\t{output.date_text(question['time'])}"
        )


def _merge(
    sources: Annotated[
        list[str],
        Argument(help="Two or more state files or addresses of running monitors."),
    ],
    into: Annotated[Path | None, Option(help="A new state file for all of it.")] = None,
    bundle: Annotated[
        Path | None, Option(help="Their bundle, if no source is a state file.")
    ] = None,
    token: Token = None,
    json: Json = False,
) -> int:
    """Merge the states of replicas: an event that two of them saw counts once."""
    from roadworthy.web import views
    from roadworthy.web.offline import kept, together

    monitor, alarmed = together(sources, bundle=bundle, token=token)
    if into is not None:
        kept(monitor, into)
    windows = {w: views.risk_view(monitor.risk(w)) for w in monitor.bundle.windows.names}
    silent = monitor.no_estimate or windows[monitor.bundle.watched]["no_estimate"]
    code = exits.BREACHED if monitor.alarm else exits.INCONCLUSIVE if silent else exits.MET
    taken = monitor.state.taken
    if json:
        content = {
            "events": taken._asdict(),
            "alarm": monitor.alarm,
            "alarm_by_labels": monitor.alarm_by_labels,
            "alarm_of": list(alarmed),
            "no_estimate": bool(silent),
            "windows": list(windows.values()),
            "into": into,
        }
        output.print_json(content)
        return code
    again = f"; {many(taken.repeated, 'repeated event')} are not counted again"
    lines = [f"{many(monitor.state.counted, 'event')} of {monitor.bundle.subject}"]
    lines[0] += again if taken.repeated else ""
    for name, window in windows.items():
        of = "of " if name.isdigit() else ""
        lines.append(f"  window {of}{window['label']}: {_figures(window)}")
    lines += [f"state: {into}"] if into is not None else []
    there = f" Alarm on in: {', '.join(alarmed)}." if alarmed else ""
    output.print_lines(
        [*lines, _verdict(monitor, [*windows.values()], silent=bool(silent)) + there]
    )
    return code


def _figures(window: Mapping[str, Any]) -> str:
    """The estimates of a window, by the scores and by labels."""
    from roadworthy.numbers import amount

    def figures(found: Mapping[str, Any]) -> str:
        accuracy, low, high = (percent(found[f"accuracy{end}"]) for end in ("", "_low", "_high"))
        cost, least, most = (amount(found[f"risk{end}"]) for end in ("", "_low", "_high"))
        unit = window["unit"]
        return f"accuracy {accuracy} ({low} to {high}), cost {cost} ({least} to {most}) {unit}"

    if window["no_estimate"]:
        said = f"no estimate: {window['no_estimate']}"
    else:
        said = figures(window) if window["n"] else "no events"
    audited = window["audited"]
    return f"{said}; by {audited['labels']:,} labels: {figures(audited)}" if audited else said


def _verdict(monitor: Monitor, windows: list[dict[str, Any]], *, silent: bool) -> str:
    """Whether the alarm of all replicas together is on."""
    from roadworthy.analysis.risk.tree import priced

    limit = monitor.bundle.tolerable
    if monitor.alarm:
        by = "labels" if monitor.alarm_by_labels else "scores"
        cost = priced(limit or 0.0, monitor.bundle.unit)
        return f"ALARM is on, by {by}: the cost of all together may be above {cost}."
    if silent:
        return "No alarm, but no estimate either. Treat it as an alarm."
    if limit is None:
        return "No alarm: no limit set."
    audits = [w["audited"] for w in windows if w["audited"] is not None]
    if any(audited["risk_low"] > limit for audited in audits):
        return (
            "No alarm. Labels put the cost above the limit, but are too few for an alarm within "
            "its false-alarm budget: label more events."
        )
    return f"No alarm. The limit is {priced(limit, monitor.bundle.unit)}."
