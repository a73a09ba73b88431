"""One command tries a component of the user's own against the rules of its type."""

from __future__ import annotations

import re
from pathlib import Path

GOOD = "def darken(image, rng, *, by: float = 0.5):\n    '''Darker.'''\n    return (image * by).astype(image.dtype)\n"
BAD = "def spoil(image, rng, *, by: float = 0.5):\n    '''Changes its input.'''\n    image[:] = 0\n    return image\n"


def test_a_sound_and_a_broken_transform(tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(GOOD + BAD)
    answer = cli("list", "transforms", "--check", "mine.py:darken")
    assert answer.code == 0 and "keeps every rule" in answer.out
    answer = cli("list", "transforms", "--check", "mine.py:spoil")
    assert answer.code == 1 and "input_is_never_changed" in answer.out
    assert cli("list", "--check", "mine.py:darken").code == 2


def test_what_the_page_shows_keeps_every_rule(tmp_path, cli, monkeypatch):
    page = (Path(__file__).parents[2] / "docs/your-own.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1])
    for room, name in (
        ("transforms", "darken"),
        ("measures", "same_family"),
        ("supervisors", "Spread"),
    ):
        answer = cli("list", room, "--check", f"mine.py:{name}")
        assert answer.code == 0 and "keeps every rule" in answer.out
