"""The classic session of a command: whose interpreter Spark's workers get."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from databus.runtime.spark import session


class Builder:
    """Spark's builder, as far as it is asked to start a session: notes what the workers would be run by."""

    def __init__(self) -> None:
        self.interpreter = ""

    def appName(self, _name: str) -> Builder:  # noqa: N802 - Spark's name
        return self

    def master(self, _master: str) -> Builder:
        return self

    def config(self, _name: str, _value: str) -> Builder:
        return self

    def getOrCreate(self) -> str:  # noqa: N802 - Spark's name
        self.interpreter = os.environ["PYSPARK_PYTHON"]
        return "the session"


@pytest.mark.parametrize(("named", "run_by"), [(None, sys.executable), ("/opt/python", "/opt/python")])
def test_workers_are_run_by_the_interpreter_of_the_command_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch, named: str | None, run_by: str
) -> None:
    import pyspark.sql

    builder: Any = Builder()
    monkeypatch.setattr(pyspark.sql.SparkSession, "builder", builder)
    monkeypatch.setenv("PYSPARK_PYTHON", named or "")
    if named is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    assert session.classic_session("local[1]") == "the session"
    assert builder.interpreter == run_by
