"""Label probabilities: carried with their rows, checked, hashed; labels drawn from them; annotators' votes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.data import DataError, Dataset, load
from roadworthy.data.png import encode_png
from roadworthy.data.samples import DRAWN, drawn_labels
from roadworthy.data.values import IMAGE, LABEL

CHANCES = np.array([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8], [1.0, 0.0, 0.0]])
IMAGES = np.arange(3 * 16, dtype=np.uint8).reshape(3, 4, 4)


def split(**change: object) -> Dataset:
    made = Dataset(
        "set",
        IMAGE,
        IMAGES,
        LABEL,
        np.array([1, 2, 0]),
        classes=("a", "b", "c"),
        probabilities=CHANCES,
    )
    return replace(made, **change)


def test_rows_keep_their_probabilities() -> None:
    taken = split().take([2, 0])
    assert taken.probabilities.tolist() == [[1, 0, 0], [0.5, 0.5, 0]]
    assert taken.targets.tolist() == [0, 1]


def test_the_fingerprint_follows_the_probabilities() -> None:
    other = CHANCES.copy()
    other[0] = [0.6, 0.4, 0]
    prints = {split().fingerprint, split(probabilities=other).fingerprint}
    assert len(prints | {split(probabilities=None).fingerprint}) == 3
    assert split().input_fingerprint == split(probabilities=None).input_fingerprint


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([0.5, np.nan, 0.5], "'0' has 1 NaN"),
        ([1.2, -0.2, 0.0], "is -0.2 for class 1; 0 or more"),
        ([0.5, 0.4, 0.0], "sums to 0.9; 1 was expected"),
    ],
)
def test_what_is_no_distribution_is_refused_by_its_sample(row: list[float], said: str) -> None:
    with pytest.raises(DataError, match=said):
        split(probabilities=np.vstack([row, CHANCES[1:]]))


def test_probabilities_have_a_column_a_class_and_a_row_a_sample() -> None:
    with pytest.raises(DataError, match=r"shape \(3, 2\).*3 classes"):
        split(probabilities=CHANCES[:, :2])
    with pytest.raises(DataError, match="3 inputs but 2 probabilities"):
        split(probabilities=CHANCES[:2])


def test_labels_are_drawn_by_id_if_there_are_none() -> None:
    n = 4000
    ids = np.array([f"s{i}" for i in range(n)], dtype=object)
    images = np.zeros((n, 1, 1), np.uint8)
    data = Dataset("set", IMAGE, images, ids=ids, probabilities=np.tile([0.3, 0.0, 0.7], (n, 1)))
    assert data.target_kind is LABEL and data.notes == (DRAWN,)
    share = np.mean(np.asarray(data.targets) == 0)
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / n) and 1 not in data.targets
    # The order of samples, and which others there are, changes no draw.
    some = np.arange(n)[::-7]
    other = Dataset(
        "set", IMAGE, images[some], ids=ids[some], probabilities=data.probabilities[some]
    )
    assert (other.targets == data.targets[some]).all()
    assert data.take([0]).notes == (DRAWN,)


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_a_drawn_class_is_possible_and_follows_the_cumulated_probabilities(
    seed: int, chance: float
) -> None:
    rng = np.random.default_rng(seed)
    row = rng.dirichlet(np.ones(4)) * (rng.random(4) < 0.6)
    row = row / row.sum() if row.sum() > 0 else np.eye(4)[2]
    found, below = int(drawn_labels(row[None], np.array([chance]))[0]), 0.0
    for label in range(4):  # a plain loop: the first class whose sum lies above the number
        below += row[label]
        if chance < below:
            break
    assert row[found] > 0
    assert found == label or chance >= row.sum() - 1e-12


def test_an_npz_file_names_its_probabilities(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", images=IMAGES, soft=CHANCES.astype(np.float32))
    spec = {"npz": "set.npz", "labels": None, "probabilities": "soft", "classes": ["a", "b", "c"]}
    data = load(spec, base=tmp_path, name="test")
    np.testing.assert_allclose(data.probabilities, CHANCES, atol=1e-7)
    assert data.targets[2] == 0 and DRAWN in data.notes
    assert load({**spec, "limit": 2}, base=tmp_path, name="test").probabilities.shape == (2, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "set.npz", images=IMAGES, labels=[0, 1, 1], ids=["a", "b", "c"])
    return tmp_path


def voted(folder: Path, text: str, **spec: object) -> Dataset:
    (folder / "votes.csv").write_text(text)
    own = {"npz": "set.npz", "ids": "ids", "votes": "votes.csv", "classes": ["cat", "dog"]}
    return load(own | spec, base=folder, name="test")


WIDE = "id,dog,cat\nc,0,5\na,1,3\nb,2,2\nelsewhere,1,1\n"
LONG = (
    "id,annotator,label\nc,x,cat\na,x,dog\na,y,cat\na,z,cat\na,x,cat\nb,x,cat\nb,y,dog\n"
    "elsewhere,x,dog\n"
)


@pytest.mark.parametrize("text", [WIDE, LONG])
def test_votes_become_shares_whatever_the_form_of_the_table(folder: Path, text: str) -> None:
    data = voted(folder, text)
    assert data.probabilities.tolist() == [[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]]
    assert data.targets.tolist() == [0, 1, 1]  # the labels of the data stay
    assert "votes a sample (votes.csv)" in data.notes[0]


def test_classes_that_are_numbers_need_no_names(folder: Path) -> None:
    data = voted(folder, "id,0,1,2\na,1,0,1\nb,0,1,0\nc,0,1,0\n", classes=None)
    assert data.probabilities.tolist() == [[0.5, 0, 0.5], [0, 1, 0], [0, 1, 0]]
    assert data.classes is None


def test_images_without_labels_get_them_from_the_votes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(encode_png(IMAGES[0]))
    (tmp_path / "votes.csv").write_text("id,annotator,label\na.png,x,cat\nb.png,x,dog\n")
    spec = {"image_folder": ".", "votes": "votes.csv"}
    data = load(spec, base=tmp_path, name="test")
    assert data.classes == ("cat", "dog") and data.targets.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,cat,dog\na,1,2\nb,1,0\n", "votes.csv: no row has votes for sample 'c'"),
        ("id,cat,dog\na,1,2\nb,-1,3\nc,1,1\n", "line 3: '-1' votes for 'cat'; a whole number"),
        ("id,cat,dog\na,1,2\nb,1,1.5\nc,1,1\n", "line 3: '1.5' votes for 'dog'; a whole number"),
        ("id,cat,dog\na,1,2\nb,1,\nc,1,1\n", "line 3: '' votes for 'dog'"),
        ("id,cat,dgo\na,1,2\n", "column 3: the label 'dgo' is none of the 2 classes .did you mean 'dog'"),
        ("id,annotator,label\na,x,cta\n", "line 2: the label 'cta' is none of the 2 classes"),
        ("id,annotator,label\na,x,\n", "line 2: the label is empty"),
        ("id,cat,dog\na,1,2\nb,0,0\nc,1,1\n", "line 3: the votes for 'b' sum to 0"),
        ("id,cat,dog\na,1,2\na,1,0\n", "line 3: votes on 'a' stand in line 2 already"),
        ("sample,cat,dog\na,1,2\n", "votes.csv has no column 'id'"),
        ("id,cat\na,1\nb,1\nc,1\n", "votes.csv: no column counts the votes for class dog"),
        ("id,annotator,label\na,x,cat\nb,x,cat\na,x,cat\n", "line 4: votes on 'a' by 'x' stand in line 2"),
    ],
)  # fmt: skip
def test_votes_that_cannot_be_counted_are_refused_in_one_sentence(
    folder: Path, text: str, said: str
) -> None:
    with pytest.raises(DataError, match=said) as refused:
        voted(folder, text)
    assert "votes.csv" in str(refused.value) and "\n" not in str(refused.value)


def test_votes_do_not_go_with_probabilities_or_other_targets(folder: Path) -> None:
    np.savez(folder / "set.npz", images=IMAGES, labels=[0.5, 1.5, 2.5], ids=["a", "b", "c"])
    with pytest.raises(DataError, match="votes go with class labels"):
        voted(folder, WIDE, classes=None)
    with pytest.raises(DataError, match="votes have names and labels numbers"):
        np.savez(folder / "set.npz", images=IMAGES, labels=[0, 1, 1], ids=["a", "b", "c"])
        voted(folder, WIDE, classes=None)
