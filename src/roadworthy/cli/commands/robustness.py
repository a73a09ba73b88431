"""``roadworthy robustness``: the tasks of the robustness method, one at a time (Wozniak et al. 2024).

The second half of task 4 is `roadworthy cases make`; `roadworthy assess` does all seven.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from roadworthy.cli import exits, output
from roadworthy.cli.options import AssessmentFile, Json
from roadworthy.cli.progress import open_progress

if TYPE_CHECKING:
    from roadworthy.analysis.robustness.circumstances import TargetCircumstance
    from roadworthy.assessment.sections.robustness import RobustnessSpec
    from roadworthy.spec import Assessment
    from roadworthy.statistics import Interval

KEY = "robustness"
UNNAMED = {"subject": {"task": "detection", "predictions": "none"}, "data": {"test": {}}}
"""Stands in for what circumstances do not need and a file need not name yet."""
Loss = Literal["one-sided", "absolute"]
ROBUST = {"met": "robust", "breached": "not robust"}
EXACT = "with numbers taken as exact; `roadworthy assess` judges with intervals."


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    said = "Robustness, task by task: circumstances, gap, performance, distance, relation."
    group = typer.Typer(help=said, no_args_is_help=True)
    group.callback()(lambda: None)
    for command in (_circumstances, _gap, _performance, _distance, _relation):
        group.command(command.__name__.strip("_"))(command)
    app.add_typer(group, name=KEY)


def _circumstances(file: AssessmentFile, json: Json = False) -> None:
    """Tasks 1 and 2: the circumstances of a file by significance, from every point of view."""
    from roadworthy.analysis.robustness import circumstances as analysis

    spec, given, targets = _read(file)
    views, found, groups, lines = given.viewpoints, [], [], []
    for t in analysis.ranked(targets):
        seen = {
            f"seen by {who}": [what for what in links if t.id in links[what]]
            for who, links in views.items()
        }
        row = {"circumstance": t.id, "description": t.name, "probability": t.probability}
        found.append({**row, **t.ratings, "significance": t.significance, **seen})
    for group in spec.exclusive:
        shares = {name: spec.circumstances[name].probability or 0.0 for name in group.of}
        rest = analysis.check_exclusive(shares, exhaustive=group.exhaustive)
        shares |= {} if group.exhaustive else {analysis.NONE_OF_THEM: rest}
        groups.append({"exhaustive": group.exhaustive, "probabilities": shares})
        said = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        lines.append(f"{'Exactly' if group.exhaustive else 'At most'} one is met: {said}.")
    notes = [*spec.document.notes, *analysis.specification_notes(targets)]
    for who, links in views.items():
        lone = analysis.link_notes(links, [*links], [t.id for t in targets])
        notes += [f"{who}: {note}" for note in lone]
    content = {"circumstances": found, "exclusive": groups, "notes": notes}
    _show(json, content, found, lines=lines)


def _gap(file: AssessmentFile, json: Json = False) -> None:
    """Tasks 3 and 4: which circumstances the source data lack, by significance."""
    from roadworthy.analysis.robustness.gap import counted_frequency, gap_list, known_frequency
    from roadworthy.data.samples import load

    spec, given, targets = _read(file)
    if not given.source:
        raise spec.error((KEY,), "states no source: add `source: {NAME: 0.05}`")
    known, found = {}, []
    for name, how in given.source.items():
        if how.found is not None and how.of is not None:
            known[name] = counted_frequency(how.found, how.of, confidence=spec.confidence)
        elif how.where is not None:
            with spec.located((KEY, "source", name)):
                data = load(spec.data.test, base=spec.base, name="test")
                known[name] = known_frequency(float(data.where(how.where).mean()))
        elif how.share is not None:
            known[name] = known_frequency(how.share)
    looked = {name: how.estimator for name, how in given.source.items() if name not in known}
    gaps = gap_list(targets, known)
    for row in gaps.rows:
        t, ends = row.target, _ends(row.source.interval) if row.source else None
        one = {"circumstance": t.id, "significance": t.significance, "target": t.probability}
        shown = {"source": row.source.value if row.source else None, "interval": ends}
        status = "not estimated" if t.id in looked else row.status
        found.append({**one, **shown, "gap": _finite(row.gap), "status": status})
    shares = {key: getattr(gaps, key) for key in ("missing", "over_or_under", "covered")}
    notes = [f"{n}: `roadworthy assess` runs the estimator {how}" for n, how in looked.items()]
    said = f"Missing in the source data: {gaps.missing}% of the circumstances, over- or "
    said += f"under-represented: {gaps.over_or_under}%, covered: {gaps.covered}%."
    make = f"`roadworthy cases make {file} --out FOLDER` writes pictures at the target frequencies."
    _show(json, {"gaps": found, **shares, "notes": notes}, found, lines=[said, make])


def _performance(
    truth: Annotated[Path, Argument(exists=True, help="A COCO annotation file.")],
    predictions: Annotated[Path, Argument(exists=True, help="A COCO results file.")],
    min_score: Annotated[float, Option(help="Of detections that count in TP, FP and FN.")] = 0.5,
    intervals: Annotated[bool, Option("--intervals", help="95%, by 200 resamples.")] = False,
    json: Json = False,
) -> None:
    """Task 5: TP, FP, FN, precision, recall and COCO's 12 figures, over all classes and by class."""
    import numpy as np

    from roadworthy.data.samples import load
    from roadworthy.data.values import TASKS
    from roadworthy.measures import coco
    from roadworthy.measures.interval import summary_intervals
    from roadworthy.registry import get
    from roadworthy.subject.system import Cases

    data = load({"coco": truth.name, "images": "."}, base=truth.parent, name=truth.name)
    files = {"path": str(predictions.absolute()), "annotations": str(truth.absolute())}
    subject = get("adapters", "predictions").build(**files, base=Path(), task=TASKS["detection"])
    cases = Cases([*data.ids], np.zeros((len(data), 0)))
    answers, truths = subject.run(cases)["system"].output, [*(data.targets or ())]
    summary = coco.detection_summary(answers, truths, min_score=min_score)
    figures = [{"figure": name, "value": x} for name, x in _figures(summary).items()]
    names, notes = data.classes or (), [*data.notes]
    classes = [{"class": names[at], **_figures(one)} for at, one in summary.by_class.items()]
    if intervals:
        boxes, rng = coco.evaluate_boxes(answers, truths), np.random.default_rng(0)
        drawn = summary_intervals(boxes, min_score=min_score, rng=rng)
        figures = [{**row, "interval": _ends(drawn[row["figure"]])} for row in figures]
        notes.append("intervals take images as independent; `assess` respects data.group")
    content = {"images": len(data), "figures": figures, "by_class": classes, "notes": notes}
    brief = [{n: x for n, x in row.items() if "_" not in n} for row in classes]
    _show(json, content, figures, brief)


