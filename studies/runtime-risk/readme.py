"""Puts the tables of the study into its README, between the marks <!-- name --> and <!-- end -->.

python studies/runtime-risk/readme.py
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from protocol import UNTOUCHED
from study import HERE, TABLES

Row = dict[str, str]
ALL_KINDS = ("same", "unseen", "left out")
BOTH = ("mean over data sets", "mean over folds")
WANTED = {
    ("accuracy", "same"): 0.038,
    ("accuracy", "unseen"): 0.062,
    ("rate", "same"): 0.031,
    ("rate", "unseen"): 0.033,
}
"""Mean over folds, all detectors together."""
COVERED = {
    ("accuracy", "same"): 0.95,
    ("accuracy", "unseen"): 0.93,
    ("rate", "same"): 0.95,
    ("rate", "unseen"): 0.90,
}
"""The same, of 95% intervals."""


def table(name: str) -> list[Row]:
    """A table of the study; empty where it is not there."""
    path = TABLES / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Names to the left, numbers to the right."""
    marks = ["---" if not i else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, marks, *lines))


def short(number: str | float) -> str:
    """Three decimals, without the zero."""
    return f"{float(number):.3f}".removeprefix("0") if number != "" else ""


def errors(
    which: str, detectors: Sequence[str], kinds: Sequence[str], *, only: Sequence[str] = ()
) -> str:
    """Everyone's errors, the best accuracy on the last kind first; mean over data sets (mean over folds, if that differs).

    Of some data sets `only` the mean over those.
    """
    rows = [r for r in table(f"errors-{which}") if r["detectors"] in detectors]

    def figures(row: Row) -> list[str]:
        if not only:
            return [short(row[b]) for b in BOTH]
        return [short(sum(float(row[d]) for d in only) / len(only))] * 2

    at = {(r["estimator"], r["target"], r["kind"]): figures(r) for r in rows}
    columns = [(t, k) for t in ("accuracy", "rate") for k in kinds]

    def cell(name: str, target: str, kind: str) -> str:
        found = at.get((name, target, kind))
        return (
            ""
            if found is None
            else found[0]
            if found[0] == found[1]
            else f"{found[0]} ({found[1]})"
        )

    def place(name: str) -> float:
        return float(at.get((name, "accuracy", kinds[-1]), ["9"])[0])

    names = sorted(
        sorted({r["estimator"] for r in rows}), key=place
    )  # ties stand in the order of their names
    lines = [
        [f"**{n}**" if n == "ours" else n, *(cell(n, t, k) for t, k in columns)] for n in names
    ]
    return markdown(["estimator", *(f"{t}, {k}" for t, k in columns)], lines)


def best(which: str) -> str:
    """Ours against the best of the others, by data set and kind of trial; what is lower stands in bold."""
    rows = table(f"best-{which}")
    at = {(r["data"], r["kind"], r["target"]): r for r in rows}
    keys = list(dict.fromkeys((r["data"], r["kind"]) for r in rows))
    keys.sort(
        key=lambda k: [r["data"] for r in rows].index(k[0])
    )  # all kinds of a data set together

    def cells(row: Row) -> list[str]:
        mine, theirs = short(row["ours"]), short(row["best of the others"])
        ahead = float(row["ours"]) <= float(row["best of the others"])
        return [
            f"**{mine}**" if ahead else mine,
            f"{theirs if ahead else f'**{theirs}**'} {row['who']}",
        ]

    lines = [
        [f"{d}, {k}", *(c for t in ("accuracy", "rate") for c in cells(at[d, k, t]))]
        for d, k in keys
    ]
    head = [f"{t}, {who}" for t in ("accuracy", "rate") for who in ("ours", "best of the others")]
    return markdown(["data set, kind of trial", *head], lines)


def targets() -> str:
    """What was asked for, and what was found."""
    rows = [
        r for r in table("errors-published") if (r["detectors"], r["estimator"]) == ("all", "ours")
    ]
    lines = []
    for r in rows:
        most = WANTED[r["target"], r["kind"]]
        sets = [
            short(v)
            for k, v in r.items()
            if k not in ("kind", "target", "detectors", "estimator", *BOTH)
        ]
        lines.append(
            [f"{r['target']}, {r['kind']} shift", short(most), *(short(r[b]) for b in BOTH), *sets]
        )
    names = (
        [k for k in rows[0] if k not in ("kind", "target", "detectors", "estimator")]
        if rows
        else []
    )
    return markdown(["mean absolute error of ours", "at most", *names], lines)


