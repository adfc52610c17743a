"""What a person meets who types something wrong, or looks where nothing is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from databus.cli import backfill, quarantine
from databus.cli.main import app
from databus.cli.terminal.output import Format
from databus.core.batches.counts import SinkCounts, by_sink
from databus.core.errors import ConfigError
from databus.ops.flows.discovery import find_flow
from databus.sandbox.process import identify
from databus.sandbox.state import STATE_FILE, SandboxState, StoredProcess, StoredServer, save_state

FLOW = "from databus import Flow, Mock, Noop\nflow = Flow(name={name!r}, source=Mock(rows=1), sinks=(Noop(),))\n"


def test_a_wrong_name_is_answered_in_a_few_lines(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"bad_{number:02}.py").write_text("from databus import Kafka\nKafka(topc='x')\n")
        (tmp_path / f"good_{number:02}.py").write_text(FLOW.format(name=f"orders_{number:02}"))
    with pytest.raises(ConfigError, match="no flow 'order_07'") as refused:
        find_flow("order_07", tmp_path)
    hint = refused.value.hint
    assert hint.startswith("Did you mean orders_07")
    assert "and 20 more (`databus flows list`)" in hint
    assert f"{tmp_path / 'bad_00.py'} and 29 more files; `databus flows validate` says why." in hint
    assert len(hint) < 600 + 2 * len(str(tmp_path))


def test_a_preview_shows_the_first_rows_and_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, object]] = [
        {
            "state": "held",
            "table": "shop.orders",
            "key": str(number),
            "cause": "not_null " * 20,
            "event_id": f"e{number}",
        }
        for number in range(1000)
    ]
    quarantine._preview(rows, "orders", Format.TABLE)
    shown = capsys.readouterr()
    assert len(shown.out) < 20_000
    assert "e19" in shown.out
    assert "e20" not in shown.out
    told = " ".join(shown.err.split())
    assert "The first 20 of 1000; `databus quarantine list orders --limit 1000` shows all." in told
    assert "1,000 rows are meant" in " ".join(shown.err.split())
    quarantine._preview(rows, "orders", Format.JSON)
    assert len(json.loads(capsys.readouterr().out)) == 1000


def test_counts_of_the_quarantine_and_of_backfills_say_which_sink_lacks_rows() -> None:
    assert quarantine._counted("held", {"search": 59, "check": 2}) == "61 held (check 2, search 59)"
    sinks = {"kafka": SinkCounts(39), "search": SinkCounts(2, 37)}
    assert by_sink(sinks) == "kafka took 39, search took 2 and refused 37"
    found = {"rows": {"read": 39}, "pieces": [], "sinks": {name: counts.to_json() for name, counts in sinks.items()}}
    assert backfill._row(found)["refused"] == "search 37"


def test_status_finds_the_demo_below_its_home_and_says_its_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABUS_SANDBOX", raising=False)
    home = tmp_path / ".sandbox" / "demo"
    home.mkdir(parents=True)
    here = identify(os.getpid())
    assert here is not None
    process = StoredProcess(role="mysqld", log=home / "log", **vars(here))
    server = StoredServer(
        name="mysql", host="127.0.0.1", ports={"sql": 3306}, processes=(process,), folder=home, data_folder=home
    )
    save_state(home / STATE_FILE, SandboxState(servers={"mysql": server}))
    done = CliRunner().invoke(app, ["sandbox", "status", "-o", "json"])
    (server,) = json.loads(done.stdout)
    assert (server["name"], server["state"], server["home"]) == ("mysql", "running", ".sandbox/demo")
    assert "user shop, password shop" in done.stderr
    assert "--home" in done.stderr
    empty = CliRunner().invoke(app, ["sandbox", "status", "--home", ".sandbox", "-o", "json"])
    assert json.loads(empty.stdout) == []


def test_validate_asks_no_server_unless_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "from databus import Flow, MysqlBinlog, Noop\nsource = MysqlBinlog(conn_id='away', tables=('shop.orders',))\n"
    )
    (tmp_path / "away.py").write_text(f"{text}flow = Flow(name='away', source=source, sinks=(Noop(),))\n")
    (tmp_path / "mock.py").write_text(FLOW.format(name="mock"))
    nobody = {"conn_type": "mysql", "host": "127.0.0.1", "port": 1, "login": "root"}
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", json.dumps(nobody))
    words = ["flows", "validate", "--dags", str(tmp_path), "-o", "json"]
    assert CliRunner().invoke(app, words).exit_code == 0
    asked = CliRunner().invoke(app, [*words, "--connect"])
    told = {row["flow"]: row["state"] for row in json.loads(asked.stdout)}
    assert (asked.exit_code, told) == (4, {"away": "error", "mock": "ok"})
    (tmp_path / "lost.py").write_text((tmp_path / "away.py").read_text().replace("away", "lost"))
    lost = CliRunner().invoke(app, [*words, "--connect"])
    assert lost.exit_code == 2
    assert any("lost" in str(row["problem"]) for row in json.loads(lost.stdout))


def test_validate_tells_a_form_that_the_definition_leaves_to_spark(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(
        "from databus import Flow, Kafka, MysqlBinlog, Route\n"
        "route = Route(by='region', routes=('eu', 'us'))\n"
        "sink = Kafka(conn_id='k', topic='t.{route}', format='avro', registry_conn_id='r')\n"
        "flow = Flow(name='f', source=MysqlBinlog(conn_id='m', tables=('a.b',)), transforms=(route,), sinks=(sink,))\n"
    )
    told = CliRunner().invoke(app, ["flows", "validate", "--dags", str(tmp_path), "-o", "json"])
    (row,) = json.loads(told.stdout)
    assert (told.exit_code, row["code"]) == (2, "lane_required")
    assert row["problem"] == (
        'lane: flow f, sink kafka: format="avro" needs rows as they are decoded: transform route by region to eu, '
        'us makes several records of a row, and format="avro" has no form for them'
    )


def test_validate_prints_a_line_per_flow_that_is_well_and_counts_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(FLOW.format(name=name))
    words = ["flows", "validate", "--dags", str(tmp_path)]
    well = CliRunner().invoke(app, words)
    assert well.stdout == f"ok     one  {tmp_path / 'one.py'}\nok     two  {tmp_path / 'two.py'}\n"
    assert well.stderr == "2 flows: 2 well, 0 with faults\n"
    (tmp_path / "two.py").write_text(
        "from databus import Flow, MysqlBinlog, Noop\n"
        "flow = Flow(name='two', source=MysqlBinlog(conn_id='nowhere', tables=('a.b',)), sinks=(Noop(),))\n"
    )
    (tmp_path / "bad.py").write_text("from databus import Kafka\nKafka(topc='x')\n")
    faulty = CliRunner().invoke(app, [*words, "--connect"])
    assert faulty.exit_code == 2
    lines = faulty.stdout.splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        f"ok     one  {tmp_path / 'one.py'}",
        f"error  two  {tmp_path / 'two.py'}",
        f"error  {tmp_path / 'bad.py'}",
    ]
    assert "no connection 'nowhere'" in lines[2]
    assert lines[2].endswith("  (connection_missing)")
    assert [line[-17:] for line in lines if "Kafka(" in line or "Kafka: " in line] == [" (config_invalid)"]
    assert faulty.stderr.endswith(
        "2 flows: 1 well, 1 with faults, 1 file not readable\n"
        "more: databus explain connection_missing | config_invalid\n"
    )
    rows = json.loads(CliRunner().invoke(app, [*words, "-o", "json"]).stdout)
    assert [row["state"] for row in rows] == ["ok", "ok", "error"]
    assert [row["code"] for row in rows] == [None, None, "config_invalid"]


def test_lag_says_which_connection_is_missing_once_for_all_flows_and_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABUS_SANDBOX", raising=False)
    monkeypatch.delenv("AIRFLOW_CONN_ZOOKEEPER_DEFAULT", raising=False)
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(FLOW.format(name=name))
    words = ["lag", "--dags", str(tmp_path)]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 2
    assert {"one", "two"} <= set(told.stdout.split())
    (line,) = [line for line in told.stderr.splitlines() if "no connection" in line]
    assert line.startswith("one, two: no connection 'zookeeper_default': ")
    assert line.count("in the environment") == 1
    assert "Set AIRFLOW_CONN_ZOOKEEPER_DEFAULT" in told.stderr
    (tmp_path / "bad.py").write_text("from databus import Kafka\nKafka(topc='x')\n")
    rows = CliRunner().invoke(app, [*words, "-o", "json"])
    assert ["zookeeper_default" in row["error"] for row in json.loads(rows.stdout)] == [True, True]
    assert "not readable" in rows.stderr


def test_where_no_file_is_readable_list_says_so_and_validate_says_what_to_do(tmp_path: Path) -> None:
    texts = {
        "name": "from databus import Flow, Mock\n\nflow = Flow(name='a', source=Mock(rows=1), sinks=(Nop(),))\n",
        "dag": "from databus import Flow\n\ndag = flow_dg(Flow)\n",
        "module": "import databus\n\nimport no_such_module\n",
        "syntax": "import databus\n\nflow = (\n",
        "end": "import databus\n\nraise SystemExit(1)\n",
        "zero": "import databus\n\n1 / 0\n",
        "twice": "from databus import Mock\n\nMock()\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    listed = CliRunner().invoke(app, ["flows", "list", "--dags", str(tmp_path)])
    assert (listed.exit_code, listed.stdout) == (2, "")
    told = listed.stderr.splitlines()
    assert (told[0], told[-1]) == ("no flow is readable", "`databus flows validate` says what to do.")
    assert sum(line.startswith("not readable: ") for line in told) == len(texts)
    judged = CliRunner().invoke(app, ["flows", "validate", "--dags", str(tmp_path), "-o", "json"])
    assert judged.exit_code == 2
    rows = {Path(row["file"]).stem: row for row in json.loads(judged.stdout)}
    assert all(f"{tmp_path / name}.py:3: " in row["problem"] for name, row in rows.items())
    hints = {name: row["hint"] for name, row in rows.items()}
    assert hints["name"].startswith("Is it `from databus import Noop`? ")
    assert hints["dag"].startswith("Is it `from databus.airflow import flow_dag`? ")
    assert {name for name, hint in hints.items() if not hint} == set()
    assert str(tmp_path / "zero.py") in hints["zero"]
    wanted = "Mock: give rows=, rows_per_second=, phases=, or rows= and one of the others"
    assert rows["twice"]["problem"].endswith(f": {wanted}")
    empty = tmp_path / "empty"
    empty.mkdir()
    none = CliRunner().invoke(app, ["flows", "list", "--dags", str(empty)])
    assert (none.exit_code, none.stderr.split(":")[0]) == (0, "no flows")


def test_reading_dag_files_shows_no_chatter_of_libraries(tmp_path: Path) -> None:
    """Airflow, once a file imports it, shows the INFO of every library."""
    (tmp_path / "chatty.py").write_text(
        "import logging\nfrom databus import Flow, Mock, Noop\nfrom databus.airflow import flow_dag\n"
        "logging.getLogger('great_expectations').info('Skipping registering function')\n"
        "logging.getLogger('mine').warning('this matters')\n"
        "dag = flow_dag(Flow(name='chatty', source=Mock(rows=1), sinks=(Noop(),)))\n"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "databus.cli.main", "flows", "validate", "--dags", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "chatty" in done.stdout
    assert "Skipping" not in done.stderr
    assert "this matters" in done.stderr


def test_lag_refuses_a_negative_limit() -> None:
    refused = CliRunner().invoke(app, ["lag", "--fail-over", "-1"])
    assert refused.exit_code == 2
    assert "--fail-over" in refused.output
    assert "greater than or equal to 0" in refused.output
