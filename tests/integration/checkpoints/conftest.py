"""A ZooKeeper, stores on it, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from databus.checkpoints.connection.session import start_client
from databus.core.connections import Connection
from databus.sandbox import Sandbox
from databus.testing.zookeeper_proxy import ZooKeeperProxy
from tests.integration.checkpoints.stores import Connect
from tests.ports import ports_from


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A ZooKeeper of these tests' own: it is killed and restarted."""
    sandbox = Sandbox(tmp_path_factory.mktemp("zookeeper"), ports_from=ports_from(29_300))
    sandbox.up(["zookeeper"])
    yield sandbox
    sandbox.destroy()


@pytest.fixture
def address(sandbox: Sandbox) -> tuple[str, int]:
    host, _, port = sandbox.address("zookeeper").rpartition(":")
    return host, int(port)


@pytest.fixture
def connect(address: tuple[str, int]) -> Iterator[Connect]:
    with ExitStack() as stack:
        yield Connect(address, stack)


@pytest.fixture
def raw(address: tuple[str, int]) -> Iterator[Any]:
    """A client without manners, for looking at nodes and breaking them."""
    client = start_client(Connection(conn_id="raw", conn_type="zookeeper", host=address[0], port=address[1]))
    yield client
    client.stop()
    client.close()


@pytest.fixture
def proxy(address: tuple[str, int]) -> Iterator[ZooKeeperProxy]:
    with ZooKeeperProxy(*address) as proxy:
        yield proxy
