"""The report for machines: one JSON document with the run, its claims and its findings, and the schema it keeps.

>>> schema()["required"]
['format', 'run', 'claims', 'findings']
"""

from __future__ import annotations

import copy
import json
import math
from typing import Any

from roadworthy.registry import register

from .run_view import RunView

FORMAT = 1

_NUMBER = {"type": ["number", "null"]}
_INTERVAL = {
    "type": ["object", "null"],
    "description": "An end is null where the quantity has no bound on that side.",
    "properties": {
        "low": _NUMBER,
        "high": _NUMBER,
        "confidence": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "method": {"type": "string"},
    },
    "required": ["low", "high", "confidence", "method"],
}
_STATUS = {"enum": ["met", "breached", "inconclusive"]}
_COUNT = {"type": ["integer", "null"], "minimum": 0}
_JUDGED = {
    "status": _STATUS,
    "value": _NUMBER,
    "interval": _INTERVAL,
    "bound": {"type": ["number", "null"], "description": "The one-sided bound that decided."},
    "cases_to_settle": _COUNT,
    "n": _COUNT,
    "about": {"type": "string"},
    "why": {"type": "string"},
}
_SUPERVISOR = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "module": {"type": ["string", "null"]},
        "applicable": {"type": "boolean"},
        "because": {"type": "string", "description": "Why it is not applicable."},
        "parameters": {"type": "object"},
        "members": {"type": "array", "items": {"type": "string"}},
        "fit_kept": {
            "type": "boolean",
            "description": "Whether fit_seconds are those of an earlier run.",
        },
        "fit_seconds": _NUMBER,
        "score_seconds": _NUMBER,
        "score_kept": {
            "type": "boolean",
            "description": "Whether score_seconds are, all or some, of an earlier run.",
        },
        "subject_passes": {
            "type": "integer",
            "description": "About how many forward passes a case the subject makes for it on top, not in score_seconds.",
        },
        "kept_bytes": {
            "type": ["number", "null"],
            "description": "What it has to keep in memory to score.",
        },
        "notes": {"type": "array", "items": {"type": "string"}},
        "threshold": {
            "type": ["object", "null"],
            "description": "A score above the value is an alarm; null where there are no verdicts.",
            "properties": {
                "value": {
                    "type": ["number", "string", "null"],
                    "description": "The word inf where nothing alarms.",
                },
                "rule": {"type": "string"},
                "expected_rate": _NUMBER,
                "parameters": {"type": "object"},
            },
        },
    },
}
_LOSSES = {
    "type": "array",
    "description": "Classes of loss, cheapest first: outcomes by their cost, or cases by the loss that their score lets expect.",
    "items": {
        "type": "object",
        "required": ["low", "high", "probability", "expected_loss", "adds"],
        "properties": {
            "low": _NUMBER,
            "high": {
                "type": ["number", "null"],
                "description": "Null, as low may be, where the class has no end.",
            },
            "probability": {"type": "number", "minimum": 0},
            "expected_loss": {"type": "number"},
            "adds": {
                "type": "number",
                "description": "To the expected cost; all classes together are it.",
            },
            "leaves": {
                "type": "array",
                "items": {"type": "object", "required": ["path", "outcome"]},
            },
            "wrong": {"type": "number", "description": "The share of wrong answers."},
        },
    },
}
_WORTH = {
    "type": ["object", "null"],
    "description": "A point of the detector's parameters, all together, against one of the classifier's; null without a detector.",
    "required": ["detector", "classifier", "saved_by_detector", "saved_by_classifier", "points"],
    "properties": {
        "detector": {"type": "array", "items": {"type": "string"}},
        "classifier": {"type": "array", "items": {"type": "string"}},
        "saved_by_detector": {
            "type": "number",
            "description": "Negative where it adds to the expected cost.",
        },
        "saved_by_classifier": {"type": "number"},
        "points": {
            "type": ["number", "null"],
            "description": "Of the classifier that save as much as one of the detector; null unless both save.",
        },
    },
}
_RECOMMENDED = {
    "type": ["object", "null"],
    "description": "A small set of supervisors that together cover the circumstances; empty, with why, where none does.",
    "required": ["supervisors"],
    "properties": {
        "supervisors": {"type": "array", "items": {"type": "string"}},
        "why": {"type": "string"},
        "covers": {
            "type": "object",
            "description": "By circumstance: who of the set is best there, and its share of failures caught or AUC.",
        },
        "not_covered": {
            "type": "object",
            "description": "By circumstance: why nothing can be said of it.",
        },
        "worst": {
            "type": ["object", "null"],
            "description": "Where the set misses most, with an interval corrected for the number of places.",
        },
        "quantity": {
            "type": "string",
            "description": "By what it was chosen: informedness or auc_failure.",
        },
        "miss_rate": {
            "type": ["object", "null"],
            "description": "Of the set as a whole, by place: value and interval.",
        },
        "false_alarm_rate": {
            "type": ["object", "null"],
            "description": "Of the set as a whole: value and interval.",
        },
        "false_alarms": {
            "type": "object",
            "description": "Of the set as a whole, on right answers, by place.",
        },
        "chosen_on": {"type": "string"},
    },
}

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "roadworthy report",
    "type": "object",
    "required": ["format", "run", "claims", "findings"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": FORMAT},
        "run": {
            "type": "object",
            "required": ["name", "verdict", "subject", "measure", "cases"],
            "properties": {
                "name": {"type": "string"},
                "key": {"type": "string"},
                "status": {"enum": ["finished", "unfinished"]},
                "verdict": {"enum": ["met", "breached", "inconclusive", "no claims"]},
                "created": {"type": "string"},
                "seed": {"type": "integer"},
                "command": {"type": "string"},
                "media": {"enum": ["gallery", "none"]},
                "subject": {"type": "object"},
                "data": {"type": "object"},
                "measure": {
                    "type": "object",
                    "required": ["name", "better", "shape"],
                    "properties": {
                        "name": {"type": "string"},
                        "better": {"enum": ["higher", "lower"]},
                        "shape": {"enum": ["proportion", "ratio", "free"]},
                    },
                },
                "circumstances": {
                    "type": "array",
                    "items": {"type": "object", "required": ["name"]},
                },
                "slices": {
                    "type": "array",
                    "items": {"type": "object", "required": ["column", "value", "n"]},
                },
                "supervisors": {"type": "array", "items": _SUPERVISOR},
                "recommended": _RECOMMENDED,
                "risk": {
                    "type": "object",
                    "description": "The event tree with its parameters, expected cost and interval.",
                    "properties": {
                        "slopes": {
                            "type": "object",
                            "description": "What one more point (0.01) of each parameter adds; null where no case tells.",
                            "additionalProperties": _NUMBER,
                        },
                        "worth": _WORTH,
                        "loss_bins": _LOSSES,
                        "loss_by_score": _LOSSES,
                    },
                },
                "monitor": {
                    "type": "object",
                    "description": "The bundle that the run compiled into and what it knows, or why there is none.",
                    "properties": {
                        "bundle": {"type": "string", "description": "Its path in the run folder."},
                        "id": {"type": "string"},
                        "subject": {"type": "string", "description": "As people call it."},
                        "because": {"type": "string", "description": "Why there is none."},
                        "supervisors": {"type": "array", "items": {"type": "string"}},
                        "chosen": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "What was chosen for those who did not say: a limit, a pace.",
                        },
                        "notes": {"type": "array", "items": {"type": "string"}},
                    },
                },
                "cases": {
                    "type": "object",
                    "required": ["total", "failed"],
                    "properties": {
                        "total": {"type": "integer", "minimum": 0},
                        "failed": {"type": "integer", "minimum": 0},
                    },
                },
                "notes": {"type": "array", "items": {"type": "string"}},
            },
        },
        "claims": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "id",
                    "text",
                    "quantity",
                    "status",
                    "value",
                    "interval",
                    "limit",
                    "direction",
                    "members",
                ],
                "properties": {
                    "id": {"type": "string"},
                    "text": {"type": "string"},
                    "quantity": {"type": "string"},
                    "limit": _NUMBER,
                    "direction": {"enum": ["min", "max"]},
                    "confidence": {"type": "number"},
                    "corrected": {"type": "string"},
                    "members": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["about", "status", "value", "interval"],
                            "properties": dict(_JUDGED),
                        },
                    },
                }
                | _JUDGED,
            },
        },
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "quantity", "value", "interval", "n", "about"],
                "properties": {
                    "id": {"type": "string"},
                    "quantity": {"type": "string"},
                    "value": _NUMBER,
                    "interval": _INTERVAL,
                    "n": {"type": "integer", "minimum": 0},
                    "failed": {"type": "integer", "minimum": 0},
                    "better": {"enum": ["higher", "lower"]},
                    "about": {
                        "type": "object",
                        "required": ["circumstance", "level", "slice"],
                        "properties": {
                            "circumstance": {"type": "string"},
                            "level": _NUMBER,
                            "slice": {"type": "string"},
                            "supervisor": {"type": "string"},
                            "module": {"type": "string"},
                            "versus": {"type": "string"},
                        },
                    },
                    "assumptions": {"type": "array", "items": {"type": "string"}},
                    "corrected": {"type": "string"},
                    "reason": {"type": "string"},
                    "details": {"type": "object"},
                },
            },
        },
    },
}


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the document; a copy, so that nobody changes ours."""
    return copy.deepcopy(SCHEMA)


@register("reports", "json", file="report.json")
def json_report(view: RunView, *, indent: int = 2) -> str:
    """One JSON document for machines: run, claims and findings, with a published schema."""
    document = {
        "format": FORMAT,
        "run": {
            key: content for key, content in view.run.items() if key not in ("claims", "format")
        },
        "claims": list(view.run.get("claims") or ()),
        "findings": [f.to_dict() for f in view.findings],
    }
    return json.dumps(_finite(document), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(content: Any) -> Any:
    """JSON has no NaN and no infinity: null. A confidence is what was meant, not what one less a share leaves of it.

    >>> _finite({"low": float("nan"), "confidence": 1 - 0.1 - 1e-16})
    {'low': None, 'confidence': 0.9}
    """
    if isinstance(content, dict):
        return {
            str(k): round(v, 12)
            if k == "confidence" and isinstance(v, float) and math.isfinite(v)
            else _finite(v)
            for k, v in content.items()
        }
    if isinstance(content, list | tuple):
        return [_finite(v) for v in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
