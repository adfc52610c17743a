"""A server that does not answer because its connection is of another kind of server: the error says the type."""

from __future__ import annotations

import socket

import pytest

from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.errors import SourceUnavailableError


def nobody() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_connection_of_another_type_is_named() -> None:
    given = Connection(conn_id="kafka_east", conn_type="kafka", host="127.0.0.1", port=nobody())
    with pytest.raises(SourceUnavailableError) as error:
        ServerConnection(given)
    assert error.value.message.endswith("; the connection is of type 'kafka', the source needs 'mysql'")
    assert error.value.hint.startswith("Name another conn_id in the flow, or correct the connection's type.")


@pytest.mark.parametrize("kind", ["mysql", "mariadb", ""])
def test_its_own_types_are_not(kind: str) -> None:
    given = Connection(conn_id="shop", conn_type=kind, host="127.0.0.1", port=nobody())
    with pytest.raises(SourceUnavailableError) as error:
        ServerConnection(given)
    assert "of type" not in error.value.message
