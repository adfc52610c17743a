"""The command as an operator uses it, against real servers: in processes of its own, and where many calls do no more
than look, in this one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from databus.connections.environment import EnvironmentConnections
from databus.ops.flows.discovery import find_flow
from databus.ops.services import open_services
from databus.ops.tables.wants import table_want
from tests.integration.command_line import Cli, CliHere
from tests.integration.conftest import World
from tests.integration.shop_flow import Shop

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture(scope="module")
def shop(world: World) -> Shop:
    shop = Shop(world, "cli_shop")
    shop.writer.run(60)
    return shop


@pytest.fixture(scope="module")
def cli(world: World, shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    folder = tmp_path_factory.mktemp("dags")
    shop.dag_file(folder)
    return Cli(world, folder)


@pytest.fixture(scope="module")
def here(cli: Cli, world: World) -> CliHere:
    return CliHere(world, cli.dags)


def test_before_the_first_run(here: CliHere, shop: Shop) -> None:
    assert here.json("checkpoint", "show", "cli_shop")["checkpoint"] is None
    (lag,) = here.json("lag", "cli_shop")
    start = shop.flow.to_json()["source"]["start"]
    assert (lag["committed"], lag["not_started"]) == (None, {"start": start, "at": start})
    assert lag["head"].startswith("mysql-bin.")
    assert lag["head"] != start
    shown = " ".join(here("lag", "cli_shop").stdout.split())
    assert f"not started: begins at {start} (start={start})" in shown
    assert lag["head"] in shown


def test_looks_load_neither_airflow_nor_the_records(cli: Cli) -> None:
    code = "import sys\nfrom databus.cli.main import main\n"
    code += "for words in (('checkpoint', 'show'), ('lag',), ('plan',)):\n"
    code += "    sys.argv = ['databus', *words, 'cli_shop', '-o', 'json']\n"
    code += "    try: main()\n    except SystemExit as ended: assert not ended.code, ended.code\n    print('/')\n"
    heavy = ("airflow", "alembic", "great_expectations", "pyspark", "sqlalchemy")
    code += f"print(sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=cli.environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    *looks, rest = done.stdout.split("/\n")
    assert [bool(json.loads(look)) for look in looks] == [True] * 3
    assert rest == ""
    assert done.stderr.splitlines()[-1] == "[]"


def test_plan_and_dry_run_write_nothing(here: CliHere, shop: Shop, world: World) -> None:
    expected = {f"shop.{t}" for t in ("customers", "products", "orders", "order_items")}
    plan = here.json("plan", "cli_shop")
    assert set(plan["tables"]) == expected
    assert plan["rows"] == sum(shop.writer.written.changes.values())
    dry = here.json("run", "cli_shop", "--dry-run", "--spark", f"sc://{world.sandbox.address('spark')}")
    given = dry["sinks"]["kafka"]
    assert {t: given[t] for t in expected} == {t: shop.writer.written.rows(t.partition(".")[2]) for t in expected}
    assert world.checkpoint(shop.flow) is None


def test_run_show_history_lag_peek(cli: Cli, here: CliHere, shop: Shop, world: World) -> None:
    peeked = [json.loads(line) for line in here("peek", "cli_shop", "-n", "5").stdout.splitlines()]
    assert len(peeked) == 5
    assert all(row["op"] in "cudtm" for row in peeked)
    run = cli.json("run", "cli_shop", "--until-caught-up", "--spark", f"sc://{world.sandbox.address('spark')}")
    assert sum(n for t, n in run["tables"].items() if "." in t) == sum(shop.writer.written.changes.values())
    shown = here.json("checkpoint", "show", "cli_shop")
    assert (shown["batch"], shown["plan_in_flight"]) == (run["batch"], None)
    history = here.json("checkpoint", "history", "cli_shop")
    assert [e["action"] for e in history][-1] == "start"
    assert history[0]["action"] == "commit"
    lag = here.json("lag", "cli_shop")[0]
    assert (lag["lag_bytes"], lag["lag_seconds"]) == (0, 0.0)
    shop.writer.run(5)
    assert here.json("lag", "cli_shop")[0]["lag_bytes"] > 0
    here("lag", "cli_shop", "--fail-over", "0", code=6)
    at = shown["offset"]
    words = ([], ["--from", json.dumps(at)], ["--from", f"{at['file']}:{at['pos']}"])
    rows = {here("peek", "cli_shop", "-n", "500", *given).stdout for given in words}
    assert ["" in rows, len(rows)] == [False, 1]
    assert here("peek", "cli_shop", "--from", "latest").stdout == ""


def test_lag_names_a_missing_connection_and_shows_the_other_flows(here: CliHere) -> None:
    lost = here.dags / "lost.py"
    source = "MysqlBinlog(conn_id='mysql_lost', tables=('shop.orders',))"
    lost.write_text(
        f"from databus import Flow, MysqlBinlog, Noop\nflow = Flow(name='cli_lost', source={source}, sinks=(Noop(),))\n"
    )
    try:
        told = here("lag", "-o", "json", code=2)
        rows = {row["flow"]: row for row in json.loads(told.stdout)}
        assert rows["cli_shop"]["error"] is None
        assert "'mysql_lost'" in rows["cli_lost"]["error"]
        assert "cli_lost: no connection 'mysql_lost'" in told.stderr
        assert "Set AIRFLOW_CONN_MYSQL_LOST" in told.stderr
        assert here.json("lag", "cli_shop")[0]["committed"] == rows["cli_shop"]["committed"]
    finally:
        lost.unlink()


def test_a_watched_lag_names_its_columns_once(cli: Cli) -> None:
    command = [sys.executable, "-m", "databus.cli.main", "lag", "cli_shop", "--watch", "0.2"]
    with subprocess.Popen(command, env=cli.environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        first, *looks = (watching.stdout.readline() for _ in range(4))
        watching.terminate()
    assert first.split()[:2] == ["flow", "committed"]
    assert [look.split()[0] for look in looks] == ["cli_shop"] * 3


def test_sparks_workers_run_by_the_interpreter_of_the_command(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    """`.venv/bin/databus run` without an activated environment: the first python3 of the PATH is another one."""
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho 'not this interpreter' >&2\nexit 3\n")
    other.chmod(0o755)
    environment = {k: v for k, v in cli.environment.items() if not k.startswith("PYSPARK_")}
    environment |= {"PATH": f"{tmp_path}:{environment['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    shop.writer.run(5)
    words = ("run", "cli_shop", "-n", "1", "--spark", "local[1]", "-o", "json")
    command = [sys.executable, "-m", "databus.cli.main", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sum(json.loads(done.stdout)["tables"].values()) > 0
    assert "rdkafka" not in done.stderr  # neither the clients here nor those of Spark's workers


def test_flows_list_show_graph_validate(here: CliHere) -> None:
    assert [f["flow"] for f in here.json("flows", "list")] == ["cli_shop"]
    assert yaml.safe_load(here("flows", "show", "cli_shop").stdout)["name"] == "cli_shop"
    drawn = here("flows", "graph", "cli_shop").stdout
    assert drawn.startswith("flowchart LR")
    assert "source" in drawn
    assert "sink0" in drawn
    here("flows", "validate")
    bad = here.dags / "bad.py"
    bad.write_text("from databus import Kafka\nKafka(topc='x')\n")
    try:
        refused = here("flows", "validate", code=2)
        assert f"{bad}:2" in refused.stdout.replace("\n", "")
    finally:
        bad.unlink()


def test_validate_with_connect_and_run_find_what_is_not_there(cli: Cli, here: CliHere) -> None:
    told = here.json("flows", "validate", "--connect")
    assert [(row["flow"], row["state"]) for row in told] == [("cli_shop", "ok")]
    wrong = cli.dags / "wrong.py"
    wrong.write_text(
        "from databus import Elasticsearch, Flow, Mask, MysqlBinlog\n"
        "tables = ('shop.orders', 'shop.order')\n"
        "flow = Flow(name='cli_wrong', source=MysqlBinlog(conn_id='mysql_shop', tables=tables),\n"
        "            transforms=(Mask('card_nummer', tables=('shop.orders',)),),\n"
        "            sinks=(Elasticsearch(conn_id='opensearch_default'),))\n"
    )
    try:
        here("flows", "validate")
        found = [row for row in here.json("flows", "validate", "--connect", code=2) if row["flow"] == "cli_wrong"]
        assert {row["state"] for row in found} == {"error"}
        missing, unknown = (row["problem"] for row in found)
        assert missing.endswith("table shop.order: the table does not exist")
        assert unknown.endswith("shop.orders has no column 'card_nummer'")
        assert ["shop.orders" in found[0]["hint"], "card_number" in found[1]["hint"]] == [True, True]
        # Refused before Spark is looked for: there is none at this address.
        refused = here("run", "cli_wrong", "--until-caught-up", "--spark", "sc://127.0.0.1:1", code=2)
        assert "(source_table_missing)" in refused.stderr
        refused = cli("run", "cli_wrong", "--until-caught-up", code=2)
        assert refused.stderr.startswith("error: flow cli_wrong: ")
        assert here.json("checkpoint", "show", "cli_wrong")["checkpoint"] is None
        levels = {f["code"]: f["level"] for f in here.json("doctor", "cli_wrong", code=1)}
        assert (levels["source_table_missing"], levels["column_unknown"]) == ("error", "error")
        # What was there once, and is gone, is a warning at the desk as well.
        with open_services(find_flow("cli_wrong", cli.dags).flow, EnvironmentConnections(cli.environment)) as services:
            assert services.accepted is not None
            services.accepted.keep("cli_wrong", [table_want("shop.order"), table_want("shop.orders")])
        found = [row for row in here.json("flows", "validate", "--connect", code=2) if row["flow"] == "cli_wrong"]
        assert [row["state"] for row in found] == ["warn", "error"]
    finally:
        wrong.unlink()


def test_all_faults_of_a_flow_are_told_at_once(here: CliHere, world: World) -> None:
    """Also beside a sink whose connection is missing."""
    wrong = here.dags / "faulty.py"
    wrong.write_text(
        "from databus import Filter, Flow, Kafka, Mask, MysqlBinlog, NotNull\n"
        "here = ('shop.orders',)\n"
        "flow = Flow(name='cli_faulty', source=MysqlBinlog(conn_id='mysql_shop', tables=(*here, 'shop.order')),\n"
        "            transforms=(Filter('statsu > 1', tables=here), Mask('card_nummer', tables=here)),\n"
        "            checks=(NotNull('amuont', tables=here),), sinks=(Kafka(conn_id='nowhere', topic='t'),))\n"
    )
    names = ["shop.order: the table", "'statsu'", "'card_nummer'", "'amuont'"]
    try:
        judged = here("flows", "validate", "--connect", code=2)
        (block,) = (part for part in judged.stdout.split("error  ")[1:] if part.startswith("cli_faulty"))
        faults = [line for line in block.splitlines()[1:] if line.startswith("  ") and line[2] != " "]
        assert [name in line for name, line in zip(names, faults, strict=True)] == [True] * 4
        assert "2 flows: 1 well, 1 with faults" in judged.stderr
        told = [f for f in here.json("doctor", "cli_faulty", code=1) if f["level"] == "error"]
        assert sum(f["code"] == "connection_missing" for f in told) == 1
        assert all(any(name in f"{f['subject']}: {f['found']}" for f in told) for name in names)
        wrong.write_text(wrong.read_text().replace("nowhere", "kafka_east"))
        spark = f"sc://{world.sandbox.address('spark')}"
        refused = here("run", "cli_faulty", "--batches", "1", "--spark", spark, code=2)
        assert all(name in " ".join(refused.stderr.split()) for name in names)
    finally:
        wrong.unlink()


def test_a_run_that_holds_rows_back_is_not_told_as_well(cli: Cli, here: CliHere, shop: Shop, world: World) -> None:
    """A check that holds customers back, then an index that takes none: both runs end with 7, and say why."""
    held = cli.dags / "held.py"
    spark = f"sc://{world.sandbox.address('spark')}"
    start = shop.flow.to_json()["source"]["start"]
    flow = (
        "from databus import AcceptedValues, Elasticsearch, Flow, Kafka, MysqlBinlog\n"
        f"source = MysqlBinlog(conn_id='mysql_shop', tables=('shop.customers',), start={start!r})\n"
        "flow = Flow(name={name!r}, source=source, checks={checks}, sinks={sinks})\n"
    )
    kafka, check = "Kafka(conn_id='kafka_east', topic='cli_held')", "AcceptedValues('email', ['a@b'], severity={!r})"
    index = "Elasticsearch(conn_id='opensearch_default', index='cli-held', on_reject='quarantine', mapping={})"
    mapping = {"properties": {"email": {"type": "integer"}}}
    kinds = {
        "quarantined": (f"({check.format('quarantine')},)", f"({kafka},)"),
        "rejected": ("()", f"({index.format(mapping)},)"),
        "ok": (f"({check.format('warn')},)", f"({kafka},)"),
    }
    try:
        for state, (checks, sinks) in kinds.items():
            held.write_text(flow.format(name=f"cli_{state}", checks=checks, sinks=sinks))
            words = ("run", f"cli_{state}", "--until-caught-up", "--spark", spark, "-o", "json")
            run = cli if state == "quarantined" else here
            done = run(*words, code=0 if state == "ok" else 7)
            shown = json.loads(done.stdout)
            assert (shown["state"], shown["quarantined"] > 0) == (state, state != "ok")
            assert shown["rows"] == sum(shown[name] for name in ("filtered", "quarantined", "dispatched"))
            assert (f"`databus quarantine list cli_{state}`" in done.stderr) is (state != "ok")
    finally:
        held.unlink()


def test_doctor_names_servers_and_settings(here: CliHere) -> None:
    findings = here.json("doctor", "cli_shop")
    subjects = " ".join(f["subject"] for f in findings)
    for wanted in ("python", "pyspark", "connection mysql_shop", "binlog_format", "binlog_row_metadata", "zookeeper"):
        assert wanted in subjects, subjects
    assert not [f for f in findings if f["level"] == "error"]


def test_errors_have_a_message_a_hint_and_an_exit_code(cli: Cli) -> None:
    refused = cli("checkpoint", "show", "nowhere", code=2)
    assert "no flow 'nowhere'" in refused.stderr
    assert "cli_shop" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_sandbox_status(here: CliHere, world: World) -> None:
    servers = {s["name"]: s for s in here.json("sandbox", "status")}
    assert set(servers) >= {"zookeeper", "kafka", "mysql", "opensearch", "spark"}
    mysql = servers["mysql"]
    assert f"{mysql['host']}:{mysql['port']}" == world.sandbox.address("mysql")
    assert mysql["state"] == "running"
    assert mysql["pid"] > 0
    assert mysql["data_folder"]
    assert "shop" in mysql["credentials"]
    assert "INFO" in here("sandbox", "logs", "kafka", "-n", "20").stdout
