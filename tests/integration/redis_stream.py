"""Commands of a program on a Redis server, and its transactions carried out on another one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.redis import Place, Replica, Transaction
from tests.integration.redis_server import Client, RedisServer, RefusedError

Started = Callable[..., RedisServer]

NUMBERS = itertools.count()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Started]:
    servers: list[RedisServer] = []

    def started(**options: str) -> RedisServer:
        name = f"redis{len(servers)}"
        given = {key.replace("_", "-"): value for key, value in options.items()}
        servers.append(RedisServer(tmp_path / name, given))
        return servers[-1].start()

    yield started
    for server in servers:
        server.kill()


def carry_out(client: Client, commands: Iterable[tuple[Any, ...]]) -> None:
    """Commands of a program; what the server refuses is the program's own fault."""
    for command in commands:
        try:
            client(*command)
        except RefusedError as error:
            if "WRONGTYPE" not in str(error):
                raise


def mark(client: Client) -> bytes:
    """Write a last command, and return what it says."""
    said = b"%d" % next(NUMBERS)
    client("SELECT", 0)
    client("SET", "the end", said)
    return said


def until(replica: Replica, said: bytes) -> Iterator[Transaction]:
    """Transactions up to the one that a mark is."""
    for transaction in replica.transactions():
        yield transaction
        if transaction.commands[-1].arguments == (b"SET", b"the end", said):
            return


def apply(client: Client, transactions: Iterable[Transaction]) -> Place | None:
    """Carry transactions out on another server, each as a whole; returns the place behind them."""
    place = None
    for transaction in transactions:
        batch: list[tuple[Any, ...]] = [("MULTI",)]
        for command in transaction.commands:
            batch += [("SELECT", command.database), command.arguments]
        answers = client.pipeline([*batch, ("EXEC",)])[-1]
        assert not any(isinstance(answer, RefusedError) for answer in answers), (transaction, answers)
        place = transaction.place
    return place


def until_true(holds: Callable[[], bool]) -> None:
    waiting = threading.Event()
    while not holds():
        waiting.wait(0.05)
