"""Every environment variable that the code reads is in the reference, with the default that the code gives."""

from __future__ import annotations

import ast
from pathlib import Path

from databus.core.settings import Settings
from tests.reference.variables import _names, read_by_the_code, variables


def test_variables_that_the_code_reads_are_described() -> None:
    read, known = set(read_by_the_code()), set(variables())
    assert read - known == set(), "describe them in tests/reference/variables.py"
    assert known - read == set(), "nothing reads these any more"


def test_settings_are_all_described_and_have_the_defaults_that_are_named() -> None:
    made = Settings.from_environment({"DATABUS_HOME": "/home"})
    by_name = {
        "DATABUS_INSTALLATION": made.installation,
        "DATABUS_SEGMENT_STORE": made.segment_store,
        "DATABUS_RECORDS_URL": made.records_url,
        "DATABUS_RUNBOOKS_URL": made.runbooks_url,
        "DATABUS_DATA_DOCS": made.data_docs,
    }
    for name, value in by_name.items():
        said = variables()[name].default.split("`")[1]
        assert value.endswith(said), name
    assert made.segment_keep == made.data_docs_url == ""
    assert Path(Settings.from_environment({"AIRFLOW_HOME": "/airflow"}).segment_store) == Path(
        "/airflow/databus/segments"
    )


def test_forms_in_which_code_reads_a_variable_are_found() -> None:
    code = """
a = os.environ.get("ONE"); b = os.environ["TWO"]; c = env.get("THREE", ""); d = os.getenv("FOUR")
e = Option("--x", envvar="DATABUS_FIVE"); f = options.get("NOT_ONE")
"""
    assert _names(ast.parse(code)) == {"ONE", "TWO", "THREE", "FOUR", "DATABUS_FIVE"}
