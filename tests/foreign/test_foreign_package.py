"""Another party's package: found through its entry points, run in an assessment, checked by conformance."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

PACKAGE = Path(__file__).parent / "fogworks"


def install(source: Path, target: Path) -> Path:
    """What an installer leaves behind: the modules, and a dist-info folder with metadata and entry points."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    target.mkdir(parents=True)
    if (source / "src").is_dir():
        shutil.copytree(source / "src" / project["name"], target / project["name"])
    info = target / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    lines = [
        line
        for group, points in groups
        for line in [f"[{group}]", *(f"{k} = {v}" for k, v in points.items())]
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


def python(code: str, target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in which the package is installed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(target), *filter(None, sys.path)]),
    }
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(PACKAGE, tmp_path_factory.mktemp("site") / "packages")


def test_its_components_are_found_by_name_with_their_origin_and_traits(installed):
    code = """
import json
from roadworthy import registry
found = [registry.get("transforms", "light_fog"), registry.get("measures", "close_call"),
         registry.get("supervisors", "second_best")]
print(json.dumps([[c.name, c.origin, c.summary, sorted(c.traits)] for c in found]))
"""
    done = python(code, installed)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        [
            "light_fog",
            "fogworks",
            "Every row of pixels moves towards white.",
            ["draw", "of", "tables"],
        ],
        [
            "close_call",
            "fogworks",
            "Share of cases whose true class is among the two highest scores.",
            ["better", "of"],
        ],
        ["second_best", "fogworks", "The second highest class probability.", []],
    ]


def test_its_components_conform(installed):
    code = """
from roadworthy import conformance
named = conformance.all_components(origin="fogworks")
print(len(named), [str(v) for room, name in named for v in conformance.check(room, name)])
"""
    done = python(code, installed)
    assert done.stdout.strip() == "4 []", done.stdout + done.stderr


ASSESSMENT = """
subject: {task: classification, python: subject.py:predict}
data: {test: {npz: test.npz}}
measure: close_call
circumstances:
  fog: {transform: light_fog, levels: [1, 2]}
supervisors: [second_best]
claims:
  - {id: NEAR, close_call: {min: 0.8}}
execution: {chunk: 10}
"""


