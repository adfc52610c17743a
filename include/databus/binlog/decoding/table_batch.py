"""Batches that decoding yields: row changes of one table, table events, and the transactions both point to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.core.tables.schemas import TableSchema

INSERT, UPDATE, DELETE, READ = 0, 1, 2, 3
"""Values of `TableBatch.op`; READ is a row that a snapshot read, which no event of the log has."""

MAX_IMAGES = 32_768
"""Most row images that one TableBatch holds."""


@dataclass(frozen=True, eq=False)
class Transactions:
    """The transactions of one segment in commit order; `TableBatch.transaction` indexes these arrays.

    Attributes:
        file: name of the log file that holds them.
        start_pos: int64, file position of the first byte of each transaction.
        end_pos: int64, file position after the last byte: the commit boundary.
        gtid: Arrow string array, "" for a transaction without GTID.
        ts_ms: int64, commit time at the original source, ms since the epoch.
        server_id: int64, server_id that wrote the transaction.
        heads: Arrow string array, what event ids begin with instead of GTID or place, where no transaction of the log
            made the rows; None for transactions of the log.
        first_ordinal: int64, ordinal from which the event ids of each of `heads` count; None where they count from 0.
    """

    file: str
    start_pos: npt.NDArray[np.int64]
    end_pos: npt.NDArray[np.int64]
    gtid: pa.StringArray
    ts_ms: npt.NDArray[np.int64]
    server_id: npt.NDArray[np.int64]
    heads: pa.StringArray | None = None
    first_ordinal: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.end_pos)


@dataclass(frozen=True, eq=False)
class LargeValue:
    """A value that was left in the log's buffer because of its size; valid as long as that is.

    Attributes:
        data: its bytes as logged.
        charset: name of their character set (MySQL's); None for bytes that are no text.
    """

    data: npt.NDArray[np.uint8]
    charset: str | None


@dataclass(frozen=True, eq=False)
class TableBatch:
    """Row changes of one table under one schema, in log order.

    Attributes:
        schema: the table's columns; images follow its column order.
        images: one row per row image (an update has two), native Arrow types.
        op: int8[n], INSERT, UPDATE, DELETE or READ; n is the number of row changes.
        before_row: int32[n], row of the before-image in `images`, -1 for inserts and for images left out by a filter.
        after_row: int32[n], row of the after-image in `images`, -1 for deletes and for images left out by a filter.
        transaction: int32[n], index into the segment's `Transactions`.
        ordinal: int64[n], number of the change within its transaction across all tables, from 0.
        presence: int32[images], which entry of `presence_sets` says what columns the image carries.
        presence_sets: bool[columns] each; False is a column absent from the image (row image MINIMAL or NOBLOB), not
            NULL.
        exceptions: column → image row → a value that its Arrow type cannot hold: the text of a zero or impossible date,
            or the bytes of what is no text of its character set; the slot in `images` is null. A `LargeValue` only
            where values over a size were asked to be left out.
        partial: column → image rows whose document the log does not hold, because only its differences were logged
            (PARTIAL_JSON) and the before-image lacks it; the column is absent there, though it changed.
        unjudged: column → image rows of changes that a row filter could not judge, because they do not carry it.
    """

    schema: TableSchema
    images: pa.RecordBatch
    op: npt.NDArray[np.int8]
    before_row: npt.NDArray[np.int32]
    after_row: npt.NDArray[np.int32]
    transaction: npt.NDArray[np.int32]
    ordinal: npt.NDArray[np.int64]
    presence: npt.NDArray[np.int32]
    presence_sets: tuple[npt.NDArray[np.bool_], ...]
    exceptions: Mapping[int, Mapping[int, str | bytes | LargeValue]] = field(default_factory=dict)
    partial: Mapping[int, frozenset[int]] = field(default_factory=dict)
    unjudged: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.op)


@dataclass(frozen=True)
class TableEvent:
    """A statement that changes tables rather than rows, at its place in the log.

    Attributes:
        op: "t" for TRUNCATE, "m" for any other definition statement.
        database: database the statement names, else the session's default one.
        table: captured table the statement names, "" where there is none or several.
        statement: SQL text as logged.
        transaction: index into the segment's `Transactions`.
        ordinal: number within its transaction, counted together with row changes.
        part: number among the events of one statement: a DROP TABLE has one for each captured table.
    """

    op: Literal["t", "m"]
    database: str
    table: str
    statement: str
    transaction: int
    ordinal: int
    part: int = 0


class SchemaIds:
    """Gives each distinct schema a number, in the order in which they are first met.

    Splits of one plan agree on the numbers when each starts from the schemas that the plan lists.

    Args:
        known: schemas that have their number already.
    """

    def __init__(self, known: Iterable[TableSchema] = ()) -> None:
        self._numbered = {replace(schema, schema_id=-1): schema for schema in known}

    @property
    def schemas(self) -> tuple[TableSchema, ...]:
        """All schemas met so far, in the order of their numbers."""
        return tuple(sorted(self._numbered.values(), key=lambda schema: schema.schema_id))

    def number(self, schema: TableSchema) -> TableSchema:
        """Return the schema with its number; a new one gets the next."""
        key = replace(schema, schema_id=-1)
        found = self._numbered.get(key)
        if found is None:
            found = replace(schema, schema_id=1 + max((s.schema_id for s in self._numbered.values()), default=-1))
            self._numbered[key] = found
        return found
