"""Choosing ports."""

import socket
from collections.abc import Iterator

import pytest

from databus.core.errors import SandboxError
from databus.sandbox.ports import LOOPBACK, default_ports, free_ports, is_free
from databus.sandbox.servers.catalog import SERVERS


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_listener_makes_its_port_busy(busy: int) -> None:
    assert not is_free(busy)


def test_a_taken_default_port_is_refused_with_the_way_out(busy: int) -> None:
    with pytest.raises(SandboxError) as caught:
        default_ports("kafka", {"client": busy})
    assert caught.value.code == "sandbox_port_taken"
    assert str(busy) in caught.value.message
    assert "--ports-from" in caught.value.hint


def test_ports_are_counted_up_past_busy_and_taken_ones(busy: int) -> None:
    ports = free_ports({"a": 1, "b": 2}, busy, {busy + 1})
    assert ports["a"] > busy + 1
    assert ports["b"] > ports["a"]


def test_running_out_of_ports_is_an_error() -> None:
    with pytest.raises(SandboxError, match="no free port from 65535"):
        free_ports({"a": 1, "b": 2}, 65535, {65535})


def test_default_ports_of_all_servers_differ() -> None:
    ports = [port for server in SERVERS.values() for port in server.default_ports.values()]
    assert len(ports) == len(set(ports))
