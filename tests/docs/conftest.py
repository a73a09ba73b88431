"""The data of the five tiny subjects is used here too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "subjects"))
