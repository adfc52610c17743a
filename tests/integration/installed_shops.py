"""Shops with a table whose changes triggers log, on servers of `SequenceTable`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.findings import Level
from databus.core.positions.offsets import Offset
from databus.core.state.plan import SourcePlan
from databus.ops import outbox as use_case
from tests.integration.sequence_servers import Outbox, Writers


class Shop(Outbox):
    """A table of a test's own, `{schema}.{name}_keys`, whose log is `{schema}.{name}_keys_log`."""

    @property
    def captured(self) -> str:
        return f"{self.schema}.{self.name}_keys"

    @property
    def log(self) -> str:
        return f"{self.captured}_log"

    def install(self, changes_of: str | None = None, name: str = "", *, execute: bool = True, **options: Any) -> Any:
        """Install; return what was done, as (object, state)."""
        table = self.captured if changes_of is None else changes_of
        target = use_case.target_of(options.pop("login", self.connection), name, table, options.pop("exclude", ()))
        stages = use_case.install(options.pop("connection", self.connection), target, execute=execute)
        return use_case.steps_of(stages)

    def remove(self, changes_of: str | None = None, name: str = "", *, execute: bool = True, **options: Any) -> Any:
        target = use_case.target_of(self.connection, name, self.captured if changes_of is None else changes_of)
        return use_case.steps_of(use_case.remove(self.connection, target, execute=execute, **options))

    def follow(self, captured: str = "", **options: Any) -> Any:
        table = captured or self.captured
        return self.open(**{"table": f"{table}_log", "changes_of": table} | options)

    def problem(self, **options: Any) -> Any:
        """Return the one error that preflight finds of the log."""
        source = self.follow(**options)
        (found,) = source.preflight(None)
        assert found.level is Level.ERROR
        return found

    def quoted(self, name: str) -> str:
        mark = '"' if self.engine == "postgres" else "`"
        return ".".join(f"{mark}{part.replace(mark, mark * 2)}{mark}" for part in (self.schema, name))


def states(steps: Any) -> set[str]:
    return {step.state for step in steps}


def changes_of(source: Any, plan: SourcePlan) -> list[dict[str, Any]]:
    """Return op, before and after of a plan's rows."""
    found = []
    for split in source.splits(plan, 1):
        for batch in split.read_text({}):
            found += [
                {"op": row["op"], **{name: row[name] and json.loads(row[name]) for name in ("before", "after")}}
                for row in batch.select(["op", "before", "after"]).to_pylist()
            ]
    assert len(found) == plan.rows
    return found


def all_changes(source: Any, place: Offset | None = None, rows: int = 10_000) -> list[dict[str, Any]]:
    """Return all changes that are there behind a place, read in batches."""
    found: list[dict[str, Any]] = []
    place = place or source.earliest_offset()
    limit = Batching(max_rows=rows, max_wait=timedelta(seconds=2))
    while (plan := source.plan(place, limit)) is not None:
        found += changes_of(source, plan)
        place = plan.range.end
        if source.lag(place).bytes == 0:
            break
    return found


@contextmanager
def account(shop: Shop) -> Iterator[Connection]:
    """Give a connection of an account that may read only."""
    user = f"u{random.randrange(10**8)}"
    if shop.engine == "postgres":
        shop.sql(f"CREATE ROLE {user} LOGIN PASSWORD 'weak-weak'", f"GRANT SELECT ON {shop.captured} TO {user}")
    else:
        shop.sql(f"CREATE USER {user} IDENTIFIED BY 'weak-weak'", f"GRANT SELECT ON {shop.captured} TO {user}")
    yield Connection(**{**dict(shop.connection), "login": user, "password": "weak-weak"})
    shop.sql(*([f"DROP OWNED BY {user}", f"DROP ROLE {user}"] if shop.engine == "postgres" else [f"DROP USER {user}"]))


class Changers(Writers):
    """Threads that insert, update and delete few keys, in transactions that stay open for a random time."""

    def _change(self, connection: Any, tag: str, choose: random.Random) -> None:
        del tag
        table, slow = f"{self._outbox.name}_keys", choose.random() < 0.1
        again = (
            "ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v + 1"
            if self._outbox.engine == "postgres"
            else "ON DUPLICATE KEY UPDATE v = v + 1"
        )
        for k in sorted(choose.sample(range(30), choose.randint(1, 3))):
            statement = choose.choice((
                f"DELETE FROM {table} WHERE k = {k}",
                f"UPDATE {table} SET v = v + 1 WHERE k = {k}",
                f"INSERT INTO {table} VALUES ({k}, {choose.randrange(1000)}) {again}",
            ))  # fmt: skip
            connection.exec_driver_sql(statement)
        self._end.wait(choose.random() * (self._longest_s if slow else 0.02))
        if choose.random() < 0.2:
            connection.rollback()
        else:
            connection.commit()
