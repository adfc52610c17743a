"""The shop: related tables of varied types, and a writer that changes them and knows what it did."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pymysql

TABLES: dict[str, str] = {
    "customers": """CREATE TABLE shop.customers (
        customer_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
        email VARCHAR(120) NOT NULL,
        name VARCHAR(80) CHARACTER SET utf8mb4 NOT NULL,
        birthday DATE NULL,
        preferences JSON NULL,
        newsletter TINYINT(1) NOT NULL DEFAULT 0,
        created_at TIMESTAMP(3) NOT NULL)""",
    "products": """CREATE TABLE shop.products (
        sku VARCHAR(24) NOT NULL PRIMARY KEY,
        title VARCHAR(200) NOT NULL,
        price DECIMAL(12,2) NOT NULL,
        weight_kg DOUBLE NULL,
        tags SET('new','sale','heavy','fragile') NOT NULL DEFAULT '',
        picture VARBINARY(64) NULL,
        opens TIME NULL)""",
    "orders": """CREATE TABLE shop.orders (
        order_id BIGINT NOT NULL PRIMARY KEY,
        customer_id BIGINT UNSIGNED NOT NULL,
        status ENUM('new','paid','shipped','returned') NOT NULL,
        total DECIMAL(14,2) NOT NULL,
        card_number CHAR(16) NULL,
        note TEXT NULL,
        placed_at DATETIME(6) NOT NULL,
        updated_at TIMESTAMP NOT NULL)""",
    "order_items": """CREATE TABLE shop.order_items (
        order_id BIGINT NOT NULL,
        line SMALLINT UNSIGNED NOT NULL,
        sku VARCHAR(24) NOT NULL,
        quantity INT NOT NULL,
        discount FLOAT NULL,
        flags BIT(6) NOT NULL DEFAULT b'0',
        PRIMARY KEY (order_id, line))""",
}
"""Table → its statement; together they have most of MySQL's types."""

_WORDS = ("Grüße", "Заказ", "日本", "naïve", "plain", 'quo"te', "back\\slash", "line\nbreak", "🙂", "")


_KEYS = {
    "customers": "customer_id",
    "products": "sku",
    "orders": "order_id",
    "order_items": "CONCAT(order_id, '|', line)",
}


def keys_in_shop(connection: pymysql.connections.Connection[Any]) -> frozenset[tuple[str, str]]:
    """Return (table, primary key as text) of all rows that are there."""
    found: set[tuple[str, str]] = set()
    with connection.cursor() as cursor:
        for table, key in _KEYS.items():
            cursor.execute(f"SELECT {key} FROM shop.{table}")  # noqa: S608 - our own names
            found |= {(table, str(value)) for (value,) in cursor.fetchall()}
    return frozenset(found)


def create_shop(connection: pymysql.connections.Connection[Any]) -> None:
    """Create the database and its tables, empty; refuses to touch one that exists.

    Raises:
        pymysql.err.OperationalError: a table exists already.
    """
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        for statement in TABLES.values():
            cursor.execute(statement)


@dataclass
class ShopTotals:
    """Rows written by the demo's writer.

    Attributes:
        changes: row changes by (table, operation), each insert, update or delete of a row counted once.
        per_key: row changes by (table, primary key as text).
        transactions: committed transactions.
        before: (table, primary key as text) of the rows that were there before the first of these changes.
    """

    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    per_key: Counter[tuple[str, str]] = field(default_factory=Counter)
    transactions: int = 0
    before: frozenset[tuple[str, str]] = frozenset()

    def rows(self, table: str) -> int:
        """Row changes of a table."""
        return sum(n for (name, _), n in self.changes.items() if name == table)


