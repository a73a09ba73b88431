"""What a person sees: the width of a log, and progress."""

from __future__ import annotations

import io

import pytest
from rich.table import Table

from roadworthy.cli import output, progress


def test_a_log_is_as_wide_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(title="a title")
    table.add_column("words")
    table.add_row("word " * 60)
    widest = {}
    for columns in ("70", ""):
        monkeypatch.setenv("COLUMNS", columns)
        output.console().print(table)
        lines = capsys.readouterr().out.splitlines()
        widest[columns] = max(map(len, lines))
    assert 60 < widest["70"] <= 70 and 130 < widest[""] <= output.LOG_WIDTH


def test_few_uneven_steps_are_counted_by_name_without_a_time_left() -> None:
    out = io.StringIO()
    log = progress.LineProgress(out, patience=0.0)
    log.stage("supervising", 13)
    log.advance(1)
    log.advance(2)
    log.stage("running the subject", 20_000)
    log.advance(100)
    log.advance(400)
    text = out.getvalue()
    assert "supervising (13)" in text and "3 of 13\n" in text
    assert "running the subject: 500 of 20,000, about" in text


@pytest.mark.usefixtures("quick_alarms")
def test_calibrate_writes_its_stages_to_a_log_and_nothing_beside_json(cli, tmp_path) -> None:
    rows = [
        f"{kind},{i % right != 0},{i % 17 + far}"
        for kind, right, far in (("clean", 9, 0), ("fog", 2, 8))
        for i in range(80)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["kind,correct,knn", *rows]) + "\n")
    said = cli("calibrate", tmp_path / "t.csv")
    assert said.code == 0, said.err
    stages = [
        "learning how shift looks",
        "leaving out one kind at a time",
        "setting the alarm",
    ]
    assert all(stage in line for stage, line in zip(stages, said.err.splitlines(), strict=True))
    assert cli("calibrate", tmp_path / "t.csv", "--json").err == ""
