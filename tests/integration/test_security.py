"""The spine secured, on real servers: one flow over TLS and logins from end to end, foreign clients, named refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.errors import DatabusError
from databus.core.findings import Level
from databus.core.flow_specs import FlowContext
from databus.demo.consumers import topic_records
from databus.demo.oracle import fold, source_state
from databus.ops.health.doctor import examine_flow
from databus.sandbox.accounts import REPLICATION
from databus.sinks.elasticsearch.client import connect
from databus.sinks.elasticsearch.tracing import DocumentReader
from databus.sources.mysql.server import MysqlServer
from tests.integration.secured_world import CONN_IDS, SecuredShop, SecuredWorld, walk
from tests.integration.shop_flow import assert_arrived_once

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]
HOUR = timedelta(hours=1)
SHUT_OUT = {"NoAuthError", "NotEmptyError", "NoNodeError", "InvalidACLError", "NoChildrenForEphemeralsError"}


class TestFlow:
    def test_everything_arrives_once_over_tls(self, secured: SecuredWorld, secured_shop: SecuredShop) -> None:
        brokers, name = secured.sandbox.address("kafka-tls"), secured_shop.name
        seen = fold(topic_records(brokers, name, secured.kafka_security()))
        assert_arrived_once(secured_shop.connection, secured_shop.writer.written, seen)
        with connect(secured.connections.get("opensearch_secured")) as client:
            client.indices.refresh(index=f"{name}-orders")
            found = client.search(index=f"{name}-orders", body={"size": 5000})["hits"]["hits"]
        wanted = source_state(secured_shop.connection, "shop.orders", ("order_id",))
        assert len(wanted) == len(found) > 10
        assert {str(hit["_source"]["order_id"]) for hit in found} == {
            str(json.loads(key)["order_id"]) for key in wanted
        }

    def test_each_znode_belongs_to_the_login_alone(self, secured: SecuredWorld, secured_shop: SecuredShop) -> None:
        name = secured_shop.name
        login, password = "databus", secured.known.password("zookeeper-tls")
        client = secured.zookeeper(login, password)
        try:
            with ZooKeeperCheckpoints(secured.connections.get("zookeeper_secured")) as store:
                store.claim(name, "test", wait_s=20)  # so that ephemeral nodes are there too
                store.server_ids().lease("db:3306")
                nodes = list(walk(client, "/databus"))
                assert {"/databus", f"/databus/flows/{name}/lease", f"/databus/flows/{name}/checkpoint"} <= set(nodes)
                for node in nodes:
                    (acl,), _ = client.get_acls(node)
                    assert (acl.id.scheme, acl.perms, acl.id.id.partition(":")[0]) == ("digest", 31, login), node
        finally:
            client.stop()
            client.close()
        for stranger in ("", "databus", "other"):
            self.is_shut_out(secured, stranger, name, nodes)

    @staticmethod
    def is_shut_out(secured: SecuredWorld, login: str, name: str, nodes: list[str]) -> None:
        client = secured.zookeeper(login, secured.wrong("digest") if login else "")
        try:
            for node in nodes:
                acts: tuple[Callable[[], Any], ...] = (
                    lambda node=node: client.get(node),
                    lambda node=node: client.get_children(node),
                    lambda node=node: client.set(node, b"mine"),
                    lambda node=node: client.create(f"{node}/mine", b""),
                    lambda node=node: client.delete(node),
                    lambda node=node: client.set_acls(node, []),
                )
                for act in acts:
                    with pytest.raises(Exception, match=r".*") as caught:
                        act()
                    # A node with children is not deleted by anybody; a leaf may be missing when its holder has gone.
                    assert type(caught.value).__name__ in SHUT_OUT
            with pytest.raises(NoAuthError):
                client.get(f"/databus/flows/{name}/checkpoint")
            with pytest.raises(NoAuthError):
                client.set(f"/databus/flows/{name}/epoch", b"")
        finally:
            client.stop()
            client.close()


def refused(act: Callable[[], Any]) -> DatabusError:
    with pytest.raises(DatabusError) as caught:
        act()
    return caught.value


class Asking:
    """Asks each kind of server over a connection, as preflight does."""

    def __init__(self, world: SecuredWorld):
        self.world = world

    def __call__(self, conn_id: str) -> DatabusError | None:
        """Return why the server refuses, None when it answers."""
        try:
            getattr(self, self.world.connections.get(conn_id).conn_type)(conn_id)
        except DatabusError as error:
            return error
        return None

    def mysql(self, conn_id: str) -> None:
        server = MysqlServer(self.world.connections.get(conn_id))
        try:
            assert server.query("SHOW STATUS LIKE 'Ssl_cipher'")[0][1].startswith("TLS_")
        finally:
            server.close()

    def zookeeper(self, conn_id: str) -> None:
        with ZooKeeperCheckpoints(self.world.connections.get(conn_id)) as store:
            store.list_flows()

    def kafka(self, conn_id: str) -> None:
        from databus import Kafka

        self._sink(Kafka(conn_id=conn_id, topic="probe", timeout=timedelta(seconds=6)))

    def opensearch(self, conn_id: str) -> None:
        from databus import Elasticsearch

        self._sink(Elasticsearch(conn_id=conn_id, index="probe"))

    def _sink(self, spec: Any) -> None:
        sink = spec.open(self.world.connections, FlowContext("probe", self.world.settings, None))
        try:
            errors = [f for f in sink.preflight() if f.level is Level.ERROR]
        finally:
            sink.close()
        for finding in errors:
            raise DatabusError(finding.message, hint=finding.hint, code=finding.code)


CA = {"mysql": "ssl_ca", "mariadb": "ssl_ca", "kafka": "ssl.ca.location", "opensearch": "ca_certs", "zookeeper": "ca"}
CERTIFICATE = {
    "mysql": ("ssl_cert", "ssl_key"),
    "mariadb": ("ssl_cert", "ssl_key"),
    "kafka": ("ssl.certificate.location", "ssl.key.location"),
    "zookeeper": ("certfile", "keyfile"),
}
NO_TLS: dict[str, dict[str, Any]] = {
    "mysql": {
        "login": REPLICATION.user,
        "password": REPLICATION.password.get_secret_value(),
        "extra": {"ssl_mode": "disabled"},
    },
    "kafka": {"extra": {"security.protocol": "PLAINTEXT"}},
    "opensearch": {"schema": "http"},
    "zookeeper": {"extra": {"use_ssl": False}},
}
ACCESS = {"mysql": "source", "mariadb": "source", "kafka": "sink", "opensearch": "sink"}


# kazoo leaves the socket of a refused handshake to the collector (kazoo.handlers.utils.create_tcp_connection, 2.11).
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
class TestRefusals:
    """Each cause has its name and a hint, and no secret stands in its text."""

    @staticmethod
    def check(secured: SecuredWorld, conn_id: str, code: str) -> str:
        error = Asking(secured)(conn_id)
        assert error is not None
        assert error.code == code, error
        assert error.hint
        assert "{" not in error.hint
        assert not error.retryable
        assert not [word for word in secured.secrets if word in f"{error!r} {error}"]
        return str(error)

    @pytest.mark.parametrize("server", CA)
    def test_right_settings_are_taken(self, secured: SecuredWorld, server: str) -> None:
        assert Asking(secured)(f"{server}_secured") is None

    @pytest.mark.parametrize("server", CA)
    def test_a_foreign_ca(self, secured: SecuredWorld, server: str) -> None:
        name = secured.override(f"{server}_secured", f"{server}_ca", {CA[server]: str(secured.other.certificate)})
        assert CA[server] in self.check(secured, name, "tls_ca_unknown")

    @pytest.mark.parametrize("server", CA)
    def test_a_file_that_is_not_there(self, secured: SecuredWorld, server: str) -> None:
        name = secured.override(f"{server}_secured", f"{server}_file", {CA[server]: "/nowhere/ca.pem"})
        assert "/nowhere/ca.pem" in self.check(secured, name, "tls_files")

    @pytest.mark.parametrize("server", CA)
    def test_another_host_name(self, secured: SecuredWorld, server: str) -> None:
        extra = {}
        if server == "kafka":
            extra["bootstrap.servers"] = secured.base["kafka_secured"]["extra"]["bootstrap.servers"].replace(
                "127.0.0.1", "localhost"
            )
        name = secured.override(f"{server}_secured", f"{server}_host", extra, host="localhost")
        self.check(secured, name, "tls_host_mismatch")

    @pytest.mark.parametrize("server", NO_TLS)
    def test_no_tls_where_it_is_wanted(self, secured: SecuredWorld, server: str) -> None:
        fields = dict(NO_TLS[server])
        name = secured.override(f"{server}_secured", f"{server}_plain", fields.pop("extra", None), **fields)
        self.check(secured, name, "tls_required")

    @pytest.mark.parametrize("server", CERTIFICATE)
    def test_a_client_certificate_of_another_authority(self, secured: SecuredWorld, server: str) -> None:
        pair, (certificate, key) = secured.other.issue("client", ()), CERTIFICATE[server]
        files = {certificate: str(pair.certificate), key: str(pair.key)}
        if server == "kafka":  # the listener that wants a client certificate
            files |= {"security.protocol": "SSL", "bootstrap.servers": mutual(secured)}
        name = secured.override(f"{server}_secured", f"{server}_stranger", files)
        self.check(secured, name, "tls_client_certificate")

    @pytest.mark.parametrize("server", ["kafka", "zookeeper"])
    def test_no_client_certificate_where_one_is_wanted(self, secured: SecuredWorld, server: str) -> None:
        extra: dict[str, Any] = dict.fromkeys(CERTIFICATE[server])
        if server == "kafka":
            extra |= {"security.protocol": "SSL", "sasl.mechanism": None, "ssl.key.password": None}
            extra["bootstrap.servers"] = mutual(secured)
        name = secured.override(f"{server}_secured", f"{server}_bare", extra, login="", password="")
        self.check(secured, name, "tls_client_certificate")

    @pytest.mark.parametrize("server", ["mysql", "zookeeper"])
    def test_another_password_of_the_key(self, secured: SecuredWorld, server: str) -> None:
        word = {"mysql": "ssl_key_password", "zookeeper": "keyfile_password"}[server]
        name = secured.override(f"{server}_secured", f"{server}_keyword", {word: secured.wrong("key")})
        self.check(secured, name, "tls_files")

    @pytest.mark.parametrize("server", ACCESS)
    def test_another_password(self, secured: SecuredWorld, server: str) -> None:
        name = secured.override(f"{server}_secured", f"{server}_login", password=secured.wrong(server))
        self.check(secured, name, f"{ACCESS[server]}_access_denied")

    def test_a_digest_that_owns_nothing(self, secured: SecuredWorld, secured_shop: SecuredShop) -> None:
        name = secured.override("zookeeper_secured", "zookeeper_login", password=secured.wrong("zookeeper"))
        self.check(secured, name, "checkpoint_access_denied")

    def test_sasl_mechanisms(self, secured: SecuredWorld) -> None:
        plain = secured.override("kafka_secured", "kafka_plain_login", {"sasl.mechanism": "PLAIN"})
        assert Asking(secured)(plain) is None
        wrong = secured.override(
            "kafka_secured", "kafka_plain_wrong", {"sasl.mechanism": "PLAIN"}, password=secured.wrong("kafka")
        )
        self.check(secured, wrong, "sink_access_denied")
        unknown = secured.override("kafka_secured", "kafka_256", {"sasl.mechanism": "SCRAM-SHA-256"})
        assert "PLAIN,SCRAM-SHA-512" in self.check(secured, unknown, "sasl_mechanism")
        none = secured.override("kafka_secured", "kafka_none", {"sasl.mechanism": None})
        self.check(secured, none, "sasl_mechanism")
        silent = secured.override(
            "kafka_secured", "kafka_ssl", {"sasl.mechanism": None, "security.protocol": "SSL"}, login="", password=""
        )
        self.check(secured, silent, "sasl_mechanism")

    def test_mutual_tls_needs_no_login(self, secured: SecuredWorld) -> None:
        extra = {"security.protocol": "SSL", "sasl.mechanism": None, "bootstrap.servers": mutual(secured)}
        assert Asking(secured)(secured.override("kafka_secured", "kafka_mutual", extra, login="", password="")) is None

    def test_an_expired_certificate(self, secured: SecuredWorld) -> None:
        """MySQL and MariaDB load other TLS files while they run, and get the good ones back."""
        expired = secured.known.issue("expired", ("127.0.0.1",), valid=(-2 * HOUR, -HOUR))
        for server in ("mysql", "mariadb"):
            folder = Path(secured.sandbox.status_of(f"{server}-tls").data_folder).parent / "tls"
            kept = {name: (folder / name).read_bytes() for name in ("server.crt", "server.key")}
            reload = "ALTER INSTANCE RELOAD TLS" if server == "mysql" else "FLUSH SSL"
            with secured.sql(f"{server}-tls") as connection, connection.cursor() as cursor:
                (folder / "server.crt").write_bytes(expired.certificate.read_bytes())
                (folder / "server.key").write_bytes(expired.key.read_bytes())
                cursor.execute(reload)
                try:
                    self.check(secured, f"{server}_secured", "tls_certificate_expired")
                finally:
                    for name, content in kept.items():
                        (folder / name).write_bytes(content)
                    cursor.execute(reload)
            assert Asking(secured)(f"{server}_secured") is None


def mutual(secured: SecuredWorld) -> str:
    """Return the address of Kafka's listener that wants a client certificate."""
    return f"127.0.0.1:{secured.sandbox.status_of('kafka-tls').ports['mutual-1']}"


