"""Rows → the columns that a slot's writer takes, keys and values in Avro: what `envelope_text.debezium` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import Op
from databus.core.state.plan import Plan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.formats.row_runs import runs
from databus.rows.avro.form import AvroForm
from databus.rows.avro.images import ALONE, IN_UNION, NULL_BRANCH, VALUE_BRANCH, text_bytes, varint
from databus.rows.image_form import ImageForm
from databus.rows.json_pieces import Piece, Values, join
from databus.rows.wire.columns import longs, texts
from databus.rows.wire.shapes import wire_head
from databus.sinks.envelope import code_version, connector
from databus.sinks.envelope_text import SHARED
from databus.sinks.kafka.registered.encoder import RegisteredEncoder, require_small_ordinals

_FIRST_BRANCH = b"\0"
"""Branch of `source.snapshot`, whose union begins with string."""


@dataclass(frozen=True)
class AvroEncoder(RegisteredEncoder):
    """Encodes the rows of one plan in Avro."""

    def image_form(self, columns: Mapping[int, Sequence[tuple[str, str]]], marks: Any | None) -> ImageForm:
        """Return the form in which it takes images; see `ImageEncoder`."""
        return AvroForm(columns, self.schemas).image_form(marks)

    def _values(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the records' values."""
        return envelopes(rows, self.plan, self.schemas)


def envelopes(rows: pa.RecordBatch, plan: Plan, schemas: Mapping[int, RegisteredSchemas]) -> pa.BinaryArray:
    """Return the envelope of each row in Confluent's wire format.

    What rows of one transaction share is written once and then copied.

    Args:
        rows: `ROW_COLUMNS` with `before` and `after` as `AvroForm` writes them.
        plan: names the flow and gives the top-level `ts_ms`.
        schemas: those that the plan has pinned.
    """
    first, of_row = runs(rows)
    shared = rows.select([*SHARED, "schema_id"]).take(first)
    snapshot = pc.equal(shared["op"], Op.READ.value)
    require_small_ordinals(rows, "Avro")
    heads = [wire_head(schemas[number].value) for number in shared["schema_id"].to_pylist()]
    none = rows["statement"].null_count == rows.num_rows
    pieces: list[Piece] = [
        Values(pa.array(heads, pa.binary()), of_row),
        Values(rows["before"]),
        Values(rows["after"]),
        Values(_source(shared, snapshot, plan), of_row),
        Values(longs(rows["ordinal"], ALONE)),
        NULL_BRANCH,
        NULL_BRANCH if none else Values(texts(rows["statement"], IN_UNION)),
        Values(texts(rows["event_id"], IN_UNION)),
        _flags(rows["flags"]),
        Values(_transaction(shared, snapshot, plan), of_row),
        *_total_order(rows, bool(pc.any(snapshot).as_py())),
    ]
    return join(pieces, rows.num_rows)


def _source(shared: pa.RecordBatch, snapshot: pa.BooleanArray, plan: Plan) -> pa.BinaryArray:
    """Return `source` up to its field `row`."""
    gtid = pc.if_else(pc.equal(shared["transaction"], ""), pa.scalar(None, pa.string()), shared["transaction"])
    pieces: list[Piece] = [
        text_bytes(code_version()) + text_bytes(connector(plan)) + text_bytes(plan.live_flow),
        Values(longs(shared["ts_ms"], ALONE)),
        _FIRST_BRANCH,
        Values(texts(pc.if_else(snapshot, "true", "false"), ALONE)),
        Values(texts(shared["database"], ALONE)),
        NULL_BRANCH,
        Values(texts(shared["table"], IN_UNION)),
        Values(longs(shared["server_id"], ALONE)),
        Values(texts(gtid, IN_UNION)),
        Values(texts(shared["log"], ALONE)),
        Values(longs(shared["place"], ALONE)),
    ]
    return join(pieces, shared.num_rows)


def _transaction(shared: pa.RecordBatch, snapshot: pa.BooleanArray, plan: Plan) -> pa.BinaryArray:
    """Return `op`, `ts_ms` and `transaction` up to its field `total_order`, for snapshots to the end."""
    place = pc.binary_join_element_wise(shared["log"], shared["place"].cast(pa.string()), ":")
    named = pc.if_else(pc.equal(shared["transaction"], ""), place, shared["transaction"])
    pieces: list[Piece] = [
        Values(texts(shared["op"], ALONE)),
        VALUE_BRANCH + varint(int(plan.clock.timestamp() * 1000)),
        Values(texts(pc.if_else(snapshot, pa.scalar(None, pa.string()), named), IN_UNION)),
    ]
    return join(pieces, shared.num_rows)


def _total_order(rows: pa.RecordBatch, snapshots: bool) -> list[Piece]:
    """Return `total_order`; nothing for rows of a snapshot, which belong to no transaction."""
    number = longs(pc.add(rows["ordinal"], 1), ALONE)
    if not snapshots:
        return [Values(number)]
    return [Values(pc.if_else(pc.equal(rows["op"], Op.READ.value), pa.scalar(b"", pa.binary()), number))]


def _flags(flags: pa.ListArray) -> Piece:
    """Return the union of null and an array of texts."""
    if flags.null_count == len(flags):
        return NULL_BRANCH
    return Values(pa.array([_list(row) for row in flags.to_pylist()], pa.binary()))


def _list(flags: list[str] | None) -> bytes:
    if not flags:
        return NULL_BRANCH
    return b"".join([VALUE_BRANCH, varint(len(flags)), *map(text_bytes, flags), b"\0"])
