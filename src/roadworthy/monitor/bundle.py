"""A bundle: everything a monitor needs, compiled before release into one file that is named by its content.

The calibration's counts, the tree and its costs, what is tolerable, windows, the alarm and the false alarms it was set for, the
horizons for late and repeated events, what was expected before release, and a self-test: a few events with the state that they
must lead to. A file that was changed, cut off, or that leads to another state on this machine is refused.

>>> import tempfile
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
from typing import TYPE_CHECKING, Any

from roadworthy.monitor.alarm import AlarmRule
from roadworthy.monitor.beforehand import JEFFREYS, Beforehand
from roadworthy.monitor.risk_state import BLIND, Coverage, Forecast
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


class BundleError(ValueError):
    """A bundle that cannot be used, and why."""


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
    seed: int = 0
    forecast: Forecast | None = None
    coverage: Coverage | None = None
    blind_to: tuple[str, ...] = BLIND
    made: Mapping[str, Any] = field(default_factory=dict)
    """Rows by kind, of what it was made, notes, warnings where there are some."""
    self_test: Mapping[str, Any] = field(default_factory=dict)
    made_at: str | None = None
    """When it was made, for people: no part of the content by which it is named, so that the same rows make the same bundle."""

    def __post_init__(self) -> None:
        if not self.subject or not isinstance(self.subject, str):
            raise BundleError(
                "a bundle names its subject: give a fingerprint or a name with a version"
            )
        if not (self.lateness >= 0 and self.id_horizon >= 1 and self.bucket > 0):
            raise BundleError(
                "horizons are a lateness of 0 s or more, 1 id or more and a bucket above 0 s, "
                f"found {self.lateness}, {self.id_horizon}, {self.bucket}"
            )
        if self.alarm is not None and self.tolerable is None:
            raise BundleError("an alarm needs a tolerable risk; give one, or leave out the alarm")
        if self.alarm is not None and self.alarm.window not in self.windows.lengths:
            raise BundleError(
                f"the alarm's window of {self.alarm.window} is not among {self.windows.lengths}"
            )

    @property
    def title(self) -> str:
        """The subject as people call it: where `made` says more than a fingerprint does, that."""
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
        """The name of the window that the alarm watches, and that is shown first; the shortest where there is none."""
        return str(self.alarm.window if self.alarm else min(self.windows.lengths))

    @property
    def beforehand(self) -> Beforehand | None:
        """What somebody expects of the rate of shift before a window is full; None where nobody said."""
        return Beforehand.of(self.prior)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be known before any figure is believed, each with what to do about it."""
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

    @property
    def watch(self) -> Estimator:
        """What the alarm asks."""
        return self.estimator

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
        group_events: int | None = None,
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
        """A bundle with its alarm's burden of proof (where something is called tolerable), its forecast and its self-test.

        Without `alarm_window` the alarm watches the shortest of the windows that notices a step to 30% shift at the stated rate of
        false alarms. It allows for clean data that differ between groups where `group_events` of one come in a row: nobody else
        knows how many. Where nobody knows how often each kind comes, the forecast is that of the expected rate, kinds even.
        """
        from roadworthy.analysis.risk.calibration import of_firm_kinds
        from roadworthy.monitor.calibration_warnings import warnings_of
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
            seed=int(seed),
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
                bundle.watch,
                windows=[alarm_window] if alarm_window is not None else windows.lengths,
                stride=stride,
                false_alarms=false_alarms,
                events_per_day=events_per_day,
                group_events=group_events,
                seed=seed,
            )
        warnings = [*bundle.warnings, *warnings_of(given, bundle.estimator.separation, coverage)]
        told = {k: v for k, v in bundle.made.items() if k != "warnings"} | (
            {"warnings": warnings} if warnings else {}
        )
        bundle = replace(bundle, forecast=forecast, alarm=rule, made=told)
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
            "seed": self.seed,
            "forecast": None if self.forecast is None else asdict(self.forecast),
            "coverage": None if self.coverage is None else self.coverage.to_dict(),
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
            raise BundleError(f"{where} is a folder, and a bundle is a file{_of_the_run(where)}")
        try:
            record = json.loads(where.read_text("utf-8"))
        except FileNotFoundError:
            raise BundleError(
                f"there is no bundle at {where}; `roadworthy calibrate` makes one"
            ) from None
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            begins = error.object if isinstance(error, UnicodeDecodeError) else error.doc.encode()
            if begins.startswith(STATE):
                raise BundleError(
                    f"{where} is the state of a monitor; a bundle is expected: `roadworthy monitor BUNDLE --state {where}`"
                ) from None
            if "".join(where.suffixes[-2:]).lower().endswith(TABLES):
                raise BundleError(
                    f"{where} is a table; a bundle is expected: `roadworthy calibrate {where}` makes one of a table with known "
                    "outcomes"
                ) from None
            if isinstance(error, json.JSONDecodeError) and error.doc.lstrip()[:1] not in ("", "{"):
                raise BundleError(f"{where} is no bundle{_of_the_run(where.parent)}") from None
            raise BundleError(
                f"{where} is not a whole bundle: {error}; compile or copy it again"
            ) from None
        found = record.get("format") if isinstance(record, dict) else None
        if not str(found).startswith(FORMAT.rpartition(" ")[0]):
            raise BundleError(f"{where} is no bundle{_of_the_run(where.parent)}")
        if found != FORMAT:
            raise BundleError(
                f"{where} is not a bundle of this version: expected {FORMAT!r}, found {found!r}; {_remedy(str(found))}"
            )
        stated, made_at = record.pop("id", None), record.pop(MADE_AT, None)
        if stated != _digest(record):
            raise BundleError(
                f"{where} was changed: it says it is {stated}, its content is {_digest(record)}; use the original"
            )
        try:
            bundle = cls.from_dict({**record, MADE_AT: made_at})
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"{where} cannot be understood: {error}; compile it again") from error
        wrong = failure(bundle)
        if wrong:
            raise BundleError(
                f"{where} fails its self-test: {wrong}; compile it again with this version"
            )
        return bundle


def _remedy(found: str) -> str:
    """What to do with a bundle of another version."""
    number, ours = found.rpartition(" ")[2], int(FORMAT.rpartition(" ")[2])
    if number.isdecimal() and int(number) > ours:
        return "a newer roadworthy has made it: update roadworthy here"
    return "make it again: `roadworthy calibrate` with the table that it was made from, or `roadworthy assess` for that of a run"


def _of_the_run(folder: Path) -> str:
    """Where the bundle of a run is, for those who named its folder or another of its files."""
    beside = folder / "monitor" / "bundle.json"
    return (
        f": that of this run is {beside}"
        if beside.is_file()
        else "; `roadworthy calibrate` and `assess` write one"
    )


def _digest(record: Mapping[str, Any]) -> str:
    text = json.dumps(
        record, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
