"""`databus outbox` before a server is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from databus.cli.main import app
from databus.core.errors import ConfigError
from databus.core.errors.root import DatabusError


@pytest.mark.parametrize("verb", ["install", "remove"])
def test_what_no_server_needs_to_be_asked_for_is_refused(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_FILE", '{"conn_type": "sqlite", "host": "a.db"}')
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", '{"conn_type": "mysql", "host": "nowhere.invalid"}')
    for words, error, said in (
        (["nobody"], DatabusError, "nobody"),
        (["file", "--name", "main.outbox"], ConfigError, "'sqlite'"),
        (["shop", "--table", "orders"], ConfigError, "is not of the form schema.table"),
        (["shop"], ConfigError, "names no database"),
    ):
        done = CliRunner().invoke(app, ["outbox", verb, *words])
        assert isinstance(done.exception, error)
        assert said in str(done.exception)
        assert not done.stdout
    assert not list(tmp_path.iterdir())
