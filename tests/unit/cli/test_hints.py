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
BEGINS = re.compile(r"`databus |`[\"']")
"""What a file has that has such a text: the mark and the command may stand in two literals that follow each other."""


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a file that a person may be shown, with their lines: docstrings are for developers."""
    source = file.read_text()
    if not BEGINS.search(source):
        return
    tree = ast.parse(source)
    silent = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
        and not (file.parent.name == "cli" and isinstance(node, ast.FunctionDef))  # there they are the help
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            shown = (str(v.value) if isinstance(v, ast.Constant) else HOLE for v in node.values)
            yield node.lineno, "".join(shown)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | silent:
            yield node.lineno, node.value


COMMAND = typer.main.get_command(app)
COMMANDS = [
    pytest.param(found.group(1), id=f"{file.relative_to(ROOT)}:{line}")
    for file in sorted(ROOT.rglob("*.py"))
    for line, text in texts(file)
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
