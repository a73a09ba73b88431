"""How good the output is: one file a task, every measure a registered function that gives a `Scored`.

>>> for_values("text", "text")
['cer', 'wer']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roadworthy.registry import components

if TYPE_CHECKING:
    from roadworthy.data.values import Kind


def of_distributions(name: str) -> bool:
    """Whether a measure compares with label probabilities."""
    return "distribution" in components("measures")[name].traits.get("of", ())


def for_values(output: Kind | str, target: Kind | str) -> list[str]:
    """Names of the measures that compare an output of one kind with a target of another (kinds or their names)."""
    wanted = str(output), str(target)
    return [
        name
        for name, c in components("measures").items()
        if tuple(c.traits.get("of", ())) == wanted
    ]
