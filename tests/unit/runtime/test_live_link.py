"""The link to the live job: what arrives is what was sent, by whom it should be, or the link is lost."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from databus.core.errors import SinkUnavailableError
from databus.runtime.live.link import LinkLostError, LiveLink, new_key

Pair = tuple[LiveLink, LiveLink, socket.socket, socket.socket]


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    return ours, theirs


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = connected()
    key = new_key()
    driver, worker = LiveLink(ours, key, driver=True), LiveLink(theirs, key, driver=False)
    yield driver, worker, ours, theirs
    driver.close()
    worker.close()


def test_messages_arrive_in_order_both_ways(pair: Pair) -> None:
    driver, worker, _, _ = pair
    for number in range(3):
        driver.send(("call", number, b"x" * (number * 100_000)))
        assert worker.receive() == ("call", number, b"x" * (number * 100_000))
        worker.send(SinkUnavailableError(f"away {number}"))
        answer = driver.receive()
        assert isinstance(answer, SinkUnavailableError)
        assert answer.message == f"away {number}"


def test_an_end_that_closes_is_noticed_by_the_other(pair: Pair) -> None:
    driver, worker, _, _ = pair
    worker.close()
    with pytest.raises(LinkLostError):
        driver.receive()


def test_an_end_that_dies_in_the_middle_of_a_message_is_noticed(pair: Pair) -> None:
    driver, worker, _, theirs = pair
    theirs.sendall(struct.pack(">I", 1000) + b"half")
    worker.close()
    with pytest.raises(LinkLostError, match="closed"):
        driver.receive()


def test_silence_is_bounded_where_it_is_asked_for(pair: Pair) -> None:
    with pytest.raises(LinkLostError):
        pair[0].receive(0.01)


def test_who_does_not_know_the_key_is_not_unpickled(pair: Pair) -> None:
    driver, _, _, theirs = pair
    LiveLink(theirs, new_key(), driver=False).send(1)
    with pytest.raises(LinkLostError, match="not sealed"):
        driver.receive()


@pytest.mark.parametrize("copy", ["again", "reflected"])
def test_a_message_that_was_recorded_does_not_count_again(pair: Pair, copy: str) -> None:
    driver, worker, ours, theirs = pair
    worker.send("once")
    head = ours.recv(4, socket.MSG_WAITALL)
    frame = head + ours.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL)
    if copy == "again":
        theirs.sendall(frame + frame)
        assert driver.receive() == "once"
        with pytest.raises(LinkLostError, match="not sealed"):
            driver.receive()
    else:
        ours.sendall(frame)
        with pytest.raises(LinkLostError, match="not sealed"):
            worker.receive()


def test_a_length_that_no_message_has_is_refused(pair: Pair) -> None:
    pair[3].sendall(struct.pack(">I", 0xFFFFFFFF))
    with pytest.raises(LinkLostError, match="4294967295 bytes"):
        pair[0].receive()
