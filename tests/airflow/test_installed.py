"""The wheel in an Airflow that has nothing else: installed under constraints, found as provider and as plugin.

Constraints are locked from Airflow and its providers alone, as Airflow's own are; databus gets what they leave it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RELEASES = ("3.1", "3.2", "3.3")
EXTRAS = ("airflow", "kafka", "mysql", "spark")


@pytest.fixture(scope="module")
def trial() -> Any:
    spec = importlib.util.spec_from_file_location("trial", ROOT / "packaging" / "trial.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["trial"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(python: Path, home: Path, *words: str) -> str:
    """Run `airflow` or `databus` of an environment in a home of its own; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DATABUS"))}
    environment |= {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "COLUMNS": "300"}
    command = [str(python.with_name(words[0])), *words[1:]]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_json(text: str) -> Any:
    """Return the list of a command's output, behind lines of its log."""
    return json.loads(text[text.index("[{") :])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.timeout(1200)
def test_an_empty_airflow_shows_provider_and_plugin(trial: Any, tmp_path: Path, release: str) -> None:
    here = trial.Trial(tmp_path, airflow=release, extras=EXTRAS, sandbox=False)
    here.install()
    constraints = dict(line.split("==") for line in (tmp_path / "constraints.txt").read_text().split() if "==" in line)
    installed = dict(line.split("==") for line in (tmp_path / "requirements.txt").read_text().split() if "==" in line)
    assert constraints["apache-airflow"].startswith(f"{release}.")
    assert {name: installed[name] for name in constraints if name in installed} == {
        name: version for name, version in constraints.items() if name in installed
    }
    providers = read_json(asked(here.interpreter, tmp_path, "airflow", "providers", "list", "-o", "json"))
    assert "databus" in {provider["package_name"] for provider in providers}
    plugins = read_json(asked(here.interpreter, tmp_path, "airflow", "plugins", "-o", "json"))
    (ours,) = (plugin for plugin in plugins if plugin["name"] == "databus")
    assert "databus" in str(ours["source"])
    shown = asked(here.interpreter, tmp_path, "databus", "--help")
    assert " flows " in shown
    assert " sandbox " not in shown
