"""A random history of XA and plain transactions, and the tables that a replay of what was delivered gives."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pymysql

from tests.contract.source_contract import Row
from tests.integration.binlog_shop import Shop

_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


class XaHistory:
    """Interleaves XA transactions over many sessions; each works on keys of its own, so that none waits for locks."""

    def __init__(self, shop: Shop, seed: int):
        self.shop, self.random = shop, random.Random(seed)
        self.prepared: list[str] = []
        self.count = 0
        # No gap locks: a prepared transaction would keep its neighbours waiting.
        shop.sql(_ISOLATION, "SET SESSION innodb_lock_wait_timeout = 5")
        shop.sql(*(f"CREATE TABLE {shop.name}.{t} (id INT PRIMARY KEY, v INT)" for t in ("a", "b", "foreign_a")))

    def step(self) -> None:
        """Do one random thing."""
        choice = self.random.random()
        if choice < 0.5:
            self.prepare()
        elif choice < 0.72 and self.prepared:
            self.resolve("COMMIT" if self.random.random() < 0.6 else "ROLLBACK")
        elif choice < 0.97:
            self.plain()
        else:
            self.shop.sql("FLUSH BINARY LOGS")

    def prepare(self) -> str:
        """Bring a new XA transaction to its first phase's end, in a session that then goes away or stays."""
        self.count += 1
        xid = f"'{self.shop.name}-{self.count}','b{self.count % 3}',{self.count % 5 + 1}"
        if self.count % 4 == 0:
            xid = f"X'00ff{self.shop.name.encode().hex()}{self.count:08x}27',X'',{self.count}"
        session = self._session()
        with session.cursor() as cursor:
            cursor.execute(f"XA START {xid}")
            for statement in self._changes(self.count * 10):
                cursor.execute(statement)
            cursor.execute(f"XA END {xid}")
            if self.random.random() < 0.08:
                cursor.execute(f"XA COMMIT {xid} ONE PHASE")
            elif self.random.random() < 0.08:
                cursor.execute(f"XA ROLLBACK {xid}")
            else:
                cursor.execute(f"XA PREPARE {xid}")
                self.prepared.append(xid)
        session.close()  # a prepared transaction outlives its session
        return xid

    def resolve(self, how: str, xid: str | None = None) -> None:
        """End one of the prepared transactions."""
        chosen = xid or self.random.choice(self.prepared)
        self.prepared.remove(chosen)
        self.shop.end_xa(how, chosen)

    def plain(self) -> None:
        """Commit a plain transaction."""
        self.count += 1
        self.shop.transaction(*self._changes(self.count * 10))

    def finish(self) -> None:
        """Roll back what is still prepared: it would hold locks for ever."""
        for xid in list(self.prepared):
            self.resolve("ROLLBACK", xid)

    def tables(self) -> dict[str, dict[int, int]]:
        """What SELECT shows now."""
        return {t: dict(self.shop.sql(f"SELECT id, v FROM {self.shop.name}.{t}")) for t in ("a", "b")}

    def _changes(self, base: int) -> list[str]:
        name, n = self.shop.name, self.random.randint(1, 4)
        if self.random.random() < 0.15:
            return [f"INSERT INTO {name}.foreign_a VALUES ({base}, 0)"]
        values = ", ".join(f"({base + i}, {i})" for i in range(n))
        made = [f"INSERT INTO {name}.{self.random.choice('ab')} VALUES {values}"]
        if self.random.random() < 0.5:
            made += [
                f"INSERT INTO {name}.a VALUES ({base + 7}, 1)",
                "SAVEPOINT s1",
                f"INSERT INTO {name}.b VALUES ({base + 8}, 1)",
                "ROLLBACK TO s1",
                f"UPDATE {name}.a SET v = v + 5 WHERE id = {base + 7}",
            ]
        if self.random.random() < 0.3:
            made.append(f"DELETE FROM {name}.a WHERE id = {base}")
        return made

    def _session(self) -> pymysql.connections.Connection[Any]:
        connection = self.shop.connection
        return pymysql.connect(
            host=connection.host, port=int(connection.port or 0), user="root", autocommit=True, init_command=_ISOLATION
        )


def replay(rows: Iterable[Row], value_of: Any) -> dict[str, dict[int, int]]:
    """Return the tables that the delivered changes make; a repeated or missing change fails."""
    tables: dict[str, dict[int, int]] = {"a": {}, "b": {}}
    for row in rows:
        if row["op"] not in {"c", "u", "d"}:
            continue
        table = tables[row["table"]]
        before, after = value_of(row["before"]), value_of(row["after"])
        if before is not None:
            assert table.pop(before["id"]) == before["v"], row["event_id"]
        if after is not None:
            assert after["id"] not in table, row["event_id"]
            table[after["id"]] = after["v"]
    return tables
