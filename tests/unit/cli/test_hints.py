"""Commands that hints and messages give can be pasted: they and their options exist, and they name their flow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from databus.cli.main import app

ROOT = Path(__file__).parents[3] / "include" / "databus"
HOLE = "{}"
"""What stands for a value that is put in."""


def texts(source: str, helps: bool) -> Iterator[tuple[int, str]]:
    """Yield the strings of a file that a person may be shown, with their lines: docstrings are for developers, but for
    those of commands, which are their help.
    """
    silent, parts = set[int](), set[int]()
    for node in ast.walk(ast.parse(source)):  # what holds another comes first
        match node:
            case ast.Module(body=[ast.Expr(value=value), *_]) | ast.ClassDef(body=[ast.Expr(value=value), *_]):
                silent.add(id(value))
            case ast.FunctionDef(body=[ast.Expr(value=value), *_]) if not helps:
                silent.add(id(value))
            case ast.JoinedStr():
                parts |= {id(part) for part in node.values}
                shown = (str(v.value) if isinstance(v, ast.Constant) else HOLE for v in node.values)
                yield node.lineno, "".join(shown)
            case ast.Constant(value=str(text)) if id(node) not in parts | silent:
                yield node.lineno, text


COMMAND = typer.main.get_command(app)
COMMANDS = [
    pytest.param(found.group(1), id=f"{file.relative_to(ROOT)}:{line}")
    for file in sorted(ROOT.rglob("*.py"))
    if "`databus " in (source := file.read_text())  # few have one; to read the syntax of all would take seconds
    for line, text in texts(source, helps=file.parent.name == "cli")
    for found in re.finditer(r"`databus ([a-z][^`]*)`", text)
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_hint_is_one(command: str) -> None:
    assert not re.search(r"\bFLOW\b", command), "the flow has a name"
    group = COMMAND
    words = command.split()
    while words and hasattr(group, "get_command"):
        found = group.get_command(None, words[0])  # type: ignore[arg-type]
        assert found is not None, f"no command {words[0]!r}"
        group, words = found, words[1:]
    known = {option for parameter in group.params for option in parameter.opts} | {"--help"}
    asked = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert asked <= known


def test_there_are_hints_to_look_at() -> None:
    assert len(COMMANDS) > 40
