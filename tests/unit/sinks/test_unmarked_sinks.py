"""memory, console and noop: what comes home, and what is only counted."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from databus.core.connections import Connection
from databus.core.errors import ConnectionMissingError, SinkUnavailableError
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan
from databus.registry import spec_class
from databus.sinks import memory
from databus.sinks.console import Console
from databus.sinks.memory import Memory
from databus.sinks.noop import Noop

CONTEXT = FlowContext("f", Settings("inst", "", ""))


class NoConnections:
    def get(self, conn_id: str) -> Connection:
        raise ConnectionMissingError(conn_id)


def plan(batch: int) -> Plan:
    offsets = OffsetRange(SequenceOffset(0), SequenceOffset(1))
    return Plan("inst", "f", batch, offsets, {"memory": SinkPlan()}, "spec", datetime(2026, 1, 1, tzinfo=UTC))


def rows(ids: range, table: str = "orders") -> Iterator[pa.RecordBatch]:
    for n in ids:
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "slot": 0,
                    "value": json.dumps({"after": {"id": n}}),
                    "event_id": f"e{n}",
                    "database": "shop",
                    "table": table,
                    "key": f'{{"id":{n}}}'.encode(),
                    "log": "b.000001",
                    "place": 4 + n,
                    "ordinal": 0,
                    "part": 0,
                    "route": f"shop.{table}",
                    "op": "c",
                }
            ]
        )


@pytest.fixture(autouse=True)
def empty_store() -> Iterator[None]:
    memory.clear()
    yield
    memory.clear()


ELSEWHERE = """
import pickle, sys
writer, batches = pickle.load(open(sys.argv[1], "rb"))
writer.write(batches, 0)
"""


def test_registry() -> None:
    assert [spec_class("sinks", kind) for kind in ("memory", "console", "noop")] == [Memory, Console, Noop]


def test_memory_brings_rows_home_from_another_process(tmp_path: Path) -> None:
    sink = Memory().open(NoConnections(), CONTEXT)
    task = tmp_path / "task.pickle"
    task.write_bytes(pickle.dumps((sink.writer(plan(1)), list(rows(range(3))))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        subprocess.run([sys.executable, "-c", ELSEWHERE, str(task)], env=environment, check=True, timeout=60)
    finally:
        sink.close()
    assert [(r["event_id"], r["key"], r["route"]) for r in memory.records()] == [
        (f"e{n}", f'{{"id":{n}}}', "shop.orders") for n in range(3)
    ]
    assert json.loads(memory.records()[2]["value"]) == {"after": {"id": 2}}


def test_memory_replaces_a_batch_that_is_written_again() -> None:
    sink = Memory().open(NoConnections(), CONTEXT)
    sink.writer(plan(2)).write(rows(range(5, 7)), 0)
    sink.writer(plan(1)).write(rows(range(3)), 0)
    receipt = sink.writer(plan(1)).write(rows(range(3)), 0)
    sink.close()
    assert (receipt.written, receipt.rows) == (3, {"shop.orders": 3})
    assert [r["event_id"] for r in memory.records()] == ["e0", "e1", "e2", "e5", "e6"]


def test_a_writer_whose_flow_is_gone_says_so() -> None:
    sink = Memory().open(NoConnections(), CONTEXT)
    writer = sink.writer(plan(1))
    sink.close()
    sink.close()
    with pytest.raises(SinkUnavailableError, match="does not answer"):
        writer.write(rows(range(1)), 0)


def test_a_visitor_without_the_key_is_turned_away() -> None:
    from dataclasses import replace

    from pydantic import SecretStr

    sink: Any = Memory().open(NoConnections(), CONTEXT)
    writer: Any = sink.writer(plan(1))
    stranger = replace(writer, address=replace(writer.address, key=SecretStr("00" * 32)))
    with pytest.raises(SinkUnavailableError):
        stranger.write(rows(range(1)), 0)
    writer.write(rows(range(1)), 0)
    sink.close()
    assert len(memory.records()) == 1
    assert writer.address.key.get_secret_value() not in repr(writer)


@pytest.mark.timeout(60)
def test_closing_right_after_a_delivery_never_waits() -> None:
    """The thread that serves may end at any moment of close()."""
    for _ in range(100):
        sink = Memory().open(NoConnections(), CONTEXT)
        sink.writer(plan(1)).write(rows(range(1)), 0)
        sink.close()


def test_console_prints_a_limited_number_of_rows_and_counts_all(capsys: pytest.CaptureFixture[str]) -> None:
    sink = Console(limit=2).open(NoConnections(), CONTEXT)
    receipt = sink.writer(plan(4)).write(rows(range(10)), 0)
    sink.close()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["batch"], line["route"], line["value"]["after"]["id"]) for line in lines] == [
        (4, "shop.orders", 0),
        (4, "shop.orders", 1),
    ]
    assert receipt.written == 10


def test_noop_counts_by_table() -> None:
    sink = Noop().open(NoConnections(), CONTEXT)
    receipt = sink.writer(plan(1)).write([*rows(range(3)), *rows(range(2), "items")], 0)
    assert receipt.rows == {"shop.orders": 3, "shop.items": 2}
    assert receipt.written == 5
    assert sink.prepare(None, ()) == SinkPlan()  # type: ignore[arg-type] # nothing of the range matters to it
    sink.close()
