"""The report for CI servers: claims as JUnit test cases, one suite an assessment.

Every claim is a test case; every place of an ``every`` claim is one of its own besides. What is not met is a failure, with
``type="breached"`` or ``type="inconclusive"``: an undecided safety claim must not let a pipeline pass, and a server that
tells types apart can still treat it milder. An unfinished run adds an ``<error>``.

>>> _clean("a\\x00b")
'a�b'
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from roadworthy.registry import register

from . import numbers
from .run_parts import Claim, Member
from .run_view import RunView
from .wording import bound_note, settle

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@register("reports", "junit", file="junit.xml")
def junit(view: RunView) -> str:
    """JUnit XML for CI servers: one test case a claim, and one a place of an ``every`` claim."""
    suite = ElementTree.Element(
        "testsuite", name=_clean(view.name), timestamp=_clean(str(view.run.get("created", "")))
    )
    properties = ElementTree.SubElement(suite, "properties")
    known = {
        "verdict": view.verdict,
        "run": view.run.get("key", ""),
        "subject.version": view.run["subject"].get("version", ""),
        "subject.fingerprint": view.run["subject"].get("fingerprint", ""),
        "cases": view.run["cases"].get("total", ""),
        "cases.failed": view.run["cases"].get("failed", ""),
    }
    for name, content in known.items():
        ElementTree.SubElement(properties, "property", name=name, value=_clean(str(content)))
    failures = 0
    for claim in view.claims:
        failures += _case(suite, view, claim, claim, "claims", f"{claim.id}: {claim.text}")
        for member in claim.members:
            failures += _case(
                suite, view, claim, member, f"claims.{claim.id}", f"{claim.id} [{member.about}]"
            )
    if not view.finished:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{_clean(view.name)}.run", name="finished"
        )
        ElementTree.SubElement(
            case, "error", type="unfinished", message="the run is unfinished; run the command again"
        )
    total = len(suite.findall("testcase"))
    totals = {"tests": total, "failures": failures, "errors": int(not view.finished), "skipped": 0}
    time = sum(float(t) for t in (view.run.get("timings") or {}).values())
    for key, n in totals.items():
        suite.set(key, str(n))
    suite.set("time", f"{time:.3f}")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + ElementTree.tostring(suites, encoding="unicode")
        + "\n"
    )


def _case(
    suite: ElementTree.Element,
    view: RunView,
    claim: Claim,
    judged: Claim | Member,
    group: str,
    name: str,
) -> int:
    """Add a test case; 1 if it is a failure."""
    case = ElementTree.SubElement(
        suite, "testcase", classname=_clean(f"{view.name}.{group}"), name=_clean(name), time="0"
    )
    if judged.status == "met":
        return 0
    style = view.style_of(claim.quantity)
    shown = numbers.estimate(judged.value, judged.interval, judged.n, style)
    side = "at least" if claim.direction == "min" else "at most"
    message = f"{judged.status}: {shown.value}, limit {side} {numbers.limit(claim.limit, style)}"
    if judged.bound is not None:
        message = f"{message}, {bound_note(claim, judged)} {numbers.bound(judged.bound, claim.limit, style)}"
    if judged.status == "inconclusive":
        message += f"; {settle(view, claim, judged if isinstance(judged, Member) else None)}"
    failure = ElementTree.SubElement(case, "failure", type=judged.status, message=_clean(message))
    failure.text = _clean(f"{claim.text}\n{shown.title}\n{judged.why}".strip())
    return 1


def _clean(text: str) -> str:
    """XML 1.0 has no place for control characters, even escaped."""
    return _FORBIDDEN.sub("�", text)
