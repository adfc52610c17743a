"""A row that a snapshot read is traced to the batch that took its chunk along, though no event of the log has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import BatchReport
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.snapshot import ChunkFile, PlannedChunks, Snapshot, TableProgress
from databus.core.trace import Change, TraceNotRecordedError, chunk_of, in_log, log_of, of_event_id
from databus.ops.trace import log as trace_log
from databus.ops.trace.batches import BatchFinder
from databus.ops.trace.follow import trace
from databus.ops.trace.journey import Journey
from databus.ops.trace.query import Kind, recognise
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.ranges import ranges_of_chunks
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, report

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(Noop(),))


def place(pos: int, executed: int, file: int = 1) -> BinlogOffset:
    return BinlogOffset(f"bin.{file:06d}", pos, f"{U}:1-{executed}", "mysql", U)


def chunks(*done: int, files: int, number: int = 3) -> PlannedChunks:
    tables = tuple(TableProgress(f"shop.t{n}", "reading", chunks=count) for n, count in enumerate(done))
    made = tuple(ChunkFile(f"{n}.chunk", f"{n}", "shop.t0", 5) for n in range(files))
    return PlannedChunks(Snapshot(number, "initial", NOON, tables), made)


def moved(
    batch: int, start: BinlogOffset, end: BinlogOffset, planned: PlannedChunks | None, *held: RejectedRow
) -> BatchReport:
    clock = NOON + timedelta(seconds=batch)
    plan = Plan(
        "test", "orders", batch, OffsetRange(start, end), {"noop": SinkPlan()}, "spec", clock, "live", chunks=planned
    )
    return replace(report(batch), plan=plan, receipts=(), rejected=held)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[str]:
    """Four batches, of which the second took chunks 1 and 2 of snapshot 3 along, the third chunk 3, the last none."""
    held = RejectedRow("snapshot-3-3-99:7:0", "shop.t0", '{"id":7}', "too small", "check", "bin.000001:900", "{}")
    with RecordStore(f"sqlite:///{tmp_path / 'records.db'}") as store:
        recorder = SqlRecorder(store)
        recorder.record(moved(1, place(4, 1), place(500, 5), None))
        recorder.record(moved(2, place(500, 5), place(900, 9), chunks(2, 0, files=2)))
        recorder.record(moved(3, place(900, 9), place(300, 11, 2), chunks(2, 1, files=1), held))
        recorder.quarantine("orders", 3, [held])
        recorder.record(moved(4, place(300, 11, 2), place(600, 14, 2), None))
        yield store.url.render_as_string(hide_password=False)


@pytest.fixture(autouse=True)
def no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> list[Change]:
        raise AssertionError("the log has no row of a snapshot")

    monkeypatch.setattr(trace_log, "rows_of_log", read)


def traced(text: str, records: str) -> list[Journey]:
    return trace(recognise(text), [FLOW], (EnvironmentConnections({}), Settings("test", "", records)))


def test_an_id_of_such_a_row_is_told_from_all_others() -> None:
    event = "snapshot-12-345-99:67:0"
    assert recognise(event).kind is Kind.EVENT
    assert recognise(f"log2/{event}").kind is Kind.EVENT
    assert recognise(event, Kind.RECORD).kind is Kind.RECORD  # of a topic with that name
    assert of_event_id(event) == Change(event, ordinal=67)
    assert of_event_id(f"log2/{event}") == Change(f"log2/{event}", ordinal=67)
    assert chunk_of(event) == chunk_of(f"log2/{event}") == (12, 345)
    assert (log_of(f"log2/{event}"), in_log(f"log2/{event}", 0)) == (2, event)
    for other in (
        "",
        f"{U}:23:0:0",
        "1:bin.000001:150:3:0",
        "snapshot-1:2:0",
        "snapshot-1-2-9:3",
        "snapshot-1-2:3:0",
        "0-1-55:3:1",
    ):
        assert chunk_of(other) is None


@pytest.mark.parametrize(("chunk", "batch"), [(1, 2), (2, 2), (3, 3)])
def test_the_batch_of_a_chunk_is_found_by_the_id_alone(records: str, chunk: int, batch: int) -> None:
    (journey,) = traced(f"snapshot-3-{chunk}-99:7:0", records)

    assert [found.batch for found in journey.batches] == [batch]
    assert "a snapshot read it: no event of the log has it" in journey.notes
    held = [note for note in journey.notes if note.startswith("held back by check: too small")]
    assert len(held) == (chunk == 3)


@pytest.mark.parametrize(
    "text", ["snapshot-3-4-9:0:0", "snapshot-3-0-9:0:0", "snapshot-2-1-9:0:0", "log1/snapshot-3-1-9:0:0"]
)
def test_a_chunk_that_no_batch_took_along_is_not_recorded(records: str, text: str) -> None:
    with pytest.raises(TraceNotRecordedError, match="no recorded batch read"):
        traced(text, records)


def test_a_record_of_such_a_row_leads_to_the_batch_that_begins_at_its_place(records: str) -> None:
    """Also where a report was lost that says which chunks it took along."""
    with RecordReader(records) as reader:
        finder = BatchFinder(FLOW.name, Provenance(reader))
        for chunk, pos, batch in ((1, 500, 2), (3, 900, 3), (90, 500, 2), (91, 900, 3)):
            seen = Change(f"snapshot-3-{chunk}-99:7:0", "", "bin.000001", pos, 7, "r", "shop.t0", '{"id":7}')
            assert [found.batch for found in finder.read(seen)] == [batch]
        assert [found.batch for found in finder.read(Change(file="bin.000001", position=900))] == [2]


def test_a_batch_without_chunks_records_none() -> None:
    assert ranges_of_chunks(None) == []
    assert ranges_of_chunks(chunks(2, files=0)) == []
    (row,) = ranges_of_chunks(chunks(4, 3, files=2))
    assert row == {"side": "snapshot", "stream": "snapshot-3", "after": 5, "upto": 7}
