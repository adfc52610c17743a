"""A writer of known changes: ids are contiguous, each version of each key is known, also after a kill of the server.

The n-th change of a key carries n: an insert and an update write `v = n`, a delete's before-image holds `v = n - 1`. So
a consumer can tell from a record alone which change of its key it is, and what the row must say.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pymysql

from databus import MysqlBinlog

TABLES = ("items", "parts")
Key = tuple[str, int]


def text_of(table: str, number: int, version: int) -> str:
    """Return what a row's text must be; long enough now and then to matter to batches."""
    digest = hashlib.sha256(f"{table}:{number}:{version}".encode()).hexdigest()
    return digest * (1 + int(digest[:2], 16) // 40)


class ChangeWriter:
    """Writes random transactions, one at a time, until it is stopped; survives restarts of the server.

    Attributes:
        database: name of its database.
        changes: per key the operations so far, "c", "u" or "d"; the n-th is change n.
        full: tells whether to wait: the writer must not run away from a path that is down.
        total: number of changes.
        transactions: number of committed transactions.
    """

    def __init__(self, connect: Callable[[], pymysql.connections.Connection[Any]], database: str, seed: int):
        self._connect, self.database = connect, database
        self._random = random.Random(f"changes {seed}")
        self.changes: dict[Key, list[str]] = {}
        self.alive: dict[Key, None] = {}
        self.total = 0
        self.transactions = 0
        self._fresh = 0
        self.lock = threading.Lock()
        self._stop = threading.Event()
        self.full: Callable[[], bool] = lambda: False
        self._thread: threading.Thread | None = None
        self.error: BaseException | None = None
        self._connection: Any = None

    def create(self) -> MysqlBinlog:
        """Make the database and its tables; return a source that reads all that is written to them."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position = cursor.fetchone()[:2]
            cursor.execute(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4")
            for table in TABLES:
                cursor.execute(f"CREATE TABLE {self.database}.{table} (id BIGINT PRIMARY KEY, v INT, w TEXT)")
            cursor.execute(f"CREATE TABLE {self.database}.progress (one INT PRIMARY KEY, n BIGINT)")
            cursor.execute(f"INSERT INTO {self.database}.progress VALUES (1, 0)")
        tables = tuple(f"{self.database}.{table}" for table in TABLES)
        return MysqlBinlog(conn_id="mysql_shop", tables=tables, start=f"{file}:{position}")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the transaction in hand, whose outcome is known then."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.error is not None:
            raise self.error

    def rows(self) -> dict[Key, int]:
        """Return the version of each row that exists now."""
        with self.lock:
            return {key: len(self.changes[key]) for key in self.alive}

    def snapshot(self) -> dict[Key, list[str]]:
        """Return a copy of all changes."""
        with self.lock:
            return {key: list(ops) for key, ops in self.changes.items()}

    def write(self, transactions: int) -> None:
        """Write so many transactions from the calling thread."""
        for _ in range(transactions):
            self._transaction()

    def close(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.MySQLError):
                self._connection.close()
            self._connection = None

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if not self.full():
                    self._transaction()
                self._stop.wait(self._random.uniform(0, 0.05))
        except BaseException as error:  # noqa: BLE001 - told by stop()
            self.error = error
        finally:
            self.close()

    def _transaction(self) -> None:
        """Commit one transaction, or roll one back; a transaction whose answer was lost is looked up."""
        taken_back = self._random.random() < 0.1
        made: list[tuple[str, Key]] = []
        statements = [s for _ in range(self._random.randint(1, 5)) for s in self._statement(made)]
        number = self.transactions + 1
        if not taken_back:
            statements.append(f"UPDATE {self.database}.progress SET n = {number}")
        with self.lock:
            before = (dict(self.alive), self._fresh) if taken_back else None
            self._apply(made)
        committed = self._execute(statements, number, taken_back)
        with self.lock:
            if committed:
                self.transactions = number
                self.total += len(made)
            else:
                self._unapply(made)
                if before is not None:
                    self.alive = before[0]

    def _statement(self, made: list[tuple[str, Key]]) -> list[str]:
        """Return the SQL of one random change, noted in `made`; later ones build upon it."""
        table = self._random.choice(TABLES)
        alive = [key for key in self._standing(made) if key[0] == table]
        action = self._random.choice(("insert", "update", "update", "update", "delete", "move", "many", "again"))
        if action == "again":
            gone = [k for k in self.changes if k[0] == table and k not in self.alive and k not in {m[1] for m in made}]
            if gone:
                return [self._put(self._random.choice(gone), made)]
            action = "insert"
        if action == "insert" or len(alive) < 3:
            self._fresh += 1
            return [self._put((table, self._fresh), made)]
        key = self._random.choice(alive)
        if action == "delete":
            made.append(("d", key))
            return [f"DELETE FROM {self.database}.{table} WHERE id = {key[1]}"]
        if action == "move":
            self._fresh += 1
            made += [("d", key), ("c", (table, self._fresh))]
            new = f"id = {self._fresh}, v = 1, w = '{text_of(table, self._fresh, 1)}'"
            return [f"UPDATE {self.database}.{table} SET {new} WHERE id = {key[1]}"]
        keys = self._random.sample(alive, min(len(alive), 8)) if action == "many" else [key]
        found = []
        for each in keys:
            made.append(("u", each))
            version = self._version(each, made)
            new = f"v = {version}, w = '{text_of(table, each[1], version)}'"
            found.append(f"UPDATE {self.database}.{table} SET {new} WHERE id = {each[1]}")
        return found

    def _put(self, key: Key, made: list[tuple[str, Key]]) -> str:
        made.append(("c", key))
        version = self._version(key, made)
        table, number = key
        return f"INSERT INTO {self.database}.{table} VALUES ({number}, {version}, '{text_of(table, number, version)}')"

    def _version(self, key: Key, made: list[tuple[str, Key]]) -> int:
        return len(self.changes.get(key, ())) + sum(m[1] == key for m in made)

    def _standing(self, made: list[tuple[str, Key]]) -> dict[Key, None]:
        alive = dict(self.alive)
        for op, key in made:
            if op == "d":
                alive.pop(key, None)
            else:
                alive[key] = None
        return alive

    def _apply(self, made: list[tuple[str, Key]]) -> None:
        self.alive = self._standing(made)
        for op, key in made:
            self.changes.setdefault(key, []).append(op)

    def _unapply(self, made: list[tuple[str, Key]]) -> None:
        for _, key in reversed(made):
            self.changes[key].pop()
            if not self.changes[key]:
                del self.changes[key]
        self.alive = {key: None for key, ops in self.changes.items() if ops[-1] != "d"}

    def _execute(self, statements: list[str], number: int, taken_back: bool) -> bool:
        """Run the transaction; tell whether it is committed, found out by reading where the answer was lost."""
        try:
            with self._session().cursor() as cursor:
                for statement in ("BEGIN", *statements, "ROLLBACK" if taken_back else "COMMIT"):
                    cursor.execute(statement)
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError):
            self.close()
        else:
            return not taken_back
        deadline = time.monotonic() + 120
        while True:
            try:
                with self._session().cursor() as cursor:
                    cursor.execute(f"SELECT n FROM {self.database}.progress")
                    return bool(cursor.fetchone()[0] == number)
            except (pymysql.MySQLError, OSError):
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _session(self) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection
