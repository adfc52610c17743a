"""An Airflow that is too old is refused by name, where a DAG file asks for `flow_dag` and where the plugin loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from databus.core.packages import NEWEST_AIRFLOW, OLDEST_AIRFLOW, release

PLUGIN = "class AirflowPlugin:\n    pass\n"


def told(tmp_path: Path, version: str, code: str) -> str:
    """Run code beside an Airflow that has nothing but its version and the base class of plugins."""
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (tmp_path / "airflow" / "plugins_manager.py").write_text(PLUGIN)
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("code", ["from databus.airflow import flow_dag", "import databus.airflow.plugin"])
def test_one_that_is_too_old_is_named(tmp_path: Path, code: str) -> None:
    found = told(tmp_path, "2.10.5", code)
    assert "[package_version] databus needs Airflow 3.1 or later, found 2.10.5" in found
    assert "pip install 'apache-airflow>=3.1'" in found


def test_a_newer_one_than_was_tried_goes_on(tmp_path: Path) -> None:
    found = told(tmp_path, "3.9.0", "from databus.airflow import flow_dag")
    assert "package_version" not in found
    assert "airflow.sdk" in found  # the stand-in has no more to it


@pytest.mark.parametrize(
    ("version", "found"), [("3.1.0", (3, 1)), ("3.2.0rc1", (3, 2)), ("2.11.0.post1", (2, 11)), ("4.0b2", (4, 0))]
)
def test_releases_are_read(version: str, found: tuple[int, int]) -> None:
    assert release(version) == found


def test_the_installed_one_is_among_those_that_were_tried() -> None:
    from airflow import __version__

    assert OLDEST_AIRFLOW <= release(__version__) <= NEWEST_AIRFLOW
