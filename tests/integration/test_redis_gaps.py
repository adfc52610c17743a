"""Replication of a real Redis 7.0 where it does not go on: short backlogs, long snapshots, other histories."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from databus.core.errors import (
    RedisGapError,
    SourceUnavailableError,
)
from databus.redis import Place, Transaction
from tests.integration.redis_server import Client, RedisServer
from tests.integration.redis_stream import Started, start, until, until_true

pytestmark = pytest.mark.integration
assert start  # a fixture


def test_a_backlog_that_is_too_short_is_a_gap_and_a_new_snapshot_follows(start: Started) -> None:
    server = start(repl_backlog_size="16kb")
    client = server.client()
    with server.follow() as replica:
        place = replica.place
    client("SET", "large", "x" * 100_000)
    with pytest.raises(RedisGapError, match=f"does not go on at {place}: it stands at offset") as caught:
        server.follow(place=place)
    assert "snapshot" in caught.value.hint
    with server.follow() as replica:
        assert [(key.name, len(key.value)) for key in replica.snapshot] == [(b"large", 100_000)]
        assert replica.place.offset > place.offset


def limited(start: Started) -> RedisServer:
    """A server that keeps little of its stream, for a replica that does not read too."""
    return start(repl_backlog_size="16kb", client_output_buffer_limit="replica 1mb 1mb 1")


def write_much(client: Client, then: Callable[[int], None] = lambda _: None) -> None:
    """Write several times what a server of `limited` keeps, and the buffers of a connection take."""
    for number in range(40):
        client("SET", f"much{number}", "x" * 500_000)
        then(number)


def test_a_snapshot_that_takes_longer_than_the_server_keeps_ends_in_a_gap(start: Started) -> None:
    server = limited(start)
    client = server.client()
    with server.follow() as replica:
        write_much(client)
        with pytest.raises(SourceUnavailableError):
            list(replica.transactions())
        place = replica.place
    with pytest.raises(RedisGapError, match=f"does not go on at {place}"):
        server.follow(place=place)


def test_a_stream_that_is_read_beside_the_snapshot_is_not_cut(start: Started) -> None:
    server = limited(start)
    client = server.client()
    client("SET", "before", 1)
    waiting: queue.SimpleQueue[Transaction] = queue.SimpleQueue()
    with server.follow() as replica:

        def take() -> None:
            for transaction in until(replica, b"over"):
                waiting.put(transaction)

        taking = threading.Thread(target=take)
        taking.start()
        write_much(client, lambda number: until_true(lambda: waiting.qsize() > number or not taking.is_alive()))
        client("SET", "the end", b"over")
        taking.join()
        assert [key.name for key in replica.snapshot] == [b"before"]
    assert waiting.qsize() == 41


def test_another_history_is_a_gap(start: Started) -> None:
    server = start()
    client = server.client()
    client("SET", "a", 1)
    with server.follow() as replica:
        place = replica.place
    ahead = Place(place.replid, place.offset + 10_000)
    for wrong in (ahead, Place("0" * 40, place.offset)):
        with pytest.raises(RedisGapError):
            server.follow(place=wrong)
    server.kill()
    server.start()
    with pytest.raises(RedisGapError):
        server.follow(place=place)


def test_a_failover_is_gone_on_from_under_its_new_history(start: Started) -> None:
    first, second = start(), start()
    client = first.client()
    with first.follow() as replica:
        second.client()("REPLICAOF", "127.0.0.1", first.port)
        client("SELECT", 2)
        client("SET", "a", 1)
        place = next(replica.transactions()).place
    assert place.database == 2
    until_true(lambda: second.offset() >= place.offset and second.info("replication")["master_link_status"] == "up")
    first.kill()
    promoted = second.client()
    promoted("REPLICAOF", "NO", "ONE")
    promoted("SELECT", 2)
    promoted("SET", "b", 2)
    with second.follow(place=place) as replica:
        assert replica.place.replid != place.replid
        transaction = next(replica.transactions())
        assert [(c.database, c.arguments) for c in transaction.commands] == [(2, (b"SET", b"b", b"2"))]
        assert transaction.place.offset == second.offset()
