"""`databus watch --once` says why it ends with 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from databus.cli.main import app


def test_a_flow_that_cannot_be_reached_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away.py").write_text(
        "from databus import Flow, Mock, Noop\n"
        "flow = Flow(name='away', source=Mock(rows=1), sinks=(Noop(),), zookeeper_conn_id='zk_away')\n"
    )
    seconds = {"connect_timeout_s": 1, "operation_timeout_s": 1}
    nobody = {"conn_type": "zookeeper", "host": "127.0.0.1", "port": 1, "extra": seconds}
    monkeypatch.setenv("AIRFLOW_CONN_ZK_AWAY", json.dumps(nobody))
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    done = CliRunner().invoke(app, ["watch", "--once", "--dags", str(tmp_path)])
    assert done.exit_code == 1
    assert "flow away: checkpoint store does not answer: " in done.stderr
    assert "127.0.0.1:1" in done.stderr
