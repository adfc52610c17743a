"""What each kind of server runs and writes; nothing is started."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from databus.core.errors import ConfigError
from databus.sandbox.accounts import SQL_ACCOUNTS, account_statements
from databus.sandbox.servers.airflow import AIRFLOW, unhealthy_components
from databus.sandbox.servers.catalog import SERVERS, in_order, server_named
from databus.sandbox.servers.kafka import KAFKA, KAFKA_3, cluster_id
from databus.sandbox.servers.mysql import MYSQL
from databus.sandbox.servers.opensearch import OPENSEARCH
from databus.sandbox.servers.protocol import Context, Server
from databus.sandbox.servers.spark import SPARK
from databus.sandbox.servers.spark_cluster import SPARK_CLUSTER
from databus.sandbox.servers.sql import render_options
from databus.sandbox.servers.zookeeper import ZOOKEEPER, ZOOKEEPER_3
from databus.sandbox.state import SandboxOptions
from databus.sandbox.versions import load_versions


def context_of(server: Server, folder: Path, **options: object) -> Context:
    return Context(
        name=server.name,
        folder=folder / server.name,
        data=folder / server.name / "data",
        ports=dict(server.default_ports),
        versions=load_versions(),
        options=SandboxOptions.model_validate(options),
        installation=folder / "installed",
    )


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        server_named("oracle")
    assert all(name in caught.value.hint for name in ("kafka", "mysql", "airflow"))


def test_names_are_put_in_order_once() -> None:
    assert [server.name for server in in_order(["airflow", "kafka", "zookeeper", "kafka"])] == [
        "zookeeper",
        "kafka",
        "airflow",
    ]


def test_roles_of_a_server_are_unique(tmp_path: Path) -> None:
    for server in (ZOOKEEPER, ZOOKEEPER_3, KAFKA, KAFKA_3, OPENSEARCH, SPARK, SPARK_CLUSTER):
        roles = [command.role for command in server.commands(context_of(server, tmp_path))]
        assert len(roles) == len(set(roles)) > 0


def test_the_cluster_runs_the_driver_on_its_own_master(tmp_path: Path) -> None:
    context = context_of(SPARK_CLUSTER, tmp_path, spark_master="local[9]")
    argv = {command.role: command.argv for command in SPARK_CLUSTER.commands(context)}
    master = f"spark://127.0.0.1:{context.ports['master']}"
    assert list(argv) == ["master", "worker-1", "worker-2", "connect"]
    assert argv["connect"][argv["connect"].index("--master") + 1] == master
    assert argv["worker-1"][-1] == argv["worker-2"][-1] == master
    local = [command.argv for command in SPARK.commands(context_of(SPARK, tmp_path, spark_master="local[9]"))]
    assert [each[each.index("--master") + 1] for each in local] == ["local[9]"]


def test_what_needs_the_addresses_of_others_waits_for_them() -> None:
    assert [name for name, server in SERVERS.items() if server.after_others] == ["debezium", "stream", "airflow"]


def test_zookeeper_writes_its_ports_and_paths(tmp_path: Path) -> None:
    context = replace(context_of(ZOOKEEPER, tmp_path), ports={"client": 23456})
    ZOOKEEPER.prepare(context)
    lines = (context.folder / "zoo.cfg").read_text().splitlines()
    assert "clientPort=23456" in lines
    assert f"dataDir={context.data}" in lines
    [command] = ZOOKEEPER.commands(context)
    assert str(context.folder / "zoo.cfg") in command.argv
    assert "-Xmx128m" in command.argv


def test_three_zookeepers_know_each_other_and_share_nothing(tmp_path: Path) -> None:
    context = context_of(ZOOKEEPER_3, tmp_path)
    ZOOKEEPER_3.prepare(context)
    found = [
        dict(line.split("=", 1) for line in (context.folder / f"zoo-{n}.cfg").read_text().splitlines())
        for n in (1, 2, 3)
    ]
    assert len({c["clientPort"] for c in found}) == len({c["dataDir"] for c in found}) == 3
    assert {c["server.2"] for c in found} == {f"127.0.0.1:{context.ports['quorum-2']}:{context.ports['election-2']}"}
    assert [(Path(c["dataDir"]) / "myid").read_text() for c in found] == ["1\n", "2\n", "3\n"]
    assert len(set(context.ports.values())) == len(context.ports) == 9
    assert ZOOKEEPER_3.address(context.ports, "h") == "h:12381,h:12382,h:12383"
    assert [command.role for command in ZOOKEEPER_3.commands(context)] == ["server-1", "server-2", "server-3"]


def test_one_kafka_node_votes_for_itself_and_keeps_one_replica(tmp_path: Path) -> None:
    properties = KAFKA.properties(context_of(KAFKA, tmp_path), 1)
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:19192"
    assert properties["transaction.state.log.replication.factor"] == 1
    assert properties["transaction.state.log.min.isr"] == 1


def test_three_kafka_nodes_survive_the_loss_of_one(tmp_path: Path) -> None:
    context = context_of(KAFKA_3, tmp_path)
    properties = [KAFKA_3.properties(context, node) for node in (1, 2, 3)]
    assert len({str(p["log.dirs"]) for p in properties}) == 3
    assert len({p["listeners"] for p in properties}) == 3
    assert len({p["controller.quorum.voters"] for p in properties}) == 1
    assert {(p["default.replication.factor"], p["min.insync.replicas"]) for p in properties} == {(3, 2)}
    assert KAFKA_3.address(context.ports, "h").count(",") == 2
    assert [command.role for command in KAFKA_3.commands(context)] == ["broker-1", "broker-2", "broker-3"]


def test_a_cluster_keeps_its_id_and_shares_it_with_none(tmp_path: Path) -> None:
    assert cluster_id(tmp_path / "a") == cluster_id(tmp_path / "a")
    assert cluster_id(tmp_path / "a") != cluster_id(tmp_path / "b")
    assert len(cluster_id(tmp_path)) == 22


def test_no_cluster_id_looks_like_an_option(tmp_path: Path) -> None:
    ids = [cluster_id(tmp_path / str(number)) for number in range(500)]
    assert not [found for found in ids if found.startswith("-")]
    assert len(set(ids)) == 500


def test_mysql_logs_what_a_reader_needs(tmp_path: Path) -> None:
    options = MYSQL._options(context_of(MYSQL, tmp_path))
    assert options["gtid_mode"] == "ON"
    assert options["binlog_format"] == "ROW"
    assert options["binlog_row_image"] == options["binlog_row_metadata"] == "FULL"
    assert options["user"] != "root"
    assert options["bind-address"] == "127.0.0.1"


def test_a_deep_home_gets_a_socket_that_the_kernel_takes(tmp_path: Path) -> None:
    deep = tmp_path / "/".join(["folder" * 4] * 6)
    assert len(str(MYSQL.socket_name(context_of(MYSQL, deep)))) <= 107


def test_an_option_without_value_has_no_equals_sign() -> None:
    assert render_options({"skip-name-resolve": None, "port": 1}) == "[mysqld]\nskip-name-resolve\nport=1\n"


def test_accounts_stay_out_of_the_binlog_and_of_repr() -> None:
    assert account_statements()[0] == "SET SESSION sql_log_bin = 0"
    assert all("password=SecretStr('')" in repr(a) or "'**********'" in repr(a) for a in SQL_ACCOUNTS)


def test_spark_runs_this_interpreter_and_this_package(tmp_path: Path) -> None:
    [command] = SPARK.commands(context_of(SPARK, tmp_path))
    assert command.env["PYSPARK_PYTHON"] == sys.executable
    assert any((Path(part) / "databus" / "sandbox").is_dir() for part in command.env["PYTHONPATH"].split(":"))
    assert "spark.sql.session.timeZone=UTC" in command.argv
    assert "spark.speculation=false" in command.argv


def test_spark_settings_of_the_user_win(tmp_path: Path) -> None:
    conf = {"spark.sql.shuffle.partitions": "7", "spark.mine": "1"}
    context = context_of(SPARK, tmp_path, spark_conf=conf, spark_master="local[1]", spark_driver_memory="1g")
    [command] = SPARK.commands(context)
    assert "spark.sql.shuffle.partitions=7" in command.argv
    assert "spark.mine=1" in command.argv
    assert command.argv[command.argv.index("--master") + 1] == "local[1]"
    assert command.argv[command.argv.index("--driver-memory") + 1] == "1g"


def test_airflow_settings_name_its_port_and_the_users_win(tmp_path: Path) -> None:
    context = context_of(AIRFLOW, tmp_path, airflow_env={"AIRFLOW__CORE__PARALLELISM": "3"}, dags_folder=tmp_path)
    context.data.mkdir(parents=True)
    AIRFLOW._write_secrets(context)
    environment = AIRFLOW.environment(context)
    assert environment["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18080"
    assert environment["AIRFLOW__CORE__PARALLELISM"] == "3"
    assert environment["AIRFLOW__CORE__DAGS_FOLDER"] == str(tmp_path)
    assert environment["DATABUS_RECORDS_URL"] == f"sqlite:///{tmp_path / 'records.db'}"
    assert AIRFLOW.environment(context) == environment
    assert AIRFLOW._secrets_file(context).stat().st_mode & 0o077 == 0


def test_airflow_is_well_only_with_heartbeats_of_this_start() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    parts = ("scheduler", "triggerer", "dag_processor")

    def report(beat: datetime, status: str = "healthy") -> dict[str, object]:
        beating = {part: {"status": status, f"latest_{part}_heartbeat": beat.isoformat()} for part in parts}
        return {"metadatabase": {"status": "healthy"}, **beating}

    after, before = start + timedelta(seconds=1), start - timedelta(seconds=1)
    assert unhealthy_components(report(after), start) == []
    assert unhealthy_components(report(before), None) == []
    assert len(unhealthy_components(report(before), start)) == 3
    assert unhealthy_components(report(after, "unhealthy"), start)[0] == "scheduler is unhealthy"
    assert unhealthy_components({}, None)[0] == "metadatabase is None"