def _distance(
    originals: Annotated[Path, Argument(help="A folder of pictures.")],
    changed: Annotated[Path, Argument(help="What became of them, under the same names.")],
    distance: Annotated[str | None, Option(help="Between pictures; by default ssim.")] = None,
    json: Json = False,
) -> None:
    """Task 6: how far two sets of pictures lie apart, over the pairs that differ.

    If the names differ there are no pairs, and only M15 and M17 apply.
    """
    from roadworthy.data.loaders.files import image_files, image_size, read_image
    from roadworthy.distances.features import feature_matrix
    from roadworthy.distances.images import paired_metrics, set_metrics

    sets = [{f.relative_to(p).as_posix(): f for f in image_files(p)} for p in (originals, changed)]
    lone, differ = set(sets[0]) ^ set(sets[1]), list[bool]()
    with open_progress(quiet=json) as progress, _refusing("distance"):
        if not all(sets) or (lone and distance):
            raise ValueError(f"expected pictures with the same names in {originals} and {changed}")
        for name in () if lone else sets[0]:
            if image_size(sets[0][name]) != image_size(sets[1][name]):
                raise ValueError(f"{sets[1][name]} and its original differ in size")
        progress.stage("comparing pictures", sum(map(len, sets)))

        def images(files: Mapping[str, Path]) -> Iterator[Any]:
            for file in files.values():
                yield read_image(file)
                progress.advance(1)

        if lone:
            found = set_metrics(*map(feature_matrix, map(images, sets)), paired=False)
        else:
            found, differ = paired_metrics(*map(images, sets), distance=distance or "ssim")
    said = f"{len(differ)} pairs, of which {sum(differ)} differ and are compared."
    alone = f"{len(lone)} names are in one folder only: no pairs, so M14 and M16 do not apply."
    notes = ["M15 to M17 take two pictures or more and 64 built-in features; frechet is not FID"]
    notes += dict.fromkeys(note for one in found for note in one.notes)
    rows = [{"metric": m[0], "method": m[1], "value": m[2], "interval": _ends(m[3])} for m in found]
    content = {"pairs": len(differ), "differ": sum(differ), "distances": rows, "notes": notes}
    _show(json, content, rows, lines=[alone if lone else said])


