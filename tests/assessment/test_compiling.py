"""A run compiles into a monitor: counts of its own rows, the file's costs, the same bundle again, or the reason why not."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from sorter import SMALL, bundle_of, drawn, laid_out, run

from roadworthy.assessment.assess import Run
from roadworthy.assessment.recommendation import Recommendation
from roadworthy.assessment.sections.monitor import MOST, _columns
from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.monitor import Bundle, EventError, Events, Monitor, Windows
from roadworthy.monitor.bundle import RatePrior
from roadworthy.monitor.compile import LabelledRows
from roadworthy.registry import register, remove
from roadworthy.report.html import html
from roadworthy.store import RunFolder
from roadworthy.store.record import Record
from roadworthy.subject.needs import Output
from roadworthy.subject.trace import ModuleTrace

FASHION = Path(__file__).parents[2] / "examples" / "fashion"
CLOTHES = """\
name: clothes
subject: {task: classification, torch: model.py:build, weights: weights.safetensors}
data:
  test: {bundled: fashion-mnist, split: test, n: 600}
  calibration: {bundled: fashion-mnist, split: calibration, n: 400}
circumstances:
  noise: {transform: gaussian_noise, levels: [1, 3], table: wang}
  shake: {transform: motion_blur, levels: [2], table: wang}
  dark: {where: {brightness: dark}}
slices: [brightness]
supervisors: [max_softmax, energy, max_logit, fused]
execution: {chunk: 400}
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return laid_out(tmp_path)


def kinds_of(cases: dict[str, np.ndarray], dark: bool = True) -> np.ndarray:
    kind = np.where(cases["circumstance"] == "", "clean", cases["circumstance"]).astype(object)
    if dark:
        kind[(kind == "clean") & (cases["slice.brightness"] == "dark")] = "dark"
    return kind.astype(str)


@pytest.fixture(scope="module")
def clothes(tmp_path_factory: pytest.TempPathFactory, quick_alarms: None) -> Run:
    folder = tmp_path_factory.mktemp("clothes")
    for name in ("model.py", "weights.safetensors"):
        shutil.copy(FASHION / name, folder / name)
    return run(folder, CLOTHES)


def test_windows_and_prior_of_the_file_stand_in_the_bundle(user: Path) -> None:
    for asked, windows, prior in (
        ("{events_per_day: 3000}", Windows((100, 1000)), None),
        (
            "{window: 200, half_life: 50, adaptive: true, prior: {rate: 0.1}}",
            Windows((200,), 50.0, True),
            RatePrior(0.1, 20.0),
        ),
    ):
        bundle = bundle_of(run(user, SMALL, ("execution:", f"monitor: {asked}\nexecution:")))
        assert bundle.windows == windows and bundle.prior == prior and bundle.alarm is not None


def test_the_bundle_counts_the_test_rows_kind_by_kind_and_cell_by_cell(clothes: Run) -> None:
    bundle = bundle_of(clothes)
    calibration = bundle.calibration
    assert calibration.names == ("energy", "max_logit", "max_softmax")
    assert calibration.kinds == ("clean", "dark", "noise", "shake")
    cases = RunFolder.open(clothes.folder).cases()
    kind, right = kinds_of(cases), ~cases["failure"]
    cells = calibration.place({n: cases[n] for n in calibration.names})
    for i, name in enumerate(calibration.kinds):
        assert calibration.rows(name) == int((kind == name).sum())
        for j, outcome in enumerate((right, ~right)):
            rows = (kind == name) & outcome
            np.testing.assert_array_equal(
                calibration.table[i, j], np.bincount(cells[rows], minlength=calibration.cells)
            )
    assert calibration.rows("noise") == 2 * calibration.rows("shake") == 1200
    assert len(calibration.independent) == 4 and calibration.worth[0] > 0.99, (
        "clean samples are independent"
    )
    learned = pq.read_table(clothes.folder / "tables" / "calibration.parquet")
    references = np.asarray(learned["energy"])[np.asarray(learned["circumstance"]) == ""]
    assert set(calibration.references[0]) <= set(references.tolist())


