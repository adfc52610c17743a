from __future__ import annotations

from typing import Any

import pytest

from databus.checkpoints.connection.client import client_logger, new_client, reachability
from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.core.connections import Connection
from databus.core.errors import ConfigError


def options(**fields: Any) -> ZooKeeperOptions:
    return ZooKeeperOptions.from_connection(
        Connection(**{"conn_id": "zk", "conn_type": "zookeeper", "host": "z", **fields})
    )


def test_hosts_come_from_the_connection_or_its_extra() -> None:
    assert options().hosts == "z:2181"
    assert options(port=12181).hosts == "z:12181"
    assert options(extra={"hosts": "a:2181,b:2181"}).hosts == "a:2181,b:2181"


def test_defaults_and_text_values_of_a_uri() -> None:
    assert (options().root, options().history) == ("/databus", 1000)
    assert (options().first_server_id, options().last_server_id) == (5_400_000, 5_499_999)
    chosen = options(extra={"session_timeout_s": "4", "use_ssl": "true", "root": "/east/"})
    assert (chosen.session_timeout_s, chosen.use_ssl, chosen.root) == (4.0, True, "/east")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"host": ""}, "hosts"),
        ({"extra": {"hosts": "a:2181/chroot"}}, "hosts"),
        ({"extra": {"use_tls": True}}, "use_tls"),
        ({"extra": {"session_timeout_s": 0}}, "session_timeout_s"),
        ({"extra": {"history": 0}}, "history"),
        ({"extra": {"root": "databus"}}, "root"),
        ({"extra": {"root": "/"}}, "root"),
        ({"extra": {"root": "/a/../b"}}, "root"),
        ({"extra": {"first_server_id": 9, "last_server_id": 8}}, "last_server_id"),
        ({"extra": {"last_server_id": 2**32}}, "last_server_id"),
    ],
)
def test_bad_options_name_connection_and_field(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        options(login="u", password="hunter2", **fields)
    assert caught.value.message.startswith("connection zk: ")
    assert "hunter2" not in str(caught.value)
    assert "session_timeout_s" in caught.value.hint


def test_no_secret_in_a_repr() -> None:
    chosen = options(login="u", password="hunter2", extra={"keyfile_password": "hunter3"})
    assert "hunter" not in repr(chosen)


def test_a_login_authenticates_and_owns_what_it_creates() -> None:
    client = new_client(options(login="u", password="pw"))
    assert client.auth_data == {("digest", "u:pw")}
    (acl,) = client.default_acl
    assert (acl.id.scheme, acl.perms) == ("digest", 31)
    assert "pw" not in acl.id.id
    assert new_client(options()).default_acl is None


def test_tls_settings_reach_the_client() -> None:
    extra = {"use_ssl": True, "ca": "ca.pem", "certfile": "c.pem", "keyfile": "k.pem", "keyfile_password": "kp"}
    client = new_client(options(extra=extra))
    assert (client.use_ssl, client.ca, client.certfile, client.keyfile, client.keyfile_password) == (
        True,
        "ca.pem",
        "c.pem",
        "k.pem",
        "kp",
    )
    assert client.verify_certs
    assert client.check_hostname


@pytest.mark.parametrize(("hosts", "tries"), [("a:1", 3), ("a:1,b:2", 4), ("a:1,b:2,c:3", 3), ("a:1,b:2,c:3,d:4", 4)])
def test_an_answer_is_waited_for_a_part_of_the_session_only(hosts: str, tries: int) -> None:
    chosen = new_client(options(extra={"hosts": hosts})).hosts
    assert len(chosen) == tries
    assert {f"{host}:{port}" for host, port in chosen} == set(hosts.split(","))


def test_so_is_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    monkeypatch.setattr("kazoo.handlers.utils.create_tcp_connection", lambda *_, timeout: waits.append(timeout))
    new_client(options()).handler.create_connection(("a", 1), timeout=9.0)
    assert waits == [3.0]


def test_the_client_is_quiet_but_can_be_heard() -> None:
    assert not client_logger().isEnabledFor(30)
    assert client_logger().isEnabledFor(40)


def test_unreachable_hosts_are_told_apart() -> None:
    text = reachability("127.0.0.1:1,host.invalid:2181,127.0.0.1:port")
    assert "127.0.0.1:1: Connection refused" in text
    assert "host.invalid:2181: " in text
    assert "127.0.0.1:port: " in text