class ShopWriter:
    """Inserts, updates and deletes shop rows in transactions, from a seed.

    Only changes that the server really made are counted: an UPDATE that sets a row to what it was writes nothing.
    """

    def __init__(self, connection: pymysql.connections.Connection[Any], seed: int = 1):
        self._connection = connection
        self._random = random.Random(seed)  # noqa: S311 - a workload, not a secret
        self._orders: list[int] = []
        self._lines: dict[int, int] = {}
        self._customers: list[int] = []
        self._products: list[str] = []
        self._version = 0
        self.written = ShopTotals()

    def run(self, transactions: int, stop: Callable[[], bool] = lambda: False) -> ShopTotals:
        """Commit so many transactions, fewer when `stop` says so."""
        for _ in range(transactions):
            if stop():
                break
            self.transaction()
        return self.written

    def transaction(self) -> None:
        """Commit one transaction of one to six changes."""
        with self._connection.cursor() as cursor:
            self._connection.begin()
            for _ in range(self._random.randint(1, 3)):
                step = self._random.choices(
                    (self._customer, self._product, self._order, self._advance, self._remove), (2, 1, 5, 5, 1)
                )[0]
                step(cursor)
            self._connection.commit()
        self.written.transactions += 1

    def _customer(self, cursor: Any) -> None:
        if self._customers and self._random.random() < 0.4:
            chosen = self._random.choice(self._customers)
            cursor.execute(
                "UPDATE shop.customers SET email=%s, newsletter=1-newsletter WHERE customer_id=%s",
                (f"u{self._next()}@example.org", chosen),
            )
            self._count("customers", "u", chosen)
            return
        identity = 2**63 + self._next() if self._random.random() < 0.1 else self._next()
        born = datetime(1940, 1, 1, tzinfo=UTC) + timedelta(days=self._random.randint(0, 25_000))
        likes = f'{{"likes": [{self._next()}, "{self._word()[:2].strip(chr(34))}"], "depth": {{"a": null, "b": 1.5}}}}'
        cursor.execute(
            "INSERT INTO shop.customers VALUES (%s,%s,%s,%s,%s,%s,%s)",
            (identity, f"c{identity}@example.org", f"Name {self._word()}", self._maybe(born.date()),
             self._maybe(likes.replace("\\", "").replace("\n", "")), self._random.randint(0, 1), self._now(3)),
        )  # fmt: skip
        self._customers.append(identity)
        self._count("customers", "c", identity)

    def _product(self, cursor: Any) -> None:
        if self._products and self._random.random() < 0.5:
            chosen = self._random.choice(self._products)
            cursor.execute("UPDATE shop.products SET price=price+1.01 WHERE sku=%s", (chosen,))
            self._count("products", "u", chosen)
            return
        sku = f"SKU-{self._next():08d}"
        tags = ",".join(t for t in ("new", "sale", "heavy", "fragile") if self._random.random() < 0.4)
        seconds = self._random.randint(-3_000_000, 3_000_000)
        cursor.execute(
            "INSERT INTO shop.products VALUES (%s,%s,%s,%s,%s,%s,%s)",
            (sku, f"{self._word()} {sku}", Decimal(self._random.randint(1, 10**9)) / 100,
             self._maybe(self._random.uniform(0, 1e6)), tags, self._maybe(self._random.randbytes(16)),
             self._maybe(timedelta(seconds=seconds))),
        )  # fmt: skip
        self._products.append(sku)
        self._count("products", "c", sku)

    def _order(self, cursor: Any) -> None:
        if not self._customers or not self._products:
            self._customer(cursor)
            self._product(cursor)
            return
        order = self._next()
        card = f"{self._random.randint(0, 10**16 - 1):016d}"
        cursor.execute(
            "INSERT INTO shop.orders VALUES (%s,%s,'new',%s,%s,%s,%s,%s)",
            (order, self._random.choice(self._customers), Decimal(self._random.randint(1, 10**8)) / 100,
             self._maybe(card), self._maybe(self._word() * self._random.randint(1, 40)), self._now(6), self._now(0)),
        )  # fmt: skip
        self._count("orders", "c", order)
        lines = self._random.randint(1, 4)
        rows = [
            (order, line, self._random.choice(self._products), self._random.randint(1, 9),
             self._maybe(self._random.randint(0, 50) / 4), self._random.randint(0, 63))
            for line in range(1, lines + 1)
        ]  # fmt: skip
        cursor.executemany("INSERT INTO shop.order_items VALUES (%s,%s,%s,%s,%s,%s)", rows)
        for line in range(1, lines + 1):
            self._count("order_items", "c", f"{order}|{line}")
        self._orders.append(order)
        self._lines[order] = lines

    def _advance(self, cursor: Any) -> None:
        if not self._orders:
            self._order(cursor)
            return
        order = self._random.choice(self._orders)
        status = self._random.choice(("paid", "shipped", "returned"))
        cursor.execute(
            "UPDATE shop.orders SET status=%s, total=total+0.01, updated_at=%s WHERE order_id=%s",
            (status, self._now(0), order),
        )
        self._count("orders", "u", order)

    def _remove(self, cursor: Any) -> None:
        if not self._orders:
            return
        order = self._orders.pop(self._random.randrange(len(self._orders)))
        cursor.execute("DELETE FROM shop.order_items WHERE order_id=%s", (order,))
        cursor.execute("DELETE FROM shop.orders WHERE order_id=%s", (order,))
        for line in range(1, self._lines.pop(order) + 1):
            self._count("order_items", "d", f"{order}|{line}")
        self._count("orders", "d", order)

    def _count(self, table: str, op: str, key: object) -> None:
        self.written.changes[table, op] += 1
        self.written.per_key[table, str(key)] += 1

    def _next(self) -> int:
        self._version += 1
        return self._version

    def _word(self) -> str:
        return self._random.choice(_WORDS)

    def _maybe(self, value: Any) -> Any:
        return None if self._random.random() < 0.15 else value

    def _now(self, digits: int) -> datetime:
        now = datetime.now(UTC).replace(tzinfo=None)
        return now.replace(microsecond=now.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
