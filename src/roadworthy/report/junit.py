"""The report for CI servers: claims as JUnit test cases, one suite an assessment.

Every claim is a test case, and so is every place of an ``every`` claim. What is not met is a
failure, with ``type="breached"`` or ``type="inconclusive"``: an undecided safety claim must not let
a pipeline pass, and a server that knows types can still treat it milder.

>>> _clean("a\\x00b")
'a�b'
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from roadworthy import numbers
from roadworthy.registry import register
from roadworthy.report.wording import bound_note, settle, style_of
from roadworthy.store.record import ClaimRecord, Judged, Record

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@register("reports", "junit", file="junit.xml")
def junit(run: Record) -> str:
    """JUnit XML for CI servers: one test case a claim, and one a place of an ``every`` claim."""
    suite = ElementTree.Element("testsuite", name=_clean(run.name), timestamp=_clean(run.created))
    properties = ElementTree.SubElement(suite, "properties")
    known = {
        "verdict": run.verdict,
        "run": run.key,
        "subject.version": run.subject.version,
        "subject.fingerprint": run.subject.fingerprint,
        "cases": run.cases.total,
        "cases.failed": run.cases.failed,
    }
    for name, content in known.items():
        ElementTree.SubElement(properties, "property", name=name, value=_clean(str(content)))
    failures = 0
    for claim in run.claims:
        failures += _case(suite, run, claim, claim, "claims", f"{claim.id}: {claim.text}")
        for member in claim.members:
            failures += _case(
                suite, run, claim, member, f"claims.{claim.id}", f"{claim.id} [{member.about}]"
            )
    total = len(suite.findall("testcase"))
    for key, n in {"tests": total, "failures": failures, "errors": 0, "skipped": 0}.items():
        suite.set(key, str(n))
    suite.set("time", f"{sum(run.timings.values()):.3f}")
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
    run: Record,
    claim: ClaimRecord,
    judged: Judged,
    group: str,
    name: str,
) -> int:
    """Add a test case; 1 if it is a failure."""
    case = ElementTree.SubElement(
        suite, "testcase", classname=_clean(f"{run.name}.{group}"), name=_clean(name), time="0"
    )
    if judged.status == "met":
        return 0
    style = style_of(run, claim.quantity)
    shown = numbers.estimate(judged.value, judged.interval, judged.n, style, ends="bounds")
    side = "at least" if claim.direction == "min" else "at most"
    message = f"{judged.status}: {shown.value}, limit {side} {numbers.limit(claim.limit, style)}"
    if judged.bound is not None:
        bound = numbers.bound(judged.bound, claim.limit, style)
        message = f"{message}, {', '.join(bound_note(claim, judged))} {bound}"
    if judged.status == "inconclusive":
        message += f"; {settle(run, claim, None if judged is claim else judged)}"
    failure = ElementTree.SubElement(case, "failure", type=judged.status, message=_clean(message))
    failure.text = _clean(f"{claim.text}\n{shown.title}\n{judged.why}".strip())
    return 1


def _clean(text: str) -> str:
    """XML 1.0 has no place for control characters, even escaped."""
    return _FORBIDDEN.sub("�", text)
