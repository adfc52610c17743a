"""Runs of rows: neighbours that agree in all that an envelope says of their transaction, table and operation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import TABLE_ORDER, TOTAL_ORDER, Op
from databus.core.tables.schemas import TableSchema
from databus.rows.json_images import ValueForm
from databus.rows.json_pieces import Piece, Values
from databus.rows.json_text import quoted

Index = npt.NDArray[np.int32]


@dataclass(frozen=True)
class MessageFacts:
    """Facts that all messages of a batch share.

    Attributes:
        version: of databus.
        connector: "mysql" or "mariadb", else the kind of the source.
        name: of the flow.
        clock_ms: the plan's time, ms since the epoch.
        batch: number of the batch.
    """

    version: str
    connector: str
    name: str
    clock_ms: int
    batch: int


class MessageFormat(Protocol):
    """Format of a message's key and value; picklable."""

    @property
    def values(self) -> ValueForm:
        """Form of the values in images and keys, in which the rows are to be read."""
        ...

    def of_tables(self, tables: Sequence[TableSchema], facts: MessageFacts) -> MessageFormat:
        """Return the format with the tables of a plan, as their images are written.

        Args:
            tables: their schemas.
            facts: of the batch.
        """
        ...

    def values_of(self, rows: pa.RecordBatch, facts: MessageFacts) -> pa.BinaryArray:
        """Return the values of messages, UTF-8; null for rows of which the format has no message."""
        ...

    def keys_of(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the keys, UTF-8; null for rows without."""
        ...


def runs(rows: pa.RecordBatch) -> tuple[pa.Array, Index]:
    """Return the first row of each run of one transaction, table and operation, and each row's run."""
    begins = np.zeros(rows.num_rows, np.bool_)
    begins[:1] = True
    for name in ("place", "schema_id", "op"):
        codes = _codes(rows[name])
        begins[1:] |= codes[1:] != codes[:-1]
    # Statements have no schema: each names a table of its own.
    begins |= np.asarray(rows["schema_id"]) < 0
    return pa.array(np.flatnonzero(begins)), (np.cumsum(begins) - 1).astype(np.int32)


def gtids(rows: pa.RecordBatch) -> pa.StringArray:
    """Return each row's GTID, null without."""
    return pc.if_else(pc.equal(rows["transaction"], ""), pa.scalar(None, pa.string()), rows["transaction"])


def place_members(rows: pa.RecordBatch) -> list[Piece]:
    """Return the members of `source` that say where in the log a row stands, from `table` on to the name of `row`."""
    return [
        b',"table":',
        Values(quoted(rows["table"])),
        b',"server_id":',
        Values(rows["server_id"].cast(pa.string())),
        b',"gtid":',
        Values(quoted(gtids(rows))),
        b',"file":',
        Values(quoted(rows["log"])),
        b',"pos":',
        Values(rows["place"].cast(pa.string())),
        b',"row":',
    ]


def transaction_ids(rows: pa.RecordBatch) -> pa.StringArray:
    """Return the id of each row's transaction: its GTID, without one FILE:POS of its end; null in a snapshot's rows."""
    place = pc.binary_join_element_wise(rows["log"], rows["place"].cast(pa.string()), ":")
    found = pc.coalesce(gtids(rows), place)
    return pc.if_else(pc.equal(rows["op"], Op.READ.value), pa.scalar(None, pa.string()), found)


def transaction_member(rows: pa.RecordBatch) -> Piece:
    """Return the value of `transaction`: id and orders of the rows that have them, else null."""
    if TOTAL_ORDER not in rows.schema.names or rows[TOTAL_ORDER].null_count == rows.num_rows:
        return b"null"
    block = pc.binary_join_element_wise(
        '{"id":', quoted(transaction_ids(rows)),
        ',"total_order":', rows[TOTAL_ORDER].cast(pa.string()),
        ',"data_collection_order":', rows[TABLE_ORDER].cast(pa.string()),
        "}", "",
    )  # fmt: skip
    return Values(block)


def flag_member(flags: pa.ListArray, name: str, *, comma: bool = True) -> list[Piece]:
    """Return a last member that lists the flags of the few rows that have some; with a comma before it, by default."""
    if flags.null_count == len(flags):
        return []
    lists = [None if row is None else json.dumps(row, ensure_ascii=False) for row in flags.to_pylist()]
    return [
        Values(
            pa.array(["" if text is None else f'{"," if comma else ""}"{name}":{text}' for text in lists], pa.string())
        )
    ]


def by_table(rows: pa.RecordBatch, texts: Mapping[int, bytes], named: Mapping[tuple[str, str], bytes]) -> Values:
    """Return a piece with the text of each row's table.

    Args:
        rows: `ROW_COLUMNS`.
        texts: schema_id → text.
        named: database and table → text, of statements, which have no schema.
    """
    ids = np.asarray(rows["schema_id"])
    numbers, inverse = np.unique(ids, return_inverse=True)
    found = [texts.get(number, b"") for number in numbers.tolist()]
    index: Index = inverse.astype(np.int32)
    for row in np.flatnonzero(ids < 0).tolist():
        text = named.get((rows["database"][row].as_py(), rows["table"][row].as_py()))
        if text is not None:
            index[row] = len(found)
            found.append(text)
    return Values(pa.array(found, pa.binary()), index)


def _codes(array: pa.Array) -> npt.NDArray[np.integer]:
    return np.asarray(array if pa.types.is_integer(array.type) else array.dictionary_encode().indices)
