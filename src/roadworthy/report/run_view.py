"""A run folder as a report reads it: files are opened when they are needed, and a broken one is named.

>>> import json, pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> try:
...     RunView.open(folder)
... except ReportError as error:
...     print(str(error).replace(str(folder), "runs/1"))
runs/1 is not a run folder: run.json is missing. Name the folder that `roadworthy assess` wrote.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.finding import Finding

from .monitor_parts import CompiledMonitor
from .numbers import Style
from .risk_parts import AssessedTree
from .run_parts import Circumstance, Claim, FailedCase, Pair, Slice, number
from .supervisor_parts import Recommendation, Supervisor

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
COMPARED = ("difference", "relative_drop")
"""Quantities that compare a place with another one; all others are about one place alone."""

SHARES = (
    *(
        "failure_rate",
        "relative_drop",
        "miss_rate",
        "worst_miss_rate",
        "false_alarm_rate",
        "alarm_rate",
    ),
    *("fpr95_failure", "fpr95_shift"),
)
"""Quantities that are written as percentages, whatever the measure."""


class ReportError(ValueError):
    """A run folder that cannot be reported on; says which file and what to do."""


@dataclass(frozen=True)
class RunView:
    """What stands in a run folder; renders and computes nothing."""

    folder: Path
    run: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path | str) -> RunView:
        """The run in a folder; only ``run.json`` is read now."""
        folder = Path(folder)
        if not (folder / "run.json").is_file():
            raise ReportError(
                f"{folder} is not a run folder: run.json is missing. Name the folder that `roadworthy assess` wrote."
            )
        run = _json(folder / "run.json")
        if not isinstance(run, dict) or run.get("format") != FORMAT:
            found = run.get("format") if isinstance(run, dict) else type(run).__name__
            raise ReportError(
                f"{folder / 'run.json'} has format {found!r}, this version reads format {FORMAT}. "
                "Report with the version of roadworthy that made the run, or assess again."
            )
        missing = [
            key for key in ("name", "verdict", "subject", "measure", "cases") if key not in run
        ]
        if missing:
            raise ReportError(
                f"{folder / 'run.json'} lacks {', '.join(missing)}. Assess again to write the folder anew."
            )
        return cls(folder, run)

    @property
    def name(self) -> str:
        """What the assessment is called."""
        return str(self.run["name"])

    @property
    def verdict(self) -> str:
        """met, breached, inconclusive or no claims."""
        return str(self.run["verdict"])

    @property
    def finished(self) -> bool:
        """Whether every case was run."""
        return bool(self.run.get("status", "finished") == "finished")

    @property
    def measure(self) -> str:
        """The name of the measure."""
        return str(self.run["measure"]["name"])

    @property
    def better(self) -> str:
        """Whether higher or lower values of the measure are better."""
        return str(self.run["measure"].get("better", "higher"))

    @property
    def style(self) -> Style:
        """How the measure's values are written."""
        return self.style_of(self.measure)

    def style_of(self, quantity: str) -> Style:
        """How a quantity's values are written: shares as percentages, their differences in points."""
        share = self.run["measure"].get("shape") == "proportion"
        if quantity in SHARES or (quantity == self.measure and share):
            return "percent"
        if quantity == "difference":
            return "points" if share else "change"
        return "plain"

    @property
    def smallest_slice(self) -> int:
        """How many cases a slice needs to be judged; 0 where the run does not say."""
        return int((self.run.get("spec") or {}).get("smallest_slice") or 0)

    def slice_of(self, claim: Claim) -> str:
        """The slice that a claim was made for, as the assessment file has it; empty for all data or for every slice."""
        asked = (self.run.get("spec") or {}).get("claims") or ()
        made = next((c for c in asked if isinstance(c, dict) and str(c.get("id")) == claim.id), {})
        return ", ".join(
            f"{column}={content}" for column, content in (made.get("slice") or {}).items()
        )

    @functools.cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        path = self.folder / "findings.json"
        records = _json(path, "Assess again to write it.")
        if not isinstance(records, list):
            raise ReportError(
                f"{path} must be a list of findings, found {type(records).__name__}. Assess again."
            )
        found = []
        for i, record in enumerate(records):
            try:
                found.append(Finding.from_dict(record))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ReportError(
                    f"{path}, finding {i}: {error}. Assess again to write it anew."
                ) from error
        return tuple(found)

    def performance(
        self, circumstance: str = "", level: float | None = None, slice: str = ""
    ) -> Finding | None:
        """The measure's finding at one place; without arguments on the clean test data."""
        return self._at.get((self.measure, circumstance, level, slice))

    @property
    def clean(self) -> Finding | None:
        """The measure on the clean test data."""
        return self.performance()

    @property
    def clean_failure_rate(self) -> Finding | None:
        """The failure rate on the clean test data."""
        return self._at.get(("failure_rate", "", None, ""))

    @functools.cached_property
    def circumstances(self) -> tuple[Circumstance, ...]:
        """By significance, then by loss, the gravest first; those without a significance come last."""
        found = [self._circumstance(record) for record in self.run.get("circumstances") or ()]
        return tuple(
            sorted(
                found,
                key=lambda c: (-(c.significance or 0), -(-math.inf if c.loss is None else c.loss)),
            )
        )

    @functools.cached_property
    def slices(self) -> tuple[Slice, ...]:
        """The worst first; those too small to judge last."""
        found = [
            Slice(
                str(s["column"]),
                str(s["value"]),
                int(s["n"]),
                bool(s.get("too_small")),
                self.performance(slice=f"{s['column']}={s['value']}"),
                self._at.get(("failure_rate", "", None, f"{s['column']}={s['value']}")),
            )
            for s in self.run.get("slices") or ()
        ]
        sign = 1 if self.better == "higher" else -1

        def key(s: Slice) -> tuple[bool, float]:
            known = s.performance is not None and not math.isnan(s.performance.value)
            return s.too_small, sign * s.performance.value if known and s.performance else math.inf

        return tuple(sorted(found, key=key))

    @functools.cached_property
    def supervisors(self) -> tuple[Supervisor, ...]:
        """The best AUC for failures on the clean data first, else as in the assessment file; those not applicable last."""
        records = self.run.get("supervisors") or ()
        several = len({s.get("module") for s in records}) > 1
        about: dict[str, list[Finding]] = {}
        for f in self.findings if records else ():
            about.setdefault(f.about.supervisor, []).append(f)
        found = [
            Supervisor.read(r, about.get(str(r["name"]), ()), several_modules=several)
            for r in records
        ]
        return tuple(sorted(found, key=lambda s: s.rank))

    @functools.cached_property
    def recommended(self) -> Recommendation | None:
        """The set of supervisors that the run recommends, if it does."""
        return Recommendation.read(
            self.run.get("recommended"), float(self.run.get("confidence") or 0.95)
        )

    @functools.cached_property
    def risk(self) -> AssessedTree | None:
        """The event tree of the run, where the assessment file says what outcomes cost."""
        if not self.run.get("risk"):
            return None
        try:
            return AssessedTree.read(self.run["risk"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ReportError(
                f"{self.folder / 'run.json'}: the risk cannot be read: {error}. Assess again to write it anew."
            ) from error

    @functools.cached_property
    def monitor(self) -> CompiledMonitor | None:
        """The monitor that the run compiled into, or why it did not; None in runs of earlier versions."""
        if not self.run.get("monitor"):
            return None
        try:
            return CompiledMonitor.read(self.run["monitor"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ReportError(
                f"{self.folder / 'run.json'}: the monitor cannot be read: {error}. Assess again to write it anew."
            ) from error

    @functools.cached_property
    def claims(self) -> tuple[Claim, ...]:
        """In the order of the assessment file."""
        try:
            return tuple(Claim.read(c) for c in self.run.get("claims") or ())
        except (KeyError, TypeError, ValueError) as error:
            raise ReportError(
                f"{self.folder / 'run.json'}: a claim cannot be read: {error}. Assess again to write it anew."
            ) from error

    @functools.cached_property
    def _gallery(self) -> Mapping[str, Any]:
        if self.run.get("media") == "none":
            return {}
        path = self.folder / "media" / "gallery.json"
        gallery = _json(path, "Assess again, or with `media: none` for a report without pictures.")
        if not isinstance(gallery, dict):
            raise ReportError(
                f"{path} must be an object with pairs and worst. Assess again to write it anew."
            )
        return gallery

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Originals with the cases made of them."""
        return tuple(Pair.read(p) for p in self._gallery.get("pairs") or ())

    @property
    def worst(self) -> tuple[Pair, ...]:
        """The worst failures, gravest first."""
        return tuple(Pair.read(p) for p in self._gallery.get("worst") or ())

    @functools.cached_property
    def cases(self) -> pyarrow.Table:
        """The table of all cases."""
        import pyarrow.parquet

        path = self.folder / "tables" / "cases.parquet"
        try:
            return pyarrow.parquet.read_table(path)
        except (OSError, pyarrow.ArrowException) as error:
            raise ReportError(
                f"{path} cannot be read: {error}. Assess again to write it anew."
            ) from error

    def failed_cases(self, limit: int) -> tuple[FailedCase, ...]:
        """The first cases that gave no answer; the table is opened only if the run counted any."""
        if not self.run["cases"].get("failed"):
            return ()
        import pyarrow.compute

        rows = (
            self.cases.filter(pyarrow.compute.equal(self.cases["status"], "failed"))
            .slice(0, limit)
            .to_pylist()
        )
        return tuple(
            FailedCase(
                str(r["case"]),
                r["circumstance"] or "",
                number(r["level"]),
                r["error_message"] or "",
            )
            for r in rows
        )

    @functools.cached_property
    def _at(self) -> Mapping[tuple[str, str, float | None, str], Finding]:
        """Findings about the whole subject, by quantity and place."""
        return {
            (f.quantity, f.about.circumstance, f.about.level, f.about.slice): f
            for f in self.findings
            if not f.about.supervisor
            and not f.about.module
            and (f.quantity in COMPARED or not f.about.versus)
        }

    def _circumstance(self, record: Mapping[str, Any]) -> Circumstance:
        def of(quantity: str) -> dict[float | None, Finding]:
            return {
                level: f
                for (q, circumstance, level, part), f in self._at.items()
                if q == quantity and circumstance == record["name"] and not part
            }

        return Circumstance(
            record,
            of(self.measure),
            of("failure_rate"),
            of("difference"),
            of("relative_drop"),
            self.better,
        )


def _json(path: Path, remedy: str = "Assess again to write it anew.") -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportError(f"{path} is missing. {remedy}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ReportError(f"{path} cannot be read: {error}. {remedy}") from error
