"""The envelopes of `envelope`, written from row batches without Spark; tests hold the two equal field by field."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.batch import Plan
from databus.core.events import Op
from databus.rows.json_pieces import Piece, Values, join
from databus.rows.json_text import quoted
from databus.sinks.envelope import code_version, connector


def debezium(rows: pa.RecordBatch, plan: Plan) -> pa.BinaryArray:
    """Return the Debezium-style envelope of each row, UTF-8.

    Args:
        rows: `ROW_COLUMNS` with `before` and `after` as JSON objects.
        plan: names the flow and gives the top-level `ts_ms`.
    """
    n = rows.num_rows
    snapshot = pc.equal(rows["op"], Op.READ.value)
    pieces: list[Piece] = [
        b'{"before":',
        Values(rows["before"]),
        b',"after":',
        Values(rows["after"]),
        f',"source":{{"version":{_text(code_version())},"connector":{_text(connector(plan))}'.encode(),
        f',"name":{_text(plan.flow)},"ts_ms":'.encode(),
        *_source(rows, snapshot),
        b'},"op":',
        Values(quoted(rows["op"])),
        f',"ts_ms":{int(plan.clock.timestamp() * 1000)},"transaction":'.encode(),
        *_transaction(rows, snapshot),
        b"}",
    ]
    return join(pieces, n)


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
        b"}",
    ]
    return join(pieces, rows.num_rows)


def _source(rows: pa.RecordBatch, snapshot: pa.BooleanArray) -> list[Piece]:
    """Return the fields of `source` from the value of ts_ms on."""
    first, of_row = _transactions(rows)
    log = rows.take(first)
    facts = join(
        [
            Values(log["ts_ms"].cast(pa.string())),
            b',"snapshot":',
            Values(pc.if_else(snapshot.take(first), '"true"', '"false"')),
            b',"db":',
            Values(quoted(log["database"])),
            b',"table":',
            Values(quoted(log["table"])),
            b',"server_id":',
            Values(log["server_id"].cast(pa.string())),
            b',"gtid":',
            Values(quoted(_gtid(log))),
            b',"file":',
            Values(quoted(log["file"])),
            b',"pos":',
            Values(log["position"].cast(pa.string())),
        ],
        len(log),
    )
    return [
        Values(facts, of_row),
        b',"row":',
        Values(rows["ordinal"].cast(pa.string())),
        b',"query":',
        b"null" if rows["statement"].null_count == rows.num_rows else Values(quoted(rows["statement"])),
        b',"event_id":',
        Values(quoted(rows["event_id"])),
    ]


def _transaction(rows: pa.RecordBatch, snapshot: pa.BooleanArray) -> list[Piece]:
    """Return the value of `transaction`: null for rows of a snapshot."""
    first, of_row = _transactions(rows)
    log = rows.take(first)
    place = pc.binary_join_element_wise(log["file"], log["position"].cast(pa.string()), ":")
    pieces: list[Piece] = [
        b'{"id":',
        Values(quoted(pc.coalesce(_gtid(log), place)), of_row),
        b',"total_order":',
        Values(pc.add(rows["ordinal"], 1).cast(pa.string())),
        b"}",
    ]
    if not pc.any(snapshot).as_py():
        return pieces
    return [Values(pc.if_else(snapshot, pa.scalar(None, pa.binary()), join(pieces, rows.num_rows)))]


def _transactions(rows: pa.RecordBatch) -> tuple[pa.Array, np.ndarray]:
    """Return the first row of each run of rows that agree in all but the row itself, and each row's run."""
    changed = np.zeros(rows.num_rows, np.bool_)
    changed[:1] = True
    for name in ("position", "schema_id", "op"):
        changed[1:] |= _codes(rows[name])[1:] != _codes(rows[name])[:-1]
    # Statements of one transaction may name several tables under one schema_id.
    changed |= np.asarray(rows["schema_id"]) < 0
    return pa.array(np.flatnonzero(changed)), (np.cumsum(changed) - 1).astype(np.int32)


def _codes(array: pa.Array) -> np.ndarray:
    return np.asarray(array if pa.types.is_integer(array.type) else array.dictionary_encode().indices)


def _gtid(log: pa.RecordBatch) -> pa.StringArray:
    return pc.if_else(pc.equal(log["gtid"], ""), pa.scalar(None, pa.string()), log["gtid"])


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
