"""Bad data and bad subjects, through `assess`: a case fails alone and is counted, or the error says file, field and remedy."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.data.png import encode_png
from roadworthy.execution.work import Unfinished
from roadworthy.spec import SpecError
from roadworthy.store import RunFolder
from roadworthy.subject.module import SubjectError

pytestmark = pytest.mark.usefixtures("no_monitor")

PREDICT = "def predict(image):\n    x = float(image.mean()) / 255\n    return [1 - x, x]\n"
FILE = """name: judge
subject: {task: classification, python: subject.py:predict}
data: {test: {npz: test.npz}}
circumstances:
  noise: {transform: gaussian_noise, levels: [1]}
supervisors: [max_softmax]
claims:
  - {id: ACC, accuracy: {min: 0.5}}
execution: {chunk: 5}
"""


def images(n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Uniform images from dark to light, and whether they are light."""
    light = np.linspace(10, 245, n)
    return np.broadcast_to(light[:, None, None], (n, 8, 8)).astype(np.uint8), (
        light > 127.5
    ).astype(np.int64)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's folder with a sound assessment of a judge of brightness."""
    pixels, labels = images()
    np.savez(tmp_path / "test.npz", images=pixels, labels=labels)
    (tmp_path / "subject.py").write_text(PREDICT)
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


def edited(user: Path, old: str, new: str, name: str = "assessment.yaml") -> Path:
    text = (user / name).read_text()
    assert old in text
    (user / name).write_text(text.replace(old, new, 1))
    return user / "assessment.yaml"


def picture_folder(user: Path) -> Path:
    """The same data as files: dark/ and light/."""
    for i, (pixels, label) in enumerate(zip(*images(), strict=True)):
        place = user / "pictures" / ("light" if label else "dark")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i:02}.png").write_bytes(encode_png(np.array(pixels)))
    return edited(user, "{npz: test.npz}", "{image_folder: pictures}")


def failed_cases(run) -> dict[str, str]:
    cases = RunFolder.open(run.folder).cases()
    clean = (cases["circumstance"] == "") & (cases["status"] == "failed")
    return dict(
        zip(cases["sample"][clean].tolist(), cases["error_message"][clean].tolist(), strict=True)
    )


def test_the_sound_assessment_is_sound(user):
    run = assess(user / "assessment.yaml")
    assert run.finding("accuracy").value == 1.0
    assert run.record.cases.failed == 0


def test_a_truncated_image_fails_its_case_alone_and_is_counted_as_wrong(user):
    file = picture_folder(user)
    broken = user / "pictures" / "light" / "15.png"
    broken.write_bytes(broken.read_bytes()[:40])
    run = assess(file)
    assert run.finding("accuracy").value == 19 / 20
    assert run.finding("accuracy").failed == 1
    assert run.record.cases.failed == 2  # clean and under noise
    ((sample, reason),) = failed_cases(run).items()
    assert sample.endswith("15.png")
    assert "15.png" in reason and "truncated or damaged: copy it again" in reason
    assert any(
        "2 cases gave no answer and are counted as wrong" in note for note in run.record.warnings
    )


def test_an_image_that_disappears_after_loading_fails_its_case_alone(user):
    file = picture_folder(user)
    vanish = "from pathlib import Path\n\nPath(__file__).parent.joinpath('pictures/light/15.png').unlink(missing_ok=True)\n\n\n"
    edited(user, "def predict", f"{vanish}def predict", "subject.py")
    run = assess(file)
    ((_, reason),) = failed_cases(run).items()
    assert "15.png: does not exist; restore the file or leave the sample out" in reason
    assert run.finding("accuracy").value == 19 / 20


def test_an_image_of_another_shape_reaches_the_subject_and_fails_alone_if_that_cannot_take_it(user):
    file = picture_folder(user)
    (user / "pictures" / "dark" / "00.png").write_bytes(encode_png(np.zeros((3, 5), np.uint8)))
    edited(user, "    x =", "    image = image.reshape(8, 8)\n    x =", "subject.py")
    run = assess(file)
    ((sample, reason),) = failed_cases(run).items()
    assert sample.endswith("00.png")
    assert "cannot reshape array of size 15 into shape (8,8)" in reason
    assert run.finding("accuracy").value == 19 / 20


def test_nan_logits_fail_their_case_and_get_no_score(user):
    edited(
        user,
        "    return",
        "    if x > 0.9:\n        return [float('nan'), 1.0]\n    return",
        "subject.py",
    )
    run = assess(user / "assessment.yaml")
    failed = failed_cases(run)
    assert len(failed) == 2
    assert all("has 1 NaN or infinite value among 2" in reason for reason in failed.values())
    cases = RunFolder.open(run.folder).cases()
    assert (np.isnan(cases["max_softmax"]) == (cases["status"] == "failed")).all()
    assert run.finding("accuracy").value == 18 / 20


