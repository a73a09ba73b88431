"""The assessment file: composes what the rooms declare."""

from roadworthy.spec.assessment import (
    ROLES,
    Assessment,
    CircumstanceSpec,
    ClaimSpec,
    DataSpec,
    schema,
)
from roadworthy.spec.document import Document, SpecError
from roadworthy.spec.entries import supervisor_label, supervisor_name, supervisor_parameters
from roadworthy.spec.risk import MonitorSpec, RiskSpec
from roadworthy.spec.verdicts import VerdictSpec

__all__ = [
    "ROLES",
    "Assessment",
    "CircumstanceSpec",
    "ClaimSpec",
    "DataSpec",
    "Document",
    "MonitorSpec",
    "RiskSpec",
    "SpecError",
    "VerdictSpec",
    "schema",
    "supervisor_label",
    "supervisor_name",
    "supervisor_parameters",
]
