"""Where the scores of a bundle stand in a stream, as an option has it: ``--score energy=nrg``.

>>> scores_asked(["energy", "knn"], ["energy=nrg"])
{'energy': 'nrg', 'knn': 'knn'}
"""

from __future__ import annotations

from collections.abc import Sequence

from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean


def scores_asked(names: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Where each score of a bundle stands in a stream: in the column of its name, or in the one that an option gives."""
    asked: dict[str, str] = {}
    for text in given:
        name, equals, column = text.partition("=")
        if name in names and not column.strip():
            raise DataError(
                f"--score {text}: say which column of the stream it is, as in {name}=COLUMN, or leave the option out where the "
                f"column is called {name}"
            )
        if not equals or name not in names:
            raise DataError(
                f"--score {text}: a score of the bundle and a column were expected, as in {names[0]}=COLUMN"
                f"{did_you_mean(name, names)}; the bundle has: {', '.join(names)}"
            )
        if name in asked:
            raise DataError(
                f"--score {name} is given twice, as {asked[name]} and as {column}; give each score once"
            )
        asked[name] = column
    return {name: name for name in names} | asked
