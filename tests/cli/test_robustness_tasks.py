"""The tasks of the robustness method, each by its own command (numbers of Wozniak et al. 2024)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from roadworthy.data.loaders.files import read_image
from roadworthy.data.png import encode_png
from roadworthy.report.workbook import empty_workbook

BOXES = (
    # Boxes 1 to 3: name, target, source, exposure, likelihood, severity
    ("contrast", 0.15, 0.05, 3, 2, 3),
    ("line_shift", 0.2, 0, 3, 3, 2),
    ("truncation", 0.15, 0.1, 5, 2, 2),
    ("motion_blur", 0.1, 0.05, 5, 1, 3),
    ("gaussian_blur", 0.1, 0, 3, 1, 3),
    ("salt_pepper", 0.1, 0, 3, 1, 1),
    ("rotation", 0.1, 0, 5, 1, 2),
    ("resolution", 0.1, 0, 3, 2, 2),
)
BOX_5 = (
    # Metric, source, target, difference as printed
    ("Precision", 0.564, 0.498, 0.066),
    ("Recall", 0.510, 0.384, 0.126),
    ("AP0.5", 0.526, 0.414, 0.112),
    ("AP0.75", 0.396, 0.264, 0.132),
    ("AP", 0.340, 0.246, 0.094),
)
BOX_7 = "0.25: 0.01, 1: 0 + 1d"
ORACLE = Path(__file__).parents[1] / "measures" / "oracle"


def boxes_file(folder: Path, *more: str) -> Path:
    """Boxes 1 to 3 as an assessment file that names neither subject nor data."""
    lines = ["circumstances:"]
    for name, target, _, exposure, likelihood, severity in BOXES:
        rated = f"exposure: {exposure}, likelihood: {likelihood}, severity: {severity}"
        lines.append(f"  {name}: {{run: false, probability: {target}, {rated}}}")
    sources = ", ".join(f"{row[0]}: {row[2]}" for row in BOXES)
    file = folder / "boxes.yaml"
    file.write_text("\n".join([*lines, *more, f"robustness:\n  source: {{{sources}}}", ""]))
    return file


def table(folder: Path, rows: Any, header: str = "circumstance,measure,distance,source,target"):
    file = folder / "table.csv"
    file.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    return file


def box_5(folder: Path, distance: float = 0.154) -> Path:
    return table(folder, [("mixture", m, distance, s, t) for m, s, t, _ in BOX_5])


def test_circumstances_are_ranked_as_in_figure_a1(cli, tmp_path):
    found = json.loads(cli("robustness", "circumstances", boxes_file(tmp_path), "--json").out)
    ranked = [(c["circumstance"], c["significance"]) for c in found["circumstances"]]
    assert ranked == [
        ("truncation", 20), ("contrast", 18), ("line_shift", 18), ("motion_blur", 15),
        ("resolution", 12), ("rotation", 10), ("gaussian_blur", 9), ("salt_pepper", 3),
    ]  # fmt: skip


def test_points_of_view_and_exclusive_groups_are_shown_with_the_rest_named(cli, tmp_path):
    file = boxes_file(
        tmp_path, "exclusive: [[motion_blur, gaussian_blur], {of: [contrast], exhaustive: false}]"
    )
    file.write_text(
        file.read_text() + "  viewpoints: {nurse: {a restless patient: [motion_blur]}}\n"
    )
    found = json.loads(cli("robustness", "circumstances", file, "--json").out)
    moved = next(c for c in found["circumstances"] if c["circumstance"] == "motion_blur")
    assert moved["seen by nurse"] == ["a restless patient"]
    assert sum("nurse" in note for note in found["notes"]) == 7
    first = found["exclusive"][0]["probabilities"]
    assert first == {
        "motion_blur": 0.1,
        "gaussian_blur": 0.1,
        "none of them": pytest.approx(0.8),
    }
    said = cli("robustness", "circumstances", file).out
    assert "At most one is met: motion_blur 0.1, gaussian_blur 0.1, none of them 0.8." in said


def test_the_gap_has_the_shares_of_figure_a1(cli, tmp_path):
    answer = cli("robustness", "gap", boxes_file(tmp_path), "--json")
    found = json.loads(answer.out)
    assert (found["missing"], found["over_or_under"], found["covered"]) == (63, 100, 0)
    gaps = {g["circumstance"]: g["gap"] for g in found["gaps"]}
    assert gaps == {name: pytest.approx(target - source) for name, target, source, *_ in BOXES}
    assert answer.code == 0 and answer.err == ""


def test_the_gap_counts_samples_reads_metadata_and_names_what_only_a_run_can_tell(cli, tmp_path):
    (tmp_path / "cases.csv").write_text("label,site,x\n" + "a,A,1\n" * 15 + "b,B,2\n" * 5)
    file = tmp_path / "some.yaml"
    file.write_text(
        "subject: {task: classification, predictions: none.csv}\n"
        "data: {test: {csv: cases.csv, features: [x]}}\n"
        "circumstances:\n"
        "  dark: {run: false, probability: 0.5}\n"
        "  site_b: {where: {site: B}, probability: 0.25}\n"
        "  blurred: {run: false, probability: 0.1}\n"
        "robustness:\n"
        "  source: {dark: {found: 3, of: 50}, site_b: {where: {site: B}}, blurred: {estimator: blur}}\n"
    )
    answer = cli("robustness", "gap", file, "--json")
    rows = {g["circumstance"]: g for g in json.loads(answer.out)["gaps"]}
    exact = binomtest(3, 50).proportion_ci(0.95, method="exact")
    assert rows["dark"]["interval"] == [pytest.approx(exact.low), pytest.approx(exact.high)]
    assert (rows["dark"]["status"], rows["site_b"]["status"]) == ("under-represented", "covered")
    assert rows["site_b"]["source"] == 0.25
    assert rows["blurred"]["status"] == "not estimated"
    assert "`roadworthy assess` runs the estimator blur" in cli("robustness", "gap", file).out


def test_a_workbook_without_subject_is_enough_for_circumstances_and_gap(cli, tmp_path):
    import io

    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(empty_workbook()))
    for i, (name, target, source, *rated) in enumerate(BOXES):
        for column, value in enumerate([i + 1, name, None, None, target, *rated], start=1):
            book.worksheets[0].cell(13 + i, column).value = value
        book.worksheets[1].cell(6 + i, 1, i + 1)
        book.worksheets[1].cell(6 + i, 3, source)
    book.save(tmp_path / "workbook.xlsx")
    for task in ("circumstances", "gap"):
        known = json.loads(cli("robustness", task, boxes_file(tmp_path), "--json").out)
        found = json.loads(cli("robustness", task, tmp_path / "workbook.xlsx", "--json").out)
        for row in found.get("circumstances", ()):
            row["description"] = ""  # the name of the first column
        assert found == known


@pytest.fixture(scope="module")
def scenes() -> Any:
    spec = importlib.util.spec_from_file_location("make_coco", ORACLE / "make_coco.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["crowds", "empty images and classes"])
def test_performance_equals_pycocotools(cli, tmp_path, scenes, name):
    images, _ = scenes.scenes(**scenes.SETS[name])

    def bbox(box: np.ndarray) -> list[float]:
        return [*box[:2].tolist(), *(box[2:] - box[:2]).tolist()]

    truth: list[dict] = []
    found: list[dict] = []
    for i, image in enumerate(images, start=1):
        for box, label, area, crowd in zip(*image[:4], strict=True):
            own = {"id": len(truth), "image_id": i, "category_id": int(label) + 1}
            truth.append(own | {"bbox": bbox(box), "area": float(area), "iscrowd": int(crowd)})
        for box, label, score in zip(*image[4:], strict=True):
            own = {"image_id": i, "category_id": int(label) + 1, "bbox": bbox(box)}
            found.append(own | {"score": float(score)})
    classes = [{"id": c + 1, "name": f"class {c}"} for c in range(scenes.CLASSES)]
    pictures = [{"id": i + 1, "file_name": f"{i}.png"} for i in range(len(images))]
    content = {"images": pictures, "annotations": truth, "categories": classes}
    (tmp_path / "truth.json").write_text(json.dumps(content))
    (tmp_path / "found.json").write_text(json.dumps(found))
    asked = ("robustness", "performance", tmp_path / "truth.json", tmp_path / "found.json")
    answer = json.loads(cli(*asked, "--intervals", "--json").out)
    expected = json.loads(ORACLE.joinpath("coco.json").read_text())[name]
    values = {row["figure"]: row["value"] for row in answer["figures"]}
    assert [values[n] for n in ("tp", "fp", "fn")] == expected["counts"]
    figures = [v for n, v in values.items() if n.startswith(("ap", "ar"))]
    assert figures == [v if v is None else pytest.approx(v, abs=1e-5) for v in expected["all"]]
    for row in answer["by_class"]:
        wanted = expected["by class"][int(row["class"].removeprefix("class "))]
        own = [v for n, v in row.items() if n.startswith(("ap", "ar"))]
        assert own == [v if v is None else pytest.approx(v, abs=1e-5) for v in wanted]
    ends = {row["figure"]: row["interval"] for row in answer["figures"]}
    assert ends["ap"][0] < values["ap"] < ends["ap"][1]
    few = {r["figure"]: r["value"] for r in json.loads(cli(*asked, "--json").out)["figures"]}
    assert few == values
    strict = json.loads(cli(*asked, "--min-score", 0.9, "--json").out)["figures"]
    assert next(r["value"] for r in strict if r["figure"] == "tp") < values["tp"]


def pictures(folder: Path, name: str, images: np.ndarray, prefix: str = "") -> Path:
    (folder / name).mkdir()
    for i, image in enumerate(images):
        (folder / name / f"{prefix}{i}.png").write_bytes(encode_png(image))
    return folder / name


@pytest.fixture
def two_folders(tmp_path) -> tuple[Path, Path, np.ndarray, np.ndarray]:
    """Twelve pictures, of which nine are made brighter."""
    one = np.random.default_rng(0).integers(0, 200, (12, 24, 24, 3), dtype=np.uint8)
    other = one.copy()
    other[3:] += np.arange(9, dtype=np.uint8)[:, None, None, None] + 5
    return pictures(tmp_path, "one", one), pictures(tmp_path, "other", other), one, other


def test_distances_are_means_over_the_pairs_that_differ(cli, two_folders):
    first, second, one, other = two_folders
    answer = cli("robustness", "distance", first, second, "--distance", "mse", "--json")
    found, rows = json.loads(answer.out), json.loads(answer.out)["distances"]
    assert (found["pairs"], found["differ"], answer.err) == (12, 9, "")
    apart = ((one.astype(float) - other) ** 2).mean(axis=(1, 2, 3))[3:] / 255**2
    assert rows[0]["value"] == pytest.approx(apart.mean())
    assert rows[0]["interval"][0] < apart.mean() < rows[0]["interval"][1]
    assert [r["metric"] for r in rows] == ["M14", "M15", "M16", "M16", "M17", "M17", "M17", "M17"]


def test_folders_without_pairs_have_distances_between_sets_alone(cli, two_folders, tmp_path):
    first, _, _, other = two_folders
    third = pictures(tmp_path, "third", other, prefix="case-")
    rows = json.loads(cli("robustness", "distance", first, third, "--json").out)["distances"]
    assert {r["metric"] for r in rows} == {"M15", "M17"}
    from roadworthy.distances.features import feature_matrix

    centres = [feature_matrix(read_image(f) for f in sorted(p.iterdir())) for p in (first, third)]
    expected = np.linalg.norm(centres[0].mean(axis=0) - centres[1].mean(axis=0))
    assert next(r["value"] for r in rows if r["method"] == "centroid") == pytest.approx(expected)
    assert "M14 and M16 do not apply" in cli("robustness", "distance", first, third).out


def test_box_7_holds_for_none_of_the_five_metrics(cli, tmp_path):
    asked = ("robustness", "relation", box_5(tmp_path), "--epsilon", BOX_7, "--loss", "absolute")
    answer = cli(*asked, "--json")
    found = json.loads(answer.out)
    assert [r["loss"] for r in found["relation"]] == [pytest.approx(row[3]) for row in BOX_5]
    assert {r["epsilon"] for r in found["relation"]} == {0.01}
    (verdict,) = found["verdicts"]
    assert (verdict["outcome"], verdict["holds"], verdict["metrics"]) == ("breached", 0, 5)
    assert answer.code == 1
    assert "Overall: not robust" in cli(*asked).out


@pytest.mark.parametrize(
    "distance, target, code", [(0.25, 0.49, 0), (0.25, 0.48, 1), (0.3, 0.2, 0), (1.1, 0.5, 3)]
)
def test_the_left_piece_holds_at_a_jump_and_beyond_the_last_nothing_is_known(
    cli, tmp_path, distance, target, code
):
    file = table(tmp_path, [("fog", "recall", distance, 0.5, target)])
    assert cli("robustness", "relation", file, "--epsilon", BOX_7).code == code


def test_an_improvement_is_no_loss_and_a_measure_says_which_side_is_better(cli, tmp_path):
    header = "circumstance,measure,distance,source,target,better"
    rows = [("fog", "recall", 0.1, 0.5, 0.7, "higher"), ("fog", "misses", 0.1, 0.5, 0.3, "lower")]
    asked = ("robustness", "relation", table(tmp_path, rows, header), "--epsilon", "1: 0")
    assert cli(*asked).code == 0
    assert cli(*asked, "--loss", "absolute").code == 1
    file = table(tmp_path, [("fog", "rmse", 0.1, 0.5, 0.7)])
    assert cli("robustness", "relation", file, "--epsilon", "1: 0.1").code == 1


def test_every_row_counts_also_if_a_circumstance_has_several_levels(cli, tmp_path):
    rows = [("all", "ap", 0.1, 0.5, 0.2), ("all", "ap", 0.2, 0.5, 0.5)]
    answer = cli("robustness", "relation", table(tmp_path, rows), "--epsilon", "1: 0.1", "--json")
    (verdict,) = json.loads(answer.out)["verdicts"]
    assert (verdict["holds"], verdict["metrics"], answer.code) == (1, 2, 1)


def test_a_file_states_epsilon_loss_and_the_weight_of_significance(cli, tmp_path):
    file = boxes_file(tmp_path)
    pieces = "epsilon: [{up_to: 1, intercept: 0.1}]\n  significance: 10\n  loss: absolute\n"
    file.write_text(file.read_text() + f"  {pieces}")
    rows = [("truncation", "AP0.5", 0.2, 0.5, 0.42), ("gaussian_blur", "AP0.5", 0.2, 0.5, 0.58)]
    answer = cli("robustness", "relation", table(tmp_path, rows), "--file", file, "--json")
    found = json.loads(answer.out)["relation"]
    assert [(r["weight"], r["outcome"]) for r in found] == [(0.5, "breached"), (1.0, "met")]


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("circumstances", "nix.yaml"), "nix.yaml: there is no such file"),
        (("circumstances", "empty.yaml"), "empty.yaml:1: circumstances: states none"),
        (("gap", "none.yaml"), "none.yaml:1: robustness: states no source"),
        (("performance", "nix.json", "nix.json"), "'nix.json' does not exist"),
        (("distance", "one", "nix"), "expected pictures with the same names in one and nix"),
        (("distance", "one", "other", "--distance", "psnr"), "psnr falls with distance"),
        (("distance", "one", "other", "--distance", "iuo"), "no distance is called 'iuo'"),
        (("distance", "one", "small"), "small/0.png and its original differ in size"),
        (("relation", "nix.csv", "--epsilon", BOX_7), "nix.csv: No such file"),
        (("relation", "table.csv", "--epsilon", BOX_7), "AP0.5: better must be one of"),
        (("relation", "short.csv", "--epsilon", BOX_7), "short.csv has no column 'measure'"),
        (("relation", "table.csv", "--epsilon", "0.25"), "epsilon: cannot read '0.25'"),
        (("relation", "table.csv", "--epsilon", "1: 0, 0.5: 1"), "order the pieces by up_to"),
        (("relation", "table.csv"), "give either --epsilon or --file"),
        (("relation", "table.csv", "--file", "none.yaml"), "robustness: states no epsilon"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    cli, two_folders, tmp_path, monkeypatch, arguments, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.yaml").write_text("name: nothing\n")
    (tmp_path / "none.yaml").write_text("circumstances: {fog: {run: false}}\n")
    (tmp_path / "short.csv").write_text("circumstance,distance,source,target\na,0,0,0\n")
    pictures(tmp_path, "small", two_folders[2][:, :8])
    box_5(tmp_path)
    answer = cli("robustness", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err and answer.err.count("error: ") == 1
    found = json.loads(cli("robustness", *arguments, "--json").out)
    assert found["exit_code"] == 2 and said in found["error"]


def test_the_checklist_of_hazards_is_listed_and_stands_in_the_workbook(cli, tmp_path):
    import openpyxl

    listed = json.loads(cli("list", "hazards", "--json").out)["hazards"]
    assert {"light", "weather", "sensor", "misuse"} <= {h["group"] for h in listed}
    assert "the lens is out of focus" in cli("list", "hazards").out
    assert cli("init", tmp_path / "workbook.xlsx").code == 0
    sheet = openpyxl.load_workbook(tmp_path / "workbook.xlsx")["Hazards"]
    rows = [tuple(x or "" for x in row) for row in sheet.iter_rows(min_row=4, values_only=True)]
    assert rows == [tuple(h.values()) for h in listed]
    assert sheet.protection.sheet
