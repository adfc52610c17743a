"""Rows → the columns that a slot's writer takes, keys and values in Protobuf: what `envelope_text.debezium` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import Op
from databus.core.state.plan import Plan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.formats.row_runs import gtids, runs
from databus.rows.image_form import ImageForm
from databus.rows.json_pieces import Piece, Values, join, measured
from databus.rows.protobuf.form import FIRST_MESSAGE, ProtobufForm
from databus.rows.protobuf.schemas import AFTER, BEFORE, OP, SOURCE, SOURCE_FIELDS, TRANSACTION, TS_MS
from databus.rows.protobuf.types import DELIMITED, VARINT, delimited, tag, varint
from databus.rows.wire.columns import longs, texts
from databus.rows.wire.kernels import Framing, framing
from databus.rows.wire.shapes import wire_head
from databus.sinks.envelope import code_version, connector
from databus.sinks.envelope_text import SHARED
from databus.sinks.kafka.registered.encoder import RegisteredEncoder, require_small_ordinals

_ALONE = framing(b"", b"", zigzag=False)


@dataclass(frozen=True)
class ProtobufEncoder(RegisteredEncoder):
    """Encodes the rows of one plan in Protobuf."""

    def image_form(self, columns: Mapping[int, Sequence[tuple[str, str]]], marks: Any | None) -> ImageForm:
        """Return the form in which it takes images; see `ImageEncoder`."""
        return ProtobufForm(columns, self.schemas).image_form(marks)

    def _values(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the records' values."""
        return envelopes(rows, self.plan, self.schemas)


def envelopes(rows: pa.RecordBatch, plan: Plan, schemas: Mapping[int, RegisteredSchemas]) -> pa.BinaryArray:
    """Return the envelope of each row in Confluent's wire format.

    What rows of one transaction share is written once and then copied.

    Args:
        rows: `ROW_COLUMNS` with `before` and `after` as `ProtobufForm` writes them.
        plan: names the flow and gives the top-level `ts_ms`.
        schemas: those that the plan has pinned.
    """
    require_small_ordinals(rows, "Protobuf")
    first, of_row = runs(rows)
    shared = rows.select([*SHARED, "schema_id"]).take(first)
    snapshot = pc.equal(shared["op"], Op.READ.value)
    heads = [wire_head(schemas[number].value) + FIRST_MESSAGE for number in shared["schema_id"].to_pylist()]
    source = [
        Values(_source(shared, snapshot, plan), of_row),
        Values(longs(rows["ordinal"], _of_source("row"))),
        *_statements(rows),
        Values(texts(rows["event_id"], _of_source("event_id"), empty=True)),
        *_flags(rows["flags"]),
    ]
    total_order = longs(pc.add(rows["ordinal"], 1), framing(tag(2, VARINT), b"", zigzag=False))
    transaction = [Values(_block(shared), of_row), Values(total_order)]
    last = _message(TRANSACTION, transaction, rows.num_rows)
    if pc.any(snapshot).as_py():  # rows of a snapshot belong to no transaction
        read = pc.equal(rows["op"], Op.READ.value)
        last = [Values(pc.if_else(read, pa.scalar(b"", pa.binary()), join(last, rows.num_rows)))]
    return join(
        [
            Values(pa.array(heads, pa.binary()), of_row),
            *_image(BEFORE, rows["before"]),
            *_image(AFTER, rows["after"]),
            *_message(SOURCE, source, rows.num_rows),
            Values(texts(shared["op"], framing(tag(OP, DELIMITED), b"", zigzag=False)), of_row),
            tag(TS_MS, VARINT) + varint(int(plan.clock.timestamp() * 1000)),
            *last,
        ],
        rows.num_rows,
    )


def _image(number: int, images: pa.BinaryArray) -> list[Piece]:
    """Return an image with its tag; nothing where there is none."""
    there: npt.NDArray[np.int32] = np.asarray(pc.greater(pc.binary_length(images), 0)).astype(np.int32)
    return [Values(pa.array([b"", tag(number, DELIMITED)], pa.binary()), there), Values(images)]


def _message(number: int, pieces: Sequence[Piece], rows: int) -> list[Piece]:
    """Return a message in a field: its tag and its length, then what is in it."""
    lengths = longs(pa.array(measured(pieces, rows)), _ALONE)
    return [tag(number, DELIMITED), Values(lengths), *pieces]


def _source(shared: pa.RecordBatch, snapshot: pa.BooleanArray, plan: Plan) -> pa.BinaryArray:
    """Return `source` up to its field `pos`."""
    told = {"version": code_version(), "connector": connector(plan), "name": plan.live_flow}
    pieces: list[Piece] = [
        b"".join(delimited(SOURCE_FIELDS[name][1], text.encode()) for name, text in told.items()),
        Values(longs(shared["ts_ms"], _of_source("ts_ms"), empty=True)),
        Values(texts(pc.if_else(snapshot, "true", "false"), _of_source("snapshot"))),
        Values(texts(shared["database"], _of_source("db"), empty=True)),
        Values(texts(shared["table"], _of_source("table"), empty=True)),
        Values(longs(shared["server_id"], _of_source("server_id"), empty=True)),
        Values(texts(gtids(shared), _of_source("gtid"), empty=True)),
        Values(texts(shared["log"], _of_source("file"), empty=True)),
        Values(longs(shared["place"], _of_source("pos"))),
    ]
    return join(pieces, shared.num_rows)


def _of_source(name: str) -> Framing:
    kind, number = SOURCE_FIELDS[name]
    return framing(tag(number, DELIMITED if "string" in kind else VARINT), b"", zigzag=False)


def _statements(rows: pa.RecordBatch) -> list[Piece]:
    statements = rows["statement"]
    if statements.null_count == rows.num_rows:
        return []
    return [Values(texts(statements, _of_source("query"), empty=True))]


def _flags(flags: pa.ListArray) -> list[Piece]:
    """Return a repeated text."""
    if flags.null_count == len(flags):
        return []
    number = SOURCE_FIELDS["flags"][1]
    lists = [b"".join(delimited(number, flag.encode()) for flag in row or ()) for row in flags.to_pylist()]
    return [Values(pa.array(lists, pa.binary()))]


def _block(shared: pa.RecordBatch) -> pa.BinaryArray:
    """Return `transaction` up to its field `total_order`."""
    place = pc.binary_join_element_wise(shared["log"], shared["place"].cast(pa.string()), ":")
    return texts(pc.coalesce(gtids(shared), place), framing(tag(1, DELIMITED), b"", zigzag=False))
