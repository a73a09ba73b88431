"""``python studies/detection/road/make.py`` makes the data, and with ``--train`` the weights."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from crossing import CLASSES, day  # noqa: E402
from dataset import main  # noqa: E402

SETS = {"reference": 12, "calibration": 12, "test": 24}
if __name__ == "__main__":
    main(day, home=HERE, group="day", classes=CLASSES, sets=SETS)
