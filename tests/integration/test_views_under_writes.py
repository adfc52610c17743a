"""Consistent views while eight sessions write, two of them by XA: each is between its checkpoint and the log's end."""

from __future__ import annotations

import bisect
import dataclasses
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from databus.binlog import read_server
from databus.binlog.decoding.table_batch import TableBatch
from databus.core.positions.gtid import MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.server import Flavor, MysqlServer
from databus.sources.mysql.snapshot.views.consistent_view import ConsistentView, after_reads
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration

SECONDS = float(os.environ.get("DATABUS_TEST_VIEWS_SECONDS", "6"))
WRITERS, BY_XA = 8, 2

Counters = dict[int, int]
Place = tuple[str, int]

_GTID = re.compile(r"GTID_NEXT= '([0-9a-f-]+):(\d+)'")


@dataclasses.dataclass(frozen=True)
class Look:
    """Counters as a view had them, and in between which places they must be."""

    covers: BinlogOffset
    naive: Counters
    seen: Counters
    place: BinlogOffset | None
    end: BinlogOffset


class LogEnd:
    """The end of the last transaction in a log, as one has it who reads the log."""

    def __init__(self, shop: Shop, begin: BinlogOffset):
        self._session, self._at = shop.connect(), begin

    def read(self) -> BinlogOffset:
        with self._session.cursor() as cursor:
            cursor.execute(f"SHOW BINLOG EVENTS IN '{self._at.file}' FROM {self._at.pos}")
            gtid = ""
            for _, _, kind, _, end, info in cursor.fetchall():
                gtid = info if "GTID" in info.upper() and kind.upper() == "GTID" else gtid
                ends = kind in ("Xid", "XA_prepare") or info.startswith(("XA COMMIT", "COMMIT"))
                if ends:
                    self._at = self._behind(gtid, end)
        return self._at

    def _behind(self, gtid: str, end: int) -> BinlogOffset:
        if self._at.flavor == "mariadb":
            return dataclasses.replace(self._at, pos=end)
        found = _GTID.search(gtid)
        assert found is not None
        gtids = MysqlGtidSet.parse(self._at.gtids).add(found[1], int(found[2]))
        return dataclasses.replace(self._at, pos=end, gtids=str(gtids))


def counters(session: pymysql.connections.Connection[Any]) -> Counters:
    with session.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT id, v FROM c")
        found = {int(i): int(v) for i, v in cursor.fetchall()}
    session.rollback()
    return found


@contextmanager
def writers(shop: Shop) -> Iterator[None]:
    """Eight sessions, each of which counts its own row up."""
    stop = threading.Event()

    def write(key: int) -> None:
        with shop.connect() as session, session.cursor() as cursor:
            session.autocommit(True)
            for n in range(10**9):
                if stop.is_set():
                    return
                update = f"UPDATE c SET v = v + 1 WHERE id = {key}"
                xid = f"'{shop.name} {key} {n}'"
                by_xa = (f"XA START {xid}", update, f"XA END {xid}", f"XA PREPARE {xid}", f"XA COMMIT {xid}")
                for statement in by_xa if key < BY_XA else (update,):
                    cursor.execute(statement)

    threads = [threading.Thread(target=write, args=(key,)) for key in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def slow_commits(shop: Shop) -> Iterator[None]:
    """Let transactions be in the log for longer before they are visible."""
    name, slow = ("binlog_group_commit_sync_delay", 2000) if shop.flavor == "mysql" else ("sync_binlog", 1)
    shop.sql(f"SET GLOBAL {name} = {slow}")
    try:
        yield
    finally:
        shop.sql(f"SET GLOBAL {name} = 0")


def look(shop: Shop, log: LogEnd, server: MysqlServer, naive: pymysql.connections.Connection[Any]) -> Look:
    flavor: Flavor = "mysql" if shop.flavor == "mysql" else "mariadb"
    covers = log.read()
    at_once = counters(naive)
    with ConsistentView(shop.connection, flavor, covers, wait_s=10) as view:
        rows = view.opened.query(f"SELECT id, v FROM {shop.name}.c")
        seen = {int(i): int(v) for i, v in rows}
        return Look(covers, at_once, seen, view.place, after_reads(server, covers))


def test_no_view_lacks_what_was_read_or_has_what_is_not_logged(shop: Shop) -> None:
    values = ",".join(f"({key}, 0)" for key in range(WRITERS))
    shop.sql(
        "FLUSH BINARY LOGS",
        f"CREATE TABLE {shop.name}.c (id INT PRIMARY KEY, v BIGINT)",
        f"INSERT INTO {shop.name}.c VALUES {values}",
    )
    server, naive = MysqlServer(shop.connection), shop.connect()
    begin = server.head()
    log, looks = LogEnd(shop, begin), list[Look]()
    with slow_commits(shop), writers(shop):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            looks.append(look(shop, log, server, naive))
    naive.close()
    history = History(shop, begin)
    lacking = sum(any(look.seen[key] < n for key, n in history.at(look.covers).items()) for look in looks)
    beyond = sum(any(look.seen[key] > n for key, n in history.at(look.end).items()) for look in looks)
    race = sum(any(look.naive[key] < n for key, n in history.at(look.covers).items()) for look in looks)
    elsewhere = sum(not at_place(look.seen, history.at(look.place)) for look in looks if look.place is not None)
    print(f"{shop.flavor}: {len(looks)} views, {history.transactions} transactions; at once {race} lack one")  # noqa: T201
    assert (lacking, beyond, elsewhere) == (0, 0, 0)
    assert len(looks) > 20
    assert all((look.place is not None) == (shop.flavor == "mariadb") for look in looks)
    if shop.flavor == "mysql":
        assert race
    server.close()


def at_place(seen: Counters, logged: Counters) -> bool:
    """Tell whether a view is at its exact place; MariaDB's XA transactions may be missing until a moment later."""
    return all(seen[key] == n or (key < BY_XA and seen[key] < n) for key, n in logged.items())


class History:
    """Counters at each place of the log, as it was decoded."""

    def __init__(self, shop: Shop, begin: BinlogOffset):
        self._changes: dict[int, list[tuple[int, int]]] = {key: [(begin.pos, 0)] for key in range(WRITERS)}
        host, port = str(shop.connection.host), int(shop.connection.port or 0)
        with read_server(host, user="root", port=port, start=str(begin), tables=[f"{shop.name}.c"]) as log:
            for change, transactions in log.changes():
                assert isinstance(change, TableBatch)
                assert transactions.file == begin.file
                ids, values = (column.to_numpy()[change.after_row].tolist() for column in change.images.columns)
                ends = transactions.end_pos[change.transaction].tolist()
                for key, value, end in zip(ids, values, ends, strict=True):
                    self._changes[key].append((end, value))
        self.transactions = sum(len(changes) - 1 for changes in self._changes.values())

    def at(self, place: BinlogOffset) -> Counters:
        """Counters behind the last transaction that ends at a place or before it."""
        behind = (place.pos, 10**9)
        return {key: changes[bisect.bisect(changes, behind) - 1][1] for key, changes in self._changes.items()}
