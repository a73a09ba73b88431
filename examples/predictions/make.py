"""Writes answers.csv: what the classifier of examples/fashion answers to the bundled test images.

Run it:  python examples/predictions/make.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from roadworthy import assess

HERE = Path(__file__).parent
FILE = """
subject: {{task: classification, torch: ../fashion/model.py:build, weights: ../fashion/weights.safetensors}}
data: {{test: {{bundled: fashion-mnist, split: test}}}}
slices: [brightness]
media: none
"""


def main() -> None:
    """Assess without circumstances, and keep what was answered."""
    file = HERE / "assessment.yaml"
    file.write_text(FILE.format())
    try:
        run = assess(file, runs=HERE / "runs")
    finally:
        file.unlink()
    cases = run.cases.to_pydict()
    with (HERE / "answers.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["image", "label", "prediction", "confidence", "brightness"])
        for row in range(len(cases["case"])):
            confidence = np.format_float_positional(cases["confidence"][row], 4, trim="-")
            cells = [cases[name][row] for name in ("case", "truth", "prediction")]
            writer.writerow([*cells, confidence, cases["slice.brightness"][row]])


if __name__ == "__main__":
    main()
