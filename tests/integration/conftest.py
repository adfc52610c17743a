"""Real servers for the tests of the whole path, started once and shared; tests use names of their own on them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from databus import Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.spark.session import connect_session
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.window_result import WindowResult
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.accounts import ROOT
from databus.sandbox.connections import airflow_connections
from tests.collecting import collect_garbage
from tests.integration.binlog_shop import Shop
from tests.integration.heard_alerts import heard  # noqa: F401 - a fixture for all modules
from tests.integration.kafka_target import forget_kept
from tests.integration.replicated_pair import Pair, Server, replicated_servers
from tests.integration.secured_world import secured, secured_shop  # noqa: F401 - fixtures for all modules
from tests.ports import ports_from

SERVERS = ("zookeeper", "kafka", "mysql", "opensearch", "spark")
NO_PAGES = {"spark.ui.enabled": "false"}
"""Of a Spark whose pages no test looks at."""
Started = Callable[..., Sandbox]
_NUMBERS = itertools.count(1)


@dataclass
class World:
    """The servers, and what a test needs to run flows against them."""

    sandbox: Sandbox
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def connections(self) -> EnvironmentConnections:
        """Connections to all servers, as Airflow would give them; `environment` entries win."""
        return EnvironmentConnections({**airflow_connections(self.sandbox.status()), **self.environment})

    @property
    def settings(self) -> Settings:
        return Settings("test", str(self.home / "segments"), f"sqlite:///{self.home / 'records.db'}")

    def sql(self, database: str | None = None) -> pymysql.connections.Connection[Any]:
        host, port = self.sandbox.address("mysql").split(":")
        return pymysql.connect(
            host=host, port=int(port), user=ROOT.user, password="", database=database, autocommit=True,
            charset="utf8mb4", init_command="SET time_zone='+00:00'",
        )  # fmt: skip

    def override(self, conn_id: str, **fields: Any) -> str:
        """Define a connection that differs from a known one; returns its id."""
        name = f"{conn_id}_{next(_NUMBERS)}"
        base = json.loads(airflow_connections(self.sandbox.status())[f"AIRFLOW_CONN_{conn_id.upper()}"])
        self.environment[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({**base, **fields})
        return name

    def session_of(self, name: str) -> str:
        """What a flow's Spark session is named after."""
        return f"test/{os.getpid()}/{name}"

    def spark(self, name: str) -> Any:
        return connect_session(f"sc://{self.sandbox.address('spark')}", self.session_of(name))

    def run(self, flow: Flow, **limits: Any) -> WindowResult:
        """Run a window until the flow has caught up."""
        control = WindowControl(WindowLimits(max_seconds=120, until_caught_up=True, lease_wait_s=0, **limits))
        with open_services(flow, self.connections, self.settings) as services:
            run_id = f"test-{next(_NUMBERS)}"
            identity = RunIdentity(run_id, f"http://airflow/{run_id}", __version__)
            try:
                return run_flow(flow, services, self.spark(flow.name), identity, control)
            finally:
                collect_garbage()

    def checkpoint(self, flow: Flow) -> Any:
        with open_services(flow, self.connections, self.settings) as services:
            return services.store.load(flow.name)


@pytest.fixture(scope="module", autouse=True)
def no_sessions_of_former_files() -> Iterator[None]:
    """Drop the Kafka sessions that a file's flows kept, which nobody takes up.

    Librdkafka wakes 900 times a second for a producer that has sent offsets and whose broker, or its proxy, is gone.
    """
    yield
    forget_kept()


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Give the session's sandbox with some servers up: each is started by the first test that asks, and shared."""
    kept = os.environ.get("DATABUS_TEST_WORLD")  # home of a sandbox that stays up between runs
    home = Path(kept) if kept else tmp_path_factory.mktemp("world")
    sandbox = Sandbox(home, ports_from=ports_from(31_000), options=SandboxOptions(spark_conf=NO_PAGES))

    def start(*names: str) -> Sandbox:
        sandbox.up(names)
        return sandbox

    try:
        yield start
    finally:
        forget_kept()  # while the brokers are there: later they are waited for
        if not kept:
            sandbox.destroy()


@pytest.fixture(scope="session")
def world(started: Started) -> World:
    sandbox = started(*SERVERS)
    return World(sandbox, sandbox.home)


@pytest.fixture(scope="session")
def servers(started: Started) -> str:
    """Address of a Kafka broker."""
    return started("kafka").address("kafka")


@pytest.fixture
def database(world: World) -> Iterator[str]:
    """A database of the test's own."""
    name = f"t{os.getpid()}_{next(_NUMBERS)}"
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield name
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A MySQL and a MariaDB, apart from the rest: they are restarted and reconfigured; tests use names of their own."""
    sandbox = Sandbox(tmp_path_factory.mktemp("databases"), ports_from=ports_from(22_800), options=SandboxOptions())
    try:
        sandbox.up(("mysql", "mariadb"))
        yield sandbox
    finally:
        sandbox.destroy()


@pytest.fixture(params=["mysql", "mariadb"])
def flavor(request: pytest.FixtureRequest) -> str:
    """Each of the two kinds of server."""
    return str(request.param)


@pytest.fixture
def make_shop(databases: Sandbox, tmp_path: Path) -> Iterator[Callable[[str, str], Shop]]:
    """Make databases of the test's own by flavor and decoder."""
    made: list[Shop] = []

    def make(flavor: str, decoder: str) -> Shop:
        made.append(Shop(flavor, databases.address(flavor), tmp_path, decoder))
        return made[-1]

    yield make
    for shop in made:
        shop.drop()


@pytest.fixture
def shop(make_shop: Callable[[str, str], Shop], flavor: str) -> Shop:
    """A database of the test's own on each of the two, read by the decoder that flows use."""
    return make_shop(flavor, "numba")


@pytest.fixture(scope="session")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Sandbox]]:
    """Sources, and servers that are to be their replicas."""
    with replicated_servers(tmp_path_factory) as both:
        yield both


@pytest.fixture
def pair_of(replicated: tuple[Sandbox, Sandbox]) -> Iterator[Callable[[str], Pair]]:
    """Return the source and the replica of a flavor."""
    made: list[Pair] = []

    def make(flavor: str) -> Pair:
        made.append(Pair(Server(flavor, replicated[0]), Server(flavor, replicated[1])))
        return made[-1]

    yield make
    for pair in made:
        pair.source.close()
        pair.replica.close()
