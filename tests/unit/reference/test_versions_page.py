"""Page of versions: each program has a version that the tests run, and tests that are there."""

from __future__ import annotations

import pytest

from tests.reference.versions_page import ROOT, Program, needed, programs, versions

BESIDE = ("ARCHIVE", "RUNNER", "SECURITY", "PLUGIN", "SCALA", "LOG", "METRICS", "SNAPPY")
"""Parts of variables that name libraries of servers."""


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_program_is_tested_in_a_version_and_a_place(program: Program) -> None:
    assert versions()[program.variable][0].isdigit()
    assert [path for path in program.tests if not (ROOT / path).exists()] == []


def test_every_server_of_the_sandbox_is_listed() -> None:
    servers = {name for name in versions() if name.endswith("_VERSION") and not any(part in name for part in BESIDE)}
    assert servers - {program.variable for program in programs()} == {"AIRFLOW_VERSION"}  # its package says the same


def test_ranges_are_those_of_the_wheel() -> None:
    assert needed("pyspark").startswith(">=")
    assert "[" not in needed("pyspark")
