"""A bundle: everything a monitor needs, compiled before release into one file named by its content.

It holds the calibration's counts, the tree and its costs, what is tolerable, windows, the alarm's
rule, the horizons for late and repeated events, the forecast, and a self-test: a few events with the
state that they must lead to. A file that was changed, cut off, or that leads to another state on this
machine is refused.

>>> str(Coverage(0.95, 0.98, 96, rate=0.74))
'accuracy held in 98.0% of 96 windows, the share shifted in 74.0% (kinds left out in turn), nominal 95%'
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from roadworthy.analysis.risk.calibration import Calibration, of_firm_kinds
from roadworthy.analysis.risk.estimator import JEFFREYS, Estimator
from roadworthy.analysis.risk.tree import Tree
from roadworthy.monitor import messages
from roadworthy.monitor.alarm import AlarmRule
from roadworthy.monitor.events import Events
from roadworthy.monitor.threshold import alarm_rule
from roadworthy.monitor.windows import Windows

FORMAT = "roadworthy bundle 5"
SELF_TEST, TOLERANCE = 40, 1e-9
"""Events of the self-test, and how closely figures must agree; whole numbers must be the same."""
SMOOTH = ("rate", "accuracy", "risk", "log_odds", "effective_n")
"""Figures that do not jump if a sum comes out differently in its last digit."""


class BundleError(ValueError):
    """A bundle that cannot be used, and why."""


class RatePrior(NamedTuple):
    """The rate of shift that is expected while a window fills, and the events that it is worth.

    A full window does not depend on it, and neither does the alarm, which reads full windows alone.
    """

    rate: float
    events: float


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth on kinds of shift that were left out of the calibration."""

    nominal: float
    observed: float
    """Of intervals of the accuracy."""
    windows: int
    on: str = "kinds left out in turn"
    rate: float | None = None
    """The same of intervals of the share that is shifted; None if it was not counted."""

    def __str__(self) -> str:
        rate = "" if self.rate is None else f", the share shifted in {self.rate:.1%}"
        held = f"accuracy held in {self.observed:.1%} of {self.windows:,} windows"
        return f"{held}{rate} ({self.on}), nominal {self.nominal:.0%}"


