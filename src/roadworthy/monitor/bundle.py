"""A bundle: everything a monitor needs, compiled before release into one file that is named by its content.

It holds the calibration's counts, the tree and its costs, what is tolerable, windows, the alarm's rule, the horizons for late and
repeated events, the forecast, and a self-test: a few events with the state that they must lead to. A file that was changed, cut
off, or that leads to another state on this machine is refused.

>>> import tempfile
>>> import numpy as np
>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([0, 1], 500)
>>> scores, right = rng.normal(2.5 * shifted), rng.random(1000) < np.where(shifted, 0.4, 0.9)
>>> calibration = calibrate({"energy": scores}, np.where(shifted, "fog", "clean"), right)
>>> bundle = Bundle.compile(calibration, accuracy_tree(), subject="lesion-2.3.1", windows=Windows((50,)))
>>> with tempfile.TemporaryDirectory() as folder:
...     bundle.save(f"{folder}/lesion.bundle.json")
...     Bundle.load(f"{folder}/lesion.bundle.json").id == bundle.id
True
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from roadworthy.monitor import messages
from roadworthy.monitor.alarm import AlarmRule
from roadworthy.monitor.estimate import BLIND, Coverage, Forecast
from roadworthy.monitor.windows import Windows

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.estimator import Estimator
    from roadworthy.analysis.risk.tree import Tree

FORMAT = "roadworthy bundle 4"
MADE_AT = "made_at"
STATE = b"SQLite format 3"
"""What the file of a service's state begins with."""
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")
JEFFREYS = (0.5, 0.5)
"""Pseudo-events that favour no rate."""
WORTH = 20.0
"""Events that an expected rate is worth by default."""


class BundleError(ValueError):
    """A bundle that cannot be used, and why."""


class Beforehand(NamedTuple):
    """The prior of the rate of shift while a window fills: an expected rate, worth so many events, as from a pilot study.

    A full window does not depend on it, and neither does the alarm, which reads full windows alone.

    >>> prior = Beforehand(0.05, 20.0).pseudo_events
    >>> prior, Beforehand.of(prior), Beforehand.of(JEFFREYS)
    ((1.0, 19.0), Beforehand(rate=0.05, events=20.0), None)
    """

    rate: float
    events: float

    @classmethod
    def of(cls, prior: tuple[float, float]) -> Beforehand | None:
        """What pseudo-events (shifted, clean) say; None for the default."""
        if tuple(prior) == JEFFREYS:
            return None
        events = prior[0] + prior[1]
        return cls(prior[0] / events, events)

    @property
    def pseudo_events(self) -> tuple[float, float]:
        """Shifted and clean ones."""
        if not (0.0 < self.rate < 1.0 and 0.0 < self.events < float("inf")):
            raise ValueError(
                f"An expected rate of shift lies above 0 and below 1, and is worth more than 0 events, found {self.rate:g} "
                f"and {self.events:g}."
            )
        return self.rate * self.events, (1.0 - self.rate) * self.events

    @property
    def in_words(self) -> str:
        """As a note has it."""
        return f"{100 * self.rate:.3g}% shifted, worth {self.events:,.6g} events"


