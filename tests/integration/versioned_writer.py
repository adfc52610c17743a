"""Random writes to tables with and without system versioning, and what a user who SELECTs in between sees change."""

from __future__ import annotations

import random
from typing import Any

from tests.integration.binlog_shop import Shop

Change = tuple[str, Any, Any]

VERSIONED = {
    "hidden": "id INT PRIMARY KEY, n INT) WITH SYSTEM VERSIONING",
    "shown": (
        "id INT PRIMARY KEY, n INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
        "e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME(s, e)) WITH SYSTEM VERSIONING"
    ),
    "parted": (
        "id INT PRIMARY KEY, n INT) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME "
        "(PARTITION h HISTORY, PARTITION c CURRENT)"
    ),
    "plain": "id INT PRIMARY KEY, n INT)",
}


class VersionedWriter:
    """Writes to the tables of VERSIONED.

    Attributes:
        seen: per table the changes: op, (id, n) before, (id, n) after.
    """

    def __init__(self, shop: Shop, seed: int):
        self._shop, self._random = shop, random.Random(seed)
        self._rows: dict[str, dict[int, int]] = {name: {} for name in VERSIONED}
        self.seen: dict[str, list[Change]] = {name: [] for name in VERSIONED}
        self._fresh = 0
        for name, body in VERSIONED.items():
            shop.sql(f"CREATE TABLE {shop.name}.{name} ({body}")

    def write(self, transactions: int) -> None:
        """Commit that many transactions of one to five statements."""
        for _ in range(transactions):
            self._shop.sql("BEGIN")
            for _ in range(self._random.randint(1, 5)):
                name = self._random.choice(list(VERSIONED))
                rows = self._rows[name]
                if rows:
                    action = self._random.choice([self._insert, self._update, self._delete, self._move, self._many])
                    action = self._replace if name != "plain" and self._random.random() < 0.15 else action
                else:
                    action = self._insert
                action(name, self._random.choice(sorted(rows)) if rows else 0)
            self._shop.sql("COMMIT")

    def _run(self, name: str, sql: str, *changes: Change) -> None:
        self._shop.sql(sql.format(table=f"{self._shop.name}.{name}"))
        for _, before, after in changes:
            if before:
                del self._rows[name][before[0]]
            if after:
                self._rows[name][after[0]] = after[1]
        self.seen[name] += changes

    def _insert(self, name: str, _: int) -> None:
        self._fresh += 2
        one, two = (self._fresh, 1), (self._fresh + 1, 2)
        self._run(name, f"INSERT INTO {{table}} (id, n) VALUES {one}, {two}", ("c", None, one), ("c", None, two))

    def _update(self, name: str, key: int) -> None:
        n = self._rows[name][key]
        self._run(name, f"UPDATE {{table}} SET n = n + 1 WHERE id = {key}", ("u", (key, n), (key, n + 1)))

    def _many(self, name: str, _: int) -> None:
        rows = sorted(self._rows[name].items())
        self._run(name, "UPDATE {table} SET n = n + 1 ORDER BY id", *(("u", (k, n), (k, n + 1)) for k, n in rows))

    def _delete(self, name: str, key: int) -> None:
        self._run(name, f"DELETE FROM {{table}} WHERE id = {key}", ("d", (key, self._rows[name][key]), None))

    def _move(self, name: str, key: int) -> None:
        self._fresh += 2
        n = self._rows[name][key]
        moved = ("d", (key, n), None), ("c", None, (self._fresh, n))
        self._run(name, f"UPDATE {{table}} SET id = {self._fresh} WHERE id = {key}", *moved)

    def _replace(self, name: str, key: int) -> None:
        n = self._rows[name][key]
        self._run(
            name, f"REPLACE INTO {{table}} (id, n) VALUES ({key}, 7)", ("d", (key, n), None), ("c", None, (key, 7))
        )
