"""XA phases, ROLLBACK and savepoints: logs recorded from servers and cut anywhere, and shapes written by hand.

The recordings in `recorded/` are whole log files, without magic, of MySQL 8.0.31 and MariaDB 10.11, with what SELECT
showed at their end: XA committed, rolled back, in one phase, left prepared, an xid used twice; transactions over
engines with and without transactions, savepoints, ROLLBACK; on MariaDB two-phase ALTER, one of which failed.
"""

from __future__ import annotations

import json
import os
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.transactions.pending_xa import WantedPrepare
from databus.binlog.log.transactions.rolled_back_rows import RolledBackRows
from databus.binlog.log.transactions.xa import CommitPlace, parse_prepare, parse_second_phase
from databus.binlog.log.walk import XaPhase
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.range_staging import RangeStager
from databus.binlog.segments.segment import FetchedPrepare, PinnedPrepare, RangeIndex, Segment, pinned_name
from databus.binlog.server.dump import Events
from databus.binlog.server.log_walk import LogWalk
from databus.core.errors import CheckpointFormatError, DecodeError, PreparedTransactionMissingError
from databus.core.positions.offsets import BinlogOffset, Ordering, PreparedTransaction, offset_from_json
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.binlog.value_encoder import integer

FILE = "mysql-bin.000001"
ID = [int_col()]
RECORDED = Path(__file__).parent / "recorded"
ONE, TWO = "X'6f6e65',X'',1", "X'74776f',X'62',7"

Change = tuple[str, int, int, int, dict[str, Any] | None, dict[str, Any] | None]


def four(*numbers: int) -> list[list[bytes | None]]:
    return [[integer(n, 4)] for n in numbers]


def prepare_body(xid: str, one_phase: int = 0) -> bytes:
    gtrid, bqual, form = xid.split(",")
    parts = bytes.fromhex(gtrid[2:-1]), bytes.fromhex(bqual[2:-1])
    return struct.pack("<BIII", one_phase, int(form), len(parts[0]), len(parts[1])) + b"".join(parts)


def prepare(log: Log, xid: str, *numbers: int, one_phase: int = 0) -> Log:
    log.gtid().query(f"XA START {xid}").table_map(1, "t", ID).rows(30, 1, 1, four(*numbers))
    return log.query(f"XA END {xid}").add(38, prepare_body(xid, one_phase))


def values(data: bytes, **options: Any) -> list[tuple[int, list[int]]]:
    """Transaction and inserted numbers of each batch's changes."""
    found: dict[int, list[int]] = {}
    for item in decode_events(data, file=FILE, **options):
        if isinstance(item, TableBatch):
            for transaction, value in zip(item.transaction.tolist(), item.images["id"].to_pylist(), strict=True):
                found.setdefault(transaction, []).append(value)
    return sorted(found.items())


def changes(data: np.ndarray[Any, Any], segment: Segment) -> list[Change]:
    """Position, ordinal, table and images of all row changes of a segment."""
    decoded = decode_events(
        data, file=segment.file, base_pos=segment.start_pos, prepared=segment.commits or "elsewhere"
    )
    found: list[Change] = []
    for item in decoded:
        if isinstance(item, TableEvent):
            continue
        images = item.images.to_pylist()
        for i in range(len(item)):
            before = images[item.before_row[i]] if item.before_row[i] >= 0 else None
            after = images[item.after_row[i]] if item.after_row[i] >= 0 else None
            log, t = decoded.transactions, int(item.transaction[i])
            found.append((log.file, int(log.end_pos[t]), int(item.ordinal[i]), len(found), before, after))
            found[-1] = (*found[-1][:3], item.schema.table, *found[-1][4:])  # type: ignore[assignment]
    return sorted(found, key=lambda c: c[:3])


def replay(all_changes: list[Change]) -> dict[str, list[list[int]]]:
    tables: dict[Any, dict[int, int]] = {"t": {}, "n": {}, "o": {}}
    for _, _, _, table, before, after in all_changes:
        if before is not None:
            assert tables[table].pop(before["id"]) == before["v"]
        if after is not None:
            assert after["id"] not in tables[table]
            tables[table][after["id"]] = after["v"]
    return {name: sorted([k, v] for k, v in rows.items()) for name, rows in tables.items()}


