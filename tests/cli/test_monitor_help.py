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


@pytest.mark.parametrize("wrong", [["--prot", "1"], ["--port", "much"], ["one", "two"]])
def test_a_mistake_in_the_options_of_the_service_points_to_the_help_that_shows_them(wrong, capsys):
    assert run(["monitor", "b.json", *wrong]) == 2
    said = capsys.readouterr().err
    assert "`roadworthy monitor --help` shows what it takes" in said and "serve" not in said


def test_an_option_of_the_service_is_named_by_the_command_as_it_is_called(capsys):
    assert run(["monitor", "merge", "--webhook", "http://x"]) == 2
    assert "`roadworthy monitor` has it" in capsys.readouterr().err
    assert run(["monitor", "merge", "--prot"]) == 2
    assert "`roadworthy monitor merge --help` shows what it takes" in capsys.readouterr().err
