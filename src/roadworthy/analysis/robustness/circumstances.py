"""Target circumstances and their significance (Wozniak et al. 2024, tasks 1 and 2).

Significance is exposure x likelihood x severity (M6), each from 1 to 5 or in the words of table 5.
Circumstances are ranked by falling significance, then by id. Probability, exposure and likelihood
are independent inputs: a contradiction is a note and refuses nothing. Points of view (user,
developer) are joined by links; no probability is derived from a link.

>>> shutter = TargetCircumstance("1", "low shutter speed", None, "rare", "unlikely", 5)
>>> shutter.significance  # box 2
10
>>> check_exclusive({"day": 0.7, "night": 0.2})  # the rest is "none of them"
0.1
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from roadworthy.cases.circumstance import SCALES

NONE_OF_THEM = "none of them"
"""What the rest of an exclusive group is called."""
_EXHAUSTIVE = 1e-6


@dataclass(frozen=True)
class TargetCircumstance:
    """A row of the specification: how often it is met, and how bad a failure would be."""

    id: str
    name: str = ""
    probability: float | None = None
    exposure: int | str | None = None
    likelihood: int | str | None = None
    severity: int | str | None = None
    ratings: Mapping[str, int | None] = field(init=False, repr=False, compare=False)
    """Exposure, likelihood and severity as numbers; None if not stated."""

    def __post_init__(self) -> None:
        if self.probability is not None and not 0 <= self.probability <= 1:
            raise ValueError(
                f"circumstance {self.id!r}: probability {self.probability} is not between 0 and 1"
            )
        given = {factor: getattr(self, factor) for factor in SCALES}
        found = {f: None if v is None else scale_value(f, v) for f, v in given.items()}
        object.__setattr__(self, "ratings", found)  # the class is frozen

    @property
    def significance(self) -> int | None:
        """Exposure x likelihood x severity (M6); None until all three are stated."""
        stated = [rating for rating in self.ratings.values() if rating is not None]
        return math.prod(stated) if len(stated) == len(SCALES) else None


def scale_value(factor: str, given: int | str) -> int:
    """1 to 5, from the number or the word of table 5.

    >>> scale_value("severity", "Critical"), scale_value("exposure", 5)
    (4, 5)
    """
    words = SCALES[factor]
    if isinstance(given, str) and given.strip().lower() in words:
        return words.index(given.strip().lower()) + 1
    if not isinstance(given, str) and given in (1, 2, 3, 4, 5):
        return int(given)
    known = ", ".join(f"{i} {word}" for i, word in enumerate(words, start=1))
    raise ValueError(f"{factor} is {given!r}; expected one of {known}")


def ranked(targets: Iterable[TargetCircumstance]) -> list[TargetCircumstance]:
    """By falling significance, then by id; those without a significance last."""
    return sorted(targets, key=lambda t: (-(t.significance or 0), _id_order(t.id)))


def _id_order(name: str) -> tuple[bool, int, str]:
    """Sorts ids: numbers by value and before words, so that 2 comes before 10."""
    return (False, int(name), "") if name.isdecimal() else (True, 0, name)


def ratings_by_factor(targets: Sequence[TargetCircumstance]) -> dict[str, tuple[int, ...]]:
    """By factor, how many circumstances are rated 1, 2, 3, 4 and 5."""
    return {
        factor: tuple(sum(t.ratings[factor] == value for t in targets) for value in range(1, 6))
        for factor in SCALES
    }


def specification_notes(targets: Iterable[TargetCircumstance]) -> list[str]:
    """Ratings that contradict the probability, one sentence each."""
    return [
        f"circumstance {t.id}: probability {t.probability:g} is above 0.5, likelihood is "
        f"{SCALES['likelihood'][0]}; check one of the two"
        for t in targets
        if t.probability is not None and t.probability > 0.5 and t.ratings["likelihood"] == 1
    ]


def name_notes(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Names by id that differ between two tables. The id joins the tables, not the name."""
    return [
        f"circumstance {i} is named {one[i]!r} in one table and {other[i]!r} in the other"
        for i in one
        if i in other and one[i].strip() != other[i].strip()
    ]


