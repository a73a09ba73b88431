"""Where the events of a simulation come from, and what was calibrated before: a table of scores, or synthetic detectors.

The rows of one table are divided: half of every calibrated kind (whole groups together) are calibrated on, the stream draws from
the others. So no row, and no group, is both learned from and judged on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from roadworthy.analysis.risk.alarmed_cells import alarmed_cells
from roadworthy.analysis.risk.between import in_words
from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.analysis.risk.confidence import Cbpe
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.tolerating import nobody_said
from roadworthy.analysis.simulation.against_truth import (
    chances_of,
    parameters_of_detector,
    parameters_of_rows,
)
from roadworthy.analysis.simulation.estimators import Teller
from roadworthy.analysis.simulation.schedules import Shift
from roadworthy.analysis.simulation.streams import (
    CLEAN,
    VERDICT,
    Detector,
    Pool,
    Stream,
    detector_grid,
    draw_stream,
    draw_verdicts,
    right_chances,
    verdict_rows,
)
from roadworthy.data.samples import DataError
from roadworthy.data.score_columns import plainly
from roadworthy.data.score_tables import ScoreTable, checked_kinds, open_scores, read_scores
from roadworthy.execution.shared_rows import shared_rows
from roadworthy.execution.simulated_confidence import cbpe_of, check_confidence
from roadworthy.monitor import Bundle, Windows
from roadworthy.monitor.before_release import tolerated
from roadworthy.spec.simulation import DetectorSpec, Simulation

Place = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Source:
    """Where events come from, and what was known of them before."""

    label: str
    teller: Teller
    parameters: Mapping[str, float]
    """The truth about the tree in the long run, but p_shift."""
    kinds: tuple[str, ...]
    """Of the shifted events."""
    pool: Pool | None = None
    chance: np.ndarray | None = None
    """P(right) of every row of the pool, as far as its scores tell."""
    detector: Detector | None = None
    cbpe: Cbpe | None = None
    bundle: Bundle | None = None
    notes: tuple[str, ...] = ()

    def draw(self, spec: Simulation, shift: Shift, rng: np.random.Generator) -> Stream:
        """One stream."""
        how = spec.stream
        if self.detector is not None:
            return draw_verdicts(self.detector, shift, rng=rng)
        if self.pool is None:
            raise ValueError("a source has a pool of rows, or a detector")
        return draw_stream(
            self.pool,
            shift,
            kinds=self.kinds,
            replace=how.replace,
            runs=how.runs,
            order=how.order,
            by=how.by,
            rng=rng,
        )

    def chances(self, stream: Stream) -> np.ndarray:
        """P(right) of every event."""
        if self.detector is None:
            if self.chance is None:
                raise ValueError("a pool goes with the chances of its rows")
            return self.chance[stream.row]
        return right_chances(self.detector, stream.shifted, stream.columns[VERDICT] == 1.0)


class _Drawn(NamedTuple):
    """Rows to draw from, the group of each where there are groups, and what must be said of them."""

    pool: Pool
    groups: np.ndarray | None
    notes: tuple[str, ...]


def sources(spec: Simulation) -> Iterator[Source]:
    """The table, or every detector."""
    if spec.stream.detector is None:
        yield _bundled(spec) if spec.calibration.bundle is not None else _of_table(spec)
        return
    for number, detector in enumerate(_detectors(spec.stream.detector)):
        rng = np.random.default_rng([spec.seed, number, spec.repeats])
        rows = verdict_rows(detector, spec.calibration.clean, spec.calibration.shifted, rng=rng)
        teller = _teller(spec, calibrate(rows.columns, rows.kind, rows.correct, seed=spec.seed))
        known = {**spec.risk.constants, **parameters_of_detector(detector)}
        label = f"TPR {detector.tpr:g}, TNR {detector.tnr:g}"
        notes = (*_turned(detector, teller), *_chosen(spec, teller))
        yield Source(
            label,
            teller,
            known,
            rows.kinds,
            detector=detector,
            bundle=_compiled(spec, teller),
            notes=notes,
        )


def how_many(spec: Simulation) -> int:
    """As many as `sources` yields, without the work."""
    return 1 if spec.stream.detector is None else sum(1 for _ in _detectors(spec.stream.detector))


def _detectors(spec: DetectorSpec) -> Iterator[Detector]:
    rates = (
        detector_grid(spec.grid) if spec.grid is not None else ((spec.tpr or 0.0, spec.tnr or 0.0),)
    )
    for tpr, tnr in rates:
        yield Detector(tpr, tnr, *spec.accuracy.pair("clean"), *spec.accuracy.pair("shifted"))


def _bundled(spec: Simulation) -> Source:
    bundle = Bundle.load(spec.base / str(spec.calibration.bundle))
    pool, _, said = _pool(spec, spec.stream.scores, ("stream", "scores"), truth=spec.stream.truth)
    _check_kinds(spec, pool)
    note = "nothing can check that the stream's rows are not those the bundle was calibrated on: take others"
    return _drawing(
        spec,
        Teller(bundle.estimator, confidence=spec.confidence),
        pool,
        bundle=bundle,
        notes=(*said, note),
    )


def _of_table(spec: Simulation) -> Source:
    pool, groups, notes = _pool(
        spec, spec.stream.scores, ("stream", "scores"), truth=spec.stream.truth
    )
    _check_kinds(spec, pool)
    apart = spec.calibration.scores is not None
    learned, of, said = _Drawn(pool, groups, ())
    if apart:
        learned, of, said = _pool(spec, spec.calibration.scores, ("calibration", "scores"))
    notes = (*notes, *said)
    if spec.alarm.group_events is not None and of is None:
        path = spec.calibration.scores or spec.stream.scores
        none = f"{path} has no column group, so that nothing says how far groups differ; leave group_events out"
        raise spec.error(("alarm", "group_events"), none)
    try:
        kept = ~learned.of(spec.calibration.without)
    except ValueError as error:
        raise spec.error(("calibration", "without"), str(error)) from error
    if "cbpe" in spec.estimators:
        check_confidence(spec, learned)
    if apart:
        notes = (*notes, *_met_before(spec, pool, learned.taken(kept)))
    else:
        half = _half(pool, groups, np.random.default_rng([spec.seed, 2]))
        kept &= half
        # A group that was calibrated on is not streamed, whatever the kind of its rows.
        pool = pool.taken(~kept if groups is None else ~half)
        notes = (
            *notes,
            f"the table is divided: {int(kept.sum()):,} rows to calibrate on, {pool.n:,} to draw from",
        )
    learned = learned.taken(kept)
    try:
        calibration = calibrate(
            learned.columns,
            learned.kind,
            learned.correct,
            groups=None if of is None else of[kept],
            seed=spec.seed,
        )
    except ValueError as error:
        raise spec.error(("calibration",), str(error)) from error
    teller = _teller(spec, calibration)
    cbpe = cbpe_of(spec, learned) if "cbpe" in spec.estimators else None
    notes = (*notes, *_chosen(spec, teller), *_allowed_for(spec, calibration))
    return _drawing(spec, teller, pool, cbpe=cbpe, bundle=_compiled(spec, teller), notes=notes)


def _drawing(
    spec: Simulation,
    teller: Teller,
    pool: Pool,
    *,
    bundle: Bundle | None,
    cbpe: Cbpe | None = None,
    notes: tuple[str, ...] = (),
) -> Source:
    """A source that draws from a pool; the truth about the tree is counted in the rows that may be drawn."""
    calibration = teller.estimator.calibration
    kinds = tuple(spec.stream.kinds) if spec.stream.kinds is not None else pool.kinds
    try:
        pool = pool.taken(pool.of((CLEAN, *kinds)))
        cells = calibration.place(pool.columns).astype(np.int64)
    except ValueError as error:
        raise spec.error(
            ("stream", "kinds") if spec.stream.kinds else ("stream",), str(error)
        ) from error
    shifted = pool.kind != CLEAN
    detected = (cells >= 0) & alarmed_cells(calibration)[np.maximum(cells, 0)]
    known = {**_numbers(teller), **parameters_of_rows(shifted, detected, pool.correct)}
    _, clean, of_shifted, _ = np.unravel_index(np.maximum(cells, 0), calibration.shape)
    condition = np.where(cells < 0, -1, np.where(shifted, of_shifted, clean)) * 2 + shifted
    chance = chances_of(condition, pool.correct)
    return Source(
        "", teller, known, kinds, pool=pool, chance=chance, cbpe=cbpe, bundle=bundle, notes=notes
    )


def _numbers(teller: Teller) -> dict[str, float]:
    """The tree's constants as numbers: what is only known by counts has its mean."""
    return {
        name: float(np.mean(np.asarray(value)))
        for name, value in teller.estimator.constants.items()
    }


