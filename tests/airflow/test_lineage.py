"""Lineage whose configuration is wrong: it is told in the log, and fails no window."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage import conf

from databus import Flow, MysqlBinlog, Noop
from databus.airflow.reporting.lineage import close_left_open, end_failed, window_lineage
from databus.records.store import RecordStore

FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",)), sinks=(Noop(),))
AWAY = "/proc/none/openlineage.yml"


def context() -> dict[str, Any]:
    run = SimpleNamespace(dag_id="orders", logical_date=datetime(2026, 11, 21, tzinfo=UTC), clear_number=0)
    instance = SimpleNamespace(try_number=1, max_tries=5, dag_id="orders")
    return {"run_id": "r1", "dag_run": run, "ti": instance}


@pytest.mark.parametrize(
    "setting",
    [
        {"AIRFLOW__OPENLINEAGE__CONFIG_PATH": AWAY},
        {"AIRFLOW__OPENLINEAGE__TRANSPORT": '{"type": "carrier_pigeon"}'},
        {"AIRFLOW__OPENLINEAGE__TRANSPORT": "{not json"},
        {"AIRFLOW__OPENLINEAGE__TRANSPORT": '["http"]'},
        {"AIRFLOW__OPENLINEAGE__CONFIG_CONN_ID": "nowhere"},
        {"AIRFLOW__OPENLINEAGE__DISABLED": "perhaps"},
    ],
    ids=lambda setting: " ".join(f"{name[22:].lower()}={value}" for name, value in setting.items()),
)
def test_what_cannot_be_set_up_fails_no_window(
    setting: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    done = []
    close_left_open(FLOW, context())
    with window_lineage(FLOW, context()):
        done.append("rows are moved")
    end_failed(FLOW, context())
    assert done == ["rows are moved"]
    warnings = [r.getMessage() for r in caplog.records if r.name == "databus.airflow.reporting.lineage"]
    assert warnings == ["flow orders: lineage is not sent: OpenLineage cannot be set up"] * 3


def test_an_error_of_the_window_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__CONFIG_PATH", AWAY)
    with pytest.raises(ZeroDivisionError), window_lineage(FLOW, context()):
        _ = 1 / 0


def test_what_is_set_up_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    config = tmp_path / "openlineage.yml"
    config.write_text(f"transport: {{type: file, log_file_path: {file}, append: true}}")
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__CONFIG_PATH", str(config))
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    monkeypatch.setenv("AIRFLOW_CONN_MYSQL_SHOP", '{"conn_type": "mysql", "host": "db"}')
    with RecordStore(f"sqlite:///{tmp_path / 'records.db'}").transaction():
        pass
    assert not conf.is_disabled()
    with window_lineage(FLOW, context()):
        pass
    assert [line.count('"eventType": "') for line in file.read_text().splitlines()] == [1, 1]
