"""Help: grouped by what a person does, a line for each command at 80 columns, a text for each option and argument."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from databus.cli.main import PANELS, Commands, app
from databus.ops.flows.discovery import dags_folder

SNAPSHOT = Path(__file__).with_name("help_of_databus.txt")
WIDTH = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
MOST = 240
"""Characters of an option's text: more belongs into a document."""

OLD = {"claim": "large-value", "mirror groups": "mirror sync-groups", "segments": "segments list"}
"""Old verbs of the version before, and their new ones."""


def every(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    if hasattr(command, "list_commands"):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from every(command.get_command(context, name), (*words, name))


ALL = dict(every(get_command(app)))
SHOWN = {words: command for words, command in ALL.items() if not command.hidden}


def helped(words: tuple[str, ...]) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], env=WIDTH)
    assert done.exit_code == 0, done.output
    return done.stdout


def plain(text: str) -> str:
    """Return help without frames, and without the blanks that end its lines."""
    return "\n".join(line.rstrip() for line in re.sub(r"[╭╮╰╯│]", "", text).splitlines()).strip() + "\n"


def test_the_first_page_is_the_one_that_was_agreed_on() -> None:
    """A change of it changes what people know: after a wanted one, write `plain(helped(()))` to the file anew."""
    assert plain(helped(())) == SNAPSHOT.read_text()


def test_every_command_stands_in_one_part_and_in_one_line() -> None:
    shown = helped(())
    for panel, commands in PANELS.items():
        assert f" {panel} " in shown
        for name in commands:
            (line,) = re.findall(rf"^│ {name} +(\S.*?) *│$", shown, re.MULTILINE)
            assert line == str(ALL[name,].help).partition("\n\n")[0]


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_every_command_and_option_has_a_text(words: tuple[str, ...]) -> None:
    command = SHOWN[words]
    assert command.help
    first = command.help.partition("\n\n")[0]
    assert first[0].isupper()
    assert first.endswith(".")
    for parameter in command.params:
        text = getattr(parameter, "help", None)
        assert text, f"{' '.join(words)}: {parameter.name} has no text"
        assert len(text) <= MOST, f"{' '.join(words)}: {parameter.name}: {len(text)} characters"


@pytest.mark.parametrize("words", [words for words in SHOWN if words[:1] != ("bench",)], ids=" ".join)
def test_a_command_of_a_group_has_one_line_at_80_columns(words: tuple[str, ...]) -> None:
    command = SHOWN[words]
    if not hasattr(command, "list_commands"):
        return
    shown = helped(words)
    for name, below in command.commands.items():
        if not below.hidden:
            first = str(below.help).partition("\n\n")[0]
            assert re.search(rf"^│ {name} +{re.escape(first)} *│$", shown, re.MULTILINE), name


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(words: tuple[str, ...]) -> None:
    assert max(map(len, helped(words).splitlines())) <= 80


@pytest.mark.parametrize("old", OLD)
def test_an_old_verb_is_not_listed_and_names_the_new_one(old: str, tmp_path: Path) -> None:
    words = tuple(old.split())
    env = {"DATABUS_SEGMENT_STORE": str(tmp_path), "DATABUS_DAGS": str(tmp_path)}
    given = {"claim": ["nothing"], "mirror groups": ["nothing"], "segments": ["-o", "json"]}[old]
    done = CliRunner().invoke(app, [*words, *given], env=env)
    assert f"`databus {old}` is now `databus {OLD[old]}`" in done.stderr
    again = CliRunner().invoke(app, [*OLD[old].split(), *given], env=env)
    assert done.stdout == again.stdout
    assert (done.exit_code, repr(done.exception)) == (again.exit_code, repr(again.exception))
    assert "is now" not in again.stderr
    if old != "segments":  # that is the name of the group now
        assert f"│ {words[-1]} " not in helped(words[:-1])


def test_the_old_form_of_pruning_segments_prunes(tmp_path: Path) -> None:
    env = {"DATABUS_SEGMENT_STORE": str(tmp_path)}
    done = CliRunner().invoke(app, ["segments", "--prune", "--keep", "1d", "--execute"], env=env)
    assert "`databus segments --prune` is now `databus segments prune`" in done.stderr
    assert "no segments over the limit" in done.stderr
    refused = CliRunner().invoke(app, ["segments", "--execute"], env=env)
    assert refused.exit_code == 2
    assert "--execute goes with --prune" in refused.stderr


def test_old_verbs_print_only_data_on_stdout(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "databus.cli.main", "segments", "-o", "json"]
    env = {"DATABUS_SEGMENT_STORE": str(tmp_path), "PATH": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_no_text_of_help_names_an_old_verb() -> None:
    texts = [text for command in SHOWN.values() for text in (command.help, *(p.help for p in command.params)) if text]
    for old in (*Commands.renamed, "mirror groups", "segments --prune"):
        assert not [text for text in texts if f"databus {old}" in text]


@pytest.mark.parametrize(
    ("old", "new"), [(("claim",), "databus large-value"), (("mirror", "groups"), "databus mirror sync-groups")]
)
def test_the_help_of_an_old_verb_names_the_new_one(old: tuple[str, ...], new: str) -> None:
    found = CliRunner().invoke(app, [*old, "--help"])
    assert f"Former name of `{new}`" in found.stdout


def test_options_of_the_old_form_are_refused_before_a_new_verb(tmp_path: Path) -> None:
    env = {"DATABUS_SEGMENT_STORE": str(tmp_path)}
    found = CliRunner().invoke(app, ["segments", "--keep", "30d", "prune", "--execute"], env=env)
    assert found.exit_code == 2
    assert "write options behind" in found.stderr


def test_the_default_of_dags_is_the_folder_that_is_looked_in(monkeypatch: pytest.MonkeyPatch) -> None:
    (option,) = (p for p in ALL["flows", "list"].params if p.opts == ["--dags"])
    assert (option.envvar, option.show_default) == ("DATABUS_DAGS", "$AIRFLOW__CORE__DAGS_FOLDER, else ./dags")
    monkeypatch.delenv("DATABUS_DAGS", raising=False)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/opt/dags")
    assert dags_folder() == Path("/opt/dags")
    monkeypatch.delenv("AIRFLOW__CORE__DAGS_FOLDER")
    assert dags_folder() == Path("dags")
