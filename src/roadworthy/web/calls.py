"""Which posts of events are counted in one call of the monitor: those of which it is known beforehand what becomes of them.

Labels of events that came with them are counted after these.

>>> import numpy as np
>>> two = [Batch([name], np.array([1.0]), np.array([cell], dtype=np.int16)) for name, cell in (("a", 0), ("b", -1))]
>>> Call(list(enumerate(two)), joined(two)).shared(Taken(1, 0, 0, 1))[1]
Taken(accepted=0, repeated=0, late=0, unscored=1, ahead=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roadworthy.monitor import Monitor, Taken
from roadworthy.web.batch import Batch, Labelled, LabelPost, Single, all_new, joined, placed

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration

Post = Batch | Single | LabelPost
_COUNTED, _UNSCORED = Taken(1, 0, 0, 0), Taken(0, 0, 0, 1)


@dataclass(frozen=True)
class Call:
    """Posts of events, by their place in the group, that are counted in one call of the monitor."""

    posts: list[tuple[int, Batch | Single]]
    batch: Batch

    @classmethod
    def of(cls, posts: list[tuple[int, Batch | Single]], calibration: Calibration) -> Call:
        """Batches first, then single events."""
        batches = [(i, post) for i, post in posts if type(post) is Batch]
        singles = [(i, post) for i, post in posts if type(post) is Single]
        parts = [post for _, post in batches]
        if singles:
            parts.append(placed([post for _, post in singles], calibration))
        return cls([*batches, *singles], joined(parts))

    def shared(self, taken: Taken) -> dict[int, Taken | Labelled]:
        """What became of each post: of several, all events were counted."""
        if len(self.posts) == 1:
            return {self.posts[0][0]: taken}
        scored = (self.batch.cells >= 0).tolist()
        if len(scored) == len(self.posts):
            return {
                i: _COUNTED if one else _UNSCORED
                for (i, _), one in zip(self.posts, scored, strict=True)
            }
        found: dict[int, Taken | Labelled] = {}
        at = 0
        for i, post in self.posts:
            n = len(post)
            if n == 1:
                found[i] = _COUNTED if scored[at] else _UNSCORED
            else:
                with_score = sum(scored[at : at + n])
                found[i] = Taken(with_score, 0, 0, n - with_score)
            at += n
        return found


def calls(posts: list[tuple[int, Batch | Single]], monitor: Monitor, *, now: float) -> list[Call]:
    """The calls of the monitor that count posts of events.

    Posts all of whose events are new are counted in one: what became of each is then known. Others need a call each to say.
    """
    calibration = monitor.bundle.calibration
    if len(posts) < 2:
        return [Call.of(posts, calibration)] if posts else []
    whole = Call.of(posts, calibration)
    if all_new(monitor, whole.batch, now=now):
        return [whole]
    each = [Call.of([post], calibration) for post in posts]
    new = [i for i, call in enumerate(each) if all_new(monitor, call.batch, now=now)]
    together = Call.of([posts[i] for i in new], calibration) if len(new) > 1 else None
    if together is None or not all_new(monitor, together.batch, now=now):
        return each
    return [together, *(call for i, call in enumerate(each) if i not in set(new))]


def labels_of_group(posts: Sequence[Post], monitor: Monitor) -> set[int]:
    """Places of posts with labels of events that came with them, and that are therefore not counted yet."""
    labels = [(i, post) for i, post in enumerate(posts) if not isinstance(post, Batch | Single)]
    if not labels or len(labels) == len(posts):
        return set()
    known = monitor.state.recent.known
    new = {
        i: {one.id for one in post if one.time is None and one.id not in known}
        for i, post in labels
    }
    if not any(new.values()):
        return set()
    here = {name for post in posts if isinstance(post, Batch | Single) for name in _ids(post)}
    return {i for i, names in new.items() if not names.isdisjoint(here)}


def _ids(post: Batch | Single) -> Sequence[str]:
    return post.ids if isinstance(post, Batch) else (post.id,)