def _relation(
    table: Annotated[Path, Argument(help="CSV: circumstance, measure, distance, source, target.")],
    epsilon: Annotated[str | None, Option(help="Such as '0.25: 0.01, 1: 0.01 + 0.5d'.")] = None,
    file: Annotated[Path | None, Option(help="An assessment file that states it instead.")] = None,
    loss: Annotated[Loss | None, Option(help="absolute: an improvement is a loss too.")] = None,
    json: Json = False,
) -> int:
    """Task 7: whether the loss is at most epsilon(distance), row by row and for all metrics.

    A column `better` (higher or lower) is needed for measures that are not known.
    """
    from roadworthy.analysis.robustness import relation
    from roadworthy.data.loaders.files import CsvTable
    from roadworthy.registry import components

    weights: dict[str, float] = {}
    with _refusing("epsilon"):
        if (epsilon is None) == (file is None):
            raise ValueError("give either --epsilon or --file")
        tolerated = relation.Epsilon.parse(epsilon or "1: 0")
    if file is not None:
        spec, given, targets = _read(file)
        if (stated := given.pieces()) is None:
            raise spec.error((KEY,), "states no epsilon")
        tolerated, loss = stated, loss or given.loss
        reference = given.significance or 125  # the highest one: nothing is weighted
        weights = {t.id: relation.significance_weight(t.significance, reference) for t in targets}
    kind, cells = loss or "one-sided", CsvTable.read(table)
    known = {name: c.traits["better"] for name, c in components("measures").items()}
    usual = "higher" if kind == "absolute" else "unknown"
    better = [known.get(name.lower(), usual) for name in cells["measure"]]
    numbers = cells.numbers(["distance", "source", "target"]).tolist()
    columns = cells["circumstance"], cells["measure"], cells.columns.get("better", better), numbers
    found, verdicts = list[dict[str, Any]](), dict[str, dict[str, relation.RelationVerdict]]()
    for circumstance, measure, side, (d, source, target) in zip(*columns, strict=True):
        with _refusing(f"{table}: column better of {measure}"):
            change = relation.performance_loss(source, target, side, kind)
        weight = weights.get(circumstance, 1.0)
        one = relation.judge_relation(change, d, tolerated, weight=weight)
        verdicts.setdefault(circumstance, {})[f"row {len(found)}"] = one
        row = {"circumstance": circumstance, "measure": measure, "source": source}
        row |= {"target": target, "loss": change, "distance": d, "epsilon": tolerated(d)}
        margin = _finite(one.weighted.margin)
        found.append({**row, "weight": weight, "margin": margin, "outcome": one.outcome})
    whole = relation.robust_for_all({n: v for own in verdicts.values() for n, v in own.items()})
    judged = [
        {"circumstance": n, **relation.robust_for_all(v)._asdict()} for n, v in verdicts.items()
    ]
    said = f"Overall: {ROBUST.get(whole.outcome, whole.outcome)}, {EXACT}"
    content = {"loss": kind, "outcome": whole.outcome, "relation": found, "verdicts": judged}
    _show(json, content, found, judged, lines=[said])
    return exits.VERDICTS[whole.outcome]


def _read(file: Path) -> tuple[Assessment, RobustnessSpec, list[TargetCircumstance]]:
    """The file, checked, what it says of robustness, and its circumstances without mixtures."""
    from roadworthy.analysis.robustness.circumstances import TargetCircumstance
    from roadworthy.assessment.sections.robustness import RobustnessSpec
    from roadworthy.spec import Assessment, Document

    document = Document.read(file)
    if isinstance(document.content, dict):
        document = replace(document, content=UNNAMED | document.content)
    spec = Assessment.of(document)
    stated = [(n, c) for n, c in spec.circumstances.items() if c.mixture is None]
    targets = [
        TargetCircumstance(n, c.description, c.probability, c.exposure, c.likelihood, c.severity)
        for n, c in stated
    ]
    if not targets:
        raise spec.error(("circumstances",), "states none; `roadworthy list hazards` shows some")
    return spec, spec.part(KEY, RobustnessSpec) or RobustnessSpec.model_validate({}), targets


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """A plain ValueError within is an error of the user's."""
    from roadworthy.data.samples import DataError

    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise DataError(f"{what}: {error}") from error


def _figures(summary: Any) -> dict[str, Any]:
    """Counts as whole numbers, then shares; what is not defined is None."""
    names = summary._fields[:-1]  # by class comes last
    first = ("tp", "fp", "fn", "precision", "recall")
    ordered = [*first, *(name for name in names if name not in first)]
    found = {name: getattr(summary, name) for name in ordered}
    return {n: int(x) if n in ("tp", "fp", "fn") else _finite(x) for n, x in found.items()}


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _ends(interval: Interval | None) -> list[float | None] | None:
    ends = [_finite(interval.low), _finite(interval.high)] if interval else []
    return None if ends.count(None) == len(ends) else ends


def _show(json: bool, content: dict[str, Any], *tables: Any, lines: Sequence[str] = ()) -> None:
    """JSON and nothing else; or tables of the same records, lines and notes."""
    if json:
        output.print_json(content)
        return
    for records in filter(None, tables):
        output.print_records(records)
    output.print_lines([*lines, *(f"note: {note}" for note in content.get("notes", ()))])
