"""Draws the tables of the study: figures/*.svg.

python studies/runtime-risk/plots.py
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import log2

import numpy as np
from lines import Line, LinePanel, lines_chart
from study import HERE, TABLES

from roadworthy.report.charts import standalone
from roadworthy.report.charts.heat import HeatCell, Ramp, heat

Row = dict[str, str]
FIGURES = HERE / "figures"
RATE, BATCH = "rate of shift", "rows in a batch"
SIZES = {log2(s): str(s) for s in (1, 8, 16, 32, 64)}
NINE = {
    "ours, all detectors": ("all", "ours"),
    "quick combination": ("all", "quick combination"),
    "paper: Rogan-Gladen, detectors alone": ("each alone", "Rogan-Gladen, clipped"),
    "NannyML CBPE": ("all", "NannyML CBPE"),
    "in-distribution accuracy": ("none", "in-distribution accuracy"),
    "knowing the share in the window": ("none", "knowing the share in the window"),
}
"""Lines of figure 9."""


def table(name: str) -> list[Row]:
    """A table of the study."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def values(rows: Iterable[Row], column: str) -> list[str]:
    """The distinct values of a column, in order."""
    return list(dict.fromkeys(row[column] for row in rows))


def mean_line(
    name: str,
    rows: Iterable[Row],
    x: str,
    y: str,
    *,
    place: Callable[[str], float] = float,
    band: bool = False,
) -> Line:
    """The mean of y at each x, and from the least to the most."""
    found: dict[float, list[float]] = {}
    for row in rows:
        found.setdefault(place(row[x]), []).append(float(row[y]))
    at = sorted(found)
    ends = [tuple(f(found[v]) for v in at) for f in (min, max)] if band else ((), ())
    return Line(name, tuple((v, float(np.mean(found[v]))) for v in at), *ends)


def at_batch(size: str) -> float:
    """Batch sizes are powers of two."""
    return log2(float(size))


def synthetic() -> str:
    """Figure 3."""
    rows = table("figure-03")
    lines = [
        mean_line(
            n,
            [r for r in rows if r["estimator"] == n],
            "balanced_accuracy",
            "error",
            band=n.endswith("clipped"),
        )
        for n in (
            "Rogan-Gladen, clipped",
            "mean of verdicts",
            "Rogan-Gladen, fallback",
            "Bayes table",
        )
    ]
    return lines_chart(
        [LinePanel("Windows of 100 verdicts, all rates", tuple(lines))],
        title="Figure 3: error of the rate by the balanced accuracy of a synthetic detector",
        x="balanced accuracy of the detector",
        y="error of the rate",
    )


def rate_by_batch() -> str:
    """Figure 4."""
    rows = [
        r for r in table("figures-04-10-13") if r["batches"] == "uniform" and r["kind"] == "unseen"
    ]
    panels = []
    for data, who in product(values(rows, "data"), ("paper", "ours")):
        some = [r for r in rows if r["data"] == data and r["estimator"].startswith(who)]
        lines = [
            mean_line(
                f"batches of {s}", [r for r in some if r["size"] == s], "nominal", "rate_error"
            )
            for s in values(some, "size")
        ]
        panels.append(LinePanel(f"{data}: {some[0]['estimator']}", tuple(lines)))
    title = "Figure 4: error of the rate across batch sizes, unseen shift"
    return lines_chart(panels, title=title, x=RATE, y="error of the rate", columns=2)


def parameters(name: str, title: str) -> str:
    """Figures 5 and 7."""
    rows = table(name)
    panels = []
    for data in values(rows, "data"):
        some = [r for r in rows if r["data"] == data]
        lines = []
        for parameter in values(some, "parameter"):
            mine = [r for r in some if r["parameter"] == parameter]
            points = tuple((at_batch(r["batch"]), float(r["error"])) for r in mine)
            ends = (tuple(float(r[e]) for r in mine) for e in ("least", "most"))
            lines.append(Line(parameter, points, *ends))
        panels.append(LinePanel(f"{data} {some[0]['detector']}".strip(), tuple(lines)))
    return lines_chart(panels, title=title, x=BATCH, y="error of the parameter", at=SIZES)


def leaves() -> str:
    """Figure 6."""
    rows = table("figure-06")
    cells = {
        (f"{r['data']} {r['detector']}", r["parameter"]): HeatCell(float(r["error"])) for r in rows
    }
    ramp = Ramp("loss", 0.0, 0.4, ("0, known", "0.4 off"))
    names = values([{"name": k[0]} for k in cells], "name")
    title = "Figure 6: error of the leaves' accuracies, another kind of shift"
    return heat(names, values(rows, "parameter"), cells, title=title, ramp=ramp)


def sensitivity(data: str) -> str:
    """Figure 8."""
    rows = [r for r in table("figure-08") if r["data"] == data and r["kind"] == "unseen"]
    cells = {
        (f"BA {float(r['balanced_accuracy']):.2f}", f"{float(r['nominal']):.1f}"): HeatCell(
            float(r["error"])
        )
        for r in rows
    }
    names = [values([{"n": k[i]} for k in cells], "n") for i in (0, 1)]
    ramp = Ramp("loss", 0.0, 0.3, ("no error", "0.3 off"))
    title = f"Figure 8, {data}: error of the accuracy by rate and by the balanced accuracy of a synthetic detector"
    return heat(names[0], names[1], cells, title=title, ramp=ramp)


