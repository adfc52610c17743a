"""The `databus` command on a world's servers: in a process of its own, or in this one."""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from databus.cli.main import main
from databus.cli.terminal.output import ERR, OUT
from databus.sandbox.connections import airflow_connections
from tests.collecting import collect_garbage
from tests.integration.conftest import World


class Cli:
    def __init__(self, world: World, dags: Path):
        self.dags = dags
        self.environment = {
            **os.environ,
            **airflow_connections(world.sandbox.status()),
            "DATABUS_INSTALLATION": world.settings.installation,
            "DATABUS_SEGMENT_STORE": world.settings.segment_store,
            "DATABUS_RECORDS_URL": world.settings.records_url,
            "DATABUS_DAGS": str(dags),
            "DATABUS_SANDBOX": str(world.home),
            "COLUMNS": "200",
        }

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "databus.cli.main", *arguments],
            env=self.environment, capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--output", "json", code=code).stdout)


class CliHere(Cli):
    """The same command and its ending in this process: a process of its own takes a second or two to load it."""

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = self.ended(*arguments)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def ended(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command, whatever its exit code."""
        threshold, ended = gc.get_threshold(), 0
        with pytest.MonkeyPatch.context() as patch, CliRunner().isolation(env=self.environment) as (out, err, _):
            patch.setattr(sys, "argv", ["databus", *arguments])
            patch.setattr(logging, "basicConfig", lambda **_: None)  # pytest's handlers stay
            for console in (OUT, ERR):
                patch.setattr(console, "width", int(self.environment["COLUMNS"]))
            try:
                main()
            except SystemExit as end:
                ended = int(end.code or 0)
            finally:
                gc.set_threshold(*threshold)
                if "--spark" in arguments:
                    collect_garbage()
            told = [stream.getvalue().decode() for stream in (out, err)]
        return subprocess.CompletedProcess(arguments, ended, *told)
