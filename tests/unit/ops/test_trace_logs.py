"""A GTID, place or event id that two logs have, of which one replaced the other: both changes are told, apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import SourceDivergedError
from databus.core.positions.offsets import BinlogOffset
from databus.core.settings import Settings
from databus.core.trace import Change, TraceLogPurgedError, TraceNotRecordedError, in_log, log_of
from databus.ops.trace import log as trace_log
from databus.ops.trace.batches import BatchFinder
from databus.ops.trace.follow import trace
from databus.ops.trace.journey import Journey, lines
from databus.ops.trace.query import recognise
from databus.records.batch_record import BatchRecord
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.store import RecordStore
from tests.contract.many_batches import record

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(Noop(),))


def place(pos: int, executed: int, generation: int) -> BinlogOffset:
    gtids = f"{U}:1-{executed}" if executed else ""
    return BinlogOffset("bin.000001", pos, gtids, "mysql", U, timeline=generation, generation=generation)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[str]:
    """One batch of each of two logs, with the same GTIDs and places; then one more of the newer log."""
    with RecordStore(f"sqlite:///{tmp_path / 'records.db'}") as store:
        moved = [(place(4, 0, 0), place(900, 9, 0), {}), (place(4, 0, 1), place(900, 9, 1), {})]
        record(store, FLOW.name, 9, [*moved, (place(900, 9, 1), place(1400, 14, 1), {})])
        yield store.url.render_as_string(hide_password=False)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Generations of the logs that were read; the fifth transaction ends at 500."""
    logs: list[int] = []

    def rows_of_log(_flow: Any, _connections: Any, _settings: Any, batch: BatchRecord, wanted: Change) -> list[Change]:
        assert isinstance(batch.end, BinlogOffset)
        logs.append(batch.end.generation)
        name = f"{U}:5" if wanted.gtid or not wanted.event_id else f"{U}:bin.000001:500"
        row = Change(in_log(f"{name}:0:1", batch.end.generation), f"{U}:5", "bin.000001", 500, 0, "c", "shop.t", "1", 7)
        return [row] if wanted.event_id in ("", row.event_id) else []

    monkeypatch.setattr(trace_log, "rows_of_log", rows_of_log)
    return logs


def traced(text: str, records: str) -> list[Journey]:
    return trace(recognise(text), [FLOW], (EnvironmentConnections({}), Settings("test", "", records)))


def generations(journey: Journey) -> set[int]:
    return {batch.end.generation for batch in journey.batches if isinstance(batch.end, BinlogOffset)}


@pytest.mark.parametrize(
    ("text", "order"),
    [
        (f"{U}:5", [1, 0]),
        ("bin.000001:500", [1, 0]),
        (f"log1/{U}:5:0:1", [1, 0]),
        (f"{U}:5:0:1", [0, 1]),
        (f"log1/{U}:bin.000001:500:0:1", [1, 0]),
        (f"{U}:bin.000001:500:0:1", [0, 1]),
    ],
)
def test_the_changes_of_both_logs_are_told_and_the_one_that_is_asked_for_first(
    records: str, read: list[int], text: str, order: list[int]
) -> None:
    found = traced(text, records)
    assert [generations(journey) for journey in found] == [{generation} for generation in order]
    told = [journey.to_json()["batches"] for journey in found]
    assert [batches[0].get("log", 0) for batches in told] == order
    for journey, generation in zip(found, order, strict=True):
        assert not journey.change.event_id or log_of(journey.change.event_id) == generation
        which = f"of log {generation}; log {1 - generation} had the same GTID or place for other changes"
        assert any(step == "note" and note.startswith(which) for step, note in lines(journey))
    assert set(read) == {1}  # nothing reads a former log's places in the log that is there now
    former = found[order.index(0)]
    assert any("another one has replaced it since" in note for note in former.notes)


def test_what_one_log_has_alone_is_told_as_ever(records: str, read: list[int]) -> None:
    (found,) = traced(f"{U}:12", records)
    assert generations(found) == {1}
    assert not any("of log" in note for note in found.notes)
    assert read


@pytest.mark.parametrize("text", [f"log2/{U}:5:0:1", f"{U}:12:0:1"])
def test_an_id_of_a_log_that_never_held_it_is_not_taken_for_another_log_s(
    records: str, read: list[int], text: str
) -> None:
    with pytest.raises(TraceNotRecordedError, match="no recorded batch read"):
        traced(text, records)
    assert not read


def test_a_change_that_its_transaction_has_not_is_not_taken_for_another_log_s(records: str, read: list[int]) -> None:
    with pytest.raises(TraceNotRecordedError):
        traced(f"log1/{U}:5:8:1", records)
    assert read == [1]


def test_a_log_that_is_gone_hides_no_other(records: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> list[Change]:
        raise SourceDivergedError("the log was replaced")

    monkeypatch.setattr(trace_log, "rows_of_log", gone)
    assert [generations(journey) for journey in traced(f"{U}:5", records)] == [{1}, {0}]
    with pytest.raises(TraceLogPurgedError, match="neither a sink nor the log shows it"):
        traced(f"{U}:12", records)


def test_a_record_leads_back_to_batches_of_its_own_log(records: str) -> None:
    with RecordReader(records) as reader:
        finder = BatchFinder(FLOW.name, Provenance(reader))
        for generation in (0, 1):
            change = Change(in_log(f"{U}:5:0:1", generation), f"{U}:5", "bin.000001", 500)
            assert {batch.end.generation for batch in finder.read(change)} == {generation}  # type: ignore[attr-defined]
