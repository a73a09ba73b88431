"""Which model of a server of models is the subject: its answers are counted, those of others are of another subject.

It is the one that somebody names, or else the first whose answer has scores; a restart does not change that. A version that is
named, by the user or in the path of that first request, is the only one that is counted. Where none is, the server chooses: that
it answers as another version is remarked, and counted. An answer that is not counted may be one that is missing (`lost`).

>>> said: list[str] = []
>>> watched = WatchedModel(remark=said.append)
>>> lesion, other, canary = (asked_of(f"/v2/models/{name}/infer") for name in ("lesion", "other", "lesion/versions/2"))
>>> [watched.counts(model, version) for model, version in ((lesion, "1"), (other, "1"), (canary, "2"), (lesion, "1"))]
[True, False, False, True]
>>> str(watched.model), len(said)
('lesion', 3)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from roadworthy.web import ServiceError
from roadworthy.web.remarks import Remarks

MOST_VERSIONS = 20
"""Versions of one model that are remembered."""
VERSIONS = "/versions/"
"""What stands between a name and a version in a path."""
ANOTHER = "--model names another, as in --model NAME or --model NAME/VERSION"


class Model(NamedTuple):
    """A model of a server, in one version or in the one that the server chooses."""

    name: str
    version: str | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}/{self.version}"


def asked_of(path: str) -> Model:
    """The model that a request for inference is for.

    >>> str(asked_of("/v2/models/lesion/versions/2/infer")), str(asked_of("/v2/models/lesion/infer"))
    ('lesion/2', 'lesion')
    """
    name, _, version = path.removeprefix("/v2/models/").removesuffix("/infer").partition(VERSIONS)
    return Model(name, version or None)


class WatchedModel:
    """The model whose answers are counted, once it is known; one thread asks, and one keeps."""

    def __init__(
        self, named: str | None = None, *, remark: Callable[[str], None] | None = None
    ) -> None:
        self._named: Model | None = None
        self._or: Model | None = None
        """What the user named, and what that may mean instead until an answer has counted."""
        if named is not None:
            self._named, self._or = _named(named)
        self._remark = remark or Remarks(numbers_alike=False)
        self.model = (
            self._named if self._named is not None and self._named.version is not None else None
        )
        self._by_user = self.model is not None
        """Whether a user named the version, in this run or before."""
        self._path_alone = named is not None and VERSIONS in named
        """Whether requests count alone that have the version in their path: who leaves it to the server is another subject's."""
        self._versions: list[str] = []
        """As which the server answered requests that name none."""
        self._text = self._kept = ""
        """What to remember, and what is."""
        self.changed: Callable[[], object] = lambda: None
        """Hears that there is something to keep."""

    def recall(self, kept: str | None) -> None:
        """Go on with what was remembered, unless somebody has named another one since."""
        found = {} if kept is None else json.loads(kept)
        before = Model(found["name"], found["version"]) if found else None
        if before is not None and self._or in (before, Model(before.name)):
            self._read_otherwise()
        by_user: bool = found.get("by_user", False)
        # Who named a version and now names none takes whichever comes.
        widened = before is not None and before.version is not None and by_user
        if before is not None and self._named in (
            None,
            before,
            *([] if widened else [Model(before.name)]),
        ):
            self.model, self._versions = before, found["versions"]
            self._by_user = before == self._named or by_user
            self._path_alone = (
                found.get("path_alone", False) if self._named is None else self._path_alone
            )
            counted = found.get("counted", not by_user)
            self._or = (
                None
                if counted or before.version is None or self._path_alone
                else Model(str(before))
            )
            if before == self._named:
                self._remember(before, self._versions)  # by whom it was named may be new
            if before != self._named:
                self._remark(
                    f"answers of model {str(before)!r} are counted, as before the restart; {ANOTHER}"
                )
            return
        if before is not None:
            self._remark(
                f"answers of model {str(self._named)!r} are counted from now on, and those of model {str(before)!r} were before: "
                "both stand in these counts, as one subject; a new --state counts this one alone"
            )
        if self.model is not None:
            self._remember(self.model, [])

    def keep(self, write: Callable[[str], object]) -> None:
        """Have written what is to be remembered, where it is not yet; where that fails it is still to be."""
        if (text := self._text) != self._kept:
            write(text)
            self._kept = text

    def may_be(self, asked: Model) -> bool:
        """Whether the answer to a request may be one that counts, as long as it was not read."""
        if self._or is not None and asked.name == self._or.name:
            return True
        known = self.model or self._named
        if self._path_alone and asked.version is None:
            return self._leave_out(asked)
        if known is None or (
            asked.name == known.name and (self.model is None or asked.version is None)
        ):
            return True
        return (asked.name == known.name and asked.version in self._counted()) or self._leave_out(
            asked
        )

    def counts(self, asked: Model, version: str | None) -> bool:
        """Whether an answer with scores counts, which says that it is of this version; the first says which do."""
        if not self.may_be(asked):
            return False
        if self._or is not None and asked.name == self._or.name:
            self._read_otherwise()
        watched = self.model or self._begin(asked)
        if asked.version is None and watched.version is None:
            self._note(watched, version)
            return True
        own = asked.version or version
        if own not in self._counted():
            return self._leave_out(Model(asked.name, own))
        if self._or is not None:
            self._or = None
            self._remember(watched, self._versions)
        return True

    def lost(self, asked: Model, version: str | None) -> str:
        """Why an answer that does not count is missing all the same; empty where it is another subject's.

        Clients that move to another version take the subject with them, unless a user named the one to count: then those alone do
        that leave it to the server. Where the user wants none of these, nobody does.
        """
        by_user = self._named is not None and self._named.version is not None
        if (
            self.model is None
            or asked.name != self.model.name
            or self._path_alone
            or (by_user and asked.version is not None)
        ):
            return ""
        none = self.model.version is None and not self._versions
        counted = (
            f"model {str(self.model)!r}{self._chosen}{', whose answers say none' if none else ''}"
        )
        if (asked.version or version) is None:
            return (
                f"it does not say its version, and only those of {counted} are counted; name it in the path, or count all with "
                f"--model {asked.name} and a new --state"
            )
        alone = (
            f", and --model {asked.name}{VERSIONS}{self.model.version} those whose path has it"
            if by_user
            else ""
        )
        return f"it is of another version than {counted}; --model names the one to count{alone}"

    def _read_otherwise(self) -> None:
        """The user meant a name with a slash in it."""
        self._named, self._or, self.model, self._by_user = self._or, None, None, False

    def _counted(self) -> list[str]:
        """The versions that count."""
        chosen = None if self.model is None else self.model.version
        return self._versions if chosen is None else [chosen]

    @property
    def _chosen(self) -> str:
        """As which versions the server answered, where it could choose."""
        return f", version {' or '.join(self._versions)}" if self._versions else ""

    def _begin(self, model: Model) -> Model:
        self._remember(model, [])
        if model != self._named:
            self._remark(
                f"answers of model {str(model)!r} are counted from now on, the first that has scores; those of others are passed "
                f"on and not counted; {ANOTHER}"
            )
        return model

    def _note(self, watched: Model, version: str | None) -> None:
        """The server has answered as this version, where it could choose."""
        if version is None or version in self._versions:
            return
        if self._versions:
            self._remark(
                f"model {str(watched)!r} answers as version {version}, and did as {self._versions[-1]}: both are counted, as one "
                f"subject; --model {watched}/{version} counts this one alone"
            )
        self._remember(watched, [*self._versions, version][-MOST_VERSIONS:])

    def _leave_out(self, other: Model) -> bool:
        known = self.model or self._named
        lacks = known is not None and other == (known.name, None)
        says = (
            " whose path names no version" if self._path_alone else " that does not say its version"
        )
        alike = str(other) == str(known)  # a name with a slash in it, and a version of another
        which = says if lacks else f", {_apart(other)}," if alike else ""
        those = f" ({_apart(known)})" if alike and known is not None else self._chosen
        self._remark(
            f"an answer of model {str(other)!r}{which} was passed on and not counted: those of model {str(known)!r}{those} are"
        )
        return False

    def _remember(self, model: Model, versions: list[str]) -> None:
        self.model, self._versions = model, versions
        known = {
            "versions": versions,
            "by_user": self._by_user,
            "counted": self._or is None,
            "path_alone": self._path_alone,
        }
        self._text = json.dumps({**model._asdict(), **known})
        self.changed()


def _apart(model: Model) -> str:
    return (
        "which is its name"
        if model.version is None
        else f"version {model.version} of {model.name!r}"
    )


def _named(text: str) -> tuple[Model, Model | None]:
    """A model as an option names it: NAME/VERSION, or else a name that has a slash in it, which requests tell apart.

    With NAME/versions/VERSION no request needs to.

    >>> _named("lesion")
    (Model(name='lesion', version=None), None)
    >>> _named("team/lesion")
    (Model(name='team', version='lesion'), Model(name='team/lesion', version=None))
    >>> _named("team/lesion/versions/2")
    (Model(name='team/lesion', version='2'), None)
    """
    name, by_path, version = text.partition(VERSIONS)
    if not all(text.split("/")) or "/" in version:
        raise ServiceError(
            f"--model {text!r} is no model; write NAME or NAME/VERSION, as in --model lesion/2, or NAME/versions/VERSION"
        )
    if by_path:
        return Model(name, version), None
    name, sign, version = text.rpartition("/")
    return (Model(name, version), Model(text)) if sign else (Model(text), None)