def test_a_subject_that_raises_on_one_case_fails_that_case_alone(user):
    edited(
        user,
        "    return",
        "    if 0.3 < x < 0.35:\n        raise ZeroDivisionError('too grey')\n    return",
        "subject.py",
    )
    run = assess(user / "assessment.yaml")
    assert set(failed_cases(run).values()) == {"model, step 0: ZeroDivisionError: too grey"}
    assert run.finding("accuracy").value == 19 / 20


def test_a_subject_that_answers_nothing_is_stopped_after_the_first_chunk(user):
    edited(
        user,
        "    x =",
        "    (__import__('pathlib').Path(__file__).parent / 'weights').read_bytes()\n    x =",
        "subject.py",
    )
    for _ in range(2):
        with pytest.raises(
            SubjectError, match=r"no answer to any of the first 5 cases.*FileNotFoundError"
        ):
            assess(user / "assessment.yaml")
    (user / "weights").write_bytes(b"")
    assert assess(user / "assessment.yaml").record.cases.failed == 0


def test_a_label_outside_the_classes_names_row_count_and_remedy(user):
    pixels, labels = images()
    labels[3] = 7
    np.savez(user / "test.npz", images=pixels, labels=labels)
    file = edited(
        user, "{test: {npz: test.npz}}", "{test: {npz: test.npz}, classes: [dark, light]}"
    )
    with pytest.raises(SpecError) as caught:
        assess(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:3: data.test: ")
    assert "sample '3' has the label 7, outside the 2 classes (0 to 1)" in message
    assert "Correct the label file" in message


def test_a_label_beyond_the_scores_names_the_row(user):
    pixels, labels = images()
    labels[3] = 7
    np.savez(user / "test.npz", images=pixels, labels=labels)
    with pytest.raises(SpecError) as caught:
        assess(user / "assessment.yaml")
    assert str(caught.value).startswith(
        f"{user / 'assessment.yaml'}:3: data.test: The subject gives 2 scores a case, and sample '3' has"
    )
    assert "name the outputs, in their order" in str(caught.value)
    assert chunks_kept(user / "runs") == 4  # the clean ones: nothing else was run


def test_a_group_in_two_roles_is_refused_by_name(user):
    pixels, labels = images()
    for role, patients in (("test", 2), ("reference", 3)):
        groups = np.array([f"{role}{i % patients}" for i in range(20)])
        groups[0] = "anna"
        np.savez(user / f"{role}.npz", images=pixels, labels=labels, patient=groups)
    roles = "{test: {npz: test.npz, columns: [patient]}, reference: {npz: reference.npz, columns: [patient]}, group: patient}"
    file = edited(user, "{test: {npz: test.npz}}", roles)
    with pytest.raises(SpecError) as caught:
        assess(file)
    assert f"{file}:3: data: group 'anna' is in two roles, test and reference" in str(caught.value)
    assert "Split the data by group" in str(caught.value)


def test_an_empty_data_set_is_refused(user):
    np.savez(user / "test.npz", images=np.zeros((0, 8, 8), np.uint8), labels=np.zeros(0, np.int64))
    with pytest.raises(
        SpecError,
        match=r"assessment.yaml:3: data.test: .*test.npz: holds no samples; at least one is needed",
    ):
        assess(user / "assessment.yaml")


def test_a_data_file_that_is_not_there_names_path_and_remedy(user):
    (user / "test.npz").unlink()
    with pytest.raises(
        SpecError,
        match=r"assessment.yaml:3: data.test: .*test.npz does not exist.*correct the path",
    ):
        assess(user / "assessment.yaml")


def test_a_slice_that_is_too_small_is_shown_but_not_judged(user):
    pixels, labels = images(60)
    sites = np.array(["A"] * 50 + ["B"] * 10)
    np.savez(user / "test.npz", images=pixels, labels=labels, site=sites)
    file = edited(user, "{npz: test.npz}}", "{npz: test.npz, columns: [site]}}\nslices: [site]")
    edited(user, "min: 0.5}}", "min: 0.5}, every: slices}")
    run = assess(file)
    small = run.finding("accuracy", slice="site=B")
    assert small.interval is None
    assert (
        small.reason == "the slice has 10 cases, fewer than the 30 that are judged (smallest_slice)"
    )
    assert "slice site=B has 10 cases, too few to be judged (30)" in run.record.notes
    assert run.verdict == "inconclusive"
    assert [m.status for m in run.claims[0].members] == ["met", "inconclusive"]


def chunks_kept(root: Path) -> int:
    return len(list((root / ".cache").glob("*/*/chunk.json")))


def test_a_corrupted_chunk_is_computed_again(user):
    run = assess(user / "assessment.yaml")
    before = (run.folder / "findings.json").read_bytes()
    shutil.rmtree(run.folder)
    values = sorted((user / "runs" / ".cache").glob("*/*/*.npy"))[0]
    values.write_bytes(values.read_bytes()[:-4])
    again = assess(user / "assessment.yaml")
    assert again.record.cases.computed == 5
    assert (again.folder / "findings.json").read_bytes() == before
    whole = assess(user / "assessment.yaml")
    assert whole.record.cases.computed == 0


def test_a_manifest_that_is_no_json_is_computed_again(user):
    assess(user / "assessment.yaml")
    manifest = sorted((user / "runs" / ".cache").glob("*/*/chunk.json"))[0]
    manifest.write_text('{"format": 1, "mod')
    assert assess(user / "assessment.yaml").record.cases.computed == 5


def test_the_keyboard_stops_the_run_and_what_is_done_stays(user):
    stop = "    if x > 0.6 and not Path(__file__).with_name('go').exists():\n        raise KeyboardInterrupt\n"
    edited(user, "    return", f"{stop}    return", "subject.py")
    edited(user, "def predict", "from pathlib import Path\n\n\ndef predict", "subject.py")
    with pytest.raises(
        Unfinished,
        match=r"stopped by the keyboard; 2 of 8 chunks are done and kept, and the same command",
    ):
        assess(user / "assessment.yaml")
    assert chunks_kept(user / "runs") == 2
    (user / "go").write_text("")
    run = assess(user / "assessment.yaml")
    assert run.record.cases.from_cache == 10
    assert run.finding("accuracy").value == 1.0


def test_a_worker_that_is_killed_is_unfinished_work_and_the_same_command_goes_on(user):
    die = "    if x > 0.6 and not Path(__file__).with_name('go').exists():\n        os.kill(os.getpid(), 9)\n"
    edited(user, "    return", f"{die}    return", "subject.py")
    edited(
        user, "def predict", "import os\nfrom pathlib import Path\n\n\ndef predict", "subject.py"
    )
    with pytest.raises(
        Unfinished,
        match=r"a worker process ended by signal 9 \(SIGKILL\).*fewer workers; \d of 8 chunks are done",
    ):
        assess(user / "assessment.yaml", workers=2)
    (user / "go").write_text("")
    run = assess(user / "assessment.yaml", workers=2)
    assert run.finding("accuracy").value == 1.0
    assert not list((user / "runs").glob("**/*.partial"))


def test_a_full_disk_is_unfinished_work_and_what_is_done_stays(user, monkeypatch):
    save, chunks = np.save, set()

    def nearly_full(file, array, *args, **kwargs):
        chunks.add(Path(file).parent)
        if len(chunks) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(file, array, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(np, "save", nearly_full)
        with pytest.raises(Unfinished) as caught:
            assess(user / "assessment.yaml")
    message = str(caught.value)
    assert f"the disk is full at {user / 'runs' / '.cache'}; free some space" in message
    assert "3 of 8 chunks are done and kept" in message
    assert not list((user / "runs").glob("**/*.partial"))
    assert assess(user / "assessment.yaml").record.cases.from_cache == 15


@pytest.fixture
def tiny_disk(tmp_path: Path):
    """A file system of 96 KiB, where the machine lets us make one."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = shutil.which("mount")
    done = (
        subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(place)],
            capture_output=True,
            check=False,
        )
        if mount and os.geteuid() == 0
        else None
    )
    if done is None or done.returncode != 0:
        pytest.skip("a small file system can only be made by root")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full_is_unfinished_work_and_it_goes_on_elsewhere(user, tiny_disk):
    with pytest.raises(Unfinished, match=r"the disk is full at .*tiny.*chunks are done and kept"):
        assess(user / "assessment.yaml", runs=tiny_disk)
    kept = chunks_kept(tiny_disk)
    assert kept > 0
    roomy = user / "roomy"
    shutil.copytree(tiny_disk, roomy)
    run = assess(user / "assessment.yaml", runs=roomy)
    assert run.record.cases.from_cache >= min(kept, 8) * 5 - 5
    assert run.finding("accuracy").value == 1.0
