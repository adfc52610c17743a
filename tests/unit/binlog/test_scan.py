"""Scanning without decoding, and the checksum of single events."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from databus.binlog.decoding.table_batch import SchemaIds
from databus.binlog.kernels.crc import crc32
from databus.binlog.log.scan import event_checksum_holds, scan_events
from databus.binlog.log.walk import as_buffer
from databus.core.tables.schemas import ColumnSchema, TableSchema
from tests.unit.binlog.log_encoder import Log, int_col, text_col
from tests.unit.binlog.value_encoder import integer, prefixed


def test_scan_counts_rows_and_events_of_whole_and_open_transactions() -> None:
    log = Log()
    log.transaction(1, "a", [int_col()], [[integer(n, 4)] for n in range(5)])
    first = len(log.data)
    log.gtid().query("TRUNCATE a")
    second = len(log.data)
    columns = [int_col(), text_col("x")]
    row = [integer(1, 4), prefixed(b"x" * 50, 1)]
    log.gtid().begin().table_map(2, "b", columns).rows(31, 2, 2, [row, row, row, [integer(1, 4), None]])
    end = len(log.data)
    found = scan_events(bytes(log.data) + b"half an event", file="mysql-bin.000001")
    assert found.boundaries.tolist() == [first, second]
    assert found.rows == {"shop.a": 5, "shop.b": 2}
    assert found.events["UPDATE_ROWS (31)"] == 1
    assert found.events["GTID (33)"] == 3
    assert (found.consumed_bytes, found.position, found.open) == (end, 4 + end, True)
    assert [s.statement.table for s in found.statements] == ["a"]
    assert [t.full_name for t in found.tables] == ["shop.a", "shop.b"]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000, 4099])
def test_crc_kernel_agrees_with_zlib(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 3, dtype=np.uint8)
    assert crc32(as_buffer(data), 3, size + 3) == zlib.crc32(data[3:].tobytes())


def test_event_checksums() -> None:
    log = Log()
    start = len(log.data)
    log.xid()
    buffer = as_buffer(bytes(log.data))
    size = len(log.data) - start
    assert event_checksum_holds(buffer, start, size)
    assert not event_checksum_holds(buffer, start, size - 1)
    assert not event_checksum_holds(buffer, start, size + 1)


def test_schema_ids_give_equal_schemas_equal_numbers() -> None:
    def schema(kind: str) -> TableSchema:
        return TableSchema(-1, "d", "t", (ColumnSchema("a", kind, kind),), ("a",))

    ids = SchemaIds([TableSchema(0, "d", "t", (ColumnSchema("a", "int", "int"),), ("a",))])
    assert [ids.number(schema(kind)).schema_id for kind in ("int", "bigint", "int", "date")] == [0, 1, 0, 2]
    assert [s.columns[0].type for s in ids.schemas] == ["int", "bigint", "date"]
