"""Makes the pictures, test.json and test.csv of this folder: ``python examples/detection/make.py``.

They are 16 patients that stand in no set of ``studies/detection/medical``, whose weights are used."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "studies" / "detection"))

from dataset import groups, write  # noqa: E402
from sections import CLASSES, patient  # noqa: E402

PATIENTS, STREAM = 16, 4

if __name__ == "__main__":
    write(groups(patient, PATIENTS, STREAM), HERE, "test", "patient", CLASSES)