class Recording:
    """A recorded log file that is dumped in batches of any size."""

    def __init__(self, flavor: str):
        self.flavor = flavor
        self.data = (RECORDED / f"{flavor}.events").read_bytes()
        known = json.loads((RECORDED / f"{flavor}.json").read_text())
        self.file, self.tables = known["file"], known["tables"]
        self.bounds = [0]
        while self.bounds[-1] < len(self.data):
            self.bounds.append(self.bounds[-1] + int.from_bytes(self.data[self.bounds[-1] + 9 :][:4], "little"))

    def stage(
        self, folder: Path, after: BinlogOffset, steps: list[int], bounds: RangeBounds
    ) -> tuple[RangeIndex | None, list[PinnedPrepare]]:
        """Dump from a place on, in batches of `steps` events."""
        capture = TableCapture(("shop.*",))
        walk = LogWalk(capture, str(after))
        stager = RangeStager(folder, walk, capture, after, bounds)
        place = max(after.pos - 4, self.bounds[1])
        rotate = struct.pack("<Q", after.pos) + self.file.encode()
        head = struct.pack("<IBIIIH", 0, 4, 1, 19 + len(rotate), 0, 0x20) + rotate
        description = bytearray(self.data[: self.bounds[1]])
        if after.pos > 4:
            description[13:17] = bytes(4)  # the server sends it so, because it does not lie there
            description[-4:] = crc(bytes(description[:17]) + bytes([description[17] & 0xFE]) + description[18:-4])
        pieces = [head + bytes(description)]
        edges = [b for b in self.bounds if b >= place]
        k = 0
        while len(edges) > 1:
            step = min(steps[k % len(steps)], len(edges) - 1)
            pieces.append(self.data[edges[0] : edges[step]])
            edges, k = edges[step:], k + 1
        try:
            for piece in pieces:
                batch = Events(np.frombuffer(piece, np.uint8).copy(), len(piece))
                if any(stager.take(p) for p in walk.walk(batch)):
                    break
            index = stager.finish(more=False)
            return index, stager.pins(folder) if index is not None else []
        finally:
            stager.discard()


def crc(data: bytes) -> bytes:
    import zlib

    return struct.pack("<I", zlib.crc32(data))


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@settings(max_examples=int(os.environ.get("DATABUS_TEST_EXAMPLES", "12")), deadline=None, derandomize=True)
@given(
    steps=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    limits=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    segment_bytes=st.sampled_from([200, 700, 1 << 20]),
)
def test_recorded_logs_cut_anywhere_replay_to_the_final_tables(
    flavor: str, tmp_path_factory: pytest.TempPathFactory, steps: list[int], limits: list[int], segment_bytes: int
) -> None:
    recording = Recording(flavor)
    pinned: dict[str, Path] = {}

    def fetch(wanted: WantedPrepare, path: Path) -> FetchedPrepare:
        assert wanted.known is not None
        path.write_bytes(pinned[pinned_name(wanted.known)].read_bytes())
        return FetchedPrepare(wanted.known, ())

    after, got, ranges = BinlogOffset(recording.file, 4, "", flavor, "s"), [], 0
    while True:
        folder = tmp_path_factory.mktemp("range")
        bounds = RangeBounds(max_rows=limits[ranges % len(limits)], segment_bytes=segment_bytes, fetch_prepare=fetch)
        index, pins = recording.stage(folder, after, steps, bounds)
        if index is None:
            break
        pinned |= {p.path.name: p.path for p in pins}
        assert [s.schema_id for s in index.tables] == list(range(len(index.tables)))
        for segment in index.segments:
            data = np.fromfile(folder / segment.name, np.uint8)
            assert len(data) == segment.size_bytes
            assert RangeIndex.from_json(json.loads(json.dumps(index.to_json()))) == index
            found = changes(data, segment)
            assert len(found) == sum(segment.rows.values())
            got += found
        stored = offset_from_json(json.loads(json.dumps(index.range.end.to_json())))
        assert isinstance(stored, BinlogOffset)
        assert stored == index.range.end
        for resolved in set(after.prepared) - set(stored.prepared):
            del pinned[pinned_name(resolved)]
        after, ranges = stored, ranges + 1
    assert ranges > 1
    assert got == sorted(got, key=lambda c: c[:3])
    assert replay(got) == recording.tables
    assert [p.xid for p in after.prepared] == ["X'6c656674',X'',1"]
    assert list(pinned) == [pinned_name(p) for p in after.prepared]


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_recorded_file_decodes_whole(flavor: str) -> None:
    recording = Recording(flavor)
    whole = Segment("", recording.file, 4, 0, 0, 0, {}, 0, 0, 0, checksum=True)
    decoded = decode_events(recording.data, file=recording.file)
    found: list[Change] = []
    for item in decoded:
        if isinstance(item, TableBatch):
            images = item.images.to_pylist()
            for i in range(len(item)):
                t = int(item.transaction[i])
                before = images[item.before_row[i]] if item.before_row[i] >= 0 else None
                after = images[item.after_row[i]] if item.after_row[i] >= 0 else None
                found.append((whole.file, t, int(item.ordinal[i]), item.schema.table, before, after))  # type: ignore[arg-type]
    assert replay(sorted(found, key=lambda c: c[:3])) == recording.tables
    alters = [e.statement for e in decoded if isinstance(e, TableEvent) and "ALTER" in e.statement]
    assert alters == (["ALTER TABLE n ADD COLUMN z INT DEFAULT 4"] if flavor == "mariadb" else [])