@dataclass(frozen=True)
class Forecast:
    """The risk that was expected before release, at an expected rate of shift."""

    rate: float
    risk: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Bundle:
    """The configuration of a monitor; two bundles are the same if their ids are."""

    subject: str
    calibration: Calibration
    tree: Tree
    constants: Mapping[str, float | tuple[float, float]] = field(default_factory=dict)
    """Parameters of the tree that no stream gives: a number, or (successes, trials)."""
    tolerable: float | None = None
    prior: RatePrior | None = None
    """Of the rate of shift before a window is full; None: one that favours no rate."""
    windows: Windows = field(default_factory=Windows)
    alarm: AlarmRule | None = None
    lateness: float = 3600.0
    """Seconds by which an event may be older than the newest."""
    id_horizon: int = 100_000
    """Events whose ids are remembered at least."""
    bucket: float = 60.0
    """Seconds of a time bucket, while it is young."""
    confidence: float = 0.95
    forecast: Forecast | None = None
    coverage: Coverage | None = None
    made: Mapping[str, Any] = field(default_factory=dict)
    """Rows by kind, of what it was made, notes, and warnings if there are some."""
    self_test: Mapping[str, Any] = field(default_factory=dict)
    made_at: str | None = None
    """When it was made: no part of the content by which it is named."""
    blind_to: ClassVar[tuple[str, ...]] = (
        "changed prevalence of classes and changed labelling",
        "wrong answers that none of the supervisors' scores reflect",
    )
    """What no estimate without labels can see."""

    def __post_init__(self) -> None:
        prior = self.prior
        if prior and not (0.0 < prior.rate < 1.0 and 0.0 < prior.events < math.inf):
            raise BundleError(
                "An expected rate of shift lies above 0 and below 1 and is worth more than 0 events, "
                f"found {prior.rate:g} and {prior.events:g}."
            )

    @property
    def title(self) -> str:
        """The subject as people call it: `made["subject"]` if there is one."""
        return str(self.made.get("subject") or self.subject)

    @property
    def called(self) -> tuple[str, ...]:
        """What events may call the subject: as the bundle does, or as people do."""
        return tuple(dict.fromkeys((self.subject, self.title)))

    @property
    def unit(self) -> str:
        """Of the tree's costs."""
        return self.tree.unit

    @cached_property
    def id(self) -> str:
        """16 hex digits of the SHA-256 of the content, which is all but the time of making."""
        return _digest(self.to_dict())

    @property
    def calibrated_on(self) -> str:
        """In words: rows by kind, and what must be said about them."""
        calibration = self.calibration
        rows = ", ".join(f"{calibration.rows(kind):,} of {kind}" for kind in calibration.kinds)
        notes = (*calibration.notes, *map(str, self.made.get("notes", ())))
        return "; ".join((f"rows: {rows}", *notes))

    @property
    def watched(self) -> str:
        """The name of the window that the alarm watches; the shortest if there is no alarm."""
        return str(self.alarm.window if self.alarm else min(self.windows.lengths))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be known before any figure is used, each with what to do about it."""
        return tuple(map(str, self.made.get("warnings", ())))

    @cached_property
    def estimator(self) -> Estimator:
        """What turns counts into estimates."""
        prior = JEFFREYS
        if self.prior is not None:  # shifted and clean events
            rate, events = self.prior
            prior = rate * events, (1.0 - rate) * events
        given: dict[str, Any] = {"constants": self.constants, "tolerable": self.tolerable}
        return Estimator(self.calibration, self.tree, **given, prior=prior)

    @classmethod
    def compile(
        cls,
        calibration: Calibration,
        tree: Tree,
        *,
        subject: str,
        windows: Windows | None = None,
        tolerable: float | None = None,
        alarm_window: int | None = None,
        false_alarms: str = "1 per month",
        events_per_day: float = 10_000.0,
        expected_rate: float = 0.0,
        made: Mapping[str, Any] | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> Bundle:
        """A bundle with its alarm (if there is a tolerable risk), its forecast and its self-test.

        Without `alarm_window` the alarm watches the shortest of the windows that notices a step to
        30% shift at the stated rate of false alarms. `seed` is that of the simulated streams.
        `settings` are further fields of the bundle; without a `forecast` it is that of the expected
        rate, kinds even.
        """
        given, calibration = calibration, of_firm_kinds(calibration)
        windows = windows or Windows()
        limit = None if tolerable is None else float(tolerable)
        bundle = cls(subject, calibration, tree, tolerable=limit, windows=windows, **settings)
        estimator, rate, rule = bundle.estimator, float(expected_rate), None
        if limit is not None:
            rule = alarm_rule(
                estimator,
                windows=[alarm_window] if alarm_window is not None else windows.lengths,
                false_alarms=false_alarms,
                events_per_day=events_per_day,
                seed=seed,
            )
        rows = {kind: calibration.rows(kind) for kind in calibration.kinds}
        made = {**(made or {}), "rows": rows}
        if warnings := messages.warnings_of(given, estimator.separation, bundle.coverage):
            made["warnings"] = list(warnings)
        forecast = bundle.forecast or Forecast(rate, *estimator.forecast(rate))
        bundle = replace(bundle, alarm=rule, forecast=forecast, made=made)
        return replace(bundle, self_test=expected_state(bundle))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the content."""
        names = [f.name for f in fields(self) if f.name != "made_at"]
        return {"format": FORMAT, **{name: _plain(getattr(self, name)) for name in names}}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Bundle:
        """The inverse of `to_dict`, without a look at the self-test."""
        found = {k: v for k, v in record.items() if k != "format"}
        found["calibration"] = Calibration.from_dict(record["calibration"])
        found["tree"] = Tree.from_dict(record["tree"])
        found["constants"] = _tuples(record["constants"])
        parts: dict[str, Any] = {
            "prior": RatePrior,
            "windows": Windows,
            "alarm": AlarmRule,
            "forecast": Forecast,
            "coverage": Coverage,
        }
        for name, part in parts.items():
            value = _tuples(record[name])
            found[name] = part(**value) if isinstance(value, Mapping) else value and part(*value)
        return cls(**found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bundle: under another name first, so that a reader never finds half a file."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        made_at = {"made_at": self.made_at} if self.made_at else {}
        try:
            beside.write_text(_json({"id": self.id, **made_at, **self.to_dict()}) + "\n", "utf-8")
            beside.replace(target)
        except OSError as error:
            # Named after what was asked for: nobody knows of the other name.
            raise OSError(error.errno, error.strerror, str(target)) from error
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Bundle:
        """Read a bundle; one that is not whole, was changed, or fails its self-test is refused."""
        where = Path(path)
        if where.is_dir():
            beside = where / "monitor" / "bundle.json"
            instead = f" The bundle of this run is {beside}." if beside.is_file() else ""
            raise BundleError(f"{where} is a folder, not a bundle.{instead}")
        if not where.exists():
            raise BundleError(f"No bundle at {where}. `roadworthy calibrate` makes one.")
        content, record = where.read_bytes(), None
        try:
            record = json.loads(content)
        except ValueError as error:
            if content.lstrip()[:1] in (b"", b"{"):
                whole = f"{where} is not a whole bundle: {error}. Copy it again."
                raise BundleError(whole) from None
        found = record.get("format") if isinstance(record, dict) else None
        if record is None or not str(found).startswith(FORMAT.rpartition(" ")[0]):
            raise BundleError(f"{where} is not a bundle. `roadworthy calibrate` makes one.")
        if found != FORMAT:
            raise BundleError(
                f"{where} is a bundle of another version: expected {FORMAT!r}, found {found!r}. "
                "Make it again with `roadworthy calibrate` or `roadworthy assess`."
            )
        stated, made_at = record.pop("id", None), record.pop("made_at", None)
        if stated != (found := _digest(record)):
            why = f"its id is {stated}, its content is {found}"
            raise BundleError(f"{where} was changed: {why}. Use the original.")
        try:
            bundle = cls.from_dict({**record, "made_at": made_at})
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"{where} cannot be read: {error}. Make it again.") from error
        if wrong := self_test_failure(bundle):
            raise BundleError(f"{where} fails its self-test: {wrong}. Make it again.")
        return bundle


