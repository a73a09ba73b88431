"""The study of ambiguity and supervisors in small: all stages, and the committed tables."""

from __future__ import annotations

import csv
import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cases.ambiguous import between_classes
from roadworthy.data.samples import load
from roadworthy.generative import raae

STUDY = Path(__file__).parents[2] / "studies" / "ambiguess"
PRINTED = Path(__file__).parents[3] / "shared" / "data" / "paper-tables"
SUPERVISORS = {
    "Max. Softmax", "PCS", "DeepGini", "Softmax Entropy", "Dissector", "DSA", "LSA", "MDSA", "Autoencoder",
    *(f"MC-Dropout ({k})" for k in ("VR", "MS", "MI", "PE")),
    *(f"Deep Ensemble ({k})" for k in ("MS", "MI", "PE")),
}  # fmt: skip


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(STUDY))
    sys.modules.pop("study", None)  # of another study
    try:
        import study

        yield study
    finally:
        sys.path.remove(str(STUDY))
        for name in ("study", "tables", "classifiers"):
            sys.modules.pop(name, None)


def write_idx(file: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    file.write_bytes(head + values.astype(np.uint8).tobytes())


@pytest.fixture(scope="module")
def made(study, tmp_path_factory):
    """A run on the bundled pictures; as invalid ones, the same upside down."""
    cache = tmp_path_factory.mktemp("cache")
    for split, part, n in (("reference", "train", 800), ("test", "t10k", 48)):
        data = load({"bundled": "fashion-mnist", "split": split}, base=Path(), name=split)
        five = np.flatnonzero(np.asarray(data.targets) < 5)[:n]  # ten pairs
        images, labels = np.asarray(data.inputs[:])[five], np.asarray(data.targets)[five]
        for name, shown in (("fashion-mnist", images), ("mnist", images[:, ::-1])):
            (cache / "data" / name).mkdir(parents=True, exist_ok=True)
            write_idx(cache / "data" / name / f"{part}-images-idx3-ubyte", shown)
            write_idx(cache / "data" / name / f"{part}-labels-idx1-ubyte", labels)
    small = replace(
        study.QUICK, images=800, ambiguous=(90, 60), tested=48, training={"cnn": (4, 32)},
        pool={"cnn": 3}, runs=1, ensemble=2, passes=3, looks=8_000, dissected=200,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raae, "EPOCHS", 6)
        patch.setattr(between_classes, "GRID", 20)
        patch.setattr(raae, "FOOLED", (0.0, 1.0))
        patch.setattr(raae, "TWO_CLASS", 0.0)
        first = list(study.Study("fashion-mnist", small, cache, "quick").run(["cnn"]))
        again = study.Study("fashion-mnist", small, cache, "quick")
        said = list(again.run(["cnn"]))
    study.tables.write(cache / "quick", cache / "tables", ["fashion-mnist"])
    return cache, again, first, said


def test_all_supervisors_are_measured_and_what_is_kept_is_not_computed_again(made):
    cache, _, first, said = made
    assert sum(line.startswith("mixed-cnn-0: ") for line in first) == 1
    assert not any(line.startswith("mixed-cnn-0: ") for line in said)
    with (cache / "tables" / "table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert not SUPERVISORS - {row["supervisor"] for row in rows}
    assert all(0 <= float(row["mean"]) <= 1 for row in rows)
    of = {(row["supervisor"], row["test"]): row for row in rows}
    assert ("Deep Ensemble (MS)", "adversarial") not in of
    assert float(of["DSA", "shared"]["paper"]) == 0.31
    with (cache / "tables" / "table1.csv").open() as file:
        nominal = next(r for r in csv.DictReader(file) if r["test"] == "nominal")
    assert float(nominal["top1"]) > 0.3


def test_each_set_comes_with_a_card_and_a_sheet(made):
    cache, *_ = made
    folder = cache / "quick" / "fashion-mnist"
    card = json.loads((folder / "ambiguous-disjoint.json").read_text())
    assert card["pictures"] == 60 and card["licence"].startswith("MIT") and "diversity" in card
    assert (folder / "ambiguous-disjoint.png").read_bytes().startswith(b"\x89PNG")
    with np.load(folder / "ambiguous-disjoint.npz") as kept:
        assert np.allclose(kept["probabilities"].sum(axis=1), 1, atol=1e-6)
        assert (kept["probabilities"][np.arange(60), kept["labels"]] > 0).all()


def test_attacks_take_the_least_epsilon_that_succeeds(made, study):
    _, again, *_ = made
    network = again._network("mixed", "cnn", 0)
    attacked = again._attacked(network)
    clean = again.tested / 255.0
    right = again._seen(network, again.tested).output.argmax(axis=1) == again.truth
    fooled = again._seen(network, attacked).output.argmax(axis=1) != again.truth
    assert (fooled | right).all() and fooled.mean() > 0.9
    moved = np.abs(attacked - clean).max(axis=(1, 2))
    assert np.allclose(moved[~right], 0, atol=1e-6)
    of_epsilon = np.arange(len(moved)) < len(moved) * 3 // 4  # the last quarter is DeepFool's
    used = moved[of_epsilon & right]
    bounds = np.array([0.0, *study.EPSILONS])
    assert (used <= bounds[np.searchsorted(bounds, used - 1e-5)] + 1e-5).all()


def test_rows_of_table_one_equal_a_loop(study):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), 40)
    truth = np.zeros((40, 5))
    pairs = np.array([rng.choice(5, 2, replace=False) for _ in range(40)])
    truth[np.arange(40)[:, None], pairs] = [0.6, 0.4]
    labels = pairs[:, 0]
    found = study.ambiguous_row(p, labels, truth)
    top = [sorted(range(5), key=lambda c, q=q: -q[c])[:2] for q in p]
    assert found["top1"] == np.mean([t[0] == y for t, y in zip(top, labels, strict=True)])
    assert found["top2"] == np.mean([y in t for t, y in zip(top, labels, strict=True)])
    assert found["top_pair"] == np.mean([set(t) == set(q) for t, q in zip(top, pairs, strict=True)])
    assert np.isclose(found["entropy"], np.mean([-(q * np.log2(q)).sum() for q in p]))


def test_the_papers_figures_are_the_printed_ones():
    if not PRINTED.exists():
        pytest.skip("the papers' printed tables are not here")
    paper = json.loads((STUDY / "paper.json").read_text())
    with (PRINTED / "001_table2_supervisor_auc.csv").open() as file:
        printed = {
            f"{r['supervisor']}|{r['case_study']}|{r['test_set']}": float(r["auc_roc_mean"])
            for r in csv.DictReader(file)
            if r["auc_roc_mean"]
        }
    assert paper["table2"] == printed and len(printed) == 70
    with (STUDY / "tables" / "full" / "table2.csv").open() as file:
        for row in csv.DictReader(file):
            if row["paper"]:
                assert (
                    abs(float(row["mean"]) - float(row["paper"]) - float(row["difference"])) < 1e-3
                )


def test_a_class_without_a_density_is_one_whose_covariance_is_singular(study):
    rows = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    assert not study._fails(rows)
    assert study._fails(np.c_[rows, np.zeros(60, np.float32)])  # an activation that is never used
    assert study._fails(rows[:4])