def by_rate() -> str:
    """Figure 9."""
    rows = table("by-rate-published")
    panels = []
    for kind, data in product(("same", "unseen"), values(rows, "data")):
        some = [r for r in rows if r["data"] == data and r["kind"] == kind]
        lines = [
            mean_line(name, mine, "nominal", "error")
            for name, key in NINE.items()
            if (mine := [r for r in some if (r["detectors"], r["estimator"]) == key])
        ]
        panels.append(LinePanel(f"{data}, {kind} shift", tuple(lines)))
    title = "Figure 9: error of the accuracy by the rate of shift, windows of 100"
    return lines_chart(panels, title=title, x=RATE, y="error of the accuracy")


def accuracy_by_batch(batches: Sequence[str], title: str) -> str:
    """Figures 10 and 13."""
    rows = [r for r in table("figures-04-10-13") if r["kind"] == "unseen"]
    panels = []
    for data in values(rows, "data"):
        lines = []
        for who, how in (*product(("ours", "paper"), batches), ("in-distribution", "uniform")):
            # A batch of one is neither uniform nor mixed: both lines begin with it.
            mine = [
                r
                for r in rows
                if r["data"] == data
                and r["estimator"].startswith(who)
                and (r["batches"] == how or r["size"] == "1")
            ]
            name = {
                "ours": "ours, all rows",
                "paper": "paper, best detector",
                "in-distribution": "in-distribution accuracy",
            }[who]
            several = len(batches) > 1 and who != "in-distribution"
            lines.append(
                mean_line(
                    name + (f", {how} batches" if several else ""),
                    mine,
                    "size",
                    "accuracy_error",
                    place=at_batch,
                )
            )
        panels.append(LinePanel(data, tuple(lines)))
    return lines_chart(panels, title=title, x=BATCH, y="error of the accuracy", at=SIZES)


def costs() -> str:
    """Figure 11."""
    rows = table("figure-11")
    panels = []
    for tree in values(rows, "tree"):
        mine = [r for r in rows if r["tree"] == tree]
        column = {
            c: tuple(float(r[c]) for r in mine)
            for c in ("rate", "risk", "estimated", "low", "high")
        }
        estimated = Line(
            "estimated from 100 verdicts, 5% to 95%",
            tuple(zip(column["rate"], column["estimated"], strict=True)),
            column["low"],
            column["high"],
        )
        expected = Line("expected cost", tuple(zip(column["rate"], column["risk"], strict=True)))
        panels.append(LinePanel(tree, (estimated, expected), limit=float(mine[0]["tolerable"])))
    title = "Figure 11: cost by the rate of shift, polyp costs"
    return lines_chart(
        panels, title=title, x=RATE, y="dollars per patient", limit="tolerable: 1,925", columns=2
    )


def sweep() -> str:
    """Figure 12."""
    rows = table("figure-12")
    cells = {
        (
            f"classifier {float(r['classifier']):.2f}",
            f"detector {float(r['detector']):.2f}",
        ): HeatCell(float(r["risk"]) / 1000)
        for r in rows
    }
    names = [values([{"n": k[i]} for k in cells], "n") for i in (0, 1)]
    ramp = Ramp("loss", 1.5, 2.4, ("1.5 thousand dollars", "2.4 thousand dollars"))
    title = "Figure 12: thousand dollars per patient at a rate of 0.5, by accuracy under shift and by detector"
    return heat(names[0], names[1], cells, title=title, ramp=ramp)


def pairs() -> str:
    """Our own shifts: the error of ours, calibrated on one kind, streamed on another."""
    rows = table("pairs-own")
    cells = {
        (r["calibrated"], r["streamed"]): HeatCell(
            float(r["error"]), picked=r["calibrated"] == r["streamed"]
        )
        for r in rows
    }
    ramp = Ramp("loss", 0.0, 0.3, ("no error", "0.3 off"))
    title = "Our own shifts: error of the accuracy, calibrated on the row's kind, streamed on the column's"
    return heat(values(rows, "calibrated"), values(rows, "streamed"), cells, title=title, ramp=ramp)


DRAWN: dict[str, Callable[[], str]] = {
    "figure-03": synthetic,
    "figure-04": rate_by_batch,
    "figure-05": lambda: parameters(
        "figure-05", "Figure 5: error of P(right | clean) and P(right | shifted) across batch sizes"
    ),
    "figure-06": leaves,
    "figure-07": lambda: parameters(
        "figure-07", "Figure 7: error of TPR and TNR of the best detector across batch sizes"
    ),
    **{f"figure-08-{d}": lambda d=d: sensitivity(d) for d in ("CCT", "Office31", "OfficeHome")},  # type: ignore[misc]
    "figure-09": by_rate,
    "figure-10": lambda: accuracy_by_batch(
        ["uniform"], "Figure 10: error of the accuracy across batch sizes, unseen shift"
    ),
    "figure-11": costs,
    "figure-12": sweep,
    "figure-13": lambda: accuracy_by_batch(
        ["uniform", "mixed"], "Figure 13: uniform and mixed batches, unseen shift"
    ),
    "own-pairs": pairs,
}


def main() -> None:
    """The command."""
    FIGURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        try:
            drawn = draw()
        except FileNotFoundError as missing:
            print(f"{name}: no {missing.filename}")
            continue
        (FIGURES / f"{name}.svg").write_text(standalone(drawn) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
