"""Letters and figures in typefaces: a network trained on sans serifs, read under five other kinds of type.

.venv/bin/python studies/runtime-risk/elsewhere/letters.py               # glyphs.py draws them first
"""

from __future__ import annotations

import numpy as np
from glyphs import CHARACTERS, DRAWN
from networks import Images, judged
from scores import write

DETECTORS = ("entropy", "energy", "grad_magnitude", "knn", "typicality")


def main() -> None:
    """The command."""
    if not DRAWN.exists():
        raise SystemExit(
            "the letters are not drawn: run glyphs.py first, in the environment of the peers"
        )
    with np.load(DRAWN, allow_pickle=False) as file:
        pixels, truth, fold = file["pixels"], file["truth"], file["fold"]
    folds = {n: Images(pixels[fold == n], truth[fold == n]) for n in dict.fromkeys(fold.tolist())}
    train = folds.pop("train")
    write(
        "letters", judged(folds, train=train, classes=len(CHARACTERS), epochs=12, names=DETECTORS)
    )


if __name__ == "__main__":
    main()
