"""Whether most answers of a server of models were lately not counted: the figures are then of the others, however calm they look.

A supervisor that fails on just the inputs that matter takes the scores from just those answers. A server may have models that give
no scores at all: theirs say nothing, once another one gives some.

>>> answers = Answers()
>>> for _ in range(30): answers.add("/v2/models/lesion", "")
>>> for _ in range(90): answers.add("/v2/models/other", "it has no scores")
>>> answers.trouble
''
>>> for _ in range(31): answers.add("/v2/models/lesion", "it is no JSON")
>>> answers.trouble.partition(" of the server")[0]
'31 of the last 61 answers'
"""

from __future__ import annotations

from collections import deque

from roadworthy.web.lately import LEAST, RECENT


class Answers:
    """What became of the last answers."""

    def __init__(self) -> None:
        self._skipped: deque[bool] = deque(maxlen=RECENT)
        self._scoring: set[str] = set()
        """Models of which answers were counted."""
        self._why = ""

    def add(self, model: str, why: str) -> None:
        """An answer of a model, and why it was not counted; empty where it was."""
        if not why:
            self._scoring.add(model)
        elif self._scoring and model not in self._scoring:
            return
        else:
            self._why = why
        self._skipped.append(bool(why))

    @property
    def known(self) -> bool:
        """Whether enough has come to say what most of them are."""
        return len(self._skipped) >= LEAST

    @property
    def trouble(self) -> str:
        """Why nobody can tell, as the end of a sentence; empty where one can."""
        skipped, judged = sum(self._skipped), len(self._skipped)
        if not self.known or skipped <= 0.5 * judged:
            return ""
        return (
            f"{skipped:,} of the last {judged:,} answers of the server of models were not counted and are not in these figures; "
            f"of the last such: {self._why}"
        )


def model_of(path: str) -> str:
    """The model that a request for inference is for, whatever its version.

    >>> model_of("/v2/models/lesion/versions/2/infer"), model_of("/v2/models/lesion/infer")
    ('/v2/models/lesion', '/v2/models/lesion')
    """
    return path.removesuffix("/infer").partition("/versions/")[0]
