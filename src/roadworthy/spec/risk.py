"""The sections `risk` and `monitor`: what outcomes cost, as two or four costs or as any event tree, and how a stream is watched.

>>> risk = RiskSpec.model_validate({"unit": "EUR per patient", "costs": {"missed": 6100, "false_alarm": 180, "referred": 1290}})
>>> risk.event_tree().parameters[:2], risk.needs_alarms
(('p_shift', 'tpr'), True)
>>> MonitorSpec.model_validate({"window": 500, "false_alarms": "1 per month"}).windows, MonitorSpec().windows
((500,), (100, 1000))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from roadworthy.analysis.risk.posteriors import Beta
from roadworthy.analysis.risk.prototypes import (
    LIVE_PARAMETERS,
    cost_tree,
    named_outcomes,
    of_alarms,
    refuse_live_constants,
    several_events,
)
from roadworthy.analysis.risk.tolerable import refuse_out_of_reach
from roadworthy.analysis.risk.tree import Tree, checked
from roadworthy.registry import did_you_mean
from roadworthy.spec.entries import claimed, supervisor_label

if TYPE_CHECKING:
    from roadworthy.spec.assessment import Assessment, ClaimSpec

PERIODS = ("hour", "day", "week", "month", "year")
_RATE = re.compile(
    rf"\s*(\d+(?:\.\d+)?)\s*(?:per|a|an|/)\s*({'|'.join(PERIODS)})\s*", re.IGNORECASE
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    example: ClassVar[str] = ""
    """How it is written, where somebody may write a word or a number instead."""

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, raw: Any) -> Any:
        if cls.example and not isinstance(raw, Mapping | cls):
            raise ValueError(f"takes keys; write {cls.example}")
        return raw


class CountedSpec(_Strict):
    """A probability that was counted."""

    successes: float = Field(ge=0)
    trials: float = Field(gt=0, description="As many as successes or more")


class RiskSpec(_Strict):
    """What outcomes cost: `costs` for the built-in trees, or any `tree`."""

    example: ClassVar[str] = "risk: {unit: EUR per case, costs: {right: 0, wrong: 100}}"

    unit: str = Field(min_length=1, description="Of the costs: EUR per patient")
    costs: dict[str, float] | None = Field(
        None,
        description="Of one case: right, wrong, and where alarms call a person necessary (the answer was wrong) and unnecessary; "
        "also written missed (wrong), referred (necessary), false_alarm (unnecessary)",
    )
    events: list[str] | None = Field(
        None,
        min_length=1,
        description="What may happen to a case, where that is more than shift: [shift, adversarial, ambiguous, module_failure], or "
        "any others; each has p_EVENT and accuracy_EVENT (accuracy_shifted of shift, accuracy_module_failed of module_failure), of "
        "shift counted on cases, of others under constants",
    )
    successive: bool = Field(
        False,
        description="Whether several events may happen to the same case; without it at most one does",
    )
    tree: dict[str, Any] | None = Field(
        None,
        description="Instead: {event: …, branches: {NAME: {p: parameter or number, then: node or {outcome: …, cost: …}}}}; one "
        "branch of a node leaves out p and takes the rest",
    )
    constants: dict[str, float | CountedSpec] = Field(
        default_factory=dict,
        description="Parameters of the tree that cases do not tell: a number, or {successes: 18, trials: 20}",
    )
    tolerable: float | None = Field(
        None,
        description="The expected cost above which the system should not be used; claimed as TOLERABLE unless a claim says more",
    )
    loss_bins: list[float] | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="Costs between classes of loss, rising: [100, 1000] tells below 100, 100 to 1000, and 1000 or more apart",
    )
    supervisor: str = Field(
        "",
        description="Whose alarms call a person; by default fused where there is one, else the first",
    )

    @field_validator("costs")
    @classmethod
    def _outcomes(cls, costs: dict[str, float] | None) -> dict[str, float] | None:
        if costs is None:
            return None
        found = named_outcomes(costs)
        if "wrong" not in found:
            raise ValueError("says nothing of the cost of a wrong answer; add wrong (or missed)")
        return found

    @field_validator("loss_bins")
    @classmethod
    def _rising(cls, edges: list[float] | None) -> list[float] | None:
        if edges and any(later <= earlier for earlier, later in pairwise(edges)):
            raise ValueError("is a rising list of the costs between classes; write [100, 1000]")
        return edges

    @field_validator("tree")
    @classmethod
    def _is_tree(cls, content: dict[str, Any] | None) -> dict[str, Any] | None:
        if content is not None:
            if "unit" in content:
                raise ValueError(
                    "the unit stands beside the tree: risk: {unit: EUR per patient, tree: {…}}"
                )
            try:
                Tree.from_dict(content)
            except ValueError as error:
                raise ValueError(str(error).removeprefix("tree: ").removeprefix("tree.")) from error
        return content

    @field_validator("constants", mode="before")
    @classmethod
    def _shapes(cls, constants: Any) -> Any:
        if not isinstance(constants, Mapping):
            raise ValueError("takes names with values, such as {p_noticed: 0.9}")
        for name, value in constants.items():
            refused = _unlikely(value)
            if refused:
                raise ValueError(f"{name} {refused}; it is {value!r}")
        return constants

    @model_validator(mode="after")
    def _one_tree(self) -> RiskSpec:
        if (self.costs is None) == (self.tree is None):
            raise ValueError(
                "needs exactly one of costs, such as {right: 0, wrong: 6100}, and tree, such as {event: …, branches: {…}}"
            )
        self._refuse_events()
        parameters = self.event_tree().parameters
        for name in self.constants:
            if name not in parameters:
                hint = did_you_mean(name, parameters)
                raise ValueError(
                    f"constants: the tree has no parameter {name!r}{hint}; it has: {', '.join(parameters)}"
                )
        try:
            refuse_live_constants(self.constants, but=("p_shift",))
        except ValueError as error:
            raise ValueError(f"constants: {error}") from error
        untold = [name for name in parameters if name not in (*LIVE_PARAMETERS, *self.constants)]
        if untold and self.events:
            given = ", ".join(f"{name}: …" for name in untold)
            raise ValueError(
                f"events: no case tells how often they happen and how often answers are then right; add "
                f"constants: {{{given}}}"
            )
        if untold:
            raise ValueError(
                f"no case tells the tree's {', '.join(untold)}{did_you_mean(untold[0], LIVE_PARAMETERS)}; give values under "
                f"constants, or use: {', '.join(LIVE_PARAMETERS)}"
            )
        if self.events:
            likely = {
                name: known.mean if isinstance(known, Beta) else known
                for name, known in self.known_constants().items()
            }
            checked(self.event_tree(), {**dict.fromkeys(LIVE_PARAMETERS, 0.0), **likely})
        return self

    def _refuse_events(self) -> None:
        """Refuse events of which no tree can be made."""
        if self.events is None:
            if self.successive:
                raise ValueError(
                    "successive: is about events; add events: [shift, adversarial], or leave it out"
                )
            return
        if self.tree is not None:
            raise ValueError("events: go with costs; a tree of its own has its events as nodes")
        alarms = [name for name in ("necessary", "unnecessary") if name in (self.costs or {})]
        if alarms:
            raise ValueError(
                f"events: are for a system that answers alone, and costs has {' and '.join(alarms)}; leave them out, or write "
                "a tree"
            )
        odd = next((event for event in self.events if not event.isidentifier()), None)
        if odd is not None:
            raise ValueError(
                f"events: letters, digits and _ make the name of one, such as module_failure; found {odd!r}"
            )
        try:
            self.event_tree()
        except ValueError as error:
            raise ValueError(f"events: {error}") from error

    def event_tree(self) -> Tree:
        """The tree: as given, of several events, or that of figure 2 of the paper where alarms cost something, else of figure 1."""
        if self.tree is not None:
            return Tree.from_dict(self.tree, unit=self.unit)
        if self.events is not None:
            return several_events(
                self.events, self.costs or {}, successive=self.successive, unit=self.unit
            )
        return cost_tree(self.costs or {}, unit=self.unit)

    def known_constants(self) -> dict[str, float | Beta]:
        """Numbers, and the posteriors of what was counted."""
        return {
            name: Beta.from_counts(value.successes, value.trials)
            if isinstance(value, CountedSpec)
            else float(value)
            for name, value in self.constants.items()
        }

    @property
    def needs_alarms(self) -> bool:
        """Whether the tree asks what a supervisor says."""
        return any(
            of_alarms(name) for name in self.event_tree().parameters if name not in self.constants
        )


class PriorSpec(_Strict):
    """How much shift is expected before a window is full."""

    example: ClassVar[str] = "prior: {rate: 0.05, events: 20}"

    rate: float = Field(gt=0, lt=1, description="The share of shifted events that is expected")
    events: float = Field(
        20.0, gt=0, description="How many events that is worth; the fuller a window, the fewer"
    )


class MonitorSpec(_Strict):
    """How the system is watched in use, with the bundle that the run writes."""

    example: ClassVar[str] = "monitor: {window: 500, false_alarms: 1 per month}"

    window: int | list[int] = Field(
        [100, 1000],
        description="Events that an estimate looks back on; a list for several side by side",
    )
    half_life: float | None = Field(
        None,
        ge=1,
        le=100_000,
        description="A further window in which an event counts for half after so many others",
    )
    adaptive: bool = Field(
        False, description="A further window of all events since the stream last changed"
    )
    prior: PriorSpec | None = Field(
        None, description="How much shift is expected before a window is full"
    )
    false_alarms: str = Field(
        "1 per month", description="How many are accepted while nothing is wrong: 1 per month"
    )
    events_per_day: float | None = Field(
        None, gt=0, description="How many events the stream has; needed for a rate in time"
    )
    group_events: int | None = Field(
        None,
        ge=1,
        description="Events of one group that come in a row on the stream: of a drive, a patient, an hour",
    )

    @field_validator("window")
    @classmethod
    def _lengths(cls, window: int | list[int]) -> int | list[int]:
        lengths = [window] if isinstance(window, int) else window
        if not lengths or min(lengths) < 10:
            raise ValueError("a window holds 10 events or more; write 500, or [100, 1000]")
        return window

    @field_validator("false_alarms", mode="before")
    @classmethod
    def _rate(cls, text: Any) -> Any:
        found = _RATE.fullmatch(str(text))
        if not found or float(found[1]) <= 0:
            raise ValueError("is a number per time: write 1 per month, or 2 per day")
        return text

    @property
    def windows(self) -> tuple[int, ...]:
        """The lengths."""
        return (self.window,) if isinstance(self.window, int) else tuple(self.window)


def disagreement(spec: Assessment) -> tuple[tuple[str | int, ...], str] | None:
    """Where the sections on risk do not fit the rest of the file, and how; the supervisor gets the label that tables know."""
    claims = [(i, c) for i, c in enumerate(spec.claims) if c.quantity == "risk"]
    if spec.risk is None:
        missing = "claims what cases cost, and the file does not say; add risk: {unit: EUR per case, costs: {wrong: 100}}"
        return (("claims", claims[0][0]), missing) if claims else None
    if spec.risk.tolerable is not None:
        try:
            refuse_out_of_reach(spec.risk.event_tree(), spec.risk.tolerable)
        except ValueError as error:
            return ("risk", "tolerable"), str(error)
    given = [c.probability for c in spec.circumstances.values() if c.probability is not None]
    if sum(given) > 1 + 1e-9:
        return (
            ("circumstances",),
            f"their probabilities add up to {sum(given):g}; for a risk they exclude each other, at most 1",
        )
    if spec.risk.supervisor:
        labels = [supervisor_label(e, spec.supervisors) for e in spec.supervisors]
        try:
            spec.risk.supervisor = claimed(spec.risk.supervisor, spec.supervisors)
        except ValueError as error:
            return ("risk", "supervisor"), str(error)
        if spec.risk.supervisor not in labels:
            name = spec.risk.supervisor
            return (
                "risk",
                "supervisor",
            ), f"{name!r} is not among the supervisors{did_you_mean(name, labels)}"
    # Filtered cases occur as often as in the test data where nothing is said of them.
    filters = bool(spec.circumstances) and all(
        c.where is not None for c in spec.circumstances.values()
    )
    probable = bool(given) or filters
    return next(
        (wrong for i, claim in claims if (wrong := _claim_disagrees(spec, i, claim, probable))),
        None,
    )


def _claim_disagrees(
    spec: Assessment, i: int, claim: ClaimSpec, probable: bool
) -> tuple[tuple[str | int, ...], str] | None:
    assert spec.risk is not None
    for key in ("every", "circumstance", "level", "slice", "supervisor"):
        if getattr(claim, key):
            return (
                "claims",
                i,
                key,
            ), "does not go with risk, which is over all circumstances by their probabilities"
    if (
        "p_shift" in spec.risk.event_tree().parameters
        and not probable
        and "p_shift" not in spec.risk.constants
    ):
        return (
            ("claims", i),
            "how often is it shifted? Give circumstances a probability, or risk: {constants: {p_shift: 0.1}}",
        )
    if spec.risk.needs_alarms and not (spec.supervisors and spec.data.calibration):
        lacking = (
            "supervisors"
            if not spec.supervisors
            else "calibration under data, on which their thresholds are chosen"
        )
        return (
            ("claims", i),
            f"the tree asks who raises an alarm; add {lacking}, or give costs of right and wrong only",
        )
    return None


def _unlikely(value: Any) -> str:
    """Why something is no probability, neither as a number nor as counts; else empty."""
    counted = isinstance(value, Mapping) and set(value) == {"successes", "trials"}
    numbers = list(value.values()) if counted else [value]
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        return "must be a number, or counts such as {successes: 18, trials: 20}"
    if counted:
        possible = 0 <= value["successes"] <= value["trials"] and value["trials"] > 0
        return "" if possible else "must have 0 or more successes, in as many trials or more"
    return "" if 0 <= value <= 1 else "is a probability and lies between 0 and 1"
