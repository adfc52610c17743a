"""The vocabulary of row changes: operations, states, and the columns of the one DataFrame shape."""

from __future__ import annotations

import enum


class Op(enum.StrEnum):
    """Operation on a row or table; Debezium's letters."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"
    TRUNCATE = "t"
    DDL = "m"
    FILTERED = "f"
    """Left out by the source's row filters: counted, without key and images; no sink takes it."""


class RowState(enum.StrEnum):
    """Row state at the end of a batch: read = filtered + quarantined + dispatched.

    Rows that a snapshot read and the log superseded are read too, and reach no batch: they have no state.
    """

    DISPATCHED = "dispatched"
    FILTERED = "filtered"
    QUARANTINED = "quarantined"


ROW_COLUMNS: tuple[tuple[str, str], ...] = (
    ("op", "string"),  # Op
    ("database", "string"),
    ("table", "string"),
    ("schema_id", "int"),  # TableSchema.schema_id in the plan; -1 for DDL
    ("key", "binary"),  # canonical JSON of the primary key, UTF-8, e.g. {"id":1}; NULL without a key
    ("key_hash", "int"),  # murmur2(key) & 0x7fffffff, as Kafka's default partitioner; 0 without a key
    ("before", "variant"),  # object of the columns present in the before-image; NULL for inserts
    ("after", "variant"),  # object of the columns present in the after-image; NULL for deletes
    ("log", "string"),  # name of the log: a binary log's file, TOPIC[PARTITION]
    ("place", "bigint"),  # 63-bit place in it: where the transaction ends in the file, the record's offset
    ("transaction", "string"),  # id of the transaction at the source: a GTID for MySQL and MariaDB, "" without
    ("ordinal", "bigint"),  # number of the row change inside its transaction, from 0
    ("part", "smallint"),  # 0; of a primary-key update: 0 delete(old key), 1 insert(new key); of DROP TABLE the table
    ("event_id", "string"),  # transaction:ordinal:part (the same from each server), else server:log:place:ordinal:part;
    # of a row that a snapshot read snapshot-NUMBER-CHUNK-MS:ordinal in the chunk:0; of one of several copies .N behind
    ("ts_ms", "bigint"),  # commit time at the source, ms since the epoch, UTC
    ("server_id", "bigint"),  # number of the server that wrote it; 0 of a source without such numbers
    ("statement", "string"),  # SQL text of TRUNCATE and DDL, else NULL
    ("flags", "array<string>"),  # what is not as its column's type says, e.g. "after.name:undecodable"; NULL without
    ("absent", "array<string>"),  # columns that the after-image lacks (row image MINIMAL or NOBLOB); NULL without; of a
    # primary-key update the delete has them as the insert does
    ("other_key", "binary"),  # of a primary-key update: the delete's new key, the insert's old one; else NULL
)
"""Name and Spark SQL type of each column that a source emits, in order.

Rows are ordered by length(log), log, place, ordinal, part: the order of the source's log, within each log where there
are several. log:place is a commit boundary: the rows of a transaction have one place, and ordinals of their own.
"""

ROW_DDL = ", ".join(f"`{name}` {kind}" for name, kind in ROW_COLUMNS)
"""The same as a Spark DDL string."""

BEGIN, END = "BEGIN", "END"
"""Operations of boundaries of transactions, beside rows (`core/transactions.py`)."""

TOTAL_ORDER, TABLE_ORDER = "total_order", "data_collection_order"
"""Columns beside those of a row: its number among the rows of its transaction that a sink writes, and among those of
its table; from 1."""