def test_the_run_and_its_report_name_the_bundle_and_what_it_rests_on(clothes: Run) -> None:
    bundle, record = bundle_of(clothes), clothes.record.plain()["sections"]["monitor"]
    assert record["id"] == bundle.id and record["bundle"] == "monitor/bundle.json"
    assert record["supervisors"] == list(bundle.calibration.names)
    assert (
        bundle.subject == clothes.record.subject.fingerprint
        and bundle.made["run"] == clothes.record.key
    )
    assert (
        bundle.alarm is not None
        and bundle.alarm.window in (100, 1000)
        and bundle.tree.unit == record["unit"]
    )
    notes = " | ".join(record["notes"])
    assert "made from clean data by transforms: noise, shake" in notes and "fused" in notes
    assert "tolerable" in notes and "10,000 events a day" in notes
    assert "synthetic" not in bundle.calibrated_on and not any(
        "No monitor" in n for n in clothes.record.notes
    )
    page = html(Record.read(clothes.folder))
    assert (
        "roadworthy monitor monitor/bundle.json" in page
        and bundle.id in page
        and '<a href="#monitor">' in page
    )
    assert "roadworthy replay monitor/bundle.json today.parquet" in page


def test_an_event_of_another_subject_is_refused(clothes: Run) -> None:
    monitor = Monitor(bundle_of(clothes))
    events = Events(
        ["1"], [0.0], columns={n: np.zeros(1) for n in monitor.bundle.calibration.names}
    )
    with pytest.raises(EventError, match="this monitor watches"):
        monitor.update(events, subject="another")
    assert monitor.update(events, subject=clothes.record.subject.fingerprint).accepted == 1


