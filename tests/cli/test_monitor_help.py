"""`roadworthy monitor --help` shows what one needs, though the default command is not named."""

from __future__ import annotations

import pytest

from roadworthy.cli.app import run


@pytest.mark.parametrize("arguments", [["monitor", "--help"], ["monitor"]])
def test_help_shows_the_bundle_and_the_options_of_the_service(arguments, capsys):
    run(arguments)
    said = capsys.readouterr().out
    for part in ("bundle", "--state", "--port", "--webhook", "label-queue", "merge"):
        assert part in said, part
