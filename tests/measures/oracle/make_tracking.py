"""Writes tracking.json: random sequences with their CLEAR and identity values by TrackEval 1.3.0.

Run in an environment of its own: ``pip install trackeval==1.3.0``, then ``python tests/measures/oracle/make_tracking.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def sequence(rng: np.random.Generator) -> tuple[list, list]:
    """Rows (step, id, x1, y1, x2, y2) of the truth and of a tracker that misses, invents, drifts and switches."""
    truth, found = [], []
    names = list(range(1, 6))
    place = rng.uniform(0, 60, (5, 2))
    speed = rng.normal(0, 2.0, (5, 2))
    for step in range(12):
        if rng.random() < 0.25:
            a, b = rng.choice(5, 2, replace=False)
            names[a], names[b] = names[b], names[a]
        if rng.random() < 0.2:
            names[rng.integers(5)] = int(10 + step)
        place = place + speed
        for k in range(5):
            if rng.random() < 0.12:
                continue
            box = np.round([*place[k], *(place[k] + [20, 30])], 3)
            truth.append([step, k, *box.tolist()])
            if rng.random() < 0.85:
                near = np.round(box + np.tile(rng.normal(0, 3.5, 2), 2), 3)
                found.append([step, names[k], *near.tolist()])
        if rng.random() < 0.3:
            corner = rng.uniform(0, 60, 2).round(3)
            found.append(
                [step, 90 + step, *corner.tolist(), *(corner + np.array([20, 30])).tolist()]
            )
    return truth, found


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """IoU of every box of the one with every box of the other."""
    result = np.zeros((len(first), len(second)))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            w = min(a[2], b[2]) - max(a[0], b[0])
            h = min(a[3], b[3]) - max(a[1], b[1])
            shared = max(w, 0) * max(h, 0)
            total = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
            result[i, j] = shared / total
    return result


def trackeval_input(truth: list, found: list) -> dict:
    """The sequence as TrackEval wants it: identities numbered from 0, lists by step."""
    columns = {}
    for name, rows in (("gt", truth), ("tracker", found)):
        table = np.array(rows, dtype=float)
        _, ids = np.unique(table[:, 1], return_inverse=True)
        columns[name] = (table, ids)
    steps = range(12)
    (t, t_ids), (f, f_ids) = columns["gt"], columns["tracker"]
    return {
        "num_timesteps": 12,
        "num_gt_dets": len(t),
        "num_tracker_dets": len(f),
        "num_gt_ids": int(t_ids.max()) + 1,
        "num_tracker_ids": int(f_ids.max()) + 1,
        "gt_ids": [t_ids[t[:, 0] == s] for s in steps],
        "tracker_ids": [f_ids[f[:, 0] == s] for s in steps],
        "similarity_scores": [overlaps(t[t[:, 0] == s, 2:], f[f[:, 0] == s, 2:]) for s in steps],
    }


def main() -> None:
    """Write twenty sequences."""
    import trackeval  # here, since test collection imports this file where TrackEval is not installed

    rng = np.random.default_rng(20080512)
    clear, identity = (
        metric({"PRINT_CONFIG": False})
        for metric in (trackeval.metrics.CLEAR, trackeval.metrics.Identity)
    )
    records, parts, identities = [], {}, {}
    for number in range(20):
        truth, found = sequence(rng)
        data = trackeval_input(truth, found)
        parts[number], identities[number] = clear.eval_sequence(data), identity.eval_sequence(data)
        records.append(
            {
                "truth": truth,
                "found": found,
                "missed": int(parts[number]["CLR_FN"]),
                "false": int(parts[number]["CLR_FP"]),
                "switched": int(parts[number]["IDSW"]),
                "mota": float(parts[number]["MOTA"]),
                "idf1": float(identities[number]["IDF1"]),
            }
        )
    combined = {
        "mota": float(clear.combine_sequences(parts)["MOTA"]),
        "idf1": float(identity.combine_sequences(identities)["IDF1"]),
    }
    out = Path(__file__).with_name("tracking.json")
    out.write_text(
        json.dumps({"made_by": "TrackEval 1.3.0", "all": combined, "sequences": records}) + "\n"
    )


if __name__ == "__main__":
    main()
