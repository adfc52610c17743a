"""The envelopes of `envelope`, written from row batches without Spark; tests hold the two equal field by field."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.events import Op
from databus.core.state.plan import Plan
from databus.formats.row_runs import flag_member, place_members, runs, transaction_ids, transaction_member
from databus.rows.json_pieces import Piece, Values, join
from databus.rows.json_text import quoted
from databus.sinks.envelope import FLAGS_FIELD, code_version, connector

SHARED = ["op", "database", "table", "log", "place", "transaction", "ts_ms", "server_id"]
"""What all rows of one transaction, table and operation agree in."""


def debezium(rows: pa.RecordBatch, plan: Plan, head: Piece = b"", *, ordered: bool = False) -> pa.BinaryArray:
    """Return the Debezium-style envelope of each row, UTF-8.

    What rows of one transaction share is written once and then copied.

    Args:
        rows: `ROW_COLUMNS` with `before` and `after` as JSON objects.
        plan: names the flow and gives the top-level `ts_ms`.
        head: what stands before each.
        ordered: whether `transaction` has the row's orders; null in rows without them.
    """
    first, of_row = runs(rows)
    shared = rows.select(SHARED).take(first)
    snapshot = pc.equal(shared["op"], Op.READ.value)
    query = b"null" if rows["statement"].null_count == rows.num_rows else Values(quoted(rows["statement"]))
    pieces: list[Piece] = [
        head,
        b'{"before":',
        Values(rows["before"]),
        b',"after":',
        Values(rows["after"]),
        Values(_source(shared, snapshot, plan), of_row),
        Values(rows["ordinal"].cast(pa.string())),
        b',"query":',
        query,
        b',"event_id":',
        Values(quoted(rows["event_id"])),
        *flag_member(rows["flags"], "flags"),
        *(
            (Values(_operation(shared, plan), of_row), b',"transaction":', transaction_member(rows), b"}")
            if ordered
            else (
                Values(_transaction(shared, snapshot, plan), of_row),
                *_total_order(rows, bool(pc.any(snapshot).as_py())),
            )
        ),
    ]
    return join(pieces, rows.num_rows)


def row(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Return the plain row: its columns, then __op, __deleted, __ts_ms and __event_id; UTF-8.

    Args:
        rows: `ROW_COLUMNS` with `before` and `after` as JSON objects.
    """
    body = pc.coalesce(rows["after"], rows["before"], rows["key"], pa.scalar(b"{}", pa.binary()))
    comma = pc.if_else(pc.equal(body, pa.scalar(b"{}", pa.binary())), "", ",")
    deleted = pc.if_else(pc.equal(rows["op"], Op.DELETE.value), "true", "false")
    pieces: list[Piece] = [
        Values(pc.binary_replace_slice(body, start=-1, stop=np.iinfo(np.int64).max, replacement=b"")),
        Values(comma),
        b'"__op":',
        Values(quoted(rows["op"])),
        b',"__deleted":',
        Values(deleted),
        b',"__ts_ms":',
        Values(rows["ts_ms"].cast(pa.string())),
        b',"__event_id":',
        Values(quoted(rows["event_id"])),
        *flag_member(rows["flags"], FLAGS_FIELD),
        b"}",
    ]
    return join(pieces, rows.num_rows)


def document(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Return the after-image with the row's flags in it, UTF-8; NULL where there is no after-image.

    Args:
        rows: `ROW_COLUMNS` with `after` as JSON objects.
    """
    flags = rows["flags"]
    if flags.null_count == len(flags):
        return rows["after"]
    comma = pc.if_else(pc.equal(rows["after"], pa.scalar(b"{}", pa.binary())), "", ",")
    pieces: list[Piece] = [
        Values(pc.binary_replace_slice(rows["after"], start=-1, stop=np.iinfo(np.int64).max, replacement=b"")),
        Values(pc.if_else(pc.is_valid(flags), comma, "")),
        *flag_member(flags, FLAGS_FIELD, comma=False),
        b"}",
    ]
    joined = join(pieces, rows.num_rows)
    return pc.if_else(pc.is_valid(rows["after"]), joined, pa.scalar(None, joined.type))


def _source(shared: pa.RecordBatch, snapshot: pa.BooleanArray, plan: Plan) -> pa.BinaryArray:
    """Return the text from `source` up to the value of `row`."""
    head = {"version": code_version(), "connector": connector(plan), "name": plan.live_flow}
    pieces: list[Piece] = [
        b',"source":{',
        json.dumps(head, ensure_ascii=False, separators=(",", ":"))[1:-1].encode(),
        b',"ts_ms":',
        Values(shared["ts_ms"].cast(pa.string())),
        b',"snapshot":',
        Values(pc.if_else(snapshot, '"true"', '"false"')),
        b',"db":',
        Values(quoted(shared["database"])),
        *place_members(shared),
    ]
    return join(pieces, shared.num_rows)


def _operation(shared: pa.RecordBatch, plan: Plan) -> pa.BinaryArray:
    """Return the text from the end of `source` up to `transaction`."""
    return join(
        [b'},"op":', Values(quoted(shared["op"])), f',"ts_ms":{int(plan.clock.timestamp() * 1000)}'.encode()],
        shared.num_rows,
    )


def _transaction(shared: pa.RecordBatch, snapshot: pa.BooleanArray, plan: Plan) -> pa.BinaryArray:
    """Return the text from the end of `source` up to the value of `total_order`, for snapshots to the end."""
    block = pc.binary_join_element_wise('{"id":', quoted(transaction_ids(shared)), ',"total_order":', "")
    pieces: list[Piece] = [
        b'},"op":',
        Values(quoted(shared["op"])),
        f',"ts_ms":{int(plan.clock.timestamp() * 1000)},"transaction":'.encode(),
        Values(pc.if_else(snapshot, "null}", block)),
    ]
    return join(pieces, shared.num_rows)


def _total_order(rows: pa.RecordBatch, snapshots: bool) -> list[Piece]:
    """Return the value of `total_order` and the end; nothing for rows of a snapshot, which belong to no transaction."""
    number = pc.add(rows["ordinal"], 1).cast(pa.string())
    if not snapshots:
        return [Values(number), b"}}"]
    end = pc.binary_join_element_wise(number, "}}", "")
    return [Values(pc.if_else(pc.equal(rows["op"], Op.READ.value), "", end))]
