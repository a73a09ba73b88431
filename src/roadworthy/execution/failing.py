"""Whether an answer can count as wrong at all: measures of numbers do not say from which error on, unless the file does."""

from __future__ import annotations

from roadworthy import registry
from roadworthy.spec import Assessment

BOUNDS = ("tolerance", "limit")
"""Parameters of a measure from which on an answer is wrong; where their default is None, no answer is."""
NEVER_WRONG = "no case counts as failed"
"""Words of a note that nobody should miss."""


def never_wrong(spec: Assessment) -> str:
    """The note that no answer can be wrong and how the file can say when it is, else empty."""
    parameters = registry.get("measures", spec.measure_name).parameters
    bounds = [b for b in BOUNDS if b in parameters and parameters[b].default is None]
    if (
        spec.failure
        or not bounds
        or any(spec.measure_parameters.get(b) is not None for b in bounds)
    ):
        return ""
    return (
        f"{NEVER_WRONG}, because the file does not say when an answer is wrong; add failure: {{error: {{above: …}}}} with the "
        "largest error that is still right"
    )