@dataclass(frozen=True, eq=False)
class Bundle:
    """The configuration of a monitor; two bundles are equal when their ids are."""

    subject: str
    calibration: Calibration
    tree: Tree
    constants: Mapping[str, float | tuple[float, float]] = field(default_factory=dict)
    """Parameters of the tree that no stream gives: a number, or (successes, trials)."""
    tolerable: float | None = None
    prior: tuple[float, float] = JEFFREYS
    """Beta pseudo-counts of the rate of shift before a window is full: (shifted, clean)."""
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
    blind_to: tuple[str, ...] = BLIND
    made: Mapping[str, Any] = field(default_factory=dict)
    """Rows by kind, of what it was made, notes, and warnings if there are some."""
    self_test: Mapping[str, Any] = field(default_factory=dict)
    made_at: str | None = None
    """When it was made, for people: no part of the content by which it is named, so that the same rows make the same bundle."""

    def __post_init__(self) -> None:
        if not self.subject or not isinstance(self.subject, str):
            raise BundleError("A bundle needs a subject: a fingerprint, or a name with a version.")
        if not (self.lateness >= 0 and self.id_horizon >= 1 and self.bucket > 0):
            raise BundleError(
                "A bundle needs lateness >= 0 s, id_horizon >= 1 and bucket > 0 s, "
                f"found {self.lateness}, {self.id_horizon}, {self.bucket}."
            )
        if self.alarm is not None and self.tolerable is None:
            raise BundleError("An alarm needs a tolerable risk.")
        if self.alarm is not None and self.alarm.window not in self.windows.lengths:
            raise BundleError(
                f"The alarm's window of {self.alarm.window} is not among {self.windows.lengths}."
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
        """The first 16 hex digits of the SHA-256 of the content, which is all but the time of making."""
        return _digest(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bundle) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def calibrated_on(self) -> str:
        """In words: rows by kind, and what must be said about them."""
        calibration = self.calibration
        rows = ", ".join(f"{calibration.rows(kind):,} of {kind}" for kind in calibration.kinds)
        return "; ".join(
            (f"rows: {rows}", *calibration.notes, *map(str, self.made.get("notes", ())))
        )

    @property
    def watched(self) -> str:
        """The name of the window that the alarm watches, and that is shown first; the shortest if there is none."""
        return str(self.alarm.window if self.alarm else min(self.windows.lengths))

    @property
    def beforehand(self) -> Beforehand | None:
        """The prior of the rate of shift before a window is full; None for the default."""
        return Beforehand.of(self.prior)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be known before any figure is used, each with what to do about it."""
        return tuple(map(str, self.made.get("warnings", ())))

    @cached_property
    def estimator(self) -> Estimator:
        """What turns counts into estimates."""
        from roadworthy.analysis.risk.estimator import Estimator

        return Estimator(
            self.calibration,
            self.tree,
            constants=self.constants,
            tolerable=self.tolerable,
            prior=self.prior,
        )

    @classmethod
    def compile(
        cls,
        calibration: Calibration,
        tree: Tree,
        *,
        subject: str,
        constants: Mapping[str, float | tuple[float, float]] | None = None,
        tolerable: float | None = None,
        prior: tuple[float, float] = JEFFREYS,
        windows: Windows | None = None,
        alarm_window: int | None = None,
        stride: int | None = None,
        false_alarms: str = "1 per month",
        events_per_day: float = 10_000.0,
        lateness: float = 3600.0,
        id_horizon: int = 100_000,
        bucket: float = 60.0,
        expected_rate: float = 0.0,
        forecast: Forecast | None = None,
        coverage: Coverage | None = None,
        blind_to: Sequence[str] = BLIND,
        made: Mapping[str, Any] | None = None,
        made_at: str | None = None,
        seed: int = 0,
    ) -> Bundle:
        """A bundle with its alarm's burden of proof (if there is a tolerable risk), its forecast and its self-test.

        Without `alarm_window` the alarm watches the shortest of the windows that notices a step to 30% shift at the stated rate of
        false alarms. Without a `forecast` it is that of the expected rate, kinds even. `seed` is that of the simulated streams.
        """
        from roadworthy.analysis.risk.calibration import of_firm_kinds
        from roadworthy.monitor.self_test import expected_state
        from roadworthy.monitor.threshold import alarm_rule

        given, calibration = calibration, of_firm_kinds(calibration)
        windows = windows or Windows()
        if alarm_window is not None and alarm_window not in windows.lengths:
            windows = replace(windows, lengths=tuple(sorted((*windows.lengths, alarm_window))))
        bundle = cls(
            subject=subject,
            calibration=calibration,
            tree=tree,
            constants=dict(constants or {}),
            tolerable=None if tolerable is None else float(tolerable),
            prior=(float(prior[0]), float(prior[1])),
            windows=windows,
            lateness=float(lateness),
            id_horizon=int(id_horizon),
            bucket=float(bucket),
            coverage=coverage,
            blind_to=tuple(blind_to),
            made={
                **(made or {}),
                "rows": {kind: calibration.rows(kind) for kind in calibration.kinds},
            },
        )
        forecast = forecast or Forecast(
            float(expected_rate), *bundle.estimator.forecast(float(expected_rate))
        )
        rule = None
        if tolerable is not None:
            rule = alarm_rule(
                bundle.estimator,
                windows=[alarm_window] if alarm_window is not None else windows.lengths,
                stride=stride,
                false_alarms=false_alarms,
                events_per_day=events_per_day,
                seed=seed,
            )
        separation = bundle.estimator.separation
        warnings = [*bundle.warnings, *messages.warnings_of(given, separation, coverage)]
        with_warnings = {k: v for k, v in bundle.made.items() if k != "warnings"}
        if warnings:
            with_warnings["warnings"] = warnings
        bundle = replace(bundle, forecast=forecast, alarm=rule, made=with_warnings)
        return replace(bundle, self_test=expected_state(bundle), made_at=made_at)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the content."""
        return {
            "format": FORMAT,
            "subject": self.subject,
            "calibration": self.calibration.to_dict(),
            "tree": self.tree.to_dict(),
            "constants": {
                k: list(v) if isinstance(v, tuple) else v for k, v in sorted(self.constants.items())
            },
            "tolerable": self.tolerable,
            "prior": list(self.prior),
            "windows": self.windows.to_dict(),
            "alarm": None if self.alarm is None else self.alarm.to_dict(),
            "lateness": self.lateness,
            "id_horizon": self.id_horizon,
            "bucket": self.bucket,
            "confidence": self.confidence,
            "forecast": None if self.forecast is None else asdict(self.forecast),
            "coverage": None if self.coverage is None else asdict(self.coverage),
            "blind_to": list(self.blind_to),
            "made": dict(self.made),
            "self_test": dict(self.self_test),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Bundle:
        """The inverse of `to_dict`, without a look at the self-test."""
        from roadworthy.analysis.risk.calibration import Calibration
        from roadworthy.analysis.risk.tree import Tree

        found = {k: v for k, v in record.items() if k != "format"}
        found["calibration"] = Calibration.from_dict(record["calibration"])
        found["tree"] = Tree.from_dict(record["tree"])
        found["constants"] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record["constants"].items()
        }
        found["prior"] = tuple(record["prior"])
        found["windows"] = Windows.from_dict(record["windows"])
        found["alarm"] = None if record["alarm"] is None else AlarmRule.from_dict(record["alarm"])
        found["forecast"] = None if record["forecast"] is None else Forecast(**record["forecast"])
        found["coverage"] = None if record["coverage"] is None else Coverage(**record["coverage"])
        found["blind_to"] = tuple(record["blind_to"])
        return cls(**found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bundle: under another name first, so that a reader never finds half a file."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        content = {
            "id": self.id,
            **({MADE_AT: self.made_at} if self.made_at else {}),
            **self.to_dict(),
        }
        text = (
            json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
        )
        try:
            beside.write_text(text, "utf-8")
            beside.replace(target)
        except OSError as error:
            # Named after what was asked for: nobody knows of the other name.
            raise OSError(error.errno, error.strerror, str(target)) from error
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Bundle:
        """Read a bundle; one that is not whole, not the one it says, or that fails its self-test is refused."""
        from roadworthy.monitor.self_test import failure

        where = Path(path)
        if where.is_dir():
            raise BundleError(f"{where} is a folder, not a bundle.{_bundle_of_run(where)}")
        try:
            content = where.read_bytes()
        except FileNotFoundError:
            raise BundleError(f"No bundle at {where}. `roadworthy calibrate` makes one.") from None
        try:
            record = json.loads(content)
        except ValueError as error:
            raise BundleError(_not_json(where, content, error)) from None
        found = record.get("format") if isinstance(record, dict) else None
        if not str(found).startswith(FORMAT.rpartition(" ")[0]):
            raise BundleError(f"{where} is not a bundle.{_bundle_of_run(where.parent)}")
        if found != FORMAT:
            raise BundleError(
                f"{where} is a bundle of another version: expected {FORMAT!r}, found {found!r}. "
                "Make it again with `roadworthy calibrate` or `roadworthy assess`."
            )
        stated, made_at = record.pop("id", None), record.pop(MADE_AT, None)
        if stated != _digest(record):
            raise BundleError(
                f"{where} was changed: its id is {stated}, its content is {_digest(record)}. Use the original."
            )
        try:
            bundle = cls.from_dict({**record, MADE_AT: made_at})
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"{where} cannot be read: {error}. Make it again.") from error
        wrong = failure(bundle)
        if wrong:
            raise BundleError(f"{where} fails its self-test: {wrong}. Make it again.")
        return bundle


def _not_json(where: Path, content: bytes, error: ValueError) -> str:
    """What a file is, if it is not JSON, and what to do."""
    if content.startswith(STATE):
        return (
            f"{where} is the state of a monitor. Use `roadworthy monitor BUNDLE --state {where}`."
        )
    if where.name.lower().endswith(TABLES):
        return f"{where} is a table. `roadworthy calibrate {where}` makes a bundle from it."
    if content.lstrip()[:1] not in (b"", b"{"):
        return f"{where} is not a bundle.{_bundle_of_run(where.parent)}"
    return f"{where} is not a whole bundle: {error}. Make or copy it again."


def _bundle_of_run(folder: Path) -> str:
    """Where the bundle of a run is, for those who named its folder or another of its files."""
    beside = folder / "monitor" / "bundle.json"
    return f" The bundle of this run is {beside}." if beside.is_file() else ""


def _digest(record: Mapping[str, Any]) -> str:
    text = json.dumps(
        record, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
