"""Whether most answers of a server of models were lately not counted: the figures are then of the others, however calm they look.

A supervisor that fails on just the inputs that matter takes the scores from just those answers. Those of another model say nothing
here, once it is known which one is watched; those of another version do, where no user named the one to count, or clients leave
it to the server.

>>> answers = Answers()
>>> for _ in range(30): answers.add("")
>>> answers.trouble
''
>>> for _ in range(31): answers.add("it is no JSON")
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
        self._why = ""

    def add(self, why: str) -> None:
        """An answer, and why it was not counted; empty where it was."""
        self._why = why or self._why
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
