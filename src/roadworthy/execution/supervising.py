"""Supervisors at work: fitted once, scoring chunk by chunk from memory-mapped columns, with the time and memory each takes.

A supervisor that cannot be fitted on these data, or cannot score them, is left out with its reason, and the others go on.
Fits and scores are kept: the next run of the same supervisors on the same chunks reads them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from roadworthy import registry
from roadworthy.cases.circumstance import Condition
from roadworthy.data.seeds import key as seed_key
from roadworthy.execution.inputs import inputs_of
from roadworthy.execution.plan import Chunk, Plan
from roadworthy.execution.supervisions import Supervision
from roadworthy.execution.versions import code_version, libraries, source_of
from roadworthy.store import ChunkCache
from roadworthy.store.scores import KeptScores, read_scores, write_scores
from roadworthy.subject.needs import Input, Score
from roadworthy.subject.trace import MANIFEST, SYSTEM, ModuleTrace, Trace, concatenate
from roadworthy.supervisors.supervisor import reduce_steps

KEPT_FITS = "fitted"
"""Where fitted supervisors lie in the cache."""
SPENT = "spent.json"
"""What a kept fit took, and the hash of what was learned."""
REFUSALS = (ValueError, RuntimeError)
"""What a supervisor raises that cannot work on these data, or on this device."""


@dataclass
class Spent:
    """What a supervisor took."""

    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    fit_kept: bool = False
    """Whether the fit is that of an earlier run, with its seconds."""
    score_kept: bool = False
    """Whether scores are those of an earlier run, all or some, with their seconds."""


@dataclass
class AtWork:
    """The supervisors of a plan during a run."""

    plan: Plan
    cache: ChunkCache
    spent: dict[str, Spent] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Supervisors that could not be fitted or could not score, and why."""
    prints: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Members that one who combines all others goes without, since they have no scores."""
    known: dict[str, str] = field(default_factory=dict)
    """The hash of what each fitted one learned, where it is kept."""
    identities: dict[str, list[Any]] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    """The hash of each chunk's manifest, read once."""
    fresh: bool = False
    """Whether everything is computed again, whatever is kept."""

    @property
    def first(self) -> list[Supervision]:
        """Those that read traces."""
        return [s for s in self._working() if not s.reads_scores]

    @property
    def second(self) -> list[Supervision]:
        """Those that read the scores of the others."""
        return [s for s in self._working() if s.reads_scores]

    @property
    def labels(self) -> list[str]:
        """Those that score, in the order of the file."""
        return [s.label for s in self._working()]

    def time_of(self, label: str) -> Spent:
        """What a supervisor took so far."""
        return self.spent.setdefault(label, Spent())

    def chunks(self, condition: Condition) -> Iterator[tuple[Chunk, Trace]]:
        """A condition's chunks, memory-mapped, one at a time."""
        for chunk in self.plan.chunks:
            if chunk.condition == condition:
                yield chunk, self.cache.read(chunk.key)

    def fit(self, *, fresh: bool = False) -> None:
        """Fit those that learn from the reference rows, or take what an earlier run kept of the same fit."""
        self.fresh = fresh
        wanted = [s for s in self.first if s.supervisor.fitted]
        for s in wanted:
            if fresh or not self._fetch(s):
                self._fit(s)

    def score_chunk(self, chunk: Chunk, trace: Trace) -> dict[str, np.ndarray]:
        """The scores of a chunk's cases, by supervisor; those that read scores come later."""
        inputs: dict[str, np.ndarray] = {}
        found: dict[str, np.ndarray] = {}
        for s in self.first:
            kept = None if self.fresh else self._kept_scores(s, chunk)
            if kept is None:
                kept = self._scores_of(s, chunk, trace, inputs)
            else:
                self.time_of(s.label).score_kept = True
            if kept is not None:
                self.time_of(s.label).score_seconds += kept.seconds
                found[s.label] = kept.scores
        return found

    def _scores_of(
        self, s: Supervision, chunk: Chunk, trace: Trace, inputs: dict[str, np.ndarray]
    ) -> KeptScores | None:
        """What one says of a chunk's cases, and keep it; `inputs` are those of modules that were made already."""
        rows = trace[s.module]
        if s.reads_inputs:
            if s.module not in inputs:
                inputs[s.module] = inputs_of(self.plan, chunk, s.module, rows)
            rows = replace(rows, columns={**rows.columns, Input().column: inputs[s.module]})
        made = self._scored(s, rows)
        if made is None:
            return None
        reduced = reduce_steps(
            rows, made.scores, trace[SYSTEM].case, getattr(s.supervisor, "reduce", "max")
        )
        made = made._replace(scores=reduced)
        path = self._scores_at(s, chunk)
        if path is not None:
            write_scores(path, made)
        return made

    def _kept_scores(self, s: Supervision, chunk: Chunk) -> KeptScores | None:
        path = self._scores_at(s, chunk)
        return None if path is None else read_scores(path, len(chunk))

    def _scores_at(self, s: Supervision, chunk: Chunk) -> Path | None:
        """Where scores lie: under what was learned, or who scores where nothing is, and the chunk as it was written.

        None for one whose fits are not kept: it may learn something else the next time.
        """
        if s.supervisor.fitted and s.label not in self.known:
            return None
        content = [*self._identity(s), self.known.get(s.label), self._written(chunk)]
        return self.cache.scores_of(chunk.key) / f"{_hash_of(content)}.npy"

    def _written(self, chunk: Chunk) -> str:
        """The hash of a chunk's manifest, which has the hashes of its columns: cases that failed may be computed again."""
        if chunk.key not in self.manifests:
            manifest = (self.cache.folder(chunk.key) / MANIFEST).read_text()
            self.manifests[chunk.key] = _hash_of(manifest)
        return self.manifests[chunk.key]

    def fit_second(
        self,
        s: Supervision,
        system: ModuleTrace,
        scores: Mapping[str, np.ndarray],
        shifted: np.ndarray,
    ) -> None:
        """Fit one that reads scores, on cases that its members have scored."""
        given = {
            m: scores[m]
            for m in s.members
            if m in scores and not np.isnan(scores[m][system.ok]).all()
        }
        lost = [m for m in s.members if m not in (given if s.reads_every_other else scores)]
        if lost and not (s.reads_every_other and given):
            self.failed[s.label] = self._without(lost[0])
            return
        self.left_out[s.label] = tuple(lost)
        self._timed_fit(s, _with_scores(system, self.members_of(s), scores), shifted)

    def members_of(self, s: Supervision) -> tuple[str, ...]:
        """Those whose scores it reads after all."""
        return tuple(m for m in s.members if m not in self.left_out.get(s.label, ()))

    def notes_of(self, s: Supervision) -> list[str]:
        """What a supervisor remarked about its data, and whom it goes without."""
        gone = [
            f"it goes without {m}, which "
            + (
                f"is not applicable, because {self.failed[m]}"
                if m in self.failed
                else "scored none of the cases"
            )
            for m in self.left_out.get(s.label, ())
        ]
        return [*(str(n) for n in getattr(s.supervisor, "notes", ())), *gone]

    def score_second(
        self, system: ModuleTrace, scores: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The scores of those that read scores, a row a case."""
        found = {}
        for s in self.second:
            members = self.members_of(s)
            lost = [m for m in members if m not in scores]
            if lost:
                self.failed[s.label] = self._without(lost[0])
                continue
            made = self._scored(s, _with_scores(system, members, scores))
            if made is not None:
                self.time_of(s.label).score_seconds += made.seconds
                found[s.label] = made.scores
        return found

    def _without(self, member: str) -> str:
        return f"its member {member} is not applicable, because {self.failed.get(member, 'it has no scores')}"

    def save(self, folder: Path) -> None:
        """Keep the fitted ones under their labels, for the monitor and for people."""
        shutil.rmtree(folder, ignore_errors=True)
        for s in self._working():
            if s.supervisor.fitted:
                self._mark(s)
                s.supervisor.save(folder / folder_name(s.label))

    def _working(self) -> list[Supervision]:
        return [s for s in self.plan.supervisions if s.applicable and s.label not in self.failed]

    def _scored(self, s: Supervision, rows: ModuleTrace) -> KeptScores | None:
        started = time.perf_counter()
        try:
            scores = np.asarray(s.supervisor.score(rows), dtype=np.float64)
        except REFUSALS as error:
            self.failed[s.label] = sentence(error)
            return None
        return KeptScores(scores, time.perf_counter() - started)

    def _fit(self, s: Supervision) -> None:
        parts = []
        wanted = {n.column for n in s.supervisor.needs}
        for chunk, trace in self.chunks(Condition(role="reference")):
            rows = trace[s.module]
            columns = {name: column for name, column in rows.columns.items() if name in wanted}
            if s.reads_inputs:
                columns[Input().column] = inputs_of(self.plan, chunk, s.module, rows)
            parts.append(replace(rows, columns=columns))
        self._timed_fit(s, concatenate(parts), self.plan.data["reference"].targets)
        if s.label not in self.failed:
            self._keep(s)

    def _timed_fit(self, s: Supervision, rows: ModuleTrace, truth: Any) -> None:
        started = time.perf_counter()
        try:
            s.supervisor.fit(rows, truth)
        except REFUSALS as error:
            self.failed[s.label] = sentence(error)
            return
        self.time_of(s.label).fit_seconds = time.perf_counter() - started

    def _mark(self, s: Supervision) -> None:
        meta = getattr(s.supervisor, "meta", None)
        if isinstance(meta, dict):
            meta.update(subject=self._print_of(s), module=s.module, label=s.label)

    def _print_of(self, s: Supervision) -> str:
        """The fingerprint of what it supervises, read once: weights are long."""
        if s.module not in self.prints:
            system = self.plan.subject
            self.prints[s.module] = (
                system if s.module == SYSTEM else system.modules[s.module]
            ).fingerprint
        return self.prints[s.module]

    def _kept_at(self, s: Supervision) -> Path:
        """Where a fit lies: under all that it depends on."""
        reference = [c.key for c in self.plan.chunks if c.condition == Condition(role="reference")]
        return self.cache.root / KEPT_FITS / _hash_of([reference, *self._identity(s)])

    def _identity(self, s: Supervision) -> list[Any]:
        """Who it is, with its code, and where it stands; told once, since code is long."""
        if s.label not in self.identities:
            component = registry.get("supervisors", s.name)
            who = [
                s.name,
                s.module,
                dict(s.parameters),
                code_version(),
                source_of(component),
                libraries(),
            ]
            self.identities[s.label] = who
        return self.identities[s.label]

    def _keep(self, s: Supervision) -> None:
        if not _keeps(s):
            return
        place = self._kept_at(s)
        partial = place.with_name(f"{place.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")
        self._mark(s)
        try:
            partial.mkdir(parents=True)
            s.supervisor.save(partial)
            self.known[s.label] = _learned(partial)
            spent = {
                "fit_seconds": self.time_of(s.label).fit_seconds,
                "learned": self.known[s.label],
            }
            (partial / SPENT).write_text(json.dumps(spent))
            shutil.rmtree(place, ignore_errors=True)
            partial.rename(place)
        except FileExistsError:
            shutil.rmtree(partial, ignore_errors=True)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _fetch(self, s: Supervision) -> bool:
        """Take a kept fit; whatever is wrong with it, it is made again."""
        place = self._kept_at(s)
        if not _keeps(s) or not place.is_dir():
            return False
        self._mark(s)
        try:
            spent = json.loads((place / SPENT).read_text())
            seconds, learned = float(spent["fit_seconds"]), str(spent["learned"])
            s.supervisor.load(place)
        except (OSError, ValueError, TypeError, KeyError):
            return False
        self.known[s.label] = learned
        self.spent[s.label] = Spent(fit_seconds=seconds, fit_kept=True)
        return True


def folder_name(label: str) -> str:
    """A label as the name of a folder; layers of ONNX graphs hold slashes.

    >>> folder_name("knn(k=5)"), folder_name("knn(layer=/fc/Gemm)")
    ('knn(k=5)', 'knn(layer=%2Ffc%2FGemm)')
    """
    return quote(label, safe="()=,[]' ")


def _hash_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _learned(folder: Path) -> str:
    """The hash of what a supervisor saved."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return _hash_of(
        [[str(p.relative_to(folder)), hashlib.blake2b(p.read_bytes()).hexdigest()] for p in files]
    )


def _keeps(s: Supervision) -> bool:
    """Whether it is one that says what it kept, so that a kept fit can be told from another's."""
    return isinstance(getattr(s.supervisor, "meta", None), dict)


def sentence(error: Exception) -> str:
    """The error's message, or its name where it says nothing."""
    return str(error).strip() or type(error).__name__


def _with_scores(
    system: ModuleTrace, members: Sequence[str], scores: Mapping[str, np.ndarray]
) -> ModuleTrace:
    return replace(system, columns={Score(m).column: scores[m] for m in members})


def halves(clusters: np.ndarray, seed: int) -> np.ndarray:
    """Which rows belong to the first half of the clusters, in an order that depends on the seed and their names alone."""
    names, own = np.unique(clusters.astype(str), return_inverse=True)
    order = np.array(sorted(range(len(names)), key=lambda i: seed_key(seed, "half", str(names[i]))))
    first = np.zeros(len(names), dtype=bool)
    first[order[: (len(names) + 1) // 2]] = True
    chosen: np.ndarray = first[own]
    return chosen
