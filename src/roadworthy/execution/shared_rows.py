"""Rows that stand in two tables of scores: what is calibrated on and judged on at once makes errors look smaller than they are.

Tables have no common names for rows, so that two rows are taken for one where they are of one kind and all their scores are the
same. Verdicts, or scores of few digits, are the same by chance: nothing is said where the rows of a table are too much alike.

>>> rng = np.random.default_rng(0)
>>> table = Pool({"energy": rng.normal(size=500)}, kind=["clean"] * 500, correct=[1] * 500)
>>> other = Pool({"energy": rng.normal(size=500)}, kind=["clean"] * 500, correct=[1] * 500)
>>> shared_rows(table, table.taken(np.arange(100, 300))), shared_rows(table, other)
(200, 0)
"""

from __future__ import annotations

import numpy as np

from roadworthy.analysis.simulation.streams import Pool

TOLD_APART = 0.99
"""The share of a table's rows that must differ from one another before a row that stands in two tables is taken for the same."""
BY_CHANCE = 0.05
"""The share of rows that may be the same by rounding, where rows are told apart."""


def shared_rows(pool: Pool, learned: Pool) -> int:
    """How many rows of the first stand in the second as well; 0 where nobody can tell, and where hardly any do."""
    names = sorted(set(pool.columns) & set(learned.columns))
    if not (names and pool.n and learned.n):
        return 0
    mine, theirs = (np.stack([p.columns[name] for name in names], axis=1) for p in (pool, learned))
    _, code = np.unique(np.concatenate([pool.kind, learned.kind]), return_inverse=True)
    rows = np.column_stack([np.concatenate([mine, theirs]), code])
    keys = (
        np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    )
    _, key = np.unique(keys, return_inverse=True)
    known = np.unique(key[pool.n :])
    shared = int(np.isin(key[: pool.n], known).sum())
    return shared if len(known) >= TOLD_APART * learned.n and shared >= BY_CHANCE * pool.n else 0
