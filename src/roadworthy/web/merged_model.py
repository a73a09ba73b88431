"""Of which model of a server replicas have counted the answers: one and the same, or their counts do not add up.

A version that the user or a path named is a subject of its own. Where the server chose, what it answered as is one subject, as it
is to a monitor (`roadworthy.web.watched_model`). A state that remembers no model was counted without a server of models.

>>> lesion = RememberedModel("lesion", None, ("1",))
>>> model = one_model([("a.sqlite", lesion), ("b.sqlite", None), ("c.sqlite", RememberedModel("lesion", None, ("2",)))])
>>> str(model), model.versions
('lesion', ('1', '2'))
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from email.message import Message
from typing import NamedTuple
from urllib.parse import quote, unquote

from roadworthy.store import StoreError
from roadworthy.web.watched_model import MOST_VERSIONS, Model


class RememberedModel(NamedTuple):
    """What a state remembers of the model whose answers were counted into it."""

    name: str
    version: str | None
    versions: tuple[str, ...] = ()
    """As which the server answered, where it could choose."""
    by_user: bool = False
    """Whether the user named the version."""
    counted: bool = True
    """Whether an answer has counted, so that it is known what of a name with a slash is the version."""
    path_alone: bool = False
    """Whether requests count alone that have the version in their path."""

    @classmethod
    def of(cls, kept: str | None) -> RememberedModel | None:
        """As a state keeps it."""
        if kept is None or kept == "{}":
            return None
        try:
            found = json.loads(kept)
            by_user = found.get("by_user", False)
            versions, counted = tuple(found["versions"]), found.get("counted", not by_user)
            return cls(
                found["name"],
                found["version"],
                versions,
                by_user,
                counted,
                found.get("path_alone", False),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(
                f"of which model a state was counted cannot be read ({kept[:80]!r}: {error!r}); is it of another version of this "
                "program?"
            ) from None

    def __str__(self) -> str:
        return str(Model(self.name, self.version))

    def kept(self) -> str:
        """As a state keeps it."""
        return json.dumps(self._asdict())

    @property
    def said(self) -> str:
        """As people read it."""
        answered = f", version {' or '.join(self.versions)}" if self.versions else ""
        return f"model {str(self)!r}{answered}"

    @property
    def served(self) -> tuple[str, ...]:
        """The versions that were counted, as far as they are known."""
        return self.versions if self.version is None else (self.version,)


def one_model(remembered: Iterable[tuple[str, RememberedModel | None]]) -> RememberedModel | None:
    """The model of all states, each behind what it is called; None where none of them remembers one."""
    given = [(source, model) for source, model in remembered if model is not None]
    names = {model.name for _, model in given if model.version is None}
    known = [(source, _read_again(model, names)) for source, model in given]
    if not known:
        return None
    # What names a version goes first: the others are of the same subject where they have counted that one alone.
    first, model = min(known, key=lambda item: item[1].version is None)
    for source, other in known:
        same = other.name == model.name and (model.version is None or other.served == model.served)
        if not same:
            raise StoreError(
                f"{first} was counted of {model.said}, and {source} of {other.said}: counts of two subjects do not add up; merge "
                "replicas of one model. A version that was named (--model NAME/VERSION, or in a path) is a subject of its own"
            )
    if model.version is not None:
        named = [one for _, one in known if one.version is not None]
        by_user, counted = all(one.by_user for one in named), any(one.counted for _, one in known)
        return model._replace(
            by_user=by_user, counted=counted, path_alone=all(one.path_alone for _, one in known)
        )
    versions = dict.fromkeys(version for _, one in known for version in one.versions)
    return model._replace(versions=tuple(versions)[-MOST_VERSIONS:])


def state_type(kept: str | None) -> bytes:
    """The content type of a state that is sent; it says of which model it was counted.

    >>> state_type('{"name": "lesion"}'), model_in(state_type('{"name": "lesion"}').decode())
    (b'application/octet-stream; model=%7B%22name%22%3A%20%22lesion%22%7D', '{"name": "lesion"}')
    """
    return b"application/octet-stream" + (
        b"" if kept is None else f"; model={quote(kept, safe='')}".encode()
    )


def model_in(content_type: str) -> str | None:
    """What a content type says of it; None where nothing."""
    header = Message()
    header["Content-Type"] = content_type
    kept = header.get_param("model")
    return unquote(str(kept)) if kept else None


def _read_again(model: RememberedModel, names: set[str]) -> RememberedModel:
    """A name with a slash in it, which is taken for a version until a request comes."""
    return RememberedModel(str(model), None) if model.by_user and str(model) in names else model