def test_a_run_that_is_moved_still_has_its_monitor(clothes: Run, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(clothes.folder, moved)
    assert Bundle.load(moved / "monitor" / "bundle.json").id == bundle_of(clothes).id
    assert Record.read(moved).sections["monitor"].id == bundle_of(clothes).id


def test_any_number_of_workers_and_a_second_run_give_the_same_bundle(user: Path) -> None:
    first = bundle_of(run(user, workers=1, runs=user / "one"))
    done = run(user, workers=2, runs=user / "two")
    assert bundle_of(done).id == first.id
    again = run(user, runs=user / "two")
    assert (
        again.record.plain()["sections"]["monitor"] == done.record.plain()["sections"]["monitor"]
        and bundle_of(again).id == first.id
    )


def test_costs_constants_windows_and_rates_are_those_of_the_file(user: Path) -> None:
    tree = (
        "{event: shift, branches: {shifted: {p: p_shift, then: {event: answer, branches: {right: {p: accuracy_shifted, then: "
        "{outcome: fine, cost: 1}}, wrong: {then: {event: seen, branches: {caught: {p: p_seen, then: {outcome: near, cost: 5}}, "
        "unseen: {then: {outcome: harm, cost: 90}}}}}}}}, clean: {then: {outcome: fine, cost: 0}}}}"
    )
    more = (
        f"risk: {{unit: EUR per case, tree: {tree}, tolerable: 4, "
        "constants: {p_shift: 0.25, p_seen: {successes: 18, trials: 20}}}\n"
        "monitor: {window: [50, 400], false_alarms: 2 per week, events_per_day: 700}\nexecution:"
    )
    bundle = bundle_of(run(user, SMALL, ("execution:", more)))
    assert (
        bundle.unit == "EUR per case"
        and bundle.tolerable == 4
        and bundle.windows.lengths == (50, 400)
    )
    assert bundle.constants == {"p_seen": (18.0, 20.0)}, (
        "how much is shifted is what the stream tells"
    )
    assert bundle.forecast is not None and bundle.forecast.rate == 0.25
    assert bundle.alarm is not None
    assert (bundle.alarm.false_alarms, bundle.alarm.events_per_day) == ("2 per week", 700.0)
    assert any("synthetic augmentations only" in n for n in bundle.made["notes"])


def test_several_events_are_priced_in_the_run_and_in_its_monitor(user: Path) -> None:
    more = (
        "risk: {unit: EUR per case, costs: {right: 1, wrong: 90}, events: [shift, adversarial], tolerable: 40, "
        "constants: {p_shift: 0.2, p_adversarial: 0.1, accuracy_adversarial: 0.3}}\nexecution:"
    )
    done = run(user, SMALL, ("execution:", more))
    said = done.record.plain()["sections"]["risk"]
    note = "Not measured, used as given: p_adversarial, accuracy_adversarial."
    right = said["parameters"]
    wrong = 0.2 * (1 - right["accuracy_shifted"]) + 0.1 * 0.7 + 0.7 * (1 - right["accuracy_clean"])
    assert said["value"] == pytest.approx(1 + 89 * wrong)
    assert f"risk: {note}" in done.record.notes
    bundle = bundle_of(done)
    assert bundle.constants == {"p_adversarial": 0.1, "accuracy_adversarial": 0.3}
    assert note in bundle.made["notes"] and bundle.tree.parameters == tuple(right)
    # Whatever the stream, a tenth of what would be clean is right in three cases of ten; only the rest is told by the scores.
    level = drawn(400, 3)["images"].mean(axis=(1, 2))
    sure = 1 / (1 + np.exp(-np.abs(level - 128) / 30))
    columns = {"max_softmax": 1 - sure, "deep_gini": 2 * sure * (1 - sure)}
    cells = bundle.calibration.place(columns)
    counts = np.bincount(cells, minlength=bundle.calibration.cells)[None, :]
    found, wrong_clean = bundle.estimator.estimate(counts), 1 - bundle.calibration.accuracy("clean")
    expected = 1 + 89 * (1 - found.accuracy[0] + 0.1 * (0.7 - wrong_clean))
    assert found.risk[0] == pytest.approx(expected, abs=1.0)
    more_than = 1 + 89 * (1 - found.accuracy[0]) + 3.0
    assert found.risk[0] > more_than, "more than without the other event"


def test_probabilities_and_the_share_of_filtered_cases_are_expected(user: Path) -> None:
    more = "table: wang, probability: 0.1}\n  site_b: {where: {site: B}}"
    done = run(user, SMALL, ("table: wang}", more))
    bundle = bundle_of(done)
    assert bundle.forecast is not None and bundle.forecast.rate == pytest.approx(0.1 + 0.25)
    assert {k: bundle.calibration.rows(k) for k in bundle.calibration.kinds} == {
        "clean": 120,
        "noise": 320,
        "site_b": 40,
    }


def test_levels_that_change_nothing_are_not_counted_as_shift(user: Path) -> None:
    assert (
        bundle_of(run(user, SMALL, ("levels: [1, 3]", "levels: [0, 3]"))).calibration.rows("noise")
        == 160
    )


def test_one_supervisor_is_enough(user: Path) -> None:
    assert bundle_of(
        run(user, SMALL, ("[max_softmax, deep_gini]", "[max_softmax]"))
    ).calibration.names == ("max_softmax",)


def test_data_of_its_own_is_learned_from_by_half_and_counted_by_half(user: Path) -> None:
    np.savez(user / "night.npz", **drawn(100, 3, shade=-40.0, patient=np.arange(100) // 4))
    np.savez(user / "test.npz", **drawn(160, 1, patient=np.arange(160) // 2 + 100))
    np.savez(user / "calibration.npz", **drawn(200, 2, patient=np.arange(200) + 1000))
    done = run(
        user,
        SMALL,
        (
            "noise: {transform: gaussian_noise, levels: [1, 3], table: wang}",
            "night: {data: {npz: night.npz, columns: [patient]}}",
        ),
        ("columns: [site]}\ncirc", "columns: [patient]}\n  group: patient\ncirc"),
        ("{npz: test.npz, columns: [site]}", "{npz: test.npz, columns: [patient]}"),
    )
    bundle = bundle_of(done)
    assert bundle.calibration.rows("night") == 48, (
        "12 of 25 patients with 4 images each; 13 were learned from"
    )
    assert bundle.calibration.grouped and bundle.calibration.rows("clean") == 160
    assert not any("transform" in n for n in bundle.made["notes"])


class Endless:
    """Infinite for some answers, silent for others."""

    needs = (Output(),)
    fitted = False

    def applies_to(self, kind: Kind) -> str | None:
        return None if kind is CLASS_SCORES else "it reads classes"

    def fit(self, trace: ModuleTrace, truth: object) -> None:
        """Nothing."""

    def score(self, trace: ModuleTrace) -> np.ndarray:
        scores = np.asarray(trace.output, float).reshape(len(trace), -1)[:, 0].copy()
        scores[::5], scores[1::5] = np.inf, np.nan
        return scores

    def save(self, folder: Path) -> None:
        """Nothing."""

    def load(self, folder: Path) -> None:
        """Nothing."""


def test_infinite_scores_count_as_missing(user: Path) -> None:
    register("supervisors", "endless")(Endless)
    try:
        bundle = bundle_of(run(user, SMALL, ("deep_gini]", "endless]")))
        alone = bundle_of(run(user, SMALL, ("[max_softmax, deep_gini]", "[endless]")))
    finally:
        remove("supervisors", "endless")
    assert "endless" in bundle.calibration.names and bundle.calibration.rows("clean") == 160
    assert np.isfinite(
        bundle.calibration.references[bundle.calibration.names.index("endless")]
    ).all()
    assert alone.calibration.rows("clean") == 96, "rows without any score are not counted"


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        (
            [("  calibration: {npz: calibration.npz, columns: [site]}\n", "")],
            "Add `data.calibration`",
        ),
        ([("supervisors: [max_softmax, deep_gini]\n", "")], "Add `supervisors: [max_softmax]`"),
        (
            [
                (
                    "circumstances:\n  noise: {transform: gaussian_noise, levels: [1, 3], table: wang}\n",
                    "",
                )
            ],
            "Add `circumstances`",
        ),
        ([("[max_softmax, deep_gini]", "[knn]")], "none of them is applicable"),
        (
            [
                (
                    "noise: {transform: gaussian_noise, levels: [1, 3], table: wang}",
                    "site_b: {where: {site: B}}",
                ),
                ("calibration.npz, columns: [site]", "calibration.npz"),
            ],
            "nothing is known of site_b",
        ),
        (
            [("calibration.npz,", "few.npz,")],
            "12 clean calibration cases have a score, and a monitor needs 20",
        ),
    ],
    ids=["calibration", "supervisors", "circumstances", "applicable", "columns", "few"],
)
def test_what_is_missing_is_said_and_the_run_stands(
    user: Path, changes: list[tuple[str, str]], because: str
) -> None:
    np.savez(user / "few.npz", **drawn(12, 5))
    done = run(user, SMALL, *changes)
    assert (
        because in done.record.plain()["sections"]["monitor"]["because"]
        and done.verdict == "no claims"
    )
    assert (
        f"No monitor was compiled: {done.record.plain()['sections']['monitor']['because']}"
        in done.record.notes
    )
    assert not (done.folder / "monitor").exists()
    assert "No monitor was compiled" in html(Record.read(done.folder))


def test_where_no_answer_is_wrong_there_is_nothing_to_watch(user: Path) -> None:
    for role in ("test", "calibration"):
        with np.load(user / f"{role}.npz") as kept:
            np.savez(
                user / f"{role}.npz",
                images=kept["images"],
                labels=kept["labels"].astype(float),
                site=kept["site"],
            )
    (user / "subject.py").write_text("def predict(image):\n    return [image.mean() / 255]\n")
    done = run(
        user,
        SMALL,
        ("task: classification", "task: regression"),
        ("[max_softmax, deep_gini]", "[]"),
    )
    assert "failures are not defined" in done.record.plain()["sections"]["monitor"]["because"]


def test_of_many_supervisors_the_recommended_and_the_telling_ones_are_read() -> None:
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog"], 500)
    strong = rng.normal(2.0 * (kind == "fog"))
    columns = {f"weak{i}": rng.normal(0.3 * i * (kind == "fog")) for i in range(8)}
    columns |= {"strong": strong, "copy": 3 * strong + 1}
    at_work = SimpleNamespace(
        second=[SimpleNamespace(label="fused")], members_of=lambda s: tuple(columns)
    )
    rows = LabelledRows(columns, kind, np.ones(1000, bool))
    chosen, notes = _columns(list(columns), rows, at_work, Recommendation(supervisors=["weak0"]))  # type: ignore[arg-type]
    assert (
        chosen == ["weak0", "weak2", "weak3", "weak4", "weak5", "weak6", "weak7", "strong"]
        and len(chosen) == MOST
    )
    assert "fused" in notes[0] and "8 of 10 supervisors are read" in notes[1]
    everyone, _ = _columns(list(columns)[:MOST], rows, at_work, None)  # type: ignore[arg-type]
    assert everyone == list(columns)[:MOST]
    of_all, _ = _columns(list(columns), rows, at_work, Recommendation(supervisors=["fused"]))  # type: ignore[arg-type]
    assert "weak0" not in of_all
