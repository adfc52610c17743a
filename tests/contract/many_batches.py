"""Reports of very many batches, written to the records store in bulk: what a year of a flow leaves there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset
from databus.records import tables as t
from databus.records.ranges import ranges_of_batch
from databus.records.run_ranges import run_number
from databus.records.store import RecordStore

BYTES = 400
"""Of log per change."""
PARTITIONS = 4
_FILE_BYTES = 1 << 30
_PAGE = 1000
_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def place(server: str, changes: int, first_file: int) -> BinlogOffset:
    """Return the place behind so many changes, each a transaction of its own."""
    file, at = divmod(changes * BYTES, _FILE_BYTES)
    gtids = f"{server}:1-{changes}" if changes else ""
    return BinlogOffset(f"mysql-bin.{first_file + file:06d}", 4 + at, gtids, "mysql", server)


def fill(store: RecordStore, flow: str, batches: int, changes: int, first_file: int = 100) -> str:
    """Write batches of a thousand changes or so; the flow's topic is "many". Returns the server's uuid."""
    server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    each = changes // PARTITIONS
    moved = (
        (
            place(server, n * changes, first_file),
            place(server, (n + 1) * changes, first_file),
            {
                f"many[{p}]": {
                    "first_offset": n * (each + 1),
                    "last_offset": n * (each + 1) + each - 1,
                    "records": each,
                }
                for p in range(PARTITIONS)
            },
        )
        for n in range(batches)
    )
    record(store, flow, changes, moved)
    return server


def fill_mirror(store: RecordStore, flow: str, batches: int, each: int) -> None:
    """Write batches of a mirror of topic "many": on the target a control record lies behind those of each batch."""
    moved = (
        (
            KafkaOffsets({"many": {0: n * each}}),
            KafkaOffsets({"many": {0: (n + 1) * each}}),
            {
                "many[0]": {
                    "first_offset": n * (each + 1),
                    "last_offset": n * (each + 1) + each - 1,
                    "records": each,
                    "source": "many[0]",
                    "runs": [[n * each, n * (each + 1), each]],
                }
            },
        )
        for n in range(batches)
    )
    record(store, flow, each, moved)


def record(
    store: RecordStore, flow: str, changes: int, moved: Iterable[tuple[Offset, Offset, Mapping[str, Mapping[str, Any]]]]
) -> None:
    """Write batches of some changes each: start, end and outputs, oldest first."""
    with store.transaction() as connection:
        run = run_number(store, connection, flow, "many", "")
        number = connection.execute(t.batches.select().order_by(t.batches.c.id.desc()).limit(1)).first()
        first = (number.id if number else 0) + 1
        numbered = enumerate(moved)
        while page := list(islice(numbered, _PAGE)):
            rows: list[dict[str, Any]] = []
            receipts, ranges = [], []
            for n, (before, after, outputs) in page:
                start, end = before.to_json(), after.to_json()
                rows.append({
                    "id": first + n, "run": run, "flow": flow, "batch": 1_000_000 + n, "plan_hash": f"{n:016x}",
                    "spec_hash": "s", "mode": "live", "epoch": 1, "attempt": 1, "range_start": start, "range_end": end,
                    "rows": changes, "bytes": changes * BYTES, "durations_ms": {"read": 100.0}, "watermark": _NOON,
                    "committed_at": _NOON + timedelta(seconds=n), "code_version": "1",
                })  # fmt: skip
                receipts.append({
                    "batch": first + n, "sink": "kafka", "slot": 0, "written": changes, "rejected": 0,
                    "duplicate": False, "rows": {"shop.orders": changes}, "outputs": outputs,
                })  # fmt: skip
                ranges += [{"batch": first + n, "flow": flow, **row} for row in ranges_of_batch(start, end, [outputs])]
            for table, values in ((t.batches, rows), (t.receipts, receipts), (t.ranges, ranges)):
                connection.execute(table.insert(), values)
