"""What the secured servers write and say of themselves; nothing is started."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509

from databus.sandbox.certificates import Authority, authority
from databus.sandbox.connections import databus_environment, secured_connections
from databus.sandbox.servers.protocol import Context, Server
from databus.sandbox.servers.secured import KAFKA_TLS, MYSQL_TLS, ZOOKEEPER_TLS
from databus.sandbox.servers.secured_opensearch import unpack_plugin
from databus.sandbox.versions import load_versions


def context_of(server: Server, home: Path) -> Context:
    folder = home / server.name
    return Context(server.name, folder, folder / "data", dict(server.default_ports), load_versions())


def test_kafka_listens_with_tls_only(tmp_path: Path) -> None:
    properties = KAFKA_TLS.properties(context_of(KAFKA_TLS, tmp_path), 1)
    listeners = str(properties["listeners"]).split(",")
    assert [listener.partition(":")[0] for listener in listeners] == ["SASL_SSL", "SSL", "CONTROLLER"]
    assert properties["inter.broker.listener.name"] == "SASL_SSL"
    assert properties["listener.name.ssl.ssl.client.auth"] == "required"
    assert "PLAINTEXT:PLAINTEXT" not in str(properties["listener.security.protocol.map"]).split(",")


def test_zookeeper_has_no_plain_client_port(tmp_path: Path) -> None:
    settings = ZOOKEEPER_TLS.settings(context_of(ZOOKEEPER_TLS, tmp_path), 1)
    assert settings["secureClientPort"] == 12281
    assert "clientPort" not in settings
    assert str(settings["serverCnxnFactory"]).endswith("NettyServerCnxnFactory")


def test_mysql_refuses_plain_connections(tmp_path: Path) -> None:
    options = MYSQL_TLS.shared_options(replace(context_of(MYSQL_TLS, tmp_path), data=tmp_path / "mysql-tls" / "data"))
    assert options["require_secure_transport"] == "ON"
    assert options["ssl_key"] == tmp_path / "mysql-tls" / "tls" / "server.key"


def test_what_is_asked_for_twice_is_made_once(tmp_path: Path) -> None:
    known = authority(tmp_path)
    pair = known.issue("a", ("10.0.0.1", "db.example"))
    content = pair.bundle.read_bytes()
    assert known.issue("a") == pair
    assert pair.bundle.read_bytes() == content
    assert known.password("x") == Authority(tmp_path / "tls").password("x") != known.password("y")
    names = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == ["db.example"]
    secret = (pair.key, pair.bundle, known.folder / "x.password", known.folder / "ca.key")
    assert [path.stat().st_mode & 0o777 for path in secret] == [0o600] * 4


@dataclass(frozen=True)
class At:
    name: str
    host: str = "127.0.0.1"
    port: int = 1
    address: str = "127.0.0.1:1"


def test_connections_use_the_fields_names(tmp_path: Path) -> None:
    known = authority(tmp_path)
    servers = [At(name) for name in ("mysql-tls", "kafka-tls", "opensearch-tls", "zookeeper-tls", "spark")]
    found = {name: json.loads(value) for name, value in secured_connections(servers, known).items()}
    assert set(found) == {
        f"AIRFLOW_CONN_{name}_SECURED" for name in ("MYSQL", "KAFKA", "OPENSEARCH", "ZOOKEEPER")
    }  # fmt: skip
    kafka = found["AIRFLOW_CONN_KAFKA_SECURED"]
    assert kafka["extra"]["security.protocol"] == "SASL_SSL"
    assert kafka["password"] == known.password("kafka-tls")
    assert found["AIRFLOW_CONN_OPENSEARCH_SECURED"]["schema"] == "https"
    assert found["AIRFLOW_CONN_ZOOKEEPER_SECURED"]["extra"]["use_ssl"] is True
    assert found["AIRFLOW_CONN_MYSQL_SECURED"]["extra"]["ssl_ca"] == str(known.certificate)
    assert set(found) < set(databus_environment(servers, tmp_path))


def test_only_libraries_that_are_not_there_come_from_the_plugin(tmp_path: Path) -> None:
    archive, libs = tmp_path / "plugin.zip", tmp_path / "folder" / "libs"
    libs.mkdir(parents=True)
    (libs / "netty-codec-4.1.jar").touch()
    with zipfile.ZipFile(archive, "w") as content:
        for name in (
            "netty-codec-4.2.jar",
            "guava-33.4.0-jre.jar",
            "config/roles.yml",
            "tools/x.sh",
            "config/x.example",
        ):
            content.writestr(name, "")
    unpack_plugin(archive, tmp_path / "folder")
    assert sorted(path.name for path in libs.iterdir()) == ["guava-33.4.0-jre.jar", "netty-codec-4.1.jar"]
    assert [path.name for path in (tmp_path / "folder" / "config").iterdir()] == ["roles.yml"]