def check_exclusive(probabilities: Mapping[str, float], *, exhaustive: bool = False) -> float:
    """The probability that none of a declared exclusive group is met; a sum above 1 is refused.

    Exclusive groups are declared by the user; a sum of 1 does not make a group exclusive (box 1).
    """
    names, total = ", ".join(probabilities), sum(probabilities.values())
    if total > 1 + _EXHAUSTIVE:
        raise ValueError(
            f"the probabilities of {names} sum to {total:g}; of exclusive circumstances at most 1"
        )
    if exhaustive and total < 1 - _EXHAUSTIVE:
        raise ValueError(
            f"the probabilities of {names} sum to {total:g}; an exhaustive group sums to 1: "
            f"add a circumstance, or remove exhaustive and the rest is {NONE_OF_THEM!r}"
        )
    return round(max(0.0, 1 - total), 12)


def link_notes(
    links: Mapping[str, Sequence[str]], ids: Sequence[str], others: Sequence[str]
) -> list[str]:
    """Check the links of one point of view to another; those without a link are noted."""
    unknown = [i for i in links if i not in ids]
    unknown += [i for linked in links.values() for i in linked if i not in others]
    if unknown:
        raise ValueError(
            f"links name {', '.join(unknown)}, which is no circumstance; known: "
            f"{', '.join([*ids, *others])}"
        )
    linked = {i for found in links.values() for i in found}
    lone = [i for i in ids if not links.get(i)] + [i for i in others if i not in linked]
    return [f"circumstance {i} has no link to the other point of view" for i in lone]


class Hazard(NamedTuple):
    """An entry of the checklist: what happens (user's view), and the transform that shows it."""

    group: str
    what: str
    transform: str = ""
    """The developer's view; empty if no transform fits: collect data, or filter by metadata."""


CHECKLIST: tuple[Hazard, ...] = (
    Hazard("light", "the scene is dark: night, a tunnel, lamps that failed", "low_light"),
    Hazard("light", "the sun or a lamp shines into the lens", "sun_glare"),
    Hazard("light", "the picture is overexposed", "brightness"),
    Hazard("light", "lamps flicker, or their colour differs from that in training", "saturate"),
    Hazard("weather", "fog, smoke or steam lies between camera and object", "fog"),
    Hazard("weather", "rain falls", "rain"),
    Hazard("weather", "snow falls", "snow"),
    Hazard("weather", "ice covers the lens or its window", "frost"),
    Hazard("optics", "the lens is out of focus", "defocus_blur"),
    Hazard("optics", "a poor lens separates the colours", "chromatic_aberration"),
    Hazard("optics", "dust or dirt sticks to the lens", "lens_dirt"),
    Hazard("optics", "drops of water or mud hit the lens", "spatter"),
    Hazard("sensor", "the sensor amplifies too much and adds noise", "gaussian_noise"),
    Hazard("sensor", "a short exposure or a low dose leaves few photons", "shot_noise"),
    Hazard("sensor", "pixels are dead or stuck at full value", "salt_and_pepper"),
    Hazard("sensor", "rows are read out at the wrong place", "shifted_lines"),
    Hazard("sensor", "another make of device has another contrast", "density_contrast"),
    Hazard("image processing", "contrast is lowered by wrong settings", "contrast"),
    Hazard("image processing", "resolution is lowered before the detector", "lower_resolution"),
    Hazard("image processing", "noise removal smooths details away", "gaussian_blur"),
    Hazard("motion", "camera or object moves during the exposure", "motion_blur"),
    Hazard("motion", "the camera moves forward fast, or zooms", "zoom_blur"),
    Hazard("motion", "the camera is mounted askew, or the patient lies askew", "rotation"),
    Hazard("scene", "parts of the object are outside the picture", "truncated_section"),
    Hazard("scene", "heated air or uneven glass distorts the view", "elastic_transform"),
    Hazard("scene", "a mirror, a poster or a screen shows an object that is not there"),
    Hazard("objects", "something stands in front of the object", "occlusion"),
    Hazard("objects", "the object is of a make, age or pose that training did not show"),
    Hazard("transmission", "the picture is compressed strongly", "jpeg_compression"),
    Hazard("transmission", "blocks of the picture are sent coarsely", "pixelate"),
    Hazard("misuse", "the device is used for a scene or patient it is not made for"),
)
"""Hazards of computer vision to start from. It is not complete: add those of the domain."""
