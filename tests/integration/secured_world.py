"""The spine secured: TLS and logins everywhere, secrets that can be told apart from any other text."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pymysql
import pytest
from cryptography.hazmat.primitives import serialization as forms
from kazoo.client import KazooClient

from databus import Batching, DropColumns, Elasticsearch, Flow, Kafka, MysqlBinlog, NotNull
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.demo.shop import ShopWriter
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.certificates import Authority, authority
from databus.sandbox.connections import airflow_connections, secured_connections
from tests.integration.statements import fresh_shop
from tests.ports import ports_from

SERVERS = ("zookeeper-tls", "kafka-tls", "mysql-tls", "mariadb-tls", "opensearch-tls", "spark")
CONN_IDS = ("mysql_secured", "kafka_secured", "opensearch_secured", "zookeeper_secured")


class SecuredWorld:
    """The servers, and connections whose secrets are random words made for this run."""

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox
        self.home = sandbox.home
        self.known: Authority = authority(self.home)
        self.other = Authority(self.home.parent / "other-tls")
        self.overrides: dict[str, dict[str, Any]] = {}
        self.client = self.known.issue("client", ())
        self.key_password = self.known.password("client-key")
        self.sealed_key = self._sealed_key()
        self._make_vault()

    @cached_property
    def base(self) -> dict[str, dict[str, Any]]:
        """Connections by conn_id, each with a login, a CA, a client certificate and the password of its key."""
        found = secured_connections(self.sandbox.status(), self.known)
        base = {name.removeprefix("AIRFLOW_CONN_").lower(): json.loads(text) for name, text in found.items()}
        sealed, certificate, word = str(self.sealed_key), str(self.client.certificate), self.key_password
        for conn_id in ("mysql_secured", "mariadb_secured"):
            base[conn_id]["extra"] |= {"ssl_cert": certificate, "ssl_key": sealed, "ssl_key_password": word}
            base[conn_id] |= {"login": "vault", "password": self.known.password("vault")}
        base["kafka_secured"]["extra"] |= {
            "ssl.certificate.location": certificate,
            "ssl.key.location": sealed,
            "ssl.key.password": word,
        }
        base["zookeeper_secured"]["extra"] |= {"keyfile": sealed, "keyfile_password": word, "connect_timeout_s": 3}
        return base

    @property
    def secrets(self) -> set[str]:
        """Every secret of this world, the wrong ones too."""
        return {path.read_text() for path in self.known.folder.glob("*.password")}

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to run flows here."""
        connections = {**self.base, **self.overrides}
        return {
            **airflow_connections(self.sandbox.status()),
            **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()},
            "DATABUS_INSTALLATION": "secured",
            "DATABUS_SEGMENT_STORE": str(self.home / "segments"),
            "DATABUS_RECORDS_URL": f"sqlite:///{self.home / 'records.db'}",
        }

    @property
    def connections(self) -> EnvironmentConnections:
        return EnvironmentConnections(self.environment)

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(self.environment)

    def override(self, base: str, name: str, extra: dict[str, Any] | None = None, **fields: Any) -> str:
        """Define a connection that differs from a known one; an extra of None is left out. Returns its id."""
        known = self.base[base]
        merged = {k: v for k, v in {**known["extra"], **(extra or {})}.items() if v is not None}
        self.overrides[name] = {**known, **fields, "extra": merged}
        return name

    def wrong(self, name: str) -> str:
        """Return a password that is wrong, and just as secret."""
        return self.known.password(f"wrong-{name}")

    def sql(self, server: str = "mysql-tls") -> pymysql.connections.Connection[Any]:
        host, port = self.sandbox.address(server).split(":")
        return pymysql.connect(
            host=host, port=int(port), user="root", autocommit=True, charset="utf8mb4",
            init_command="SET time_zone='+00:00'", ssl_ca=str(self.known.certificate), ssl_verify_identity=True,
        )  # fmt: skip

    def zookeeper(self, login: str = "", password: str = "") -> KazooClient:
        """Return a started client with any login or none; the caller stops and closes it."""
        client = KazooClient(
            self.sandbox.address("zookeeper-tls"), use_ssl=True, ca=str(self.known.certificate), check_hostname=True,
            certfile=str(self.client.certificate), keyfile=str(self.client.key),
            auth_data=[("digest", f"{login}:{password}")] if login else None,
        )  # fmt: skip
        client.start(timeout=20)
        return client

    def kafka_security(self) -> dict[str, Any]:
        """Return librdkafka's settings of a consumer of the oracle's own, by PLAIN."""
        return {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "databus",
            "sasl.password": self.known.password("kafka-tls"), "ssl.ca.location": str(self.known.certificate),
        }  # fmt: skip

    def cli(self, log: Path, *arguments: str) -> int:
        """Run the command line with its connections in the environment; everything it says goes to `log`."""
        environment = {**os.environ, **self.environment}
        with log.open("ab") as out:
            done = subprocess.run(
                [sys.executable, "-m", "databus.cli.main", *arguments],
                env=environment, stdout=out, stderr=out, check=False, timeout=800,
            )  # fmt: skip
        return done.returncode

    def run(self, flow: Flow, log: Path, folder: Path) -> int:
        """Run a window of a flow with all its logging on, and return the exit code."""
        lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
        (folder / f"{flow.name}.py").write_text("\n".join(lines))
        spark = f"sc://{self.sandbox.address('spark')}"
        return self.cli(log, "--debug", "run", flow.name, "--until-caught-up", "--dags", str(folder), "--spark", spark)

    def _make_vault(self) -> None:
        """Make the account that flows read with: a password, TLS and a client certificate."""
        word = self.known.password("vault")
        for server in ("mysql-tls", "mariadb-tls"):
            with self.sql(server) as connection, connection.cursor() as cursor:
                cursor.execute("SET SESSION sql_log_bin = 0")
                cursor.execute(f"CREATE USER IF NOT EXISTS vault@'%' IDENTIFIED BY '{word}' REQUIRE X509")
                cursor.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO vault@'%'")

    def _sealed_key(self) -> Path:
        path = self.home / "tls" / "client-sealed.key"
        key = forms.load_pem_private_key(self.client.key.read_bytes(), None)
        sealed = forms.BestAvailableEncryption(self.key_password.encode())
        path.write_bytes(key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, sealed))
        path.chmod(0o600)
        return path


