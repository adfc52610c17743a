"""Random ALTERs between writes, and for each write the rows as the server showed them at that moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.integration.binlog_shop import Shop

Image = dict[str, Any]
Change = tuple[str, Image | None, Image | None]

_TYPES: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("INT", lambda r: str(r.randint(-(1 << 31), (1 << 31) - 1))),
    ("INT UNSIGNED", lambda r: str(r.randint(0, (1 << 32) - 1))),
    ("BIGINT UNSIGNED", lambda r: str(r.randint(0, (1 << 64) - 1))),
    ("SMALLINT UNSIGNED", lambda r: str(r.randint(0, 65_535))),
    ("VARCHAR(40)", lambda r: f"'é{r.randint(0, 10**9)}'"),
    ("VARCHAR(300) CHARACTER SET latin1", lambda r: f"'ü{r.randint(0, 10**9)}'"),
    ("CHAR(12) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin", lambda r: f"'ß{r.randint(0, 10**9)}'"),
    ("TEXT", lambda r: f"'{'té' * r.randint(0, 40)}'"),
    ("ENUM('a','b','c, (d)')", lambda r: r.choice(["'a'", "'b'", "'c, (d)'"])),
    ("ENUM('b','a','it''s')", lambda r: r.choice(["'a'", "'b'", "'it''s'"])),
    ("SET('x','y','z')", lambda r: r.choice(["''", "'x'", "'x,z'", "'y,z'"])),
    ("DOUBLE", lambda r: str(r.randint(-1000, 1000) / 8)),
    ("YEAR", lambda r: str(r.randint(1901, 2155))),
    ("TINYINT(1) NOT NULL DEFAULT 1", lambda r: str(r.randint(0, 1))),
)


@dataclass
class _Column:
    name: str
    ddl: str
    make: Callable[[random.Random], str]


class SchemaStorm:
    """A table that is altered and written to in turns.

    Attributes:
        changes: what every write changed, in the server's own words: images from SELECT before and after it.
    """

    def __init__(self, shop: Shop, seed: int, name: str = "storm"):
        self._shop, self._random, self._name = shop, random.Random(seed), f"{shop.name}.{name}"
        self._number = 0
        self._ids = 0
        self._columns: list[_Column] = []
        self.changes: list[Change] = []
        shop.sql(f"CREATE TABLE {self._name} (id INT NOT NULL, PRIMARY KEY (id)) DEFAULT CHARSET=utf8mb4")

    def run(self, alters: int) -> None:
        """Alter that many times, with one to three writes after each."""
        for _ in range(alters):
            self._alter()
            for _ in range(self._random.randint(1, 3)):
                self._write()

    def _fresh(self) -> _Column:
        self._number += 1
        ddl, make = self._random.choice(_TYPES)
        name = self._random.choice(["c{}", "C{}", "`größe {}`", "`a,b({})`", "`key{}`"]).format(self._number)
        return _Column(name, ddl, make)

    def _place(self) -> str:
        after = self._random.choice(["id", *(c.name for c in self._columns)])
        return self._random.choice(["", " FIRST", f" AFTER {after}"])

    def _alter(self) -> None:
        some = self._random.choice(self._columns) if self._columns else None
        if some is None:
            self._add()
            return
        choices = [self._drop, self._modify, self._change, self._rename, self._move, self._several, self._options]
        if len(self._columns) < 12:
            choices += [lambda _: self._add()] * 3
        self._random.choice(choices)(some)

    def _do(self, change: str) -> None:
        self._shop.sql(f"ALTER TABLE {self._name} {change}")

    def _add(self) -> None:
        column = self._fresh()
        self._do(f"ADD COLUMN {column.name} {column.ddl}{self._place()}")
        self._columns.append(column)

    def _drop(self, some: _Column) -> None:
        self._do(f"DROP {self._random.choice(['', 'COLUMN '])}{some.name}")
        self._columns.remove(some)

    def _modify(self, some: _Column) -> None:
        rows = self._rows()
        self._shop.sql(f"DELETE FROM {self._name} ORDER BY id")  # values of another type need not convert
        self.changes += [("d", row, None) for row in rows.values()]
        some.ddl, some.make = self._random.choice(_TYPES)
        self._do(f"MODIFY COLUMN {some.name} {some.ddl} COMMENT 'a, (b'")

    def _change(self, some: _Column) -> None:
        name = self._fresh().name
        self._do(f"CHANGE {some.name} {name} {some.ddl}")
        some.name = name

    def _rename(self, some: _Column) -> None:
        name = self._fresh().name
        self._do(f"RENAME COLUMN {some.name} TO {name}")
        some.name = name

    def _move(self, some: _Column) -> None:
        others = ["id", *(c.name for c in self._columns if c is not some)]
        self._do(
            f"MODIFY {some.name} {some.ddl} {self._random.choice(['FIRST', f'AFTER {self._random.choice(others)}'])}"
        )

    def _several(self, some: _Column) -> None:
        one, two = self._fresh(), self._fresh()
        if self._random.random() < 0.5:
            self._do(f"ADD COLUMN ({one.name} {one.ddl}, {two.name} {two.ddl}), DROP {some.name}")
        else:
            key = f"ADD INDEX i{self._number} (id) COMMENT 'x, drop id'"
            self._do(
                f"DROP COLUMN {some.name}, ADD {one.name} {one.ddl}, ADD {two.name} {two.ddl} AFTER {one.name}, {key}"
            )
        self._columns.remove(some)
        self._columns += [one, two]

    def _options(self, _: _Column) -> None:
        self._do("COMMENT = 'x, drop column id', ALGORITHM=DEFAULT")

    def _rows(self) -> dict[int, Image]:
        names = [c.name.strip("`") for c in self._columns]
        listed = ", ".join(["id", *(c.name for c in self._columns)])
        found = self._shop.sql(f"SELECT {listed} FROM {self._name} ORDER BY id")
        return {row[0]: dict(zip(["id", *names], row, strict=True)) for row in found}

    def _write(self) -> None:
        r, table = self._random, self._name
        before = self._rows()
        action = r.choice(["insert", "insert", "update", "delete"]) if before else "insert"
        key = r.choice(sorted(before)) if before else 0
        if action == "insert" or (action == "update" and not self._columns):
            self._ids += 1
            names = ", ".join(["id", *(c.name for c in self._columns)])
            values = ", ".join([str(self._ids), *(c.make(r) for c in self._columns)])
            self._shop.sql(f"INSERT INTO {table} ({names}) VALUES ({values})")
            self.changes.append(("c", None, self._rows()[self._ids]))
        elif action == "delete":
            self._shop.sql(f"DELETE FROM {table} WHERE id = {key}")
            self.changes.append(("d", before[key], None))
        else:
            column = r.choice(self._columns)
            self._shop.sql(f"UPDATE {table} SET {column.name} = {column.make(r)} WHERE id = {key}")
            after = self._rows()[key]
            if after != before[key]:
                self.changes.append(("u", before[key], after))
