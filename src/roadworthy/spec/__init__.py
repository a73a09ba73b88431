"""The assessment file: composes what the rooms declare."""

from roadworthy.spec.assessment import (
    ROLES,
    Assessment,
    CircumstanceSpec,
    ClaimSpec,
    DataSpec,
    schema,
    supervisor_label,
    supervisor_name,
    supervisor_parameters,
)
from roadworthy.spec.document import Document, SpecError

__all__ = [
    "ROLES",
    "Assessment",
    "CircumstanceSpec",
    "ClaimSpec",
    "DataSpec",
    "Document",
    "SpecError",
    "schema",
    "supervisor_label",
    "supervisor_name",
    "supervisor_parameters",
]
