"""Text: in which of twenty languages is a message? Trained on the messages of Django, whose translators are people.

    .venv-peers/risk/bin/python studies/runtime-risk/elsewhere/languages.py

Written down before anyone had seen a result, and not changed since. The subject is a logistic regression on hashed pieces
of one to three characters. Messages have twelve characters or more, without placeholders and markup; each stands in one row. Kinds:

- framework: messages of another package (Django REST framework), of other translators on another subject;
- plain: accents and other marks are lost;
- typed: every tenth letter is another;
- clipped: the first nine characters are all there is;
- shouted: capitals.

Detectors: the softmax, its entropy, the energy, the tenth neighbour among the training messages (in 50 principal directions), and
the share of a message's trigrams that no training message has.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from detectors import Answers, Reference, columns
from packages import members
from scores import CLEAN, Fold, handed_out, write

# fmt: off
LANGUAGES = (
    "ca", "cs", "da", "de", "es", "fi", "fr", "gl", "hr", "hu",
    "it", "nb", "nl", "pl", "pt", "ro", "sk", "sl", "sv", "tr",
)
# fmt: on
SEED, TRAIN_ROWS, CLEAN_ROWS, KIND_ROWS = 31, 2400, 1300, 1000
SHORTEST, CLIPPED, MISTYPED = 12, 9, 0.1
PIECES, DIRECTIONS = 4096, 50
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NO_LANGUAGE = re.compile(r"%\(\w+\)\w|%\w|\{\w*\}|<[^>]+>|&\w+;")
"""Placeholders and markup."""
DETECTORS = ("max_softmax", "entropy", "energy", "knn")


class Messages(NamedTuple):
    """Messages, and the place of each one's language in LANGUAGES."""

    texts: list[str]
    truth: np.ndarray

    def at(self, rows: np.ndarray) -> Messages:
        """Some of them."""
        return Messages([self.texts[i] for i in rows], self.truth[rows])


def translated(catalogue: bytes) -> Iterator[str]:
    """The translations in a compiled catalogue of gettext (little endian), every plural form by itself."""
    count, originals, translations = struct.unpack("<3I", catalogue[8:20])
    for i in range(count):
        length, _ = struct.unpack_from("<2I", catalogue, originals + 8 * i)
        size, start = struct.unpack_from("<2I", catalogue, translations + 8 * i)
        if length:  # the entry without an original is the file's own heading
            yield from catalogue[start : start + size].decode("utf-8").split("\0")


def messages(package: str) -> Messages:
    """The messages of a package in the languages known, in order."""
    found: set[tuple[int, str]] = set()
    for name, content in members(package, "*/locale/*/LC_MESSAGES/*.mo").items():
        language = name.split("/locale/")[1].split("/")[0]
        if language in LANGUAGES:
            cleaned = (" ".join(NO_LANGUAGE.sub(" ", text).split()) for text in translated(content))
            found |= {
                (LANGUAGES.index(language), text) for text in cleaned if len(text) >= SHORTEST
            }
    ordered = sorted(found)
    return Messages([text for _, text in ordered], np.array([place for place, _ in ordered]))


def plain(text: str, _: np.random.Generator) -> str:
    """Without marks on letters."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def typed(text: str, rng: np.random.Generator) -> str:
    """Every tenth letter is another."""
    struck, others = rng.random(len(text)) < MISTYPED, rng.choice(list(LETTERS), len(text))
    return "".join(
        str(o) if s and c.isalpha() else c for c, s, o in zip(text, struck, others, strict=True)
    )


def clipped(text: str, _: np.random.Generator) -> str:
    """The first nine characters."""
    return text[:CLIPPED]


def shouted(text: str, _: np.random.Generator) -> str:
    """Capitals."""
    return text.upper()


KINDS: dict[str, Callable[[str, np.random.Generator], str]] = {
    f.__name__: f for f in (plain, typed, clipped, shouted)
}


def trigrams(text: str) -> set[str]:
    """Three characters in a row."""
    return {text[i : i + 3] for i in range(max(1, len(text) - 2))}


class Reader:
    """The subject with its detectors."""

    def __init__(self, train: Messages) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.linear_model import LogisticRegression

        self._pieces = HashingVectorizer(
            analyzer="char_wb", ngram_range=(1, 3), n_features=PIECES, lowercase=False
        )
        counted = self._pieces.transform(train.texts)
        self._directions = TruncatedSVD(DIRECTIONS, random_state=SEED).fit(counted)
        self._regression = LogisticRegression(C=10.0, max_iter=1000).fit(counted, train.truth)
        self._seen = Reference(self._directions.transform(counted), train.truth)
        self._known = set().union(*map(trigrams, train.texts))

    def fold(self, name: str, given: Messages) -> Fold:
        """What it makes of the rows of a fold."""
        counted = self._pieces.transform(given.texts)
        answers = Answers(
            self._directions.transform(counted), self._regression.decision_function(counted)
        )
        said = columns(DETECTORS, answers, self._seen)
        said["unheard"] = np.array(
            [len(t - self._known) / len(t) for t in map(trigrams, given.texts)]
        )
        return Fold(name, answers.told == given.truth, said)


def main() -> None:
    """The command."""
    rng = np.random.default_rng(SEED)
    home, elsewhere = messages("Django"), messages("djangorestframework")
    sizes = {
        "train": TRAIN_ROWS,
        **dict.fromkeys(CLEAN, CLEAN_ROWS),
        **dict.fromkeys(KINDS, KIND_ROWS),
    }
    rows = handed_out(np.arange(len(home.texts)), sizes, rng)
    reader = Reader(home.at(rows["train"]))
    folds = [reader.fold(name, home.at(rows[name])) for name in CLEAN]
    other = handed_out(np.arange(len(elsewhere.texts)), {"framework": KIND_ROWS}, rng)["framework"]
    folds.append(reader.fold("framework", elsewhere.at(other)))
    for name, shift in KINDS.items():
        clean = home.at(rows[name])
        folds.append(
            reader.fold(name, Messages([shift(text, rng) for text in clean.texts], clean.truth))
        )
    write("languages", folds)


if __name__ == "__main__":
    main()
