"""Replica of a Redis server: a snapshot, then its stream of commands, read as another server would.

    from databus.redis import read_server

    with read_server("redis.example", 6379, user="reader", password="…") as replica:
        for key in replica.snapshot:
            print(key.database, key.name, key.kind)
        for transaction in replica.transactions():
            print(transaction.place, [command.arguments for command in transaction.commands])

Commands are effects: INCRBYFLOAT comes as SET, EXPIRE as PEXPIREAT, a script as the commands that it made between MULTI
and EXEC, a key that expires or is evicted as DEL. With the place of the last transaction that was handled, reading goes
on later: `read_server(…, place=place)`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Self

from pydantic import SecretStr

from databus.core.connections import Connection
from databus.core.errors.redis import RedisGapError, RedisStreamError
from databus.core.errors.source import SourceError
from databus.redis.rdb.file import RdbFile
from databus.redis.replication.commands import CommandReader, Place, Transaction
from databus.redis.replication.link import Link
from databus.redis.replication.snapshot import nameless_file, save_snapshot

_REPLID = 40


class Replica:
    """Replica that follows a server; a context manager that ends the connection and lets the snapshot's file go.

    The server counts it among its replicas: WAIT and min-replicas-to-write count its acknowledgements. Acknowledged is
    a transaction whose successor was asked for.

    Attributes:
        snapshot: the server's keys as of where the stream begins; None where reading went on from a place.
    """

    def __init__(self, connection: Connection, place: Place | None = None, folder: str | PathLike[str] | None = None):
        """Connect, and receive the snapshot where no place is given.

        Args:
            connection: of the server; TLS as `databus.redis.replication.link` says.
            place: where to go on; None: a snapshot first.
            folder: where the snapshot's file is written, which has no name there; the system's folder for temporary
                files by default.

        Raises:
            RedisGapError: the server does not go on at the place.
            SourceUnavailableError: nobody answers, or the server is not ready.
            SourceAccessError: the login, a right or a certificate is refused.
            RdbError: the snapshot is no RDB file that is known.
        """
        self.snapshot: RdbFile | None = None
        self._acknowledger: Acknowledger | None = None
        self._link = Link(connection)
        try:
            for words in (("capa", "eof"), ("capa", "psync2")):
                self._link.ask("REPLCONF", *words)
            begun = self._begin(folder) if place is None else self._go_on(place)
        except BaseException:
            self.close()
            raise
        self._commands = CommandReader(self._link.reader, begun, asked=self._acknowledge)
        self._acknowledger = Acknowledger(self._link, lambda: self._commands.handled)

    @property
    def place(self) -> Place:
        """Place behind the last transaction that came out; an idle server's pings move it too."""
        return self._commands.place

    def transactions(self) -> Iterator[Transaction]:
        """Return transactions as the server commits them, for ever; one that comes out is whole.

        A loop that was left may be gone on with in another one.

        Raises:
            SourceUnavailableError: the connection ends. Go on with a new replica at the last place.
            RedisStreamError: what comes is no command.
        """
        return self._commands.transactions()

    def close(self) -> None:
        """End the connection, and let the snapshot's file go; safe to call twice, and while another thread reads."""
        self._link.close()
        if self._acknowledger is not None:
            self._acknowledger.stop()
        if self.snapshot is not None:
            self.snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _acknowledge(self) -> None:
        if self._acknowledger is not None:
            self._acknowledger.now()

    def _begin(self, folder: str | PathLike[str] | None) -> Place:
        file = nameless_file(self._link, folder)
        try:
            replid, offset = self._resynced(self._link.ask("PSYNC", "?", "-1"))
            save_snapshot(self._link, file, folder)
            self.snapshot = RdbFile(f"snapshot of {self._link.name}", file)
        except BaseException:
            file.close()
            raise
        # A server that is a replica itself passes on a stream that it did not write: no SELECT comes first.
        database = self.snapshot.fields.get("repl-stream-db", b"0")
        return Place(replid, offset, int(database) if database.isdigit() else 0)

    def _go_on(self, place: Place) -> Place:
        answer = self._link.ask("PSYNC", place.replid, str(place.offset + 1))
        if answer.startswith("FULLRESYNC"):
            replid, offset = self._resynced(answer)
            raise RedisGapError(
                f"{self._link.name} does not go on at {place}: it stands at offset {offset} of history {replid}"
            )
        words = answer.split(" ")
        if words[0] != "CONTINUE" or (len(words) > 1 and len(words[1]) != _REPLID):
            raise RedisStreamError(f"{self._link.name} answers PSYNC with {answer[:80]!r}")
        # Another id behind a failover: the old one is no longer the history's name.
        return Place(words[1] if len(words) > 1 else place.replid, place.offset, place.database)

    def _resynced(self, answer: str) -> tuple[str, int]:
        words = answer.split(" ")
        if len(words) != 3 or words[0] != "FULLRESYNC" or len(words[1]) != _REPLID or not words[2].isdigit():
            raise RedisStreamError(f"{self._link.name} answers PSYNC with {answer[:80]!r}")
        return words[1], int(words[2])


def read_server(  # noqa: PLR0913 - by name
    host: str,
    port: int = 6379,
    *,
    user: str = "",
    password: str | SecretStr = "",
    place: Place | None = None,
    folder: str | PathLike[str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Replica:
    """Follow a Redis server: its snapshot, then its changes; or its changes from a place on.

    Args:
        host: of the server.
        port: of the server.
        user: ACL user with the rights +psync +replconf; "" for the default user.
        password: its password; "" for none.
        place: where to go on; None: a snapshot first.
        folder: where the snapshot's file is written while it is read; the system's temporary folder by default.
        extra: TLS options, such as {"ssl": True, "ssl_ca_certs": "ca.pem"}.

    Raises:
        RedisGapError: the server does not go on at the place.
        SourceUnavailableError: nobody answers, or the server is not ready.
        SourceAccessError: the login, a right or a certificate is refused.
    """
    secret = password if isinstance(password, SecretStr) else SecretStr(password)
    connection = Connection(
        conn_id="redis", conn_type="redis", host=host, port=port, login=user, password=secret, extra=extra or {}
    )
    return Replica(connection, place, folder)


PERIOD_S = 1.0


class Acknowledger:
    """Thread that sends REPLCONF ACK each second until it is stopped or the connection ends, which the reader tells."""

    def __init__(self, link: Link, offset: Callable[[], int]):
        """Begin; `offset` says up to where the stream was handled, and is called from the thread."""
        self._link = link
        self._offset = offset
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"acknowledge {link.name}", daemon=True)
        self._thread.start()

    def now(self) -> None:
        """Send one at once; where that fails it was the last."""
        if self._stop.is_set():
            return
        try:
            self._link.send("REPLCONF", "ACK", str(self._offset()))
        except SourceError:
            self._stop.set()

    def stop(self) -> None:
        """End the thread, and wait until it has; its link is to be closed before."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self.now()
        while not self._stop.wait(PERIOD_S):
            self.now()
