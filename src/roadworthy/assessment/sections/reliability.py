"""The section `reliability`: the probability of misclassification per input (pmi) in operation, with a bound that holds.

After Zhao et al. 2021, whose published bound does not hold. Two lines are printed. *Without assumptions*: operational inputs
that were labelled at random, counted. *If labels are r-separated*: the smaller of that and of all operational inputs judged by
a label nearer than r, where an input without such a label counts as failing. Claims are judged by the first line unless the
file says ``assume: [r_separation]``. What a kernel density says serves the map, the next labels and the monitor, never a bound.

Training rows (`data.reference`) may label others; rows of `data.operational` are counted, if they were labelled at random
(a column `label_by` says `chosen` otherwise); the test rows enter nothing and judge the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from roadworthy import numbers
from roadworthy.analysis.reliability.assembly import (
    CONFIDENCE,
    SPLIT,
    PmiBound,
    PrintedBounds,
    claim_status,
    conservative_bound,
    corrected,
    cost_of_failures,
    credible,
    held_out_check,
    operational_test,
    printed_bounds,
    subtypes,
)
from roadworthy.analysis.reliability.partition import LabelSeparation, label_separation
from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import Result, Results, Section, drawn, nothing
from roadworthy.claims import Quantity
from roadworthy.data.samples import UNLABELLED, Dataset
from roadworthy.data.values import CLASS_SCORES, IMAGE, VECTOR
from roadworthy.execution.cells import comparable, why_no_scores
from roadworthy.execution.plan import OPERATIONAL, Extra, Plan, Search, Wants, hash_of
from roadworthy.finding import About, Evidence, Finding, Sided
from roadworthy.registry import register
from roadworthy.report import charts
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table, Text
from roadworthy.spec import Assessment, ClaimSpec, Strict
from roadworthy.statistics import Interval
from roadworthy.store.record import Number, RecordPart
from roadworthy.store.record import Record as RunRecord

KEY = "reliability"
PMI = "pmi"
SUPERVISOR = "profile"
AGAIN, CELLS = "asked_again", "unastuteness"
CHECKED = 64
"""Operational inputs that the subject is asked about twice."""
CHOSEN = "label_by"
"""The column that says `chosen` of a row that was not labelled at random."""


class ProfileSpec(Strict):
    """The density of operational inputs, for the map and the monitor."""

    example: ClassVar[str] = "profile: {bandwidth: likelihood}"

    bandwidth: Literal["likelihood", "silverman", "scott"] | float = Field(
        "likelihood", description="How it is chosen, or a factor of each feature's deviation"
    )
    cells: int = Field(
        40, ge=2, le=400, description="Cells a side of the map in 2-D, else regions of the profile"
    )


class UnastutenessSpec(Strict):
    """How often inputs near labelled operational ones fail; a finding of its own, no part of pmi."""

    example: ClassVar[str] = "unastuteness: {estimator: splitting, inputs: 100}"

    estimator: str = Field("splitting", description="`roadworthy list failure_estimators`")
    inputs: int = Field(100, ge=1, description="Labelled operational inputs around which it looks")
    radius: float | None = Field(None, gt=0, description="Of the balls; by default r")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="The estimator's own arguments"
    )


class BeliefSpec(Strict):
    """What is believed of pmi before any test, for conservative Bayesian inference."""

    example: ClassVar[str] = "prior: {below: 0.0001, belief: 0.9}"

    below: float = Field(ge=0, lt=1, description="A pmi that is believed not to be exceeded")
    belief: float = Field(gt=0, lt=1, description="How strongly")


class FailureTypeSpec(Strict):
    """A type of failure: which class is taken for which."""

    example: ClassVar[str] = "critical: {pairs: [[red, green]], cost: 100}"

    pairs: list[tuple[str | int, str | int]] = Field(
        min_length=1, description="True class and answer, such as [[red, green]]"
    )
    cost: float | None = Field(None, ge=0, description="What one such failure costs")


class ReliabilitySpec(Strict):
    """The probability of misclassification in operation, and what it rests on."""

    example: ClassVar[str] = "reliability: {}"

    assume: list[Literal["r_separation"]] = Field(
        default_factory=list, description="What claims may assume; by default nothing"
    )
    norm: Literal["inf", 1, 2] = Field("inf", description="By which distances are taken")
    r: float | None = Field(
        None, gt=0, description="How far a label reaches; by default half the distance of classes"
    )
    domain: list[tuple[float, float]] | None = Field(
        None, description="Least and largest value of each feature, which become 0 and 1"
    )
    tested_share: float = Field(
        SPLIT, gt=0, lt=1, description="Part of the error spent on the plain test if r is assumed"
    )
    labels: Literal["fixed", "growing"] = Field(
        "fixed", description="growing: more labels come in until the claim is settled"
    )
    profile: ProfileSpec = Field(default_factory=lambda: ProfileSpec.model_validate({}))
    unastuteness: UnastutenessSpec | None = None
    prior: BeliefSpec | None = None
    failures: dict[str, FailureTypeSpec] = Field(
        default_factory=dict, description="Types of failure, each with a pmi of its own"
    )
    time: str | None = Field(
        None, description="A column of times: halves of the operational data are compared"
    )

    @field_validator("domain")
    @classmethod
    def _ranges(cls, domain: list[tuple[float, float]] | None) -> Any:
        if domain is not None and any(low >= high for low, high in domain):
            raise ValueError("has a range whose low end is not below its high end")
        return domain

    @property
    def p(self) -> float:
        """The norm as a number."""
        return math.inf if self.norm == "inf" else float(self.norm)
