"""Versions of packages as the doctor judges them: an Airflow that is refused is an error, of each a pip command."""

from __future__ import annotations

from pathlib import Path

import pytest

import databus
from databus.core.findings import Finding, Level
from databus.ops.health import doctor


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


def test_no_message_names_a_file_that_the_wheel_lacks() -> None:
    package = Path(databus.__file__).parent
    assert [str(file) for file in package.rglob("*.py") if "requirements.txt" in file.read_text()] == []
