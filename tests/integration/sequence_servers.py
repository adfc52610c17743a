"""Servers with a table to read as `SequenceTable`, and writers that commit late."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from databus import SequenceTable
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.findings import Finding
from databus.core.positions.offsets import Offset
from databus.core.state.plan import SourcePlan
from databus.sandbox.accounts import RECORDS, RECORDS_DATABASE, ROOT
from databus.testing.contract.simple_sink import FixedConnections, context

KEYS = 200
POSTGRES = """CREATE TABLE {name} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid xid8 NOT NULL DEFAULT pg_current_xact_id(), created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    k int, v int, tag text)"""
MYSQL = """CREATE TABLE {name} (id bigint AUTO_INCREMENT PRIMARY KEY,
    created_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), k int, v int, tag varchar(60))"""


@dataclass
class Outbox:
    """A table of a test's own, `{schema}.{name}`, and one of keys with a version each."""

    engine: str
    host: str
    port: int
    name: str
    schema: str = ""
    _opened: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schema = "public" if self.engine == "postgres" else "shop"
        account = RECORDS if self.engine == "postgres" else ROOT
        self.connection = Connection(
            conn_id=f"{self.engine}_outbox", conn_type=self.engine, host=self.host, port=self.port, login=account.user,
            password=account.password, db_schema=RECORDS_DATABASE if self.engine == "postgres" else "shop",
        )  # fmt: skip
        driver = "postgresql+psycopg" if self.engine == "postgres" else "mysql+pymysql"
        url = sa.URL.create(
            driver, account.user, account.password.get_secret_value(), self.host, self.port, self.connection.db_schema
        )
        self.sql_engine = sa.create_engine(url, poolclass=sa.NullPool)
        create = POSTGRES if self.engine == "postgres" else MYSQL
        statements = [
            create.format(name=self.name),
            f"CREATE TABLE {self.name}_keys (k int PRIMARY KEY, v int NOT NULL)",
        ]
        if self.engine == "postgres":
            statements.append(f"CREATE INDEX ON {self.name} (txid)")
        rows = ", ".join(f"({k}, 0)" for k in range(KEYS))
        self.sql(*statements, f"INSERT INTO {self.name}_keys VALUES {rows}")

    def sql(self, *statements: str) -> list[Any]:
        """Run statements, each a transaction; return the last one's rows."""
        with self.sql_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for statement in statements:
                result = connection.exec_driver_sql(statement)
            return list(result.all()) if result.returns_rows else []

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Give a function that runs a statement in one transaction; what is not committed is rolled back."""
        with self.sql_engine.connect() as connection:
            yield connection

    def insert(self, tag: str = "t", k: int = 0, v: int = 0) -> str:
        """Statement that adds a row."""
        return f"INSERT INTO {self.name} (k, v, tag) VALUES ({k}, {v}, '{tag}')"

    def spec(self, **options: Any) -> SequenceTable:
        given = {"conn_id": self.connection.conn_id, "table": f"{self.schema}.{self.name}"}
        return SequenceTable(**given | {"poll_interval": timedelta(milliseconds=20)} | options)

    def open(self, flow: str = "orders", *, login: Connection | None = None, **options: Any) -> Any:
        self._opened.append(self.spec(**options).open(FixedConnections([login or self.connection]), context(flow)))
        return self._opened[-1]

    def findings(self, **options: Any) -> Sequence[Finding]:
        """Return what preflight finds of a source that is opened for it."""
        return self.open(**options).preflight(None)  # type: ignore[no-any-return]

    def drop(self) -> None:
        for source in self._opened:
            source.close()
        self.sql(f"DROP TABLE IF EXISTS {self.name}", f"DROP TABLE IF EXISTS {self.name}_keys")
        self.sql_engine.dispose()


def rows_of(source: Any, plan: SourcePlan) -> list[dict[str, Any]]:
    """Return the images of a plan's rows."""
    rows = []
    for split in source.splits(plan, 1):
        for batch in split.read_text({}):
            rows += [json.loads(image) for image in batch["after"].to_pylist()]
    assert len(rows) == plan.rows
    return rows


