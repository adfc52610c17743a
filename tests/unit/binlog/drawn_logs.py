"""Logs of drawn transactions: rows, statements in and outside transactions, savepoints, XA that spans others."""

from __future__ import annotations

import random
import struct

from tests.unit.binlog.log_encoder import Log, int_col

COLUMNS = [int_col()]
_OWN_STATEMENTS = (
    "TRUNCATE TABLE `t`",
    "ALTER TABLE t ADD x int",
    "ALTER TABLE t DROP PARTITION p0",
    "DROP TABLE `u`",
    "TRUNCATE u",
)


class DrawnLog:
    """One log; the same seed draws the same."""

    def __init__(self, seed: int):
        self.random, self.log = random.Random(seed), Log()
        self._prepared: list[str] = []
        self._xids = 0

    def draw(self) -> Log:
        """Write 3–14 transactions and return the log."""
        kinds = (self._plain, self._savepoints, self._own, self._selected, self._replaced, self._prepare, self._second)
        for _ in range(self.random.randint(3, 14)):
            self.random.choice(kinds)()
        return self.log

    def _rows(self, table: str = "") -> None:
        name = table or self.random.choice("tu")
        number = 9 if name == "t" else 8
        images = [[struct.pack("<i", self.random.randint(0, 999))] for _ in range(self.random.randint(1, 3))]
        self.log.table_map(number, name, COLUMNS).rows(30, number, 1, images)

    def _some_rows(self, least: int = 0) -> None:
        for _ in range(self.random.randint(least, 3)):
            self._rows()

    def _plain(self) -> None:
        self.log.gtid().begin()
        self._some_rows()
        self.log.xid()

    def _savepoints(self) -> None:
        self.log.gtid().begin()
        names: list[str] = []
        for _ in range(self.random.randint(1, 6)):
            what = self.random.random()
            if what < 0.5:
                self._rows()
            elif what < 0.75:
                name = self.random.choice("abc")
                self.log.query(f"SAVEPOINT `{name}`")
                names = [*(n for n in names if n != name), name]
            elif names:
                name = self.random.choice(names)
                self.log.query(f"ROLLBACK TO `{name}`")
                names = names[: names.index(name) + 1]
        if self.random.random() < 0.2:
            self.log.query("ROLLBACK")
        else:
            self.log.xid()

    def _own(self) -> None:
        self.log.gtid().query(self.random.choice(_OWN_STATEMENTS))

    def _selected(self) -> None:
        """MySQL's CREATE TABLE … SELECT: a statement and its rows in one transaction."""
        table = self.random.choice("tu")
        self.log.gtid().query(f"CREATE TABLE `{table}` (`id` int) START TRANSACTION")
        for _ in range(self.random.randint(0, 2)):
            self._rows(table)
        self.log.xid()

    def _replaced(self) -> None:
        """MariaDB's CREATE OR REPLACE TABLE … SELECT, and what else a transaction may hold."""
        self.log.gtid().begin()
        self._some_rows()
        table = self.random.choice("tu")
        self.log.query(f"CREATE OR REPLACE TABLE `{table}` (`id` int)")
        if self.random.random() < 0.2:
            self.log.query("ALTER TABLE t TRUNCATE PARTITION p0")
        self._some_rows()
        if self.random.random() < 0.3:
            self.log.query("COMMIT")
        else:
            self.log.xid()

    def _prepare(self) -> None:
        self._xids += 1
        name = struct.pack(">I", self._xids)
        xid = f"X'{name.hex()}',X'',1"
        self.log.gtid().query(f"XA START {xid}")
        self._some_rows()
        self.log.query(f"XA END {xid}").add(38, struct.pack("<BIII", 0, 1, 4, 0) + name)
        self._prepared.append(xid)

    def _second(self) -> None:
        if self._prepared:
            xid = self._prepared.pop(self.random.randrange(len(self._prepared)))
            self.log.gtid().query(f"XA {'COMMIT' if self.random.random() < 0.6 else 'ROLLBACK'} {xid}")