class SecuredShop:
    """The shop on the secured MySQL, its writer, and a flow into Kafka and OpenSearch."""

    def __init__(self, world: SecuredWorld, name: str):
        self.world = world
        self.connection = world.sql()
        self.start = fresh_shop(self.connection)
        self.writer = ShopWriter(self.connection, seed=11)
        self.name = name

    def flow(self, name: str = "", **conn_ids: str) -> Flow:
        """Return the flow; `source`, `kafka`, `search` and `zookeeper` name other connections."""
        name = name or self.name
        return Flow(
            name=name,
            source=MysqlBinlog(conn_id=conn_ids.get("source", "mysql_secured"), tables=("shop.*",), start=self.start),
            transforms=(DropColumns("card_number", tables=("shop.orders",)),),
            checks=(NotNull("email", tables=("shop.customers",)),),
            sinks=(
                Kafka(conn_id=conn_ids.get("kafka", "kafka_secured"), topic=name),
                Elasticsearch(
                    conn_id=conn_ids.get("search", "opensearch_secured"),
                    index="{flow}-{table}",
                    routes=("shop.orders",),
                    # Dynamic mapping makes a long of it, which ends at 2^63 - 1.
                    mapping={"properties": {"customer_id": {"type": "unsigned_long"}}},
                ),
            ),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
            zookeeper_conn_id=conn_ids.get("zookeeper", "zookeeper_secured"),
        )

    def close(self) -> None:
        self.connection.close()


def walk(client: KazooClient, path: str) -> Iterator[str]:
    """Yield a node and all below it."""
    yield path
    for name in client.get_children(path):
        yield from walk(client, f"{path}/{name}")


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredWorld]:
    """The secured servers, and a Spark that keeps its event log."""
    kept = os.environ.get("DATABUS_TEST_SECURED")  # a folder whose servers stay up between runs
    home = Path(kept) if kept else tmp_path_factory.mktemp("secured")
    events = home / "spark-events"
    events.mkdir(parents=True, exist_ok=True)
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    sandbox = Sandbox(home / "home", ports_from=ports_from(29_200), options=SandboxOptions(spark_conf=conf))
    try:
        sandbox.up(SERVERS)
        yield SecuredWorld(sandbox)
    finally:
        if not kept:
            sandbox.destroy()


@pytest.fixture(scope="session")
def secured_shop(secured: SecuredWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredShop]:
    """A shop whose flow has moved everything once."""
    shop = SecuredShop(secured, f"secured_{secrets.token_hex(3)}")
    shop.writer.run(60)
    log = secured.home / "run.log"
    code = secured.run(shop.flow(), log, tmp_path_factory.mktemp("flow"))
    assert code == 0, log.read_text()[-3000:]
    yield shop
    shop.close()
