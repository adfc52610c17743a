"""The orders table that benchmarks move: 12 columns; inserts, updates, deletes; a fifth of them single-row events."""

from __future__ import annotations

from typing import Any

_DEEPER = {True: "SET SESSION max_recursive_iterations = 10000", False: "SET SESSION cte_max_recursion_depth = 10000"}
"""By whether it is MariaDB: both stop a recursion after 1,000 steps by default."""
_SCHEMA = (
    "CREATE DATABASE IF NOT EXISTS bench CHARACTER SET utf8mb4",
    "CREATE TABLE bench.numbers (n INT PRIMARY KEY)",
    """INSERT INTO bench.numbers
        WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 4999) SELECT n FROM s""",
    """CREATE TABLE bench.orders (
        id BIGINT NOT NULL PRIMARY KEY,
        customer_id INT UNSIGNED NOT NULL,
        amount DECIMAL(12,2) NOT NULL,
        score DOUBLE NULL,
        code VARCHAR(64) NOT NULL,
        title VARCHAR(255) NULL,
        body TEXT NULL,
        created_at DATETIME(6) NOT NULL,
        updated_at TIMESTAMP(3) NOT NULL,
        attrs JSON NULL,
        status ENUM('new','paid','shipped','done','cancelled') NOT NULL,
        flag TINYINT(1) NOT NULL)""",
)

_INSERT = """INSERT INTO bench.orders
    SELECT i, 1 + i * 7919 %% 4000000, CAST((i * 104729 %% 1000000000) / 100 AS DECIMAL(12,2)),
        IF(i %% 17 = 0, NULL, i * 1.000123 / 3), CONCAT('ORD-', LPAD(HEX(i), 10, '0'), '-', LEFT(MD5(i), 16)),
        IF(i %% 23 = 0, NULL, CONCAT('Заказ №', i, ' ', REPEAT('item ', 5 + i %% 12))),
        IF(i %% 29 = 0, NULL, CONCAT(MD5(i), MD5(i + 1), MD5(i + 2), MD5(i + 3), MD5(i + 4))),
        '2024-01-01 00:00:00.123456' + INTERVAL i * 7 SECOND, '2024-06-01 00:00:00.123' + INTERVAL i SECOND,
        IF(i %% 31 = 0, NULL,
           JSON_OBJECT('k', i, 'src', IF(i %% 2, 'web', 'app'), 'tags', JSON_ARRAY('a', 'b', i %% 9))),
        1 + i %% 5, i %% 2
    FROM (SELECT %s + n AS i FROM bench.numbers WHERE n < %s) numbered"""


def create(connection: Any) -> None:
    """Create the table and the numbers it is filled from; drops what an earlier run left."""
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS bench")
        cursor.execute("SELECT VERSION()")
        cursor.execute(_DEEPER["mariadb" in cursor.fetchone()[0].lower()])
        for statement in _SCHEMA:
            cursor.execute(statement)


def insert(connection: Any, first: int, rows: int) -> int:
    """Insert rows, at most 5,000, by one statement from an id on; return how many."""
    with connection.cursor() as cursor:
        return int(cursor.execute(_INSERT, (first, rows)))


def load(connection: Any, changes: int) -> dict[str, int]:
    """Make about so many row changes: per 3,000 inserts 1,500 updates and 500 deletes; return the exact counts.

    A fifth of the changes are statements of one row, many to a transaction; the rest are statements of 50 to 200 rows.
    """
    done = {"insert": 0, "update": 0, "delete": 0}
    with connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(MAX(id), 0) FROM bench.orders")
        free = cursor.fetchone()[0] + 1
        for chunk in range(max(1, changes // 5000)):
            first = free + chunk * 3000
            for step in range(12):
                done["insert"] += cursor.execute(_INSERT, (first + step * 200, 200))
            for step in range(30):
                connection.begin()
                for row in range(20):
                    done["insert"] += cursor.execute(_INSERT, (first + 2400 + step * 20 + row, 1))
                connection.commit()
            for step in range(12):
                low = first + step * 100
                done["update"] += cursor.execute(
                    "UPDATE bench.orders SET amount = amount + 1, status = 1 + (id + 1) %% 5"
                    " WHERE id BETWEEN %s AND %s",
                    (low, low + 99),
                )
            connection.begin()
            for row in range(300):
                done["update"] += cursor.execute(
                    "UPDATE bench.orders SET amount = amount + 2, flag = 1 - flag WHERE id = %s", (first + 1200 + row,)
                )
            connection.commit()
            for step in range(8):
                low = first + 1500 + step * 50
                done["delete"] += cursor.execute("DELETE FROM bench.orders WHERE id BETWEEN %s AND %s", (low, low + 49))
            connection.begin()
            for row in range(100):
                done["delete"] += cursor.execute("DELETE FROM bench.orders WHERE id = %s", (first + 1900 + row,))
            connection.commit()
    return done


def load_single_rows(connection: Any, changes: int) -> int:
    """Insert rows by statements of one row, 100 to a transaction: every event holds one row; return how many."""
    done = 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(MAX(id), 0) FROM bench.orders")
        free = cursor.fetchone()[0] + 1
        for first in range(free, free + changes, 100):
            connection.begin()
            for row in range(100):
                done += cursor.execute(_INSERT, (first + row, 1))
            connection.commit()
    return done


def load_long_transaction(connection: Any, rows: int) -> int:
    """Insert rows by one transaction of statements of 5,000 rows; return how many."""
    done = 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(MAX(id), 0) FROM bench.orders")
        free = cursor.fetchone()[0] + 1
        connection.begin()
        for first in range(free, free + rows, 5_000):
            done += cursor.execute(_INSERT, (first, min(5_000, free + rows - first)))
        connection.commit()
    return done