class Writers:
    """Threads that change keys and add a row for each change, in transactions that stay open for a random time.

    Args:
        outbox: the tables.
        count: number of threads.
        longest_s: longest time a transaction stays open; most take a few milliseconds.
        seed: of the choices.
    """

    def __init__(self, outbox: Outbox, count: int, longest_s: float, seed: int):
        self._outbox, self._longest_s = outbox, longest_s
        self._end = threading.Event()
        self.failures: list[str] = []
        self._threads = [
            threading.Thread(target=self._write, args=(name, random.Random(seed * 1000 + name)))
            for name in range(count)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let each end its transaction, and wait for it."""
        self._end.set()
        for thread in self._threads:
            thread.join(self._longest_s + 60)
            assert not thread.is_alive()

    def _write(self, name: int, choose: random.Random) -> None:
        number = 0
        while not self._end.is_set():
            try:
                with self._outbox.transaction() as connection:
                    for _ in range(20):
                        number += 1
                        self._change(connection, f"{name}-{number}", choose)
                        if self._end.is_set():
                            return
            except sa.exc.DBAPIError as error:  # killed, or a deadlock's victim
                self.failures.append(str(error.orig))

    def _change(self, connection: Any, tag: str, choose: random.Random) -> None:
        name = self._outbox.name
        slow = choose.random() < 0.08
        keys = sorted(choose.sample(range(KEYS), choose.randint(1, 3)))
        for k in keys:
            connection.exec_driver_sql(f"UPDATE {name}_keys SET v = v + 1 WHERE k = {k}")
            (v,) = connection.exec_driver_sql(f"SELECT v FROM {name}_keys WHERE k = {k}").one()
            connection.exec_driver_sql(self._outbox.insert(tag, k, v))
            if choose.random() < 0.2:
                time.sleep(choose.random() * 0.01)
        self._end.wait(choose.random() * (self._longest_s if slow else 0.02))
        if choose.random() < 0.2:
            connection.rollback()
        else:
            connection.commit()


class Reader:
    """Reads on from batch to batch, as a flow does, and keeps what it was given."""

    def __init__(self, outbox: Outbox, seed: int):
        self._outbox, self._choose = outbox, random.Random(seed)
        self.source = outbox.open()
        self.place: Offset = self.source.earliest_offset()
        self.rows: list[dict[str, Any]] = []
        self.plans: list[tuple[SourcePlan, list[dict[str, Any]]]] = []

    def step(self) -> bool:
        """Read one batch of a random size; return False where there is none."""
        limit = Batching(max_rows=self._choose.choice((1, 5, 40, 1000)), max_wait=timedelta(milliseconds=60))
        plan = self.source.plan(self.place, limit)
        if plan is None:
            return False
        rows = rows_of(self.source, plan)
        self.rows += rows
        self.plans.append((plan, rows))
        self.place = plan.range.end
        return True

    def restart(self) -> None:
        """Go on at the same place with nothing but it, as after a kill."""
        self.source.close()
        self.source = self._outbox.open()


def faults_of(outbox: Outbox, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Compare what was read with the table: rows missed or read twice, keys out of order, cut transactions."""
    there = {row[0] for row in outbox.sql(f"SELECT id FROM {outbox.name}")}
    read = [row["id"] for row in rows]
    disordered = 0
    for k in range(KEYS):
        versions = [row["v"] for row in rows if row["k"] == k]
        disordered += versions != list(range(1, len(versions) + 1))
    tags = [row["tag"] for row in rows]
    runs = [tag for place, tag in enumerate(tags) if not place or tags[place - 1] != tag]
    return {
        "missed": len(there - set(read)),
        "not there": len(set(read) - there),
        "twice": len(read) - len(set(read)),
        "out of order": disordered,
        "cut": len(runs) - len(set(runs)) if outbox.engine == "postgres" else 0,
    }