def _plain(value: Any) -> Any:
    """A field of a bundle as JSON writes it."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _tuples(value: Any) -> Any:
    """The same values with tuples for lists."""
    if isinstance(value, Mapping):
        return {name: _tuples(one) for name, one in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _json(record: Mapping[str, Any], *, sort_keys: bool = False) -> str:
    compact = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    return json.dumps(record, sort_keys=sort_keys, **compact)  # type: ignore[arg-type]


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(_json(record, sort_keys=True).encode()).hexdigest()[:16]


def expected_state(bundle: Bundle) -> dict[str, Any]:
    """The self-test, the proof that a bundle means on this machine what it meant where it was made.

    Events over and beyond what was calibrated, and what this bundle makes of them. Some scores are
    missing; one event comes twice, one late, one out of order.
    """
    columns, calibration = {}, bundle.calibration
    parts = zip(calibration.names, calibration.references, calibration.reach, strict=True)
    for i, (name, reference, reach) in enumerate(parts):
        values = np.quantile(np.array([*reference, *reach]), np.linspace(0.0, 1.0, SELF_TEST))
        # Each column starts elsewhere, so that scores meet in other pairs than lowest with lowest.
        scores: list[float | None] = np.roll(values, 7 * i).tolist()
        scores[3 + i % 5] = scores[11] = None
        columns[name] = scores
    times = [60.0 * i for i in range(SELF_TEST)]
    times[20], times[30] = times[18] - 1.0, -bundle.lateness - 1.0
    ids = [f"event {i}" for i in range(SELF_TEST)]
    ids[25] = ids[24]
    events = {"id": ids, "time": times, "columns": columns}
    return {"events": events, "expected": _outcome(bundle, events)}


def _outcome(bundle: Bundle, record: Mapping[str, Any]) -> dict[str, Any]:
    """What a monitor of the bundle says after these events."""
    from roadworthy.monitor.monitor import Monitor

    columns = {name: np.array(column, dtype=float) for name, column in record["columns"].items()}
    monitor = Monitor(bundle)
    taken = monitor.update(Events(record["id"], record["time"], columns=columns))
    total = monitor.state.buckets.total()
    risk = monitor.risk(str(max(bundle.windows.lengths)))
    figures = {name: getattr(risk, name) for name in SMOOTH}
    figures = {k: v if v is not None and math.isfinite(v) else None for k, v in figures.items()}
    if bundle.alarm is not None:  # behind the cells stands how many events have none
        odds = bundle.estimator.odds(total[: bundle.calibration.cells])
        figures |= {"watched": float(odds.above[0]), "evidence": float(odds.evidence[0])}
    return {
        "cells": bundle.calibration.place(columns).tolist(),
        "taken": list(taken),
        "counts": [[int(i), int(total[i])] for i in np.flatnonzero(total)],
        **figures,
    }


def self_test_failure(bundle: Bundle) -> str | None:
    """How the state differs from the one that was expected; None if it does not."""
    try:
        found = _outcome(bundle, bundle.self_test["events"])
        expected = bundle.self_test["expected"]
    except (KeyError, TypeError, ValueError) as error:
        return f"its events cannot be taken ({error!r})"
    for name, value in found.items():
        wanted, same = expected.get(name), expected.get(name) == value
        if isinstance(value, float) and isinstance(wanted, float):
            same = math.isclose(value, wanted, rel_tol=TOLERANCE, abs_tol=1e-12)
        if not same:
            return f"{name}: {value!s:.80}, expected {wanted!s:.80}"
    return None
