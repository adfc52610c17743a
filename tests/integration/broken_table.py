"""A table behind a flow, ready to be broken, and what is asked of a flow then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.core.errors import DatabusError
from databus.core.findings import Level
from databus.demo.consumers import topic_records
from databus.demo.oracle import fold
from databus.ops.health.doctor import examine_flow
from databus.runtime.direct.lane import may_be_direct
from databus.runtime.window_result import WindowResult
from tests.integration.conftest import World
from tests.integration.one_process import run_locally
from tests.integration.statements import run_sql


@dataclass
class Bench:
    """A table with three committed rows behind a flow, ready to be broken."""

    world: World
    database: str

    def __post_init__(self) -> None:
        self.execute("CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(10,2), note VARCHAR(50))")

    def execute(self, *statements: str) -> None:
        with self.world.sql(self.database) as connection:
            run_sql(connection, *statements)

    @property
    def table(self) -> str:
        return f"{self.database}.orders"

    def flow(self, **changes: Any) -> Flow:
        options = {
            "name": f"bad_{self.database}",
            "source": MysqlBinlog(conn_id="mysql_shop", tables=(self.table,), snapshot="never"),
            "sinks": (Kafka(conn_id="kafka_east", topic=self.database),),
            "batching": Batching(max_wait=timedelta(seconds=0.2)),
        }
        return Flow(**{**options, **changes})

    def run(self, flow: Flow) -> WindowResult:
        """Run a flow: without Spark, where that can be."""
        return (run_locally if may_be_direct(flow) and not flow.checks else World.run)(self.world, flow)

    def start(self, flow: Flow) -> Any:
        """Run once so that the flow has a checkpoint, with one row delivered."""
        self.run(flow)
        self.execute("INSERT INTO orders VALUES (1, 1.50, 'one')")
        self.run(flow)
        return self.world.checkpoint(flow)

    def delivered(self) -> dict[str, Any]:
        seen = fold(topic_records(self.world.sandbox.address("kafka"), self.database))
        assert (seen.duplicates, seen.disordered) == (0, 0)
        return seen.state.get(self.table, {})


def refused(bench: Bench, flow: Flow, code: str, hint: str, *, spark: bool = False) -> DatabusError:
    """Run the broken flow: the error is the named one and the checkpoint stands where it stood."""
    before = bench.world.checkpoint(flow)
    with pytest.raises(DatabusError) as caught:
        (bench.world.run if spark else bench.run)(flow)
    error = caught.value
    assert error.code == code, error
    assert hint.lower() in error.hint.lower(), error.hint
    assert bench.world.checkpoint(flow) == before
    return error


def diagnosed(bench: Bench, flow: Flow, code: str) -> None:
    """Ask the doctor: it finds the same fault and says what to do."""
    findings = [f for f in examine_flow(flow, bench.world.connections) if f.level is not Level.OK]
    assert code in {f.code for f in findings}, findings
    assert all(f.hint for f in findings if f.code == code), findings


@contextmanager
def mysql_set(bench: Bench, variable: str, value: str) -> Iterator[None]:
    with bench.world.sql() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{variable}")
        former = cursor.fetchone()[0]
        cursor.execute(f"SET GLOBAL {variable} = '{value}'")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {variable} = '{former}'")


def mended(bench: Bench, flow: Flow, expected: set[str]) -> None:
    """Run the mended flow: everything that was written meanwhile arrives, once."""
    bench.run(flow)
    assert set(bench.delivered()) == expected
