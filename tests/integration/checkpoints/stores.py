"""Stores on a real ZooKeeper, each test's below a root of its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from pydantic import SecretStr

from databus.checkpoints.nodes.large_values import LargeValues
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.connections import Connection
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.checkpoint_store import Lease
from tests.contract.checkpoint_store import (
    FLOW,
    CheckpointStoreContract,
)

HISTORY = CheckpointStoreContract.HISTORY


class Connect:
    """Opens stores below a root of one test's own."""

    def __init__(self, address: tuple[str, int], stack: ExitStack):
        self.root = f"/test-{uuid.uuid4().hex[:8]}"
        self._address = address
        self._stack = stack

    def __call__(
        self,
        port: int | None = None,
        login: str = "",
        password: str = "",
        large: LargeValues | None = None,
        **extra: Any,
    ) -> ZooKeeperCheckpoints:
        connection = Connection(
            conn_id="zookeeper_test",
            conn_type="zookeeper",
            host=self._address[0],
            port=port or self._address[1],
            login=login,
            password=SecretStr(password),
            extra={"root": self.root, "history": HISTORY, **extra},
        )
        store = ZooKeeperCheckpoints(connection, large=large)
        self._stack.callback(store.close)
        return store


def walk(client: Any, path: str) -> Iterator[tuple[str, bytes]]:
    yield path, client.get(path)[0]
    for name in client.get_children(path):
        yield from walk(client, f"{path}/{name}")


def started(store: ZooKeeperCheckpoints) -> Lease:
    lease = store.claim(FLOW, "run-1", wait_s=0)
    store.start(FLOW, lease, SequenceOffset(0), "run-1")
    return lease


def in_thread(act: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run something beside the test; what it returns or raises ends up in the list."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(act())
        except Exception as error:  # noqa: BLE001 - handed to the test
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results
