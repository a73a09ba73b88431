"""The assessment file: the keys that every assessment has, composed with those that the sections declare."""

from roadworthy.spec.assessment import (
    NEVER_WRONG,
    ROLES,
    Assessment,
    CircumstanceSpec,
    ClaimSpec,
    DataSpec,
    Strict,
    assessment_schema,
    composed,
    supervisor_label,
    supervisor_name,
    supervisor_parameters,
)
from roadworthy.spec.document import Document, SpecError

__all__ = [
    "NEVER_WRONG",
    "ROLES",
    "Assessment",
    "CircumstanceSpec",
    "ClaimSpec",
    "DataSpec",
    "Document",
    "SpecError",
    "Strict",
    "composed",
    "assessment_schema",
    "supervisor_label",
    "supervisor_name",
    "supervisor_parameters",
]
