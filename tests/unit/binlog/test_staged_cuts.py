"""What a staged range holds does not depend on how its bytes were received: cut between any two events, it is one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.segments.kept_log import chain_from
from databus.binlog.segments.kept_segments import KeptSegments
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.segments.store import SegmentStore, load_segment
from databus.core.positions.offsets import BinlogOffset
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.staged_range import shared_out, source_plan
from tests.unit.binlog.drawn_logs import COLUMNS, DrawnLog
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.binlog.test_range_staging import CAPTURE, FILE, batches, number, stage

SELECTED = "CREATE TABLE `t` (`id` int) START TRANSACTION"
REPLACED = "CREATE OR REPLACE TABLE `t` (`id` int)"


def log_of_one(kind: str) -> Log:
    """A transaction with a statement inside, between two others; with or without rows of its own."""
    log = Log().transaction(8, "u", COLUMNS, [[number(1)]])
    log.gtid()
    if "selected" in kind:
        log.query(SELECTED)
    else:
        log.begin().query(REPLACED)
    if "rows" in kind:
        log.table_map(9, "t", COLUMNS).rows(30, 9, 1, [[number(5)], [number(6)]])
    if kind.startswith("statement"):
        log.query("COMMIT")
    else:
        log.xid()
    return log.transaction(8, "u", COLUMNS, [[number(2)]])


def delivered(store: SegmentStore, index: RangeIndex) -> list[str]:
    """Return the row changes and statements that the tasks of a range read, and check them with what was counted."""
    found: list[str] = []
    redefining: set[tuple[str, int]] = set()
    named: list[tuple[str, TableSchema]] = []
    for segment in [s for group in shared_out(index, 3) for s in group]:
        rows = 0
        placed: list[tuple[int, int, str]] = []
        for item in decode_events(
            load_segment(store.address(index, segment)), file=segment.file, base_pos=segment.start_pos,
            tables=CAPTURE, prepared=segment.commits or "elsewhere",
        ):  # fmt: skip
            if isinstance(item, TableBatch):
                values = map(str, item.images["id"].to_pylist())
                placed += zip(item.transaction.tolist(), item.ordinal.tolist(), values, strict=True)
                rows += len(item)
            else:
                placed.append((item.transaction, item.ordinal, item.statement))
                redefining.add((segment.name, item.transaction))
                named.append((item.op, TableSchema(-1, item.database, item.table, ())))
        assert rows == sum(segment.rows.values())
        found += [text for _, _, text in sorted(placed)]
    plan = source_plan(index, store, CAPTURE)
    assert len(redefining) == plan.statements
    assert sorted(set(named), key=str) == sorted(plan.named, key=str)
    assert len(set(named)) == len(plan.named)
    return found


@pytest.mark.parametrize("step", [1, 2, 3, 4, 1000])
@pytest.mark.parametrize("kind", ["selected", "selected, rows", "replaced", "replaced, rows", "statement, rows"])
def test_a_statement_inside_a_transaction_is_planned_wherever_the_receives_end(
    tmp_path: Path, kind: str, step: int
) -> None:
    index, store = stage(tmp_path, batches(log_of_one(kind), step), RangeBounds())
    assert index is not None
    plan = source_plan(index, store, CAPTURE)
    assert (plan.statements, plan.rows, plan.empty) == (1, 2 * ("rows" in kind), False)
    assert delivered(store, index) == [
        SELECTED if "selected" in kind else REPLACED,
        *(["5", "6"] if "rows" in kind else []),
    ]


def test_a_range_without_it_does_not_plan_the_statement_of_the_transaction_still_open(tmp_path: Path) -> None:
    log = Log().transaction(9, "t", COLUMNS, [[number(1)]])
    log.gtid().query(SELECTED)
    index, store = stage(tmp_path, batches(log, 1000), RangeBounds())
    assert index is not None
    plan = source_plan(index, store, CAPTURE)
    assert (plan.statements, plan.named, plan.rows) == (0, (), 1)


def told(index: RangeIndex | None, store: SegmentStore) -> object:
    """Return all that a range tells but for where segments of a wanted size end, and check that they lie end to end."""
    if index is None:
        return None
    pieces = [(s.start_pos, s.end_pos) for s in index.segments if s.commits is None]
    assert [end for _, end in pieces[:-1]] == [start for start, _ in pieces[1:]]
    assert (pieces[0][0], pieces[-1][1]) == (Log().position, index.range.end.to_json()["pos"])
    committed = [s for s in index.segments if s.commits is not None]
    return source_plan(index, store, CAPTURE), index.tables, committed, delivered(store, index)


@pytest.mark.parametrize("seed", range(60))
def test_every_cut_of_a_drawn_log_gives_the_same_range(tmp_path: Path, seed: int) -> None:
    drawn = DrawnLog(seed)
    log = drawn.draw()
    bounds = RangeBounds(
        max_rows=drawn.random.choice([None, None, 1, 3, 7]), segment_bytes=drawn.random.choice([200, 700, 1 << 20])
    )
    whole = told(*stage(tmp_path / "whole", batches(log, 1000), bounds))
    for step in (1, 2, 3, 5):
        assert told(*stage(tmp_path / str(step), batches(log, step), bounds)) == whole


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_kept_log_goes_on_across_an_xa_commit_wherever_the_receives_end(tmp_path: Path, step: int) -> None:
    xid = "X'01',X'',1"
    log = Log().gtid().query(f"XA START {xid}").table_map(9, "t", COLUMNS).rows(30, 9, 1, [[number(1)]])
    log.query(f"XA END {xid}").add(38, struct.pack("<BIII", 0, 1, 1, 0) + b"\x01")
    log.transaction(9, "t", COLUMNS, [[number(2)]])
    commit = log.position
    log.gtid().query(f"XA COMMIT {xid}").transaction(9, "t", COLUMNS, [[number(3)]])
    index, store = stage(tmp_path / "staged", batches(log, step), RangeBounds())
    assert index is not None
    kept = KeptSegments(str(tmp_path / "kept"), "uuid")
    kept.keep(Path(store.address(index, index.segments[0]).removeprefix("file://")).parent, index)
    chain = chain_from(kept.list(), BinlogOffset(FILE, 4, "", "mysql", "uuid"))
    assert [(s.start_pos, s.end_pos) for s in chain] == [(Log().position, commit), (commit, log.position)]


@pytest.mark.parametrize("between", ["ALTER TABLE t CHANGE id n int", "nothing"])
def test_a_range_of_the_rows_before_a_schema_ends_before_its_first_row(tmp_path: Path, between: str) -> None:
    log = Log().transaction(8, "t", COLUMNS, [[number(1)], [number(2)]]).transaction(8, "t", COLUMNS, [[number(3)]])
    if between != "nothing":
        log.gtid().query(between)
    log.transaction(9, "t", [int_col("n")], [[number(4)]])
    index, store = stage(tmp_path / "all", batches(log, 1000), RangeBounds())
    assert index is not None
    plan = source_plan(index, store, CAPTURE)
    assert (plan.rows, len(plan.tables)) == (4, 2)
    assert plan.rows_before == ((0, 3) if between != "nothing" else (0, 0))
    if between != "nothing":
        cut, of_cut = stage(tmp_path / "cut", batches(log, 1000), RangeBounds(plan.rows_before[1]))
        assert cut is not None
        assert delivered(of_cut, cut) == ["1", "2", "3"]