def intervals(which: str) -> str:
    """Coverage by data set, mean width, and the share of windows of which ours says that it no estimate."""
    rows = [r for r in table(f"intervals-{which}") if r["estimator"] == "ours"]
    fixed = ("kind", "target", "detectors", "estimator", "figure")
    names = [k for k in rows[0] if k not in fixed] if rows else []
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for r in rows:
        found.setdefault((r["target"], r["kind"], r["detectors"]), {})[r["figure"]] = r
    lines = []
    for (target, kind, detectors), figures in found.items():
        what = f"{target}, {kind}, detectors {'together' if detectors == 'all' else detectors}"
        rest = [short(figures[f][BOTH[0]]) for f in ("width", "refused")]
        asked = which == "published" and detectors == "all"
        lines.append(
            [
                what,
                short(COVERED.get((target, kind), "") if asked else ""),
                *(short(figures["coverage"][n]) for n in names),
                *rest,
            ]
        )
    return markdown(
        ["coverage of nominal 95% intervals", "at least", *names, "width", "refused"], lines
    )


def alignment() -> str:
    """Errors with and without the files in doubt."""
    rows = table("alignment")
    at = {
        (r["data"], r["files"], r["kind"], r["estimator"]): (
            short(r["rate_error"]),
            short(r["accuracy_error"]),
        )
        for r in rows
    }
    keys = list(dict.fromkeys((r["data"], r["files"]) for r in rows))
    columns = [(e, k) for e in ("ours", "quick combination") for k in ("same", "unseen")]
    lines = [[f"{d}, {f}", *(" / ".join(at[d, f, k, e]) for e, k in columns)] for d, f in keys]
    return markdown(["files; rate / accuracy", *(f"{e}, {k}" for e, k in columns)], lines)


def costs() -> str:
    """Mean error in dollars, over all rates."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for r in table("costs-published"):
        by_kind = found.setdefault((r["data"], r["tree"]), {}).setdefault(r["kind"], [])
        by_kind.append((float(r["paper_error"]), float(r["our_error"])))

    def mean(pairs: list[tuple[float, float]], i: int) -> str:
        return f"{sum(p[i] for p in pairs) / len(pairs):.0f}"

    lines = [
        [f"{d}, {t}", *(mean(by_kind[k], i) for k in ("same", "unseen") for i in (0, 1))]
        for (d, t), by_kind in found.items()
    ]
    return markdown(
        ["dollars a case", "paper, same", "ours, same", "paper, unseen", "ours, unseen"], lines
    )


def alarms() -> str:
    """Steps noticed and their delay, mean over kinds; false alarms of a million clean events."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for r in table("alarms"):
        found.setdefault((r["data"], r["stream"], r["window"]), []).append(r)

    def mean(rows: list[Row], kind: str, field: str) -> float:
        values = [float(r[field]) for r in rows if r["kind"] == kind and r["delay"] != "nan"]
        return sum(values) / len(values)

    lines = []
    for (data, stream, window), rows in found.items():
        steps = [
            f"{mean(rows, kind, 'within_two_windows'):.0%}, {mean(rows, kind, 'delay'):.0f}"
            for kind in ("same", "unseen")
        ]
        false = next(r["false_alarms"] for r in rows if r["false_alarms"] != "nan")
        lines.append([f"{data}, {stream}, {window}", *steps, false])
    head = ["data set, stream, window", "same", "unseen", "false alarms in a million events"]
    return markdown(head, lines)


PARTS = {
    "targets": targets,
    "errors-together": lambda: errors("published", ("all", "none"), ("same", "unseen")),
    "errors-alone": lambda: errors("published", ("each alone",), ("same", "unseen")),
    "intervals": lambda: intervals("published"),
    "alignment": alignment,
    "costs": costs,
    "alarms": alarms,
    "own": lambda: errors("own", ("all", "none"), ALL_KINDS),
    "own-intervals": lambda: intervals("own"),
    "elsewhere": lambda: errors("elsewhere", ("all", "none"), ALL_KINDS),
    "elsewhere-untouched": lambda: errors(
        "elsewhere", ("all", "none"), ALL_KINDS, only=tuple(UNTOUCHED)
    ),
    "elsewhere-best": lambda: best("elsewhere"),
    "elsewhere-intervals": lambda: intervals("elsewhere"),
}


def filled(text: str) -> str:
    """The page with its tables made anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(begin)
        if rest:
            text = f"{before}{begin}{make()}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    """The command."""
    path = HERE / "README.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
