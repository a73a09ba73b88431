"""Which supervisors stand at which modules, and the reasons why some cannot; checked before the first case is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from roadworthy import registry
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.cases.circumstance import Circumstance
from roadworthy.data.samples import Dataset
from roadworthy.data.values import CLASS_SCORES
from roadworthy.registry import did_you_mean
from roadworthy.spec import (
    Assessment,
    SpecError,
    supervisor_label,
    supervisor_name,
    supervisor_parameters,
)
from roadworthy.subject.needs import Input, Layer, Request, Score
from roadworthy.subject.system import INPUT, System
from roadworthy.subject.trace import SYSTEM
from roadworthy.supervisors.supervisor import Supervisor

EVERY_OTHER = "*"
"""The score that stands for those of all other supervisors."""
KINDS = {
    "class_scores": "class scores",
    "vector": "a vector of numbers",
    "goal": "a goal",
    "episode": "an episode",
}
"""Kinds of values whose names are not yet words of a sentence."""


@dataclass(frozen=True)
class Supervision:
    """A supervisor at a module, or the reason why it cannot be there."""

    name: str
    module: str
    supervisor: Supervisor
    parameters: Mapping[str, Any] = field(default_factory=dict)
    because: str = ""
    label: str = ""
    """Its name in tables and claims: the bare name, or with module and parameters where one name is used twice."""
    members: tuple[str, ...] = ()
    """The labels of those whose scores it reads."""

    @property
    def applicable(self) -> bool:
        """Whether it will score."""
        return not self.because

    @property
    def reads_scores(self) -> bool:
        """Whether it is fitted and scores after others have."""
        return any(isinstance(n, Score) for n in self.supervisor.needs)

    @property
    def reads_every_other(self) -> bool:
        """Whether it combines whoever scores, and so can go without one that does not."""
        return Score(EVERY_OTHER) in self.supervisor.needs

    @property
    def reads_inputs(self) -> bool:
        """Whether it looks at what the module was given."""
        return any(isinstance(n, Input) for n in self.supervisor.needs)


def supervisions(
    spec: Assessment,
    system: System,
    sets: Mapping[str, Dataset],
    circumstances: Sequence[Circumstance],
) -> list[Supervision]:
    """The supervisors of the file, in its order."""
    found: list[Supervision] = []
    for i, entry in enumerate(spec.supervisors):
        name, parameters = supervisor_name(entry), supervisor_parameters(entry)
        module = parameters.pop("module", system.output.split(".", 1)[0])
        if module not in system.modules and module != SYSTEM:
            raise spec.error(
                ("supervisors", i),
                f"the subject has no module {module!r}{did_you_mean(module, system.modules)}; "
                f"it has: {', '.join(system.modules)}",
            )
        try:
            supervisor = registry.get("supervisors", name).bind(**parameters)
        except ValueError as error:
            raise spec.error(("supervisors", i), str(error)) from error
        label = supervisor_label(entry, spec.supervisors)
        if label in {s.label for s in found}:
            raise spec.error(("supervisors", i), f"{label} is named twice")
        one = Supervision(name, module, supervisor, parameters, "", label)
        try:
            found.append(
                one if one.reads_scores else replace(one, because=_why_not(one, system, sets))
            )
        except _NoSuchLayer as error:
            raise spec.error(("supervisors", i), f"{label}: {error}") from error
    first = {s.label: s for s in found if not s.reads_scores}
    return [
        _joined(spec, i, s, first, sets, circumstances) if s.reads_scores else s
        for i, s in enumerate(found)
    ]


def those_that_apply(
    spec: Assessment, planned: Sequence[Supervision]
) -> tuple[list[Supervision], dict[str, str]]:
    """Who scores, and who was left out and why: all that the file names stay, of `supervisors: all` those that apply."""
    if not spec.every_supervisor:
        return list(planned), {}
    return [s for s in planned if s.applicable], {
        s.label: s.because for s in planned if not s.applicable
    }


class _NoSuchLayer(ValueError):
    """A layer that the file names and the model does not have: a mistake in the file, not a property of the model."""


def _named_in_vain(s: Supervision, request: Request, refusal: str) -> bool:
    """Whether the file names a layer, and the model shows others but not this one."""
    if not isinstance(request, Layer) or f"has no layer {request.name!r}" not in refusal:
        return False
    written = [s.parameters.get("layer"), *(s.parameters.get("layers") or ())]
    return request.name in written and not refusal.endswith("it has: none")


def _why_not(s: Supervision, system: System, sets: Mapping[str, Dataset]) -> str:
    # The system as a whole is asked as if it were one module.
    whole = s.module == SYSTEM
    asked = system if whole else system.modules[s.module]
    kind = (
        system.output_kind
        if whole
        else system.modules[s.module].outputs[system.traced_port(s.module)]
    )
    reason = s.supervisor.applies_to(kind)
    if reason:
        # Their names are those of the registry; here a person reads them.
        return reason.replace(
            f"the module gives {kind.name}", f"the module gives {KINDS.get(kind.name, kind.name)}"
        )
    for request in s.supervisor.needs:
        refusal = asked.offers(request) or (
            _not_the_input(system, s.module) if isinstance(request, Input) else ""
        )
        if refusal and _named_in_vain(s, request, refusal):
            raise _NoSuchLayer(refusal)
        if refusal:
            return refusal
    if s.supervisor.fitted and "reference" not in sets:
        return "it is fitted on reference data, and the file names none under data: reference"
    return ""


def _not_the_input(system: System, name: str) -> str:
    """Inputs are made again from the data and never kept, which works for what the system itself is given."""
    ports = system.modules[name].inputs
    if len(ports) != 1:
        return f"it reads the module's input, and {name} has {len(ports)}: {', '.join(ports)}"
    source = system.wires[f"{name}.{ports[0]}"]
    if source != INPUT:
        return f"it reads the module's input, and what {name} gets from {source} is not kept"
    return ""


def _joined(
    spec: Assessment,
    i: int,
    s: Supervision,
    others: Mapping[str, Supervision],
    sets: Mapping[str, Dataset],
    circumstances: Sequence[Circumstance],
) -> Supervision:
    """One that reads others' scores, with its members, or with the reason why it cannot."""
    named = [n.name for n in s.supervisor.needs if isinstance(n, Score)]
    members = [m for m in others if others[m].applicable] if EVERY_OTHER in named else named
    for member in members:
        if member not in others:
            raise _no_such_member(spec, i, s.label, member, list(others))
    idle = [m for m in members if not others[m].applicable]
    because = ""
    if not others:
        because = "it combines the scores of others, and there are no others in the file; name some"
    elif not members:
        because = "it combines the scores of others, and none of them is applicable"
    elif idle:
        because = f"its member {idle[0]} is not applicable, because {others[idle[0]].because}"
    elif getattr(s.supervisor, "contrasts", False):
        if "calibration" not in sets:
            because = "it learns from clean and shifted calibration cases, and the file names none under data: calibration"
        elif not any(c.kind == "transform" for c in circumstances):
            because = "it learns what shifts do from circumstances with a transform, and the file names none"
    elif "calibration" not in sets and "reference" not in sets:
        because = "it compares with clean cases, and the file names none under data: calibration or data: reference"
    return replace(s, because=because, members=tuple(members))


