"""The supervisor `profile`: minus the log density of an input under the operational profile.

A high score says that operation has left the inputs that a reliability bound was computed for. Rows of features are taken as
they are; pictures as an autoencoder of the reference rows encodes them, in 8 numbers (Zhao et al. 2021, section 4). The profile
is a Gaussian kernel density of the operational rows, or of the reference rows if there are none; `limit` is the score that
1% of its own rows exceed, each left out of its own density.

>>> from roadworthy.data.values import VECTOR
>>> def rows(points):
...     n = np.arange(len(points))
...     return ModuleTrace(n, n, np.full(len(n), None), n, VECTOR, n[:, None], {"input": points})
>>> points = np.random.default_rng(0).normal(size=(300, 2))
>>> profile = ProfileSupervisor()
>>> profile.fit(rows(points), None)
>>> scores = profile.score(rows(np.array([[0.0, 0.0], [8.0, 8.0]])))
>>> bool(scores[0] < profile.limit < scores[1])
True
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.registry import register
from roadworthy.statistics.profile import Profile
from roadworthy.subject.needs import Input, Request
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.keeping import LearnedSupervisor
from roadworthy.supervisors.supervisor import ROLE

LATENT = 8
"""Numbers that describe a picture, as for MNIST in Zhao et al. 2021."""
MOST = 20
"""Features of a row that a kernel density can make sense of."""
OUTSIDE = 1e6
"""The score of an input outside the domain: a finite one, since a monitor takes infinity for no score."""
MOST_ROWS = 5_000
"""Rows that carry a kernel; more make every score longer and say little more."""


@register("supervisors", "profile")
class ProfileSupervisor(LearnedSupervisor):
    """Minus the log density of an input under the profile of operational data."""

    name = "profile"
    needs: tuple[Request, ...] = (Input(),)
    learns_from = ("reference", "operational")

    def __init__(
        self,
        *,
        bandwidth: Literal["likelihood", "silverman", "scott"] | float = "likelihood",
        domain: list[tuple[float, float]] | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self.bandwidth, self.seed, self.device = bandwidth, seed, device
        self.domain: Any = domain and [list(e) for e in domain]  # lists, as a saved one has them
        self._profile: Profile | None = None
        self._coder: Any = None

    def applies_to(self, kind: Kind) -> str | None:
        """Any output: it reads the input alone."""
        return None

    @property
    def encodes(self) -> bool:
        """Whether inputs are pictures, which an autoencoder encodes."""
        return "canvas" in self._learned

    @property
    def limit(self) -> float:
        """The score above which an input lies outside the profile."""
        self._refuse_unfitted()
        return float(self._learned["limit"])

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Pictures: an autoencoder of the first role's rows; then the density of the last role's."""
        ok = np.flatnonzero(trace.ok)
        self._refuse_none(ok, trace)
        inputs = trace.columns[Input().column]
        role = np.asarray(trace.columns.get(ROLE, np.zeros(len(trace))))
        first, last = (ok[role[ok] == role[ok[at]]] for at in (0, -1))
        self._learned, self._profile, self._coder = {}, None, None
        if np.ndim(inputs) != 2:
            from roadworthy.generative.vae import VAE

            some = [inputs[row] for row in first]
            coder = VAE.fit(some, latent=LATENT, seed=self.seed, device=self.device)
            self._learned = coder.arrays()
        elif inputs.shape[1] > MOST:
            raise ValueError(
                f"profile: rows have {inputs.shape[1]} features; a density needs {MOST} or fewer"
            )
        rng = np.random.default_rng(self.seed)
        drawn = np.sort(rng.permutation(last)[:MOST_ROWS])
        self.notes = [f"a density of {len(drawn)} of {len(last)} rows"] * (len(drawn) < len(last))
        points = self.encode([inputs[row] for row in drawn])
        domain = None if self.encodes else self.domain
        profile = Profile.fit(points, bandwidth=self.bandwidth, domain=domain, seed=self.seed)
        self._learned |= {f"profile.{name}": array for name, array in profile.arrays().items()}
        self._learned["limit"] = np.array(profile.threshold())

    def encode(self, inputs: Any) -> np.ndarray:
        """Rows between which the density is taken."""
        if not self.encodes:
            return np.asarray(inputs, dtype=np.float64)
        from roadworthy.generative.vae import VAE

        if self._coder is None:
            self._coder = VAE.from_arrays(self._learned, device=self.device)
        encoded: np.ndarray = self._coder.encode(inputs)
        return encoded

    @property
    def density(self) -> Profile:
        """The profile itself, of inputs as `encode` gives them."""
        self._refuse_unfitted()
        if self._profile is None:
            start = len("profile.")
            kept = {n[start:]: a for n, a in self._learned.items() if n.startswith("profile.")}
            self._profile = Profile.from_arrays(kept)
        return self._profile

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer or an input that is not finite; `OUTSIDE` outside the domain."""
        result = np.full(len(trace), np.nan)
        rows = np.flatnonzero(trace.ok)
        if len(rows):
            points = self.encode([trace.columns[Input().column][row] for row in rows])
            sound = np.isfinite(points).all(axis=1)
            result[rows[sound]] = np.minimum(-self.density.log_density(points[sound]), OUTSIDE)
        return result
