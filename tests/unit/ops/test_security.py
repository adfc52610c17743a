"""How connections are secured, read off their settings."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.connections import Connection
from databus.core.findings import Level
from databus.ops.health.security import examine_security


@pytest.mark.parametrize(
    ("conn_type", "fields", "level", "words"),
    [
        ("mysql", {"host": "db", "login": "u"}, Level.WARN, "rows and passwords"),
        ("mysql", {"host": "127.0.0.1"}, Level.OK, "on this machine only"),
        ("mysql", {"extra": {"unix_socket": "/s"}}, Level.OK, "on this machine only"),
        ("mysql", {"host": "db", "login": "u", "extra": {"ssl_ca": "c"}}, Level.OK, "verified; password as u"),
        ("mysql", {"host": "db", "extra": {"ssl": {"ca": "c", "cert": "x"}}}, Level.OK, "client certificate"),
        ("mysql", {"host": "db", "extra": {"ssl_mode": "required"}}, Level.WARN, "any server"),
        ("mysql", {"host": "db", "extra": {"ssl_mode": "verify_ca", "ssl_ca": "c"}}, Level.WARN, "any server"),
        ("mysql", {"host": "db", "extra": {"ssl_mode": "disabled", "ssl_ca": "c"}}, Level.WARN, "no TLS"),
        ("kafka", {"extra": {"bootstrap.servers": "a:1,127.0.0.1:2"}}, Level.WARN, "no TLS: rows cross"),
        ("kafka", {"extra": {"bootstrap.servers": "127.0.0.1:1"}}, Level.OK, "no login"),
        ("kafka", {"login": "u", "extra": {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL",
                                           "sasl.mechanism": "SCRAM-SHA-512"}}, Level.OK, "SCRAM-SHA-512 as u"),
        ("kafka", {"login": "u", "extra": {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT",
                                           "sasl.mechanism": "PLAIN"}}, Level.WARN, "rows and passwords"),
        ("kafka", {"extra": {"bootstrap.servers": "a:1", "security.protocol": "ssl",
                             "ssl.certificate.location": "c"}}, Level.OK, "client certificate"),
        ("kafka", {"extra": {"bootstrap.servers": "a:1", "security.protocol": "SSL",
                             "enable.ssl.certificate.verification": "false"}}, Level.WARN, "any server"),
        ("opensearch", {"host": "s", "db_schema": "https", "login": "u"}, Level.OK, "password as u"),
        ("elasticsearch", {"host": "https://s"}, Level.OK, "TLS"),
        ("elasticsearch", {"host": "s", "db_schema": "https", "extra": {"verify_certs": "no"}}, Level.WARN, "any"),
        ("elasticsearch", {"host": "s"}, Level.WARN, "no TLS"),
        ("zookeeper", {"host": "z", "login": "u", "extra": {"use_ssl": "true", "ca": "c"}}, Level.OK, "digest as u"),
        ("zookeeper", {"extra": {"hosts": "z1:2181,z2:2181"}}, Level.WARN, "no TLS"),
        ("zookeeper", {"host": "z", "extra": {"use_ssl": True, "check_hostname": False}}, Level.WARN, "any server"),
    ],
)  # fmt: skip
def test_protection(conn_type: str, fields: dict[str, Any], level: Level, words: str) -> None:
    found, *_ = examine_security(Connection(conn_id="c", conn_type=conn_type, **fields))
    assert (found.subject, found.level) == ("connection c: security", level), found
    assert words in found.message
    assert bool(found.hint) == bool(found.code) == (level is not Level.OK)


def test_other_kinds_are_left_alone() -> None:
    assert examine_security(Connection(conn_id="s", conn_type="spark_connect", host="sc://h")) == []