class TestLookup:
    """A trace reads documents without the client library: over the same TLS, with the same names of what is wrong."""

    @staticmethod
    def look(secured: SecuredWorld, conn_id: str, index: str) -> list[str]:
        with closing(DocumentReader("search", secured.connections.get(conn_id), shared=False)) as reader:
            return [seen.place for seen in reader.newest([index], '{"id":1}', "")]

    def test_a_document_is_read_over_tls(self, secured: SecuredWorld) -> None:
        with connect(secured.connections.get("opensearch_secured")) as client:
            client.index(index="looked-up", id="1", body={}, params={"version": 1 << 40, "version_type": "external"})
        try:
            assert self.look(secured, "opensearch_secured", "looked-up") == ["looked-up/1"]
            assert self.look(secured, "opensearch_secured", "not-there") == []
            unchecked = secured.override(
                "opensearch_secured", "search_unchecked", {"verify_certs": False, "ca_certs": None}
            )
            assert self.look(secured, unchecked, "looked-up") == ["looked-up/1"]
        finally:
            with connect(secured.connections.get("opensearch_secured")) as client:
                client.indices.delete(index="looked-up")

    @pytest.mark.parametrize(
        ("extra", "password", "code"),
        [
            ({"ca_certs": None}, "", "tls_ca_unknown"),
            ({"ca_certs": "/nowhere/ca.pem"}, "", "tls_files"),
            ({"ssl_assert_hostname": "elsewhere.example"}, "", "tls_host_mismatch"),
            ({}, "search", "sink_access_denied"),
        ],
    )
    def test_what_is_wrong_is_named(
        self, secured: SecuredWorld, extra: dict[str, Any], password: str, code: str
    ) -> None:
        fields = {"password": secured.wrong(password)} if password else {}
        conn_id = secured.override("opensearch_secured", f"search_{code}", extra, **fields)
        error = refused(lambda: self.look(secured, conn_id, "looked-up"))
        assert error.code == code, error
        assert error.hint
        assert not [word for word in secured.secrets if word in f"{error!r} {error}"]


