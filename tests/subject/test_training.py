"""Recipes: the same seed gives the same bytes however members are trained, and what goes wrong names the member."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from roadworthy.subject.module import SubjectError
from roadworthy.subject.training import (
    Recipe,
    member_file,
    member_seed,
    members_of,
    read_note,
    save_member,
)

RECIPE = """
import os
import signal

import numpy as np
import torch
from layers import network


def train_member(seed, data):
    print("member of seed", seed)
    torch.manual_seed(seed)
    images = torch.from_numpy(data.inputs).flatten(1).float() / 255
    labels = torch.from_numpy(data.targets)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.randperm(len(images)).split(10):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimiser.step()
    return model


def without_a_word_about_seeds():
    model = network()
    with torch.no_grad():
        model[0].bias += float(np.random.rand())
    return model


def tied(seed):
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    return model


def number(seed): return 3

def diverged(seed):
    model = network()
    with torch.no_grad():
        model[0].weight[0, 0] = float("nan")
    return model

def masked(seed):
    model = network()
    model.register_buffer("mask", torch.full((3, 3), float("-inf")).triu(1))
    return model

def lost_count(seed):
    model = network()
    model.register_buffer("running", torch.full((3,), float("nan")))
    return model

def second_breaks(seed):
    if seed == 1623484961:
        raise ArithmeticError("no image is bright")
    return network()

def ends(seed): os.kill(os.getpid(), signal.SIGKILL)

def asks_for_more(seed, epochs): ...

def sleeps(seed):
    import time
    print(os.getpid(), flush=True)
    time.sleep(60)