def test_rows_inside_come_out_at_their_commit() -> None:
    log = prepare(Log(), ONE, 1, 2)
    prepare(log, TWO, 3)
    log.transaction(1, "t", ID, four(4))
    log.gtid().query(f"XA COMMIT {ONE}")
    log.gtid().query(f"XA ROLLBACK {TWO}")
    prepare(log, ONE, 5)
    prepare(log, TWO, 6, one_phase=1)
    assert values(bytes(log.data)) == [(2, [4]), (3, [1, 2]), (6, [6])]
    assert values(bytes(log.data), prepared="elsewhere") == [(2, [4]), (6, [6])]


def test_a_commit_without_its_prepare_stops() -> None:
    log = Log()
    at = log.position
    log.gtid().query(f"XA COMMIT {ONE}")
    with pytest.raises(DecodeError, match=f"{FILE}:{at}: XA COMMIT X'6f6e65'"):
        decode_events(bytes(log.data), file=FILE)
    assert values(bytes(log.data), prepared="elsewhere") == []


def test_a_prepare_alone_takes_the_place_of_its_commit() -> None:
    log = prepare(Log(), ONE, 1, 2)
    place = CommitPlace("mysql-bin.000009", 100, 200, "g:1", 1234, 77)
    decoded = decode_events(bytes(log.data), file=FILE, prepared=place)
    (batch,) = list(decoded)
    assert isinstance(batch, TableBatch)
    assert (batch.transaction.tolist(), batch.ordinal.tolist()) == ([0, 0], [0, 1])
    assert CommitPlace.of(decoded.transactions, 0) == place
    assert CommitPlace.from_json(json.loads(json.dumps(place.to_json()))) == place
    for other in (Log().transaction(1, "t", ID, four(1)), prepare(prepare(Log(), ONE, 1), TWO, 2)):
        with pytest.raises(DecodeError, match="not the XA PREPARE"):
            decode_events(bytes(other.data), file=FILE, prepared=place)


