"""Stdout is data only: what DAG files, libraries and programs that a command starts print there goes to stderr."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from databus.cli.main import app
from databus.cli.terminal.output import Format, stdout_for_data

NOISY = """
import logging, os, subprocess, sys

from databus import Flow, Mock, Noop

print("noise printed")
logging.getLogger("noise").addHandler(logging.StreamHandler(sys.stdout))
logging.getLogger("noise").propagate = False
logging.getLogger("noise").warning("noise logged")
if sys.stdout is sys.__stderr__:  # a process of its own
    os.write(1, b"noise written\\n")
    subprocess.run([sys.executable, "-c", "print('noise of a program')"], check=True)
flow = Flow(name="noisy", source=Mock(rows=5), sinks=(Noop(),))
"""

NOT_RUN = ("bench", "watch", "sandbox up")
"""What starts servers, or does not end by itself."""

AT = "mysql-bin.000001:4"
WORDS = {"flow": "noisy", "flows": "noisy", "entry": "1", "place": AT, "what": AT, "partition": "0", "offset": "0"}
"""Arguments by name; others get a word that names nothing."""


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if hasattr(below, "list_commands"):
            yield from leaves(below, (*words, name))
        else:
            yield (*words, name), below


LEAVES = dict(leaves(get_command(app)))
RUN = {words: leaf for words, leaf in LEAVES.items() if not " ".join(words).startswith(NOT_RUN)}


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "noisy.py").write_text(NOISY)
    for name, value in {
        "DATABUS_DAGS": folder,
        "DATABUS_SANDBOX": tmp_path / "sandbox",
        "DATABUS_SEGMENT_STORE": tmp_path / "segments",
        "DATABUS_RECORDS_URL": f"sqlite:///{tmp_path / 'records.db'}",
    }.items():
        monkeypatch.setenv(name, str(value))
    return folder


def arguments(leaf: click.Command) -> list[str]:
    wanted = [p for p in leaf.params if p.param_type_name == "argument" and (p.required or p.name in WORDS)]
    words = [WORDS.get(str(p.name), "nothing") for p in wanted]
    for option in (p for p in leaf.params if p.param_type_name == "option"):
        if option.required:
            words += [option.opts[0], "1"]
    assert leaf.callback is not None
    output = inspect.signature(leaf.callback).parameters.get("output")
    if output is not None and isinstance(output.default, Format):
        words += ["--output", "json"]
    return words


def test_every_command_is_held() -> None:
    assert len(RUN) > 40
    assert len(LEAVES) > len(RUN) + 10
    for words, leaf in LEAVES.items():
        assert hasattr(leaf.callback, "__wrapped__"), f"{words}: its callback has stdout as it is"


@pytest.mark.parametrize("words", RUN, ids=" ".join)
def test_only_data_is_on_stdout(words: tuple[str, ...], dags: Path) -> None:
    leaf = RUN[words]
    done = CliRunner().invoke(app, [*words, *arguments(leaf)])
    assert "noise" not in done.stdout
    if any(p.name == "dags" for p in leaf.params):
        assert "noise printed" in done.stderr, (done.exception, done.stderr)
    if "json" in arguments(leaf) and done.stdout:
        json.loads(done.stdout)


def test_a_process_of_its_own_writes_only_data_to_its_stdout(dags: Path) -> None:
    command = [sys.executable, "-m", "databus.cli.main", "flows", "list", "-o", "json"]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True, timeout=120, check=False)
    assert [flow["flow"] for flow in json.loads(done.stdout)] == ["noisy"], done.stderr
    noise = [line for line in done.stderr.splitlines() if line.startswith("noise")]
    assert sorted(noise) == ["noise logged", "noise of a program", "noise printed", "noise written"]


def test_a_stdout_that_was_closed_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with stdout_for_data():
        pass
