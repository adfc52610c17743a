"""The sandbox on real servers: health, data over a kill, and a stop of exactly what was started."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pymysql
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient

from databus.core.errors import SandboxError
from databus.sandbox import Sandbox, ServerState, ServerStatus
from databus.sandbox.process import identify, is_alive
from databus.sandbox.versions import load_versions
from tests.integration.changes_writer import make_topics
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.ports import ports_from

pytestmark = pytest.mark.integration
NAMES = ("zookeeper", "kafka", "mysql")
INCLUDE = Path(sys.modules["databus.sandbox"].__file__ or "").resolve().parents[2]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox"), ports_from=ports_from(24_200))
    try:
        sandbox.up(NAMES)
        yield sandbox
    finally:
        sandbox.destroy()


@pytest.fixture
def servers(sandbox: Sandbox) -> Sandbox:
    """The sandbox with all servers up, whatever the test before left."""
    sandbox.up(NAMES)
    return sandbox


def status(sandbox: Sandbox, name: str) -> ServerStatus:
    return next(found for found in sandbox.status() if found.name == name)


@contextmanager
def mysql(sandbox: Sandbox, user: str = "root", password: str = "") -> Iterator[Any]:
    at = status(sandbox, "mysql")
    with (
        pymysql.connect(host=at.host, port=at.port, user=user, password=password, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


@contextmanager
def zookeeper(sandbox: Sandbox) -> Iterator[KazooClient]:
    client = KazooClient(sandbox.address("zookeeper"))
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def elsewhere(sandbox: Sandbox, script: str) -> str:
    """Run a script in another process, with the sandbox of the same home as `sandbox`."""
    start = (
        f"from pathlib import Path; from databus.sandbox import Sandbox; sandbox = Sandbox(Path({str(sandbox.home)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{start}\n{script}"],
        env={"PYTHONPATH": str(INCLUDE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


def test_status_tells_where_each_server_is(servers: Sandbox) -> None:
    found = {server.name: server for server in servers.status()}
    assert set(found) >= set(NAMES)
    for name in NAMES:
        server = found[name]
        assert server.state is ServerState.RUNNING
        assert server.host == "127.0.0.1"
        assert server.port >= ports_from(24_200)
        assert server.pid is not None
        assert identify(server.pid) is not None
        assert any(server.data_folder.iterdir())
        assert server.log.stat().st_size > 0
        assert servers.address(name) == f"127.0.0.1:{server.port}"
        servers.check(name)
    ports = [port for server in found.values() for port in server.ports.values()]
    assert len(ports) == len(set(ports))
    assert found["mysql"].credentials == ("root", "databus", "shop")


def test_mysql_is_set_up_for_a_reader_of_its_binlog(servers: Sandbox) -> None:
    with mysql(servers) as cursor:
        cursor.execute("SELECT @@version, @@gtid_mode, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata")
        assert cursor.fetchone() == ("8.0.31", "ON", "ROW", "FULL", "FULL")
        cursor.execute("SHOW GRANTS FOR 'databus'@'%'")
        assert cursor.fetchone() == ("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `databus`@`%`",)
    with mysql(servers, "databus", "sandbox-reader") as cursor:
        cursor.execute("SHOW MASTER STATUS")
        assert cursor.fetchone() is not None
    with mysql(servers, "shop", "shop") as cursor:
        cursor.execute("CREATE TABLE shop.rights (id INT PRIMARY KEY)")
        cursor.execute("DROP TABLE shop.rights")
    pid = status(servers, "mysql").pid
    assert "\nUid:\t0\t" not in Path(f"/proc/{pid}/status").read_text()


def test_mysql_keeps_its_data_over_kill_and_restart(servers: Sandbox) -> None:
    with mysql(servers) as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS shop.kept (id VARCHAR(40) PRIMARY KEY)")
        row = (uuid.uuid4().hex,)
        cursor.execute("INSERT INTO shop.kept VALUES (%s)", row)
    before = status(servers, "mysql")
    servers.kill("mysql")
    dead = status(servers, "mysql")
    assert (dead.state, dead.pid) == (ServerState.DEAD, None)
    with pytest.raises(SandboxError) as caught:
        servers.check("mysql")
    assert caught.value.code == "sandbox_server_unhealthy"
    after = servers.restart("mysql")
    assert (after.state, after.ports) == (ServerState.RUNNING, before.ports)
    assert after.pid != before.pid
    with mysql(servers) as cursor:
        cursor.execute("SELECT id FROM shop.kept")
        assert row in cursor.fetchall()


def test_zookeeper_keeps_its_data_over_kill_and_restart(servers: Sandbox) -> None:
    path = f"/kept-{uuid.uuid4().hex}"
    with zookeeper(servers) as client:
        client.create(path, b"value")
    servers.kill("zookeeper")
    servers.restart("zookeeper")
    with zookeeper(servers) as client:
        assert client.get(path)[0] == b"value"


def test_kafka_keeps_its_messages_over_kill_and_up(servers: Sandbox) -> None:
    topic, value = f"kept-{uuid.uuid4().hex}", uuid.uuid4().bytes
    producer = Producer({"bootstrap.servers": servers.address("kafka"), "acks": "all", "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    servers.kill("kafka")
    servers.up(["kafka"])
    consumer = Consumer({"bootstrap.servers": servers.address("kafka"), "group.id": topic, "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == value
    finally:
        consumer.close()


def test_a_paused_server_answers_again_when_resumed(servers: Sandbox) -> None:
    servers.pause("zookeeper")
    until(lambda: status(servers, "zookeeper").state is ServerState.PAUSED, "the server is paused")
    with pytest.raises(SandboxError):
        servers.check("zookeeper")
    pid = status(servers, "zookeeper").pid
    servers.resume("zookeeper")
    until(lambda: status(servers, "zookeeper").state is ServerState.RUNNING, "the server runs")
    servers.check("zookeeper")
    assert status(servers, "zookeeper").pid == pid


def test_up_leaves_running_servers_alone(servers: Sandbox) -> None:
    before = {name: status(servers, name).pid for name in NAMES}
    servers.up(NAMES)
    assert {name: status(servers, name).pid for name in NAMES} == before


def test_logs_are_the_servers_own(servers: Sandbox) -> None:
    assert "binding to port" in servers.logs("zookeeper", lines=5000)
    assert len(servers.logs("kafka", lines=3).splitlines()) == 3


def test_a_server_that_was_not_started_is_named(servers: Sandbox) -> None:
    with pytest.raises(SandboxError) as caught:
        servers.address("apicurio")
    assert "databus sandbox up apicurio" in caught.value.hint


def test_a_start_that_fails_tells_the_log_and_leaves_nothing(servers: Sandbox, tmp_path: Path) -> None:
    other = Sandbox(tmp_path / "other", ports_from=ports_from(27_000))
    try:
        other.up(["zookeeper"])
        other.down()
        spoiled = status(other, "zookeeper").data_folder / "version-2"
        for file in spoiled.iterdir():
            file.unlink()
        spoiled.rmdir()
        spoiled.write_text("a file where a folder must be")
        with pytest.raises(SandboxError) as caught:
            other.up(["zookeeper"])
        assert caught.value.code == "sandbox_server_died"
        assert "Exiting JVM with code 1" in caught.value.message
        assert status(other, "zookeeper").state is ServerState.STOPPED
        servers.check("zookeeper")
    finally:
        other.destroy()


def test_servers_that_other_tests_share_answer_their_clients(started: Started, databases: Sandbox) -> None:
    at = status(databases, "mariadb")
    with (
        pymysql.connect(host=at.host, port=at.port, user="databus", password="sandbox-reader") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT @@version LIKE '%%MariaDB%%', @@binlog_row_metadata, @@log_bin", ())
        assert cursor.fetchone() == (1, "FULL", 1)
    with urlopen(f"http://{started('elasticsearch').address('elasticsearch')}/") as answer:
        assert json.load(answer)["version"]["number"] == load_versions()["ELASTICSEARCH_VERSION"]


def test_servers_on_demand_answer_their_clients(tmp_path: Path) -> None:
    demand = Sandbox(tmp_path / "demand", ports_from=ports_from(24_600))
    try:
        demand.up(("kafka-3", "apicurio"))
        with urlopen(f"http://{demand.address('apicurio')}/apis/ccompat/v7/subjects") as answer:
            assert json.load(answer) == []

        demand.kill("kafka-3", "broker-2")
        assert status(demand, "kafka-3").state is ServerState.DEGRADED
        assert set(status(demand, "kafka-3").processes) == {"broker-1", "broker-3"}
        others = status(demand, "kafka-3").processes
        restarted = demand.restart("kafka-3", "broker-2")
        assert restarted.state is ServerState.RUNNING
        assert {role: restarted.processes[role] for role in others} == others
    finally:
        demand.destroy()
    assert not any((tmp_path / "demand").glob("*/"))


def test_servers_on_demand_take_records_over_http(tmp_path: Path) -> None:
    demand = Sandbox(tmp_path / "http", ports_from=ports_from(24_600))
    try:
        demand.up(("kafka", "stream"))
        make_topics(demand.address("kafka"), ("events", 1))
        with urlopen(f"http://{demand.address('stream')}/v1/topics/events", data=b"one\ntwo\n") as answer:
            assert json.load(answer)["records"] == 2
        assert {m.value() for m in consume(demand.address("kafka"), "events")} == {b"one", b"two"}
        demand.kill("stream", "server")
        assert demand.restart("stream", "server").state is ServerState.RUNNING
    finally:
        demand.destroy()
    assert not any((tmp_path / "http").glob("*/"))


def test_another_process_sees_and_stops_them_and_nothing_else(servers: Sandbox) -> None:
    # The decoy looks like a server of the sandbox: the same program folder in its arguments, a session of its own.
    log = status(servers, "mysql").log
    decoy = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", "mysqld", str(servers.home), str(log)],
        start_new_session=True,
    )
    try:
        decoy_identity = identify(decoy.pid)
        assert decoy_identity is not None
        mine = {name: identify(status(servers, name).pid or 0) for name in NAMES}

        seen = json.loads(elsewhere(servers, "import json; print(json.dumps([s.as_dict() for s in sandbox.status()]))"))
        assert {s["name"]: (s["state"], s["pid"]) for s in seen if s["name"] in NAMES} == {
            name: ("running", process.pid) for name, process in mine.items() if process is not None
        }

        elsewhere(servers, "sandbox.down(['kafka'])")
        assert status(servers, "kafka").state is ServerState.STOPPED
        assert status(servers, "mysql").state is ServerState.RUNNING

        elsewhere(servers, "sandbox.down()")
        for name, process in mine.items():
            assert process is not None
            assert not is_alive(process)
            assert status(servers, name).state is ServerState.STOPPED
        assert is_alive(decoy_identity)
    finally:
        decoy.kill()
        decoy.wait()