@pytest.mark.parametrize("step", [1, 2, 5, 100])
def test_savepoints_count_rows_events_over_stretches(tmp_path: Path, step: int) -> None:
    log = Log()
    log.gtid().begin().table_map(1, "t", ID).rows(30, 1, 1, four(1)).query("SAVEPOINT `a`")
    log.rows(30, 1, 1, four(2, 3)).query("SAVEPOINT b").rows(30, 1, 1, four(4)).query("ROLLBACK TO SAVEPOINT B")
    log.rows(30, 1, 1, four(5)).query("ROLLBACK TO `A`").rows(30, 1, 1, four(6)).query("SAVEPOINT b")
    log.rows(30, 1, 1, four(7)).query("ROLLBACK TO b").rows(30, 1, 1, four(8)).xid()
    log.gtid().begin().table_map(1, "t", ID).rows(30, 1, 1, four(9)).query("ROLLBACK")
    prepare(log, ONE, 10)
    data = bytes(log.data)
    assert values(data) == [(0, [1, 6, 8])]
    # Counted as it streams by, where rows that are taken back lie in earlier stretches.
    capture, start = TableCapture(("shop.t",)), BinlogOffset(FILE, 4)
    walk = LogWalk(capture, str(start))
    stager = RangeStager(tmp_path, walk, capture, start, RangeBounds())
    edges = [0, *log.ends[step - 1 :: step]]
    pieces = [data[a:b] for a, b in pairwise([*edges, len(data)]) if a < b]
    pieces[0] = Log().event(4, struct.pack("<Q", 4) + FILE.encode(), log_pos=0, flags=0x20) + pieces[0]
    for piece in pieces:
        for found in walk.walk(Events(np.frombuffer(piece, np.uint8).copy(), len(piece))):
            stager.take(found)
    index = stager.finish(more=False)
    assert index is not None
    assert (index.rows, [s.transactions for s in index.segments]) == (3, [3])
    assert isinstance(index.range.end, BinlogOffset)
    assert [p.xid for p in index.range.end.prepared] == [ONE]
    (kept,) = stager.pins(tmp_path)
    pin = kept.path
    assert values(
        pin.read_bytes(), prepared=CommitPlace(FILE, 4, 5, "", 0, 0), base_pos=int(pin.name.split(".")[2])
    ) == [(0, [10])]


def test_names_of_savepoints() -> None:
    line = np.zeros(16, np.int64)
    taken = RolledBackRows()
    for count, name in enumerate("abca"):
        line[8] = count
        taken.savepoint(name, line)
    assert taken.rollback_to("a", line) == 3
    assert taken.rollback_to("c", line) == 2
    assert taken.rollback_to("a", line) is None
    taken.release("b", line)
    assert taken.rollback_to("c", line) is None
    line[5] = 999  # another transaction
    assert taken.rollback_to("b", line) is None


def test_phases_are_read_in_the_form_that_servers_write() -> None:
    assert parse_prepare(prepare_body(TWO)) == (TWO, False)
    assert parse_prepare(prepare_body(ONE, 1)) == (ONE, True)
    for bad in (b"", prepare_body(ONE)[:-1], prepare_body(ONE) + b"x", prepare_body(ONE, 2), bytes(13)[:12]):
        with pytest.raises(ValueError, match=r"cut short|do not fit"):
            parse_prepare(bad)
    assert parse_second_phase(f"XA COMMIT {TWO}") == (XaPhase.COMMIT, TWO)
    assert parse_second_phase("XA ROLLBACK X'00FF',X'',3") == (XaPhase.ROLLBACK, "X'00ff',X'',3")
    for other in ("XA COMMIT 'x'", f"XA COMMIT {TWO} ONE PHASE", "XA PREPARE X'',X'',1", "XA RECOVER"):
        assert parse_second_phase(other) is None


def test_an_unknown_prepare_is_named(tmp_path: Path) -> None:
    log = Log()
    log.gtid().query(f"XA COMMIT {ONE}")
    capture, start = TableCapture(("*.*",)), BinlogOffset(FILE, 4)
    walk = LogWalk(capture, str(start))
    stager = RangeStager(tmp_path, walk, capture, start, RangeBounds())
    rotate = Log().event(4, struct.pack("<Q", 4) + FILE.encode(), log_pos=0, flags=0x20)
    data = np.frombuffer(rotate + bytes(log.data), np.uint8)
    first, stretch = walk.walk(Events(data, len(data)))
    assert stager.take(first) is False
    with pytest.raises(PreparedTransactionMissingError, match="XA COMMIT X'6f6e65'"):
        stager.take(stretch)
    stager.discard()


def test_offsets_with_pending_transactions_are_stored_and_compared() -> None:
    bare = BinlogOffset(FILE, 500)
    assert "prepared" not in bare.to_json()
    assert offset_from_json(bare.to_json()) == bare
    pending = BinlogOffset(FILE, 500, prepared=(PreparedTransaction(ONE, FILE, 100, 200),))
    assert offset_from_json(json.loads(json.dumps(pending.to_json()))) == pending
    assert pending != bare
    assert pending.compare(bare) is Ordering.EQUAL
    with pytest.raises(CheckpointFormatError):
        offset_from_json({**pending.to_json(), "prepared": [["only an xid"]]})
