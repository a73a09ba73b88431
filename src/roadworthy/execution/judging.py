"""From the claims of the file to evidence: which places a claim speaks of, and what was observed there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from roadworthy.analysis import comparison, performance, supervision
from roadworthy.analysis.observed import Observed
from roadworthy.claims import Claim, Judgement, judge
from roadworthy.finding import Evidence
from roadworthy.registry import did_you_mean
from roadworthy.spec import Assessment, ClaimSpec, supervisor_name
from roadworthy.store import RunFolder, StoreError

COMPARED = ("difference", "relative_drop", "auc_shift")
QUANTITIES = ("failure_rate", *COMPARED, "auc_failure")


def judge_claims(
    spec: Assessment, quantity: str, clean: Observed, others: Sequence[Observed], references: Sequence[Observed]
) -> list[Judgement]:
    """Every claim of the file, judged."""
    found = []
    for i, content in enumerate(spec.claims):
        if content.no_worse_than:
            claim, evidence = _against_run(spec, i, content, quantity, clean)
        else:
            claim = _claim(content)
            evidence = _places(spec, i, content, quantity, clean, others, references)
        found.append(judge(claim, evidence))
    return found


def check_claims(spec: Assessment, quantity: str) -> None:
    """Refuse, before any work, a claim on a quantity that nothing measures."""
    known = [quantity, *QUANTITIES]
    for i, content in enumerate(spec.claims):
        if content.no_worse_than:
            folder = spec.base / content.no_worse_than
            if not (folder / "run.json").is_file():
                raise spec.error(("claims", i, "no_worse_than"), f"{folder} is not a run folder")
            continue
        if content.quantity not in known:
            raise spec.error(
                ("claims", i),
                f"claims {content.quantity!r}, which is not measured here{did_you_mean(content.quantity, known)}; "
                f"it could claim: {', '.join(known)}",
            )
        if content.every not in ("", "slices", "circumstances", *spec.slices):
            options = ["slices", "circumstances", *spec.slices]
            raise spec.error(
                ("claims", i, "every"),
                f"{content.every!r} is not known{did_you_mean(content.every, options)}; it takes: {', '.join(options)}",
            )
        if content.every in ("slices",) and not spec.slices:
            raise spec.error(("claims", i, "every"), "the file names no slices; add slices: [label]")
        if content.quantity in ("auc_failure", "auc_shift") and not content.supervisor:
            raise spec.error(("claims", i), f"{content.quantity} is about a supervisor; add supervisor: max_softmax")
        if content.quantity in COMPARED and not (content.circumstance or content.every == "circumstances"):
            raise spec.error(
                ("claims", i),
                f"{content.quantity} compares with clean data; add circumstance: NAME or every: circumstances",
            )
        _check_place(spec, i, content)


def _check_place(spec: Assessment, i: int, content: ClaimSpec) -> None:
    """Level, slice and supervisor of a claim are among those of the file."""
    if content.level is not None:
        if not content.circumstance:
            raise spec.error(("claims", i, "level"), "a level is of a circumstance; add circumstance: NAME")
        levels = spec.circumstances[content.circumstance].levels
        if content.level not in levels:
            known = ", ".join(map(str, levels)) or "none"
            raise spec.error(("claims", i, "level"), f"{content.circumstance} is run at the levels {known}")
    for column in content.slice:
        if column not in spec.slices:
            hint = did_you_mean(column, spec.slices)
            raise spec.error(("claims", i, "slice"), f"{column!r} is not among the slices{hint}; add it to slices")
    named = [supervisor_name(entry) for entry in spec.supervisors]
    if content.supervisor and content.supervisor not in named:
        raise spec.error(
            ("claims", i, "supervisor"),
            f"{content.supervisor!r} is not among the supervisors{did_you_mean(content.supervisor, named)}; "
            "add it to supervisors",
        )


def recorded(folder: RunFolder) -> comparison.Recorded:
    """An earlier run, for comparisons."""
    return comparison.Recorded(folder.record(), folder.cases(), folder.findings())


def _claim(content: ClaimSpec) -> Claim:
    direction: Literal["min", "max"] = "min" if content.min is not None else "max"
    limit = content.min if content.min is not None else content.max
    assert limit is not None
    return Claim(
        content.id,
        content.quantity,
        limit,
        direction,
        content.confidence,
        content.every,
        _text(content, direction, limit),
    )


def _text(content: ClaimSpec, direction: str, limit: float) -> str:
    side = "at least" if direction == "min" else "at most"
    place = ""
    if content.circumstance:
        place = f" under {content.circumstance}" + ("" if content.level is None else f" at level {content.level}")
    if content.slice:
        place += " for " + ", ".join(f"{k} = {v}" for k, v in content.slice.items())
    every = {"": "", "slices": ", in every slice", "circumstances": ", under every circumstance"}
    place += every.get(content.every, f", for every {content.every}")
    of = f" of {content.supervisor}" if content.supervisor else ""
    return f"{content.quantity.replace('_', ' ')}{of} {side} {limit:g}{place}"


def _places(
    spec: Assessment,
    i: int,
    content: ClaimSpec,
    quantity: str,
    clean: Observed,
    others: Sequence[Observed],
    references: Sequence[Observed],
) -> list[Evidence]:
    pairs = [(clean, clean)]
    if content.circumstance:
        wanted = [(o, r) for o, r in zip(others, references, strict=True) if o.circumstance == content.circumstance]
        pairs = [(o, r) for o, r in wanted if content.level is None or o.level == content.level]
    elif content.every == "circumstances":
        pairs = list(zip(others, references, strict=True))
    if content.slice:
        pairs = [(_cut(spec, i, o, content), _cut(spec, i, r, content)) for o, r in pairs]
    if content.every in ("", "circumstances"):
        return [_evidence(spec, i, content, quantity, o, r) for o, r in pairs]
    columns = spec.slices if content.every == "slices" else [content.every]
    seed, smallest = spec.seed, spec.smallest_slice
    return [
        e
        for o, _ in pairs
        for column in columns
        for e in performance.slices(o, column, smallest=smallest, quantity=content.quantity, seed=seed)
    ]


def _cut(spec: Assessment, i: int, observed: Observed, content: ClaimSpec) -> Observed:
    keep = np.ones(len(observed), dtype=bool)
    for column, wanted in content.slice.items():
        keep &= observed.slices[column].astype(str) == str(wanted)
    if not keep.any():
        raise spec.error(("claims", i, "slice"), f"no case has {content.slice}")
    return observed.take(keep)


def _evidence(
    spec: Assessment, i: int, content: ClaimSpec, quantity: str, here: Observed, reference: Observed
) -> Evidence:
    seed = spec.seed
    if content.quantity in ("auc_failure", "auc_shift"):
        if content.supervisor not in here.scores:
            raise spec.error(
                ("claims", i, "supervisor"),
                f"{content.supervisor!r} gave no scores{did_you_mean(content.supervisor, here.scores)}; "
                f"there are: {', '.join(here.scores) or 'none'}",
            )
        if content.quantity == "auc_failure":
            return supervision.detects_failure(here, content.supervisor)
        return supervision.detects_shift(here, reference, content.supervisor)
    if content.quantity == "failure_rate":
        return performance.failure_rate(here, seed=seed)
    if content.quantity == "difference":
        return performance.difference(here, reference, seed=seed)
    if content.quantity == "relative_drop":
        return performance.relative_drop(here, reference, seed=seed)
    return performance.value(here, quantity, seed=seed)


def _against_run(
    spec: Assessment, i: int, content: ClaimSpec, quantity: str, clean: Observed
) -> tuple[Claim, list[Evidence]]:
    folder = Path(spec.base / content.no_worse_than)
    try:
        earlier = recorded(RunFolder.open(folder))
    except StoreError as error:
        raise spec.error(("claims", i, "no_worse_than"), str(error)) from error
    if earlier.quantity != quantity:
        raise spec.error(("claims", i, "no_worse_than"), f"{folder} measured {earlier.quantity}, this run {quantity}")
    evidence = comparison.change(clean, earlier, seed=spec.seed)
    higher = clean.scored.better == "higher"
    text = f"{quantity} no worse than {content.no_worse_than} by more than {content.by:g}"
    limit, direction = (-content.by, "min") if higher else (content.by, "max")
    claim = Claim(content.id, "difference", limit, direction, content.confidence, "", text)  # type: ignore[arg-type]
    return claim, [evidence]
