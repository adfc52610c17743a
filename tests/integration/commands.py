"""The command line in this process: what `Cli` gives, without a process for each command."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from databus.cli.main import app
from databus.cli.terminal.output import ERR, OUT
from tests.integration.command_line import Cli
from tests.integration.conftest import World


class Commands:
    """Runs commands on a world's servers; errors of ours are raised as they are."""

    def __init__(self, world: World, dags: Path, monkeypatch: pytest.MonkeyPatch):
        for name, value in Cli(world, dags).environment.items():
            monkeypatch.setenv(name, value)
        for console in (OUT, ERR):  # no cell is folded: what a table says can be looked for in it
            monkeypatch.setattr(console, "width", 1000)
        monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # pytest's handlers stay

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--output", "json").stdout)