class TestDoctor:
    def test_it_says_how_each_connection_is_secured(self, secured: SecuredWorld, secured_shop: SecuredShop) -> None:
        findings = {f.subject: f for f in examine_flow(secured_shop.flow(), secured.connections)}
        assert not [f for f in findings.values() if f.level is Level.ERROR]
        for conn_id in CONN_IDS:
            found = findings[f"connection {conn_id}: security"]
            assert found.level is Level.OK, found
            assert "TLS" in found.message
        assert "SCRAM-SHA-512" in findings["connection kafka_secured: security"].message
        assert findings["zookeeper zookeeper_secured: access"].level is Level.OK

    def test_it_warns_of_what_is_open(self, secured: SecuredWorld, secured_shop: SecuredShop) -> None:
        loose = secured.home / "loose.key"
        loose.write_bytes(secured.sealed_key.read_bytes())
        loose.chmod(0o644)
        flow = secured_shop.flow(
            source=secured.override(
                "mysql_secured", "mysql_unchecked", {"ssl_mode": "required", "ssl_key": str(loose)}
            ),
            search=secured.override("opensearch_secured", "opensearch_unchecked", {"verify_certs": False}),
        )
        findings = {f.subject: f for f in examine_flow(flow, secured.connections)}
        for conn_id, word in (("mysql_unchecked", "verify_identity"), ("opensearch_unchecked", "verify_certs")):
            found = findings[f"connection {conn_id}: security"]
            assert (found.level, found.code) == (Level.WARN, "tls_not_verified")
            assert word in found.hint
        key = findings["connection mysql_unchecked: ssl_key"]
        assert key.level is Level.WARN
        assert re.search(r"chmod 600 .*loose\.key", key.hint)
