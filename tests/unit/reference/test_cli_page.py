"""Page of commands: an example of each that the command itself would take."""

from __future__ import annotations

import shlex

import pytest

from tests.reference.cli_examples import EXAMPLES
from tests.reference.cli_page import command_text, commands, is_common

COMMANDS = dict(commands())


def test_every_command_has_an_example() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_an_example_is_taken(words: tuple[str, ...]) -> None:
    given = shlex.split(EXAMPLES[words].partition(" > ")[0])[len(words) :]
    with COMMANDS[words].make_context(words[-1], given) as context:
        assert context.params


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_is_listed(words: tuple[str, ...]) -> None:
    text = command_text(words, COMMANDS[words])
    for parameter in COMMANDS[words].params:
        shown = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
        assert f"`{shown}`" in text, shown
        assert is_common(parameter) or parameter.help.split()[0].strip("`") in text
