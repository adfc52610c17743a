"""Databus's plugin as Airflow itself finds it: once, whole, and without an error on Airflow's first page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_LOOK = """
    import json, warnings
    warnings.simplefilter("ignore")
    from airflow.plugins_manager import _get_plugins, get_timetables_plugins
    from airflow.sdk import plugins_manager as of_tasks
    plugins, errors = _get_plugins()
    ours = [p for p in plugins if type(p).__module__.startswith("databus")]
    print("@" + json.dumps({
        "errors": errors,
        "ours": [p.name for p in ours],
        "pages": [
            (app["name"], app["destination"], app["bundle_url"].partition("?")[0])
            for p in ours for app in p.react_apps
        ],
        "routes": [app["url_prefix"] for p in ours for app in p.fastapi_apps],
        "timetables": [name for name in get_timetables_plugins() if name.startswith("databus")],
        "tasks": sorted(p.name for p in of_tasks._get_plugins()[0]) == sorted(p.name for p in plugins),
    }))
"""


@pytest.mark.parametrize("folder", ["plugins", None], ids=["the repository's folder", "the package alone"])
def test_airflow_finds_one_plugin_and_no_error(tmp_path: Path, folder: str | None) -> None:
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / folder if folder else tmp_path),
    }
    command = [sys.executable, "-c", textwrap.dedent(_LOOK)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@")]
    assert lines, done.stderr
    assert json.loads(lines[0][1:]) == {
        "errors": {},
        "ours": ["databus"],
        "pages": [
            [name, place, "/databus/static/main.js"]
            for name, place in (
                ("Databus", "dag_run"),
                ("Databus", "dag"),
                ("Checkpoint", "dag"),
                ("Quarantine", "dag"),
                ("Databus trace", "nav"),
                ("Databus mirrors", "nav"),
                ("Databus audit", "nav"),
                ("Databus flows", "dashboard"),
                ("Databus", "nav"),
            )
        ],
        "routes": ["/databus"],
        "timetables": ["databus.airflow.timetable.StaggeredTimetable"],
        "tasks": True,
    }
