"""Clients are kept only where a process lives for it, and closed when that is over."""

from __future__ import annotations

import pytest

from databus.core import client_cache as kept


class Client:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_nothing_is_kept_elsewhere() -> None:
    client = Client()
    kept.give("a", client)
    assert client.closed
    assert kept.take("a") is None


def test_what_is_given_is_taken_once_by_an_equal_key() -> None:
    client, other = Client(), Client()
    with kept.keeping():
        kept.give(("a", {"x": 1}), client)
        kept.give(("a", {"x": 2}), other)
        assert kept.take(("a", {"x": 1})) is client
        assert kept.take(("a", {"x": 1})) is None
    assert (client.closed, other.closed) == (False, True)


def test_what_rested_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    with kept.keeping():
        kept.give("a", client)
        monkeypatch.setattr(kept, "_IDLE_S", -1.0)
        assert kept.take("a") is None
        assert client.closed


def test_the_oldest_of_too_many_is_closed() -> None:
    clients = [Client() for _ in range(9)]
    with kept.keeping():
        for number, client in enumerate(clients):
            kept.give(number, client)
        assert [client.closed for client in clients] == [True] + [False] * 8
    assert all(client.closed for client in clients)


def test_an_error_ends_the_keeping() -> None:
    client = Client()

    def work() -> None:
        with kept.keeping():
            kept.give("a", client)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        work()
    assert client.closed
