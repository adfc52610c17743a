"""Rows of one batch as a simple sink takes them, and the encoders that make their columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.offsets import Offset

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "event_id", "op", "database", "table", "route", "key", "before", "after", "ts_ms", "log", "place", "ordinal",
    "part",
)  # fmt: skip
"""Columns of the encoded rows, as in `ROW_COLUMNS`; key and images are JSON texts."""

_TEXTS = ("key", "before", "after")


@dataclass(frozen=True)
class Row:
    """Row change of the library.

    Attributes:
        event_id: unique id of the change, the same at each attempt.
        op: `Op`: "c" insert, "u" update, "d" delete, "r" read, "t" TRUNCATE, "m" other statement.
        table: `database.table`; "." for statements on several tables.
        route: name by which sinks choose rows; `database.table` unless a Route sets it.
        key_json: canonical JSON of the primary key, None without one.
        before_json: JSON object of the former row, None for inserts.
        after_json: JSON object of the new row, None for deletes.
        committed_at: commit time at the source, aware UTC.
    """

    event_id: str
    op: str
    table: str
    route: str
    key_json: str | None
    before_json: str | None
    after_json: str | None
    committed_at: datetime

    @property
    def key(self) -> dict[str, Any] | None:
        """Primary key's columns and values; None without a key."""
        return _parsed(self.key_json)

    @property
    def before(self) -> dict[str, Any] | None:
        """Former row; numbers with a fraction are Decimal, other types as their JSON says."""
        return _parsed(self.before_json)

    @property
    def after(self) -> dict[str, Any] | None:
        """New row, as `before`."""
        return _parsed(self.after_json)

    def to_json(self) -> str:
        """Return one line of JSON: event_id, op, table, ts_ms, key, before, after; digits of numbers as they are."""
        head = {
            "event_id": self.event_id, "op": self.op, "table": self.table,
            "ts_ms": round(self.committed_at.timestamp() * 1000),
        }  # fmt: skip
        images = (self.key_json, self.before_json, self.after_json)
        members = (f'"{name}":{text or "null"}' for name, text in zip(_TEXTS, images, strict=True))
        return f"{json.dumps(head, ensure_ascii=False, separators=(',', ':'))[:-1]},{','.join(members)}}}"


@dataclass
class SimpleRows:
    """Rows of one batch in the order of the log; iterate once, over `Row`s or by `batches()`.

    Attributes:
        writer: "installation/flow/sink".
        batch: batch number.
        marker: text to keep with the rows, "" for a sink without markers.
        previous: marker that is there before the batch, None for none.
        end: end of the batch's range, for `databus.rows.version_numbers` of its Arrow batches.
    """

    encoded: Iterable[pa.RecordBatch] = field(repr=False)
    writer: str
    batch: int
    marker: str = ""
    previous: str | None = None
    end: Offset | None = None
    _counts: Counter[str] = field(default_factory=Counter, repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the same as Arrow batches of `COLUMNS`."""
        for batch in self.encoded:
            pairs = zip(batch["database"].to_pylist(), batch["table"].to_pylist(), strict=True)
            self._counts.update(f"{database}.{table}" for database, table in pairs)
            yield batch

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            for row in batch.select(list(COLUMNS)).to_pylist():
                key, before, after = (_text(row[name]) for name in _TEXTS)
                table, moment = f"{row['database']}.{row['table']}", datetime.fromtimestamp(row["ts_ms"] / 1000, UTC)
                yield Row(row["event_id"], row["op"], table, row["route"], key, before, after, moment)

    def receipt(self, written: int | None = None) -> WriteReceipt:
        """Return the receipt of the rows that were iterated over.

        Args:
            written: records that they became at the sink; as many as rows by default.
        """
        records = sum(self._counts.values()) if written is None else written
        sink = self.writer.rpartition("/")[2]
        return WriteReceipt(sink, 0, self.batch, records, dict(self._counts), outputs={sink: {"records": records}})


@dataclass(frozen=True)
class SimpleEncoder:
    """Encoder of the direct lane: the columns as they are."""

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:  # noqa: ARG002 - there is one slot only
        """Return `COLUMNS`."""
        return rows.select(list(COLUMNS))


def encoded_frame(rows: Any) -> Any:
    """Return the DataFrame of `COLUMNS` behind `slot`, of rows whose images are VARIANT."""
    from pyspark.sql import functions as f

    images = {name: f.to_json(name, {"ignoreNullFields": "false"}).cast("binary") for name in ("before", "after")}
    return rows.select(f.lit(0).alias("slot"), *(images[c].alias(c) if c in images else f.col(c) for c in COLUMNS))


def _parsed(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
