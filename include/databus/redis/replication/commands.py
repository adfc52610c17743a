"""Commands of a replication stream: split, counted to the byte, and gathered into transactions.

Source: the RESP specification (arrays of bulk strings); Redis 7.0 `replication.c` (`replicationFeedSlaves`: SELECT,
PING), `multi.c` (MULTI and EXEC around what is to be done as one).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

from databus.core.errors.config import PlaceError
from databus.core.errors.redis import RedisStreamError
from databus.redis.byte_reader import ByteReader

_MOST_LINE = 32
_MOST_ARGUMENTS = 1 << 31
_MOST_BYTES = 1 << 40


_TEXT = re.compile(r"(?P<replid>[0-9a-f]{40}):(?P<offset>\d{1,19})/(?P<database>\d{1,9})")


@dataclass(frozen=True, slots=True)
class Place:
    """Place behind a transaction of a replication stream.

    The stream names a command's database only where it changes, so a place that is gone on from has to know it.

    Attributes:
        replid: replication id, 40 hexadecimal digits: the history that the offset counts in.
        offset: bytes of the stream that were read, as `master_repl_offset` of INFO counts them.
        database: that the next command goes to, unless a SELECT comes first.
    """

    replid: str
    offset: int
    database: int = 0

    def __str__(self) -> str:
        return f"{self.replid}:{self.offset}/{self.database}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the place that a text is, as `str` gives it.

        Raises:
            PlaceError: it is none.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise PlaceError(
                f"{text!r} is no place of a Redis replication stream", hint="Its form is REPLID:OFFSET/DATABASE."
            )
        return cls(found["replid"], int(found["offset"]), int(found["database"]))


@dataclass(frozen=True, slots=True)
class Command:
    """Command of the stream, as the server carries it out.

    Attributes:
        database: that it works on.
        arguments: its name and what follows it, as bytes.
        start: offset of the stream before it.
        end: offset of the stream behind it.
    """

    database: int
    arguments: tuple[bytes, ...]
    start: int
    end: int

    @property
    def name(self) -> str:
        """Name in capital letters."""
        return self.arguments[0].decode("latin-1").upper()


@dataclass(frozen=True, slots=True)
class Transaction:
    """Transaction of the stream: one command, or those between MULTI and EXEC, which take effect at once.

    Attributes:
        commands: in order; MULTI, EXEC and SELECT are not among them.
        place: behind it, where reading may go on.
    """

    commands: tuple[Command, ...]
    place: Place


class CommandReader:
    """Reader of a replication stream.

    What the server says about the connection (SELECT, PING, REPLCONF) moves the place, and does not come out.

    Attributes:
        place: behind the last transaction that came out, or the last word about the connection behind it.
        handled: offset of the stream up to which everything was handled: a transaction when the next one is asked for.
    """

    def __init__(self, reader: ByteReader, place: Place, asked: Callable[[], None] = lambda: None):
        """Read from a place on.

        Args:
            reader: stands at the place.
            place: where that is.
            asked: is called when the server asks for an acknowledgement.
        """
        self.place = place
        self.handled = place.offset
        self._reader = reader
        self._before = place.offset - reader.place
        self._asked = asked

    @property
    def offset(self) -> int:
        """Offset behind the last command that was read."""
        return self._before + self._reader.place

    def transactions(self) -> Iterator[Transaction]:
        """Yield transactions for ever; what another iteration yielded before is handled when this one is begun.

        Raises:
            RedisStreamError: what comes is no command, or a MULTI stands in another.
            DatabusError: the connection ends; of the kind that the reader makes.
        """
        if self.offset != self.place.offset:
            raise self._strange(self.offset, "reading ended inside a command before")
        while True:
            self.handled = self.place.offset
            command = self._next(self.place.database)
            if command.name == "MULTI":
                commands, database = self._inside(command)
            else:
                commands, database = self._alone(command)
            self.place = replace(self.place, offset=self.offset, database=database)
            if commands:
                yield Transaction(commands, self.place)

    def _alone(self, command: Command) -> tuple[tuple[Command, ...], int]:
        """Return what a command outside of a transaction is: (commands that come out, database behind it)."""
        if command.name == "EXEC":
            raise self._strange(command.start, "EXEC without MULTI")
        if (database := self._about_connection(command)) is not None:
            return (), database
        return (command,), command.database

    def _inside(self, multi: Command) -> tuple[tuple[Command, ...], int]:
        """Return the commands up to EXEC, and the database behind it."""
        found: list[Command] = []
        database = multi.database
        while (command := self._next(database)).name != "EXEC":
            if command.name == "MULTI":
                raise self._strange(command.start, "MULTI inside of another")
            if (selected := self._about_connection(command)) is not None:
                database = selected
            else:
                found.append(command)
        return tuple(found), database

    def _about_connection(self, command: Command) -> int | None:
        """Return the database behind a command that is about the connection; None for one that is about data."""
        if command.name == "SELECT":
            number = command.arguments[1] if len(command.arguments) == 2 else b""
            if not number.isdigit() or len(number) > 9:
                raise self._strange(command.start, f"SELECT {number!r}")
            return int(number)
        if command.name == "REPLCONF":
            if [word.upper() for word in command.arguments[1:2]] == [b"GETACK"]:
                self._asked()
            return command.database
        return command.database if command.name == "PING" else None

    def _next(self, database: int) -> Command:
        start = self.offset
        count = self._number(b"*", _MOST_ARGUMENTS)
        if not count:
            raise self._strange(start, "an empty command")
        arguments: list[bytes] = []
        for _ in range(count):
            size = self._number(b"$", _MOST_BYTES)
            arguments.append(self._reader.take(size))
            if (end := self._reader.take(2)) != b"\r\n":
                raise self._strange(self.offset - 2, f"{end!r} where an argument was to end")
        return Command(database, tuple(arguments), start, self.offset)

    def _number(self, mark: bytes, most: int) -> int:
        line = self._reader.line(_MOST_LINE)
        text = line[1:-2]
        if line[:1] != mark or not line.endswith(b"\r\n") or not text.isdigit() or int(text) > most:
            raise self._strange(self.offset - len(line), f"{line!r} where {mark.decode()} and a number were to be")
        return int(text)

    def _strange(self, offset: int, what: str) -> RedisStreamError:
        return RedisStreamError(f"{self._reader.name}, offset {offset} of {self.place.replid}: {what}")