def _no_such_member(
    spec: Assessment, i: int, label: str, member: str, others: Sequence[str]
) -> SpecError:
    known = registry.components("supervisors")
    twice = [o for o in others if o.startswith(f"{member}(")]
    taken = " itself reads scores, so it" if member in _labels(spec) else ""
    add = ""
    if twice:
        add = f"; name one of: {', '.join(twice)}"
    elif not taken:
        near = did_you_mean(member, others) or (
            "" if member in known else did_you_mean(member, known)
        )
        inside = any(f"{o!r}" in near for o in others)
        add = near if inside else f"{near}; add it under supervisors"
    return spec.error(
        ("supervisors", i),
        f"{label} names the member {member!r}, which{taken} is not among the supervisors it can read{add}; "
        f"there are: {', '.join(others) or 'none'}",
    )


def _labels(spec: Assessment) -> list[str]:
    return [supervisor_label(e, spec.supervisors) for e in spec.supervisors]


def verdict_rule(spec: Assessment) -> VerdictRule:
    """The rule of the file, or the default."""
    return VerdictRule() if spec.verdicts is None else VerdictRule(**spec.verdicts.model_dump())


def check_verdicts(spec: Assessment, system: System, sets: Mapping[str, Dataset]) -> None:
    """Refuse, before any work, verdicts that could not be given."""
    if spec.verdicts is None:
        return
    if "calibration" not in sets:
        raise spec.error(
            ("verdicts",),
            "thresholds are chosen on calibration data, and the file names none; add calibration under data, with cases "
            "that are in no other role",
        )
    if spec.verdicts.per_class and system.output_kind is not CLASS_SCORES:
        raise spec.error(
            ("verdicts", "per_class"),
            f"goes with class scores, and the subject gives {system.output_kind.name}",
        )
    rule, data = verdict_rule(spec), sets["calibration"]
    grouped = rule.rule == "conformal" and data.groups is not None
    n = len(set(data.groups.tolist())) if grouped and data.groups is not None else len(data)
    if n < rule.least:
        what = ("groups with clean cases", "groups") if grouped else ("clean cases", "cases")
        raise spec.error(
            ("verdicts", "rule"),
            f"{rule.rule} at {rule.rate:g} needs at least {rule.least} {what[0]} that are answered rightly, and the "
            f"calibration data has {n} {what[1]}; give more, or accept a higher rate",
        )
