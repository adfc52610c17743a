"""Dumps of one server's log for one flow: each under a leased server id, one of them kept open at the head."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from databus.binlog.server.dump import Dump, DumpRequest
from databus.core.flow_specs import ServerIds
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.dump.open_dump import FollowedDump
from databus.sources.mysql.positions import request_after
from databus.sources.mysql.server import MysqlServer


class MysqlDumps:
    """Opens dumps. The flow's own id is leased at the first and kept; a server ends the older of two with one id.

    Attributes:
        server: whose log is dumped.
        streams: whether the dump of a range that follows the head is kept open for the next range.
    """

    def __init__(self, server: MysqlServer, ids: ServerIds | None):
        """Prepare; nothing is opened.

        Args:
            server: whose log is dumped.
            ids: leases server ids; None where nobody does, and the dump chooses one.
        """
        self.server = server
        self.streams = False
        self._connection = server.connection
        self._ids = ids
        self._id = 0
        self._followed: FollowedDump | None = None

    @property
    def address(self) -> str:
        """The server as "host:port"."""
        return f"{self._connection.host or 'localhost'}:{self._connection.port or 3306}"

    def open(self, request: DumpRequest, spool: Path | None = None) -> Dump:
        """Dump under the flow's own server id; ends the dump that was kept open."""
        self.end_followed()  # two dumps under one server id would end each other
        if not self._id and self._ids is not None:
            self._id = self._ids.lease(self.address)
        known = dataclasses.replace(request, server_id=self._id, server=self.server.identity)
        return Dump(self._connection, known, spool)

    @contextlib.contextmanager
    def beside(self, request: DumpRequest) -> Iterator[Dump]:
        """Dump beside a running dump, under a server id of its own."""
        server_id = self._ids.lease(self.address) if self._ids is not None else 0
        try:
            with Dump(self._connection, dataclasses.replace(request, server_id=server_id)) as dump:
                yield dump
        finally:
            if self._ids is not None:
                self._ids.release(self.address, server_id)

    def following(self, start: BinlogOffset, spool: Path) -> Dump | FollowedDump:
        """Dump from a place on and wait at the head; goes on with the dump that was kept open if it stands there."""
        if not self.streams:
            return self.open(request_after(start, follow=True), spool)
        if self._followed is None or not self._followed.stands_at(start):
            self._followed = FollowedDump(self.open(request_after(start, follow=True)), start)
        return self._followed

    def stands_at(self, place: BinlogOffset) -> bool:
        """Return whether a dump was kept open that goes on exactly at a place."""
        return self._followed is not None and self._followed.stands_at(place)

    def end_followed(self) -> None:
        """Close the dump that was kept open, if there is one."""
        if self._followed is not None:
            self._followed.close()
            self._followed = None

    def return_id(self) -> None:
        """Give the flow's server id back; the next dump leases another."""
        if self._id and self._ids is not None:
            self._ids.release(self.address, self._id)
        self._id = 0
