"""State files and running monitors from outside: what to label next, and replicas put together."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from roadworthy.monitor import Bundle, EventError, Monitor
from roadworthy.store import StoreError
from roadworthy.web.addresses import address_of, without_password
from roadworthy.web.counting import restored
from roadworthy.web.state_file import ENDING, StateFile

TIMEOUT_S = 60.0


def questions(
    state: str, n: int, *, window: str | None = None, token: str | None = None
) -> list[dict[str, Any]]:
    """The events to label next (id, probability, time, cell), from a state file or an address.

    A file must not be in use by a running monitor: ask that one by its address.
    """
    if _is_address(state):
        query = urlencode({"n": n, **({"window": window} if window else {})})
        answer = json.loads(_asked("POST", state, f"/v1/label-queue?{query}", token))
        found: list[dict[str, Any]] = answer["questions"]
        return found
    file = StateFile(Path(state))
    try:
        monitor, _, clock = restored(bundle_of(file), file)
        if window is not None:
            try:
                monitor.bundle.windows.checked(window)
            except ValueError as error:
                raise StoreError(str(error)) from None
        drawn = monitor.queue(n, window)
        file.snapshot(monitor.to_bytes(), upto=file.last(), clock=clock)
        return [asdict(question) for question in drawn]
    finally:
        file.close()


def only_state(folder: Path) -> str:
    """The only state file beside a bundle of this folder."""
    found = sorted(path.name for path in folder.glob(f"*{ENDING}"))
    if len(found) == 1:
        return found[0]
    if found:
        raise StoreError(
            f"There are {len(found)} state files here. Name one of: {', '.join(found)}."
        )
    raise StoreError(
        f"There is no state file (*{ENDING}) in this folder. Name one, or the address of a running "
        "monitor, as in http://127.0.0.1:8321."
    )


class Together(NamedTuple):
    """The states of several replicas as one monitor, and the replicas whose own alarm is on."""

    monitor: Monitor
    alarmed: tuple[str, ...]


def together(
    sources: Sequence[str], *, bundle: Path | None = None, token: str | None = None
) -> Together:
    """The states of several replicas, from files or addresses, as one monitor."""
    if len(sources) < 2:
        raise StoreError("Merging needs two states or more: name files, or addresses.")
    chosen = Bundle.load(bundle) if bundle is not None else None
    read = [_state_at(source, token) for source in sources]
    if chosen is None:
        chosen = next((state.bundle for state in read if isinstance(state, Monitor)), None)
    if chosen is None:
        raise StoreError("Addresses do not bring the bundle along. Give it with --bundle.")
    found = [
        state if isinstance(state, Monitor) else Monitor.from_bytes(chosen, state) for state in read
    ]
    whole = Monitor(chosen)  # a replica of its own
    whole.merge(*found)
    shown = [without_password(source) if _is_address(source) else source for source in sources]
    alarmed = tuple(name for name, one in zip(shown, found, strict=True) if one.alarm)
    return Together(whole, alarmed)


def kept(monitor: Monitor, path: Path) -> None:
    """Write a monitor to a new state file, from which a service can go on."""
    from roadworthy.web.service import text_of

    if path.exists():
        raise StoreError(f"{path} exists already. Name another file.")
    file = StateFile(path, bundle=monitor.bundle.id, content=text_of(monitor.bundle))
    try:
        file.snapshot(monitor.to_bytes(), upto=0)
    finally:
        file.close()


def bundle_of(file: StateFile) -> Bundle:
    """The bundle that a state file carries."""
    record = json.loads(file.content)
    record.pop("id", None)
    return Bundle.from_dict(record)


def _state_at(source: str, token: str | None) -> Monitor | bytes:
    """A state; of an address only its bytes, as long as the bundle is not known."""
    if _is_address(source):
        return _asked("GET", source, "/v1/state", token)
    path = Path(source)
    file = StateFile(path, alone=False)
    try:
        return restored(bundle_of(file), file).monitor
    except EventError as error:
        raise StoreError(f"{path}: {error}") from error
    finally:
        file.close()


def _is_address(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _asked(method: str, address: str, path: str, token: str | None) -> bytes:
    """The answer of a running monitor."""
    try:
        place = address_of(address)
        if "?" in place.path:
            raise ValueError("it has a question mark")
    except ValueError as error:
        raise StoreError(
            f"{without_password(address)} is not the address of a monitor: {error}. Write it as in "
            "http://127.0.0.1:8321."
        ) from None
    if token and not token.isprintable():
        raise StoreError(
            "The token has a line break or another character that no header can carry."
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
            f"There is no monitor at {address} ({error}). `roadworthy monitor BUNDLE` starts one."
        ) from error
    finally:
        connection.close()
    if answer.status != 200:
        try:
            said = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            said = body[:200].decode(errors="replace")
        raise StoreError(f"{address} answered {answer.status}: {said}")
    return body
