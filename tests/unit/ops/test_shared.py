"""What many share is opened once, closed by the last, and a server that is away is waited for once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from databus.ops import shared_clients as shared
from databus.ops.shared_clients import SharedClients


class Client:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_first_opens_and_the_last_closes() -> None:
    clients: SharedClients[Client] = SharedClients()
    one, same, other = (clients.take(key, Client) for key in ({"a": 1}, {"a": 1}, {"a": 2}))
    assert one is same
    assert one is not other
    clients.give_back(one)
    assert one.closed == 0
    clients.give_back(same)
    assert (one.closed, other.closed) == (1, 0)
    assert clients.take({"a": 1}, Client) is not one


def test_threads_open_one() -> None:
    clients: SharedClients[Client] = SharedClients()
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: clients.take("key", Client), range(64)))
        assert len({id(client) for client in taken}) == 1
        list(pool.map(clients.give_back, taken))
    assert taken[0].closed == 1


def test_who_waited_for_an_attempt_that_failed_gets_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: SharedClients[Client] = SharedClients()
    begun, go, attempts = threading.Event(), threading.Event(), []

    def away() -> Client:
        attempts.append(1)
        begun.set()
        go.wait(10)
        raise ConnectionError("away")

    def error_of(_: int) -> str:
        with pytest.raises(ConnectionError) as raised:
            clients.take("key", away)
        return str(raised.value)

    with ThreadPoolExecutor(5) as pool:
        errors = pool.map(error_of, range(5))
        begun.wait(10)
        go.set()
        assert list(errors) == ["away"] * 5
    assert len(attempts) == 1
    assert clients.take("another", Client).closed == 0
    monkeypatch.setattr(shared, "_FAILED_S", 0.0)
    assert clients.take("key", Client).closed == 0