steps = 3
"""
LAYERS = "from torch import nn\ndef network(): return nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("recipes")
    (place / "recipe.py").write_text(RECIPE)
    (place / "layers.py").write_text(LAYERS)
    rng = np.random.default_rng(0)
    np.savez(
        place / "train.npz",
        images=rng.integers(0, 255, (60, 4, 4), dtype=np.uint8),
        labels=np.arange(60) % 3,
    )
    return place


@pytest.fixture(autouse=True)
def settings_of_torch_are_put_back():
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict)


@pytest.fixture(scope="module")
def parallel(folder):
    """Two members, trained at the same time."""
    assert sorted(n for n, _ in members_of(given(folder), folder / "members", 2, workers=2)) == [
        0,
        1,
    ]
    return folder / "members"


def given(folder, name="train_member", **more) -> Recipe:
    return Recipe(f"recipe.py:{name}", folder, train={"npz": "train.npz"}, **more)


def plain(folder, name, **more) -> Recipe:
    return Recipe(f"recipe.py:{name}", folder, **more)


def trained(recipe: Recipe, place, count: int = 2, **more) -> list[int]:
    return [number for number, _ in members_of(recipe, place, count, **more)]


def test_members_trained_in_parallel_are_those_trained_one_after_the_other_here(
    folder, parallel, tmp_path
):
    recipe = given(folder)
    for number in (1, 0):
        save_member(recipe.member(number), member_file(tmp_path, number), recipe.note(number))
        assert (
            member_file(tmp_path, number).read_bytes() == member_file(parallel, number).read_bytes()
        )


def test_members_differ_and_so_do_those_of_another_seed(folder, parallel):
    first, second = (load_file(member_file(parallel, n))["0.weight"] for n in (0, 1))
    other = given(folder, seed=1).member(0)[0].weight
    assert not torch.equal(first, second) and not torch.equal(first, other)
    assert len({member_seed(seed, number) for seed in range(50) for number in range(50)}) == 2500


def test_a_recipe_that_says_nothing_of_seeds_gives_the_same_member_again_and_different_members(
    folder,
):
    recipe = plain(folder, "without_a_word_about_seeds")
    one, again, other = recipe.member(0), recipe.member(0), recipe.member(1)
    assert torch.equal(one[0].bias, again[0].bias) and not torch.equal(one[0].bias, other[0].bias)


def test_only_the_missing_member_is_trained_and_it_is_the_same_again(folder, parallel, capsys):
    whole = [member_file(parallel, n).read_bytes() for n in (0, 1)]
    kept = member_file(parallel, 0).stat().st_mtime_ns
    member_file(parallel, 1).unlink()
    assert trained(given(folder), parallel, workers=1) == [0, 1]
    said = capsys.readouterr().err
    assert (
        "training 1 member by recipe.py:train_member" in said
        and "member 1 is trained: 1 of 1" in said
    )
    assert [member_file(parallel, n).read_bytes() for n in (0, 1)] == whole
    assert member_file(parallel, 0).stat().st_mtime_ns == kept
    assert sorted(p.name for p in parallel.iterdir()) == [
        f"member-{n}.{end}" for n in (0, 1) for end in ("log", "safetensors")
    ]
    assert (
        member_file(parallel, 1).with_suffix(".log").read_text()
        == f"member of seed {member_seed(0, 1)}\n"
    )


def other_layers(place):
    (place / "layers.py").write_text(f"{LAYERS}\n# wider\n")


def other_data(place):
    np.savez(place / "train.npz", images=np.zeros((9, 4, 4), np.uint8), labels=np.arange(9) % 3)


@pytest.mark.parametrize("change", [other_layers, other_data])
def test_members_of_another_recipe_or_other_data_are_refused_and_left_alone(
    folder, parallel, tmp_path, change
):
    for name in ("recipe.py", "layers.py", "train.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert given(tmp_path).note(0) == given(folder).note(0), (
        "a folder that was moved holds the same recipe"
    )
    change(tmp_path)
    before = member_file(parallel, 0).read_bytes()
    with pytest.raises(
        SubjectError,
        match=r"member-0.safetensors, member-1.safetensors in .*another folder",
    ):
        trained(given(tmp_path), parallel)
    assert member_file(parallel, 0).read_bytes() == before


def test_another_seed_and_changed_files_are_refused_too(folder, parallel):
    with pytest.raises(SubjectError, match="with this seed, data and files"):
        trained(given(folder, seed=3, files=("layers.py",)), parallel)


def test_weights_of_unknown_origin_are_never_overwritten(folder, tmp_path):
    save_file({"0.weight": torch.zeros(8, 16)}, member_file(tmp_path, 0))
    before = member_file(tmp_path, 0).read_bytes()
    with pytest.raises(SubjectError, match=r"list the files"):
        trained(given(folder), tmp_path)
    assert member_file(tmp_path, 0).read_bytes() == before


def test_a_truncated_member_is_named(folder, parallel, tmp_path):
    member_file(tmp_path, 1).write_bytes(member_file(parallel, 1).read_bytes()[:300])
    with pytest.raises(
        SubjectError, match=r"member-1.safetensors cannot be read.*remove it to train it again"
    ):
        trained(given(folder), tmp_path)


def test_the_note_stands_in_the_file(folder, parallel):
    note = read_note(member_file(parallel, 1))
    assert note == {**given(folder).note(1), "torch": torch.__version__}


def test_tied_weights_are_kept_whole(folder, tmp_path):
    model = plain(folder, "tied").member(0)
    save_member(model, member_file(tmp_path, 0), {})
    kept = load_file(member_file(tmp_path, 0))
    assert torch.equal(kept["a.weight"], kept["b.weight"]) and set(kept) == set(model.state_dict())


def test_a_member_that_fails_is_named_with_the_reason_and_finished_ones_stay(folder, tmp_path):
    assert member_seed(0, 1) == 1623484961
    recipe = plain(folder, "second_breaks")
    reason = r"member 1 could not be trained: .*recipe.py, line \d+: ArithmeticError: no image is bright; .*member-1.log"
    with pytest.raises(SubjectError, match=reason):
        trained(recipe, tmp_path, 3, workers=1)
    assert [p.name for p in tmp_path.glob("*.safetensors")] == ["member-0.safetensors"]
    assert "ArithmeticError" in (tmp_path / "member-1.log").read_text()
    assert next(members_of(recipe, tmp_path, 3))[0] == 0


@pytest.mark.slow
def test_a_member_whose_process_is_killed_is_named(folder, tmp_path):
    with pytest.raises(
        SubjectError,
        match=r"member 0 could not be trained: its process ended by signal 9",
    ):
        trained(plain(folder, "ends"), tmp_path, workers=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("number", "it returned int; the trained"),
        ("diverged", "0.weight hold NaN.*diverged"),
        ("lost_count", "running hold NaN.*diverged"),
    ],
)
def test_what_is_no_trained_model_is_refused(folder, name, said):
    with pytest.raises(SubjectError, match=said):
        plain(folder, name).member(0)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (lambda f: plain(f, "asks_for_more"), "asks for 'epochs'; it is given seed"),
        (lambda f: plain(f, "train_member"), "asks for data; name it under train"),
        (lambda f: given(f, "number"), "does not ask for it; write def number"),
        (lambda f: plain(f, "steps"), "is int, not a function"),
        (lambda f: plain(f, "train_membre"), "did you mean 'train_member'"),
    ],
)
def test_a_recipe_that_cannot_be_called_is_refused_before_anything_is_trained(
    folder, tmp_path, recipe, said
):
    with pytest.raises(SubjectError, match=said):
        trained(recipe(folder), tmp_path / "members")
    assert not (tmp_path / "members").exists()


def test_a_file_is_no_folder_and_nobody_trains_nothing(folder):
    with pytest.raises(SubjectError, match="it is the folder where trained members are kept"):
        trained(given(folder), folder / "train.npz")
    with pytest.raises(SubjectError, match="workers is 0"):
        trained(given(folder), folder / "members", workers=0)


@pytest.mark.slow
def test_a_training_ends_when_its_caller_is_killed(folder, tmp_path):
    code = (
        "import sys; from pathlib import Path; from roadworthy.subject.training import Recipe\n"
        "from roadworthy.subject.training import members_of\n"
        "list(members_of(Recipe('recipe.py:sleeps', Path(sys.argv[1])), Path(sys.argv[2]), 1))"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(tmp_path)], stderr=subprocess.DEVNULL
    )
    log = tmp_path / "member-0.log"
    assert _becomes(lambda: log.is_file() and log.read_text().strip().isdigit())
    child = int(log.read_text())
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    assert _becomes(lambda: not _runs(child))


def _becomes(condition) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_mask_of_minus_infinity_is_no_divergence(folder):
    model = Recipe("recipe.py:masked", folder).member(0)
    assert torch.isinf(model.state_dict()["mask"]).any()
