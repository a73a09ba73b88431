"""``python studies/detection/medical/make.py`` makes the data, and with ``--train`` the weights."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from dataset import main  # noqa: E402
from sections import CLASSES, patient  # noqa: E402

SETS = {"reference": 30, "calibration": 30, "test": 60}
if __name__ == "__main__":
    main(patient, home=HERE, group="patient", classes=CLASSES, sets=SETS)