def _half(pool: Pool, groups: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Which rows are in the first half: half of the groups, or half of the rows of every kind."""
    if groups is not None:
        names, place = np.unique(groups, return_inverse=True)
        chosen: np.ndarray = (rng.permutation(len(names)) < len(names) // 2)[place]
        return chosen
    first = np.zeros(pool.n, dtype=bool)
    for kind in (CLEAN, *pool.kinds):
        rows = rng.permutation(np.flatnonzero(pool.kind == kind))
        first[rows[: len(rows) // 2]] = True
    return first


def _pool(spec: Simulation, path: str | None, place: Place, *, truth: str | None = None) -> _Drawn:
    """The rows of a table of which everything is known."""
    try:
        table = read_scores(spec.base / str(path))
    except DataError as error:
        raise spec.error(place, plainly(error)) from error
    if truth is not None:
        table = _with_truth(spec, table, spec.base / truth)
    missing = [name for name in ("kind", "correct") if getattr(table, name) is None]
    if missing or table.kind is None or table.correct is None:
        raise spec.error(
            place,
            f"{path} has no column {' and '.join(missing)}: a simulation needs to know what is true of every row; "
            "where kind and correct stand in another table, name it as truth",
        )
    known = np.ones(table.n, dtype=bool) if table.labelled is None else table.labelled
    gone = int((~known).sum())
    if gone == table.n:
        raise spec.error(
            place,
            f"no row of {truth or path} says whether the answer was right; fill its column correct with 1 and 0",
        )
    notes = (
        (f"{gone:,} of {table.n:,} rows of {table.source} have no outcome and are left out",)
        if gone
        else ()
    )
    pool = Pool(table.columns, table.kind, table.correct).taken(known)
    return _Drawn(pool, None if table.group is None else table.group[known], notes)


def _with_truth(spec: Simulation, table: ScoreTable, path: Path) -> ScoreTable:
    """The rows with kind and correct of the rows of the same id in another table."""
    place = ("stream", "truth")
    if table.id is None:
        raise spec.error(
            place,
            f"rows are matched by id, and say kind and correct: {table.source} has no column id",
        )
    try:
        told = open_scores(
            path, columns=[], needs=("id", "kind", "correct"), skips=("group", "time")
        ).whole()
    except DataError as error:
        raise spec.error(
            place, f"rows are matched by id, and say kind and correct: {plainly(error)}"
        ) from error
    assert told.id is not None and told.kind is not None and told.correct is not None
    row = {name: at for at, name in enumerate(told.id.tolist()) if name}
    try:
        at = np.array([row[name] for name in table.id.tolist()])
    except KeyError as error:
        raise spec.error(place, f"{path.name} has no row with the id {error.args[0]!r}") from error
    known = None if told.labelled is None else told.labelled[at]
    joined = replace(table, kind=told.kind[at], correct=told.correct[at], labelled=known)
    try:
        return checked_kinds(joined)
    except DataError as error:
        raise spec.error(place, f"{path.name} says the kinds: {plainly(error)}") from error


def _teller(spec: Simulation, calibration: Calibration) -> Teller:
    risk, tree = spec.risk, spec.risk.event_tree()
    limit = risk.tolerable
    try:
        if limit is None and spec.asks_for_alarms:
            limit = tolerated(calibration, tree, risk.constants)
        estimator = Estimator(calibration, tree, constants=risk.constants, tolerable=limit)
    except ValueError as error:
        raise spec.error(("risk",), str(error)) from error
    return Teller(estimator, confidence=spec.confidence)


def _turned(detector: Detector, teller: Teller) -> tuple[str, ...]:
    """That what alarms less under shift is read the other way round, as a monitor would: a missing alarm is the sign of shift."""
    calibration, found = teller.estimator.calibration, teller.estimator.separation
    cleared, alarmed = calibration.shift_bin(calibration.place({VERDICT: [0.0, 1.0]}))
    if alarmed >= cleared:
        return ()
    turned = (
        f"TPR + TNR = {detector.tpr + detector.tnr:.2f} <= 1: this detector alarms less often under shift than without, and the "
        "calibration turns it round"
    )
    if not found.enough:
        return (turned,)
    return (
        f"{turned}; a missing alarm is taken for one (TPR {found.tpr:.2f}, TNR {found.tnr:.2f})",
    )


def _chosen(spec: Simulation, teller: Teller) -> tuple[str, ...]:
    """The limit that was chosen for those who ask for alarms and give none, as `calibrate` chooses it."""
    estimator = teller.estimator
    if spec.risk.tolerable is not None or estimator.tolerable is None:
        return ()
    return (
        f"{nobody_said(estimator.tolerable, estimator.tree.unit)}; set yours with risk: {{tolerable: …}}",
    )


def _allowed_for(spec: Simulation, calibration: Calibration) -> tuple[str, ...]:
    """What these streams show of an alarm that allows for groups: rows are drawn one by one, whatever their group."""
    lasting = spec.alarm.group_events
    if lasting is None:
        return ()
    differ = in_words(calibration)
    if not differ:
        return (
            "clean scores differ between groups by no more than chance would make them: group_events changes nothing",
        )
    return (
        f"{differ}, and the alarm allows for {lasting:,} events of one in a row; the streams here mix all groups, so that they "
        "show what that costs in alarms that are missed, not the false ones it saves",
    )


def _check_kinds(spec: Simulation, pool: Pool) -> None:
    """Kinds that the stream is to have are kinds of its table."""
    try:
        pool.of(spec.stream.kinds or ())
    except ValueError as error:
        raise spec.error(("stream", "kinds"), str(error)) from error


def _met_before(spec: Simulation, pool: Pool, learned: Pool) -> tuple[str, ...]:
    """That rows to draw from are rows that were calibrated on: those of the same file, or that are the same number by number."""
    wanted = pool.taken(pool.of((CLEAN, *(spec.stream.kinds or pool.kinds))))
    same = (spec.base / str(spec.stream.scores)).samefile(spec.base / str(spec.calibration.scores))
    shared = int(np.isin(wanted.kind, learned.kind).sum()) if same else shared_rows(wanted, learned)
    if not shared:
        return ()
    return (
        f"{shared:,} of {wanted.n:,} rows to draw from are calibrated on as well, which makes errors look smaller than they are: "
        "take other rows, or leave calibration.scores out, and the stream's table is divided between the two",
    )


def _compiled(spec: Simulation, teller: Teller) -> Bundle | None:
    """The monitor that watches; a synthetic detector, whose verdicts are independent, needs none where nothing is tolerable."""
    risk, alarm = spec.risk, spec.alarm
    if teller.estimator.tolerable is None and spec.stream.detector is not None:
        return None
    window = alarm.window or spec.window
    try:
        return Bundle.compile(
            teller.estimator.calibration,
            teller.estimator.tree,
            subject=spec.title,
            constants=risk.constants,
            tolerable=teller.estimator.tolerable,
            windows=Windows((window,)),
            alarm_window=window,
            false_alarms=alarm.false_alarms,
            events_per_day=alarm.events_per_day,
            group_events=alarm.group_events,
            seed=spec.seed,
        )
    except ValueError as error:
        raise spec.error(("alarm",), str(error)) from error
