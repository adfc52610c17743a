"""Byte fixtures of what no server here writes, made from the manuals: MySQL 9 and MariaDB 11.7 VECTOR.

Not seen on a real server. MySQL 9.0 source, libs/mysql/binlog/event/rows_event.h (column type 242, its one byte of
metadata, optional metadata field VECTOR_DIMENSIONALITY = 13) and the reference manual, "The VECTOR Type":
little-endian 4-byte floats. MariaDB Knowledge Base, "Vectors": a vector is stored as such floats and logged as
VARBINARY. Tagged GTIDs (MySQL 8.3): test_transactions.py.
"""

from __future__ import annotations

import struct

import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from tests.unit.binlog.log_encoder import Col, Log, int_col, table_map_body, text_col
from tests.unit.binlog.value_encoder import integer, prefixed

FLOATS = struct.pack("<3f", 1.5, -0.0, 3.4e38)


def mysql_log(metadata: bytes = b"\x0d\x01\x03") -> bytes:
    log = Log(version="9.1.0")
    columns = [int_col(), Col("v", 242, b"\x04"), Col("n", 8, unsigned=True)]
    log.gtid().begin().add(19, table_map_body(1, "shop", "t", columns) + metadata)
    rows = [[integer(1, 4), prefixed(FLOATS, 4), integer(5, 8)], [integer(2, 4), None, integer((1 << 64) - 1, 8)]]
    return bytes(log.rows(30, 1, 3, rows).xid().data)


def only(data: bytes) -> TableBatch:
    (batch,) = [b for b in decode_events(data, file="f.000001") if isinstance(b, TableBatch)]
    batch.images.validate(full=True)
    return batch


def test_a_mysql_vector_is_its_bytes() -> None:
    batch = only(mysql_log())
    assert batch.images.column("v").to_pylist() == [FLOATS, None]
    # What follows is read at its place, and signs are not shifted: VECTOR is no number.
    assert batch.images.column("n").to_pylist() == [5, (1 << 64) - 1]
    assert (batch.schema.columns[1].type, batch.schema.columns[1].spark_type) == ("vector(3)", "binary")
    assert only(mysql_log(b"")).schema.columns[1].type == "vector"


def test_dimensions_that_do_not_fit_the_columns_are_refused() -> None:
    with pytest.raises(DecodeError, match=r"f\.000001:\d+: TABLE_MAP"):
        only(mysql_log(b"\x0d\x02\x03\x04"))


def test_a_mariadb_vector_is_a_varbinary() -> None:
    log = Log(version="11.7.2-MariaDB")
    columns = [int_col(), text_col("v", 12, collation=63)]
    log.mariadb_gtid(1).table_map(1, "t", columns).rows(30, 1, 2, [[integer(1, 4), prefixed(FLOATS, 1)]]).xid()
    batch = only(bytes(log.data))
    assert batch.images.column("v").to_pylist() == [FLOATS]
    assert batch.schema.columns[1].type == "varbinary(12)"
