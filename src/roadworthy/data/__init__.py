"""Values, samples, data sets and how they are loaded.

These names need numpy alone; loaders and what they read with (OpenCV, scipy) are imported on first use.
"""

from __future__ import annotations

from roadworthy.data.samples import DataError, Dataset, Sample, load
from roadworthy.data.values import Audio, Boxes, Episode, Tracks

__all__ = ["Audio", "Boxes", "DataError", "Dataset", "Episode", "Sample", "Tracks", "load"]
