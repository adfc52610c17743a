"""Versions of packages as the doctor judges them: an Airflow that is refused is an error, of each a pip command."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import databus
from databus.core.findings import Finding, Level
from databus.core.packages import NEWEST_PYTHON, OLDEST_PYTHON
from databus.ops.health import doctor

ROOT = Path(__file__).parents[3]


def judged(monkeypatch: pytest.MonkeyPatch, package: str, version: str) -> Finding:
    monkeypatch.setattr(doctor, "version_of", lambda name: version if name == package else "2.0.0")
    (found,) = (f for f in doctor.examine_environment() if f.subject == package)
    return found


def test_an_airflow_that_flows_validate_refuses_is_an_error_with_its_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, "apache-airflow", "2.10.5")
    assert (found.level, found.code) == (Level.ERROR, "package_version")
    assert found.message == "databus needs Airflow 3.1 or later, found 2.10.5"
    assert found.hint == "pip install 'apache-airflow>=3.1', with Airflow's constraints."


@pytest.mark.parametrize("version", ["3.1.0", "3.2.1", "3.3.0"])
def test_releases_of_airflow_that_were_tried_are_well(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    assert judged(monkeypatch, "apache-airflow", version) == Finding("apache-airflow", Level.OK, version)


@pytest.mark.parametrize(
    ("package", "version", "told", "command"),
    [
        ("apache-airflow", "3.4.0", "3.4.0, tested with 3.1 to 3.3", "pip install 'apache-airflow==3.3.*'"),
        ("pyspark", "4.0.1", "4.0.1, tested with 4.1.x", "pip install 'pyspark==4.1.*'"),
        ("kazoo", "3.0", "3.0, tested with 2.x", "pip install 'kazoo==2.*'"),
    ],
)
def test_a_version_that_was_not_tried_is_a_warning_with_a_command(
    monkeypatch: pytest.MonkeyPatch, package: str, version: str, told: str, command: str
) -> None:
    found = judged(monkeypatch, package, version)
    assert (found.level, found.code, found.message) == (Level.WARN, "environment_version", told)
    assert found.hint.startswith(command)


@pytest.mark.parametrize("version", [(3, 10, 16), (3, 14, 0), (4, 0, 0)])
def test_a_python_that_was_not_tried_is_an_error_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    (found,) = (f for f in doctor.examine_environment() if f.subject == "python")
    text = ".".join(map(str, version))
    assert (found.level, found.code) == (Level.ERROR, "environment_version")
    assert found.message == f"{text}, databus needs 3.11 to 3.13"
    assert "python3.11 -m venv" in found.hint


@pytest.mark.parametrize("version", [OLDEST_PYTHON, NEWEST_PYTHON])
def test_pythons_that_the_wheel_takes_are_well(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]) -> None:
    monkeypatch.setattr(sys, "version_info", (*version, 1))
    (found,) = (f for f in doctor.examine_environment() if f.subject == "python")
    assert found.level is Level.OK


def test_both_wheels_ask_for_the_pythons_that_the_doctor_takes() -> None:
    oldest, newest = (".".join(map(str, minor)) for minor in (OLDEST_PYTHON, NEWEST_PYTHON))
    for file in (ROOT / "pyproject.toml", ROOT / "packaging" / "databus-sandbox" / "pyproject.toml"):
        asked = SpecifierSet(tomllib.loads(file.read_text())["project"]["requires-python"])
        taken = [f"3.{minor}" for minor in range(20) if asked.contains(f"3.{minor}.1")]
        assert (taken[0], taken[-1]) == (oldest, newest)


def test_no_message_names_a_file_that_the_wheel_lacks() -> None:
    package = Path(databus.__file__).parent
    assert [str(file) for file in package.rglob("*.py") if "requirements.txt" in file.read_text()] == []