def test_they_run_in_an_assessment_with_two_workers(installed, tmp_path):
    light = np.linspace(10, 250, 40)
    images = np.broadcast_to(light[:, None, None], (40, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "test.npz", images=images, labels=np.digitize(light, [90, 170]))
    (tmp_path / "subject.py").write_text(
        "def predict(image):\n    x = float(image.mean())\n    return [-abs(x - c) / 40 for c in (50, 130, 210)]\n"
    )
    (tmp_path / "assessment.yaml").write_text(ASSESSMENT)
    code = """
import json, sys
from roadworthy.assessment.assess import assess
run = assess(sys.argv[1], workers=2)
values = [run.finding("close_call").value, *(run.finding("close_call", circumstance="fog", level=l).value for l in (1, 2))]
supervisor = run.record.sections["supervision"].supervisors[0]
print(json.dumps([run.verdict, values, supervisor.applicable]))
"""
    done = python(code, installed, str(tmp_path / "assessment.yaml"))
    assert done.returncode == 0, done.stderr
    verdict, values, applicable = json.loads(done.stdout)
    assert verdict == "met"
    assert applicable
    assert values[0] == 1.0 > values[2]


WITH_SECTION = (
    ASSESSMENT.replace("measure: close_call\n", "")
    .replace(
        "  - {id: NEAR, close_call: {min: 0.8}}",
        "  - {id: DARK, sure_failure_rate: {max: 0.4}, circumstance: fog, level: 1}\n"
        "  - {id: CLEAN, sure_failure_rate: {max: 0.5}}",
    )
    .replace("execution:", "darkness: {sure: 0.6}\nexecution:")
)


def write_sorter(folder: Path, text: str) -> Path:
    light = np.linspace(10, 250, 40)
    images = np.broadcast_to(light[:, None, None], (40, 8, 8)).astype(np.uint8)
    np.savez(folder / "test.npz", images=images, labels=np.digitize(light, [90, 170]))
    (folder / "subject.py").write_text(
        "def predict(image):\n    x = float(image.mean())\n    return [-abs(x - c) / 40 for c in (50, 130, 210)]\n"
    )
    (folder / "assessment.yaml").write_text(text)
    return folder / "assessment.yaml"


def test_its_section_stands_in_schema_run_claims_and_report(installed, tmp_path):
    """One file of another package, and not an edit anywhere else."""
    code = """
import json, sys
import roadworthy
from roadworthy.report.html import html
from roadworthy.report.terminal import rendered, section_blocks
from roadworthy.spec import assessment_schema as schema
from roadworthy.store.record import Record
run = roadworthy.assess(sys.argv[1], workers=2)
read = Record.read(run.folder)
print(json.dumps({
    "key": schema()["properties"]["darkness"]["description"],
    "claimable": "sure_failure_rate" in schema()["$defs"]["ClaimSpec"]["additionalProperties"]["description"],
    "record": list(Record.schema()["properties"]["sections"]["properties"]["darkness"]["properties"]),
    "order": list(read.sections),
    "part": read.sections["darkness"].model_dump(),
    "claims": [[c.id, c.status, c.text] for c in read.claims],
    "findings": [f.id for f in read.findings if f.quantity == "sure_failure_rate"],
    "notes": read.notes,
    "page": '<section id="darkness">' in html(read) and "sure failure rate: the share" in html(read),
    "terminal": [t.title for t in rendered(section_blocks(read), 100) if getattr(t, "title", "")],
}))
"""
    file = write_sorter(tmp_path, WITH_SECTION)
    done = python(code, installed, str(file))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["key"].startswith("Which failures count") and found["claimable"]
    assert found["record"] == ["sure", "conditions"]
    assert [n for n in found["order"] if n not in ("attacks", "breaks", "classes")] == [
        *("performance", "ambiguity", "supervision", "darkness", "monitor")
    ]
    assert [c["condition"] for c in found["part"]["conditions"]] == ["clean", "fog@1", "fog@2"]
    assert found["part"]["sure"] == 0.6
    ids = {claim[0]: claim[1] for claim in found["claims"]}
    assert ids["CLEAN"] == "met" and ids["DARK"] in ("met", "breached", "inconclusive")
    assert found["claims"][1][2] == "sure failure rate at most 50%"
    assert len(found["findings"]) == 3 and "Dark note." in found["notes"]
    assert found["page"] and "Darkness" in found["terminal"]


def test_its_section_refuses_like_ours_and_is_shown_plainly_where_it_is_missing(
    installed, tmp_path
):
    code = """
import sys
from pathlib import Path
from roadworthy.spec import Assessment, SpecError
for text in sys.argv[2:]:
    try:
        Assessment.parse(text, "a.yaml")
    except SpecError as error:
        print(error)
"""
    wrong = [
        WITH_SECTION.replace("sure: 0.6", "shure: 0.6"),
        WITH_SECTION.replace("sure: 0.6", "sure: 0.999"),
        WITH_SECTION.replace("{max: 0.5}", "{max: 50}"),
    ]
    done = python(code, installed, "", *wrong)
    said = done.stdout.splitlines()
    assert "darkness.shure: this key is not known (did you mean 'sure'?)" in said[0]
    assert "darkness.sure: leaves no case over" in said[1] and "did you mean 0.5?" in said[2]
    file = write_sorter(tmp_path, WITH_SECTION)
    run = "import roadworthy, sys; print(roadworthy.assess(sys.argv[1]).folder)"
    folder = python(run, installed, str(file)).stdout.strip()
    from roadworthy.report.html import html
    from roadworthy.store.record import Record

    page = html(Record.read(Path(folder)))
    assert '<section id="darkness">' in page and "not installed here" in page and "fog@2" in page


def test_the_command_line_lists_them(installed):
    done = python("from roadworthy.cli import main; main()", installed, "list", "transforms")
    assert done.returncode == 0, done.stderr
    assert "light_fog" in done.stdout
    assert "fogworks" in done.stdout


def test_an_entry_point_that_cannot_be_imported_names_its_package_and_the_reason(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[project]\nname = "rustyworks"\nversion = "0.1"\n'
        '[project.entry-points."roadworthy.transforms"]\nrust = "rustyworks.rust:rust"\n'
    )
    target = install(source, tmp_path / "packages")
    code = """
from roadworthy import registry
assert "contrast" in registry.components("transforms")
assert list(registry.unloadable("transforms")) == ["rust"]
try:
    registry.get("transforms", "rust")
except registry.RegistryError as error:
    print(error.args[0])
"""
    done = python(code, target)
    assert done.stdout.strip() == (
        "the package rustyworks offers 'rustyworks.rust:rust' for transforms, which cannot be loaded: "
        "No module named 'rustyworks'"
    )


def test_a_name_that_is_taken_is_refused_and_both_places_are_named(installed, tmp_path):
    source = tmp_path / "copyworks"
    (source / "src" / "copyworks").mkdir(parents=True)
    (source / "src" / "copyworks" / "__init__.py").write_text(
        "from roadworthy.registry import register\n"
        "@register('transforms', 'contrast', of='image', tables={}, draw='step')\n"
        "def contrast(image, rng):\n    '''Again.'''\n    return image\n"
    )
    (source / "pyproject.toml").write_text(
        '[project]\nname = "copyworks"\nversion = "0.1"\n'
        '[project.entry-points."roadworthy.transforms"]\ncontrast = "copyworks:contrast"\n'
    )
    done = python(
        "from roadworthy import registry; registry.get('transforms', 'contrast')",
        install(source, tmp_path / "packages"),
    )
    assert done.returncode != 0
    assert "two transforms are called 'contrast'" in done.stderr
    assert "copyworks.contrast" in done.stderr
