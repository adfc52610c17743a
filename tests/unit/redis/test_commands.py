"""Replication streams: commands, places to the byte, transactions; bytes that are no command are named."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import PlaceError, RedisStreamError, SourceUnavailableError
from databus.redis import Place, Transaction
from databus.redis.byte_reader import ByteReader
from databus.redis.replication.commands import CommandReader

REPLID = "0123456789abcdef0123456789abcdef01234567"
START = Place(REPLID, 1000, 2)

words = st.binary(max_size=20) | st.sampled_from([b"\r\n", b"*1\r\n$4\r\nPING\r\n", b"x" * 300])
commands = st.tuples(st.sampled_from([b"SET", b"del", b"HSET", b"PUBLISH"]), words, words)
connection = st.sampled_from([(b"PING",), (b"SELECT", b"0"), (b"select", b"15"), (b"REPLCONF", b"GETACK", b"*")])
inside = st.lists(commands | connection, max_size=4)
units = st.lists(commands.map(lambda one: [one]) | connection.map(lambda one: [one]) | inside.map(
    lambda some: [(b"MULTI",), *some, (b"EXEC",)]
), max_size=8)  # fmt: skip


def encoded(command: tuple[bytes, ...]) -> bytes:
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in command)


def read(data: bytes, place: Place = START, piece: int = 1 << 16) -> tuple[list[Transaction], CommandReader, int]:
    """Return (transactions, reader, how often it was asked for an acknowledgement) of a stream that ends."""
    stream, asked = io.BytesIO(data), []
    reader = CommandReader(
        ByteReader(lambda count: stream.read(min(count, piece)), "drawn", cut=SourceUnavailableError),
        place,
        lambda: asked.append(1),
    )
    found: list[Transaction] = []
    with pytest.raises(SourceUnavailableError):
        found.extend(reader.transactions())
    return found, reader, len(asked)


@given(units, st.sampled_from([1, 7, 1 << 16]))
def test_each_transaction_comes_out_whole_with_the_place_behind_it(drawn, piece: int) -> None:
    expected, database, offset, asked = [], START.database, START.offset, 0
    for unit in drawn:
        found = []
        for command in unit:
            offset += len(encoded(command))
            if command[0].upper() == b"SELECT":
                database = int(command[1])
            elif command[0] == b"REPLCONF":
                asked += 1
            elif command[0] not in (b"PING", b"MULTI", b"EXEC"):
                found.append((database, command))
        if found:
            expected.append((found, Place(REPLID, offset, database)))
    data = b"".join(encoded(command) for unit in drawn for command in unit)
    taken, reader, times = read(data, piece=piece)
    assert [([(c.database, c.arguments) for c in t.commands], t.place) for t in taken] == expected
    assert reader.place == Place(REPLID, offset, database)
    assert times == asked
    for transaction in taken:
        for command in transaction.commands:
            start, end = command.start - START.offset, command.end - START.offset
            assert data[start:end] == encoded(command.arguments)


@given(units, st.data())
def test_reading_goes_on_at_any_place(drawn, data) -> None:
    stream = b"".join(encoded(command) for unit in drawn for command in unit)
    whole, *_ = read(stream)
    if not whole:
        return
    count = data.draw(st.integers(1, len(whole)))
    place = whole[count - 1].place
    rest, *_ = read(stream[place.offset - START.offset :], place)
    assert rest == whole[count:]


@given(units, st.data())
def test_a_cut_stream_gives_what_was_whole(drawn, data) -> None:
    stream = b"".join(encoded(command) for unit in drawn for command in unit)
    whole, *_ = read(stream)
    cut = data.draw(st.integers(0, len(stream)))
    found, *_ = read(stream[:cut])
    assert found == [t for t in whole if t.place.offset - START.offset <= cut]


@given(st.binary(max_size=60))
def test_any_bytes_end_with_a_named_error(data: bytes) -> None:
    stream = io.BytesIO(data)
    reader = CommandReader(ByteReader(stream.read, "drawn", cut=SourceUnavailableError), START)
    with pytest.raises((RedisStreamError, SourceUnavailableError)):
        list(reader.transactions())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PING\r\n", r"offset 1000 of 0123.*: b'PING\\r\\n' where \* and a number"),
        (b"*x\r\n", "number were to be"),
        (b"*-1\r\n", "number were to be"),
        (b"*0\r\n", "empty command"),
        (b"*1\r\n:4\r\n", "offset 1004"),
        (b"*1\r\n$4\r\nPINGxx", "argument was to end"),
        (b"*99999999999999999999\r\n", "number were to be"),
        (b"*" + b"1" * 100, "number were to be"),
        (encoded((b"EXEC",)), "EXEC without MULTI"),
        (encoded((b"MULTI",)) * 2, "MULTI inside"),
        (encoded((b"SELECT", b"-1")), "SELECT b'-1'"),
        (encoded((b"SELECT",)), "SELECT b''"),
    ],
)
def test_what_is_no_command_is_named(data: bytes, words: str) -> None:
    reader = CommandReader(ByteReader(io.BytesIO(data).read, "redis:6379", cut=SourceUnavailableError), START)
    with pytest.raises(RedisStreamError, match=words) as caught:
        next(reader.transactions())
    assert reader.place == START
    assert caught.value.hint
    if reader.offset != START.offset:
        with pytest.raises(RedisStreamError, match="ended inside a command"):
            next(reader.transactions())


def test_a_transaction_is_handled_when_the_next_one_is_asked_for() -> None:
    one, two, ping = encoded((b"SET", b"a", b"1")), encoded((b"SET", b"b", b"2")), encoded((b"PING",))
    data = io.BytesIO(ping + one + ping + two)
    pieces = ByteReader(lambda _: data.read(1), "drawn", cut=SourceUnavailableError)
    during: list[tuple[int, int]] = []

    class Watched(CommandReader):
        """Notes what was handled whenever the place moves, as another thread may see it."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "place" and hasattr(self, "handled"):
                during.append((self.handled, value.offset))

    reader = Watched(pieces, START)
    assert reader.handled == 1000
    stream: Any = reader.transactions()
    first = next(stream).place.offset
    assert (reader.handled, reader.place.offset) == (1000 + len(ping), first)
    assert all(handled <= 1000 + len(ping) for handled, _ in during)
    second = next(stream).place.offset
    assert reader.handled == first + len(ping)
    del stream
    assert reader.handled == first + len(ping)
    with pytest.raises(SourceUnavailableError):
        next(reader.transactions())
    assert reader.handled == second


def test_places_are_texts_and_back() -> None:
    assert Place.parse(str(START)) == START
    for wrong in ("", REPLID, f"{REPLID}:1", f"{REPLID}:-1/0", f"{REPLID[1:]}:1/0", f"{REPLID}:1/0 "):
        with pytest.raises(PlaceError, match="no place"):
            Place.parse(wrong)
