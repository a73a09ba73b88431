"""State files and running monitors from outside: what to label next, and the states of replicas put together."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from roadworthy.monitor import Bundle, EventError, Monitor
from roadworthy.monitor.state import Recent
from roadworthy.store import StoreError
from roadworthy.web.addresses import address_of, without_password
from roadworthy.web.drawing import draw
from roadworthy.web.ledger import Ledger
from roadworthy.web.merged_model import RememberedModel, model_in, one_model
from roadworthy.web.replaying import restored
from roadworthy.web.state_files import ENDING

TIMEOUT_S = 60.0


def questions(
    state: str, n: int, *, window: str | None = None, token: str | None = None
) -> list[dict[str, Any]]:
    """The inputs to label next: id, probability, time and cell, by file or by address."""
    if _is_address(state):
        query = urlencode({"n": n, **({"window": window} if window else {})})
        found: list[dict[str, Any]] = json.loads(
            _asked("POST", state, f"/v1/label-queue?{query}", token).body
        )["questions"]
        return found
    ledger = Ledger(Path(state))
    try:
        monitor = restored(bundle_of(ledger), ledger).monitor
        if window is not None:
            try:
                monitor.bundle.windows.checked(window)
            except ValueError as error:
                raise StoreError(str(error)) from None
        return [asdict(question) for question in draw(monitor, ledger, n, window=window).questions]
    finally:
        ledger.close()


def only_state(folder: Path) -> str:
    """The state that `roadworthy monitor BUNDLE` keeps beside a bundle of this folder, where there is just one."""
    found = sorted(path.name for path in folder.glob(f"*{ENDING}"))
    if len(found) == 1:
        return found[0]
    if found:
        raise StoreError(f"there are {len(found)} states here; name one of: {', '.join(found)}")
    raise StoreError(
        f"there is no state in this folder; name one: a file, which `roadworthy monitor BUNDLE` keeps beside its bundle as "
        f"*{ENDING} unless --state says otherwise, or the address of a monitor that runs, as in http://127.0.0.1:8321"
    )


class Together(NamedTuple):
    """The states of several replicas as one monitor, and those of them, as they were named, whose own alarm is on."""

    monitor: Monitor
    alarmed: tuple[str, ...]
    differing: int
    """Ids that more than one of them holds, with scores that do not fall into the same cell; the first stands."""
    model: RememberedModel | None
    """Whose answers were counted, where they come from a server of models."""


class _Held(NamedTuple):
    """A state as it was read: of an address, only its bytes are at hand as long as the bundle is not."""

    state: Monitor | bytes
    model: str | None


def together(
    sources: Sequence[str], *, bundle: Path | None = None, token: str | None = None
) -> Together:
    """The states of several replicas as one monitor, with whose alarm is on, and of which model of a server they are."""
    if len(sources) < 2:
        raise StoreError(
            "merging needs two states or more: name files, or addresses of monitors that run"
        )
    chosen = Bundle.load(bundle) if bundle is not None else None
    read = [_held_at(source, token) for source in sources]
    shown = [without_password(source) if _is_address(source) else source for source in sources]
    model = one_model(
        [(name, RememberedModel.of(one.model)) for name, one in zip(shown, read, strict=True)]
    )
    if chosen is None:
        chosen = next((one.state.bundle for one in read if isinstance(one.state, Monitor)), None)
    if chosen is None:
        raise StoreError("addresses alone do not bring the bundle along; give it with --bundle")
    found = [
        one.state if isinstance(one.state, Monitor) else Monitor.from_bytes(chosen, one.state)
        for one in read
    ]
    whole = Monitor(
        chosen
    )  # a replica of its own, into which each of the others can be merged again
    whole.merge(*found)
    alarmed = tuple(name for name, one in zip(shown, found, strict=True) if one.alarm)
    return Together(whole, alarmed, _differing([one.state.recent for one in found]), model)


def check_named_once(sources: Sequence[str]) -> None:
    """Refuse one state under two names (a link, a slash behind an address): merging it does no harm, but another was meant."""
    seen = dict[object, str]()
    for source in sources:
        known: object = source.rstrip("/").lower()
        if not _is_address(source) and Path(source).exists():
            file = Path(source).stat()
            known = file.st_dev, file.st_ino
        if known in seen:
            first, again = (
                without_password(s) if _is_address(s) else s for s in (seen[known], source)
            )
            said = (
                f"{again} is named twice" if first == again else f"{first} and {again} are the same"
            )
            raise StoreError(f"{said}; name every replica once")
        seen[known] = source


def _differing(held: Sequence[Recent]) -> int:
    """How many ids stand in different cells: states hold no scores. Times may differ, where nobody sent one."""
    cells: dict[str | int, set[int]] = {}
    for recent in held:
        for id, cell in zip(recent.ids, recent.cell.tolist(), strict=True):
            cells.setdefault(id, set()).add(cell)
    return sum(len(found) > 1 for found in cells.values())


def kept(monitor: Monitor, path: Path, *, model: RememberedModel | None = None) -> None:
    """Write a monitor to a new state file, from which a service can go on, with the same model of its server."""
    from roadworthy.web.service import text_of

    if path.exists():
        raise StoreError(f"{path} is there already; name a file that is not")
    ledger = Ledger(path, bundle=monitor.bundle.id, content=text_of(monitor.bundle))
    try:
        ledger.snapshot(monitor.to_bytes(), upto=0)
        if model is not None:
            ledger.keep_model(model.kept())
    finally:
        ledger.close()


def bundle_of(ledger: Ledger) -> Bundle:
    """The bundle that a state file carries."""
    record = json.loads(ledger.content)
    record.pop("id", None)
    return Bundle.from_dict(record)


def _held_at(source: str, token: str | None) -> _Held:
    if _is_address(source):
        answer = _asked("GET", source, "/v1/state", token)
        return _Held(answer.body, model_in(answer.kind))
    path = Path(source)
    ledger = Ledger(path)
    try:
        found = restored(bundle_of(ledger), ledger)
        if found.unlooked:
            found.monitor.look_at_labels()
        return _Held(found.monitor, ledger.model())
    except EventError as error:
        raise StoreError(f"{path}: {error}") from error
    finally:
        ledger.close()


def _is_address(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


class _Answer(NamedTuple):
    kind: str
    """Its content type."""
    body: bytes


def _asked(method: str, address: str, path: str, token: str | None) -> _Answer:
    try:
        place = address_of(address)
        if "?" in place.path:
            raise ValueError("it has a question mark, and what is asked comes behind its path")
    except ValueError as error:
        raise StoreError(
            f"{without_password(address)} is no address of a monitor: {error}; write it as in http://127.0.0.1:8321"
        ) from None
    if token and not token.isprintable():
        raise StoreError(
            "the token has a line break, or another character that no header can carry"
        )
    address, connection = without_password(address), place.connection(TIMEOUT_S)
    authorization = (f"Bearer {token}" if token else place.authorization).encode()
    headers = {"Authorization": authorization} if authorization else {}
    try:
        connection.request(method, place.prefix + path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise StoreError(
            f"there is no monitor at {address} ({error}); `roadworthy monitor BUNDLE` starts one and says its address, and a state "
            "file can be named in its place"
        ) from error
    finally:
        connection.close()
    if answer.status != 200:
        try:
            said = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            said = body[:200].decode(errors="replace")
        raise StoreError(f"{address} answered {answer.status}: {said}")
    return _Answer(answer.getheader("Content-Type", ""), body)
