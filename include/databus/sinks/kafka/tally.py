"""Tally of a slot's writer: rows by table, records and offsets by partition, rows rejected for their size."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.batches.refusals import stopped
from databus.core.errors.sink import RecordRejectedError, SinkSettingError
from databus.rows.wire.shapes import MAGIC, wire_head
from databus.sinks.kafka.encoding import CANONICAL_KEY
from databus.sinks.kafka.headers import PREFIX, header_bytes
from databus.sinks.kafka.topics.names import DEFAULT_MAX_MESSAGE_BYTES

_MANY_ROWS = 10_000
"""Fewer are grouped sooner by one thread than several are woken."""

RECORD_OVERHEAD_BYTES = 160
"""Upper bound beside key, value and event id: batch header 61, record header 26, the headers' names and ts_ms 40."""


@dataclass
class MessageTally:
    """Counts of one attempt; the same for every attempt of a plan, because rows come in the same order.

    Of a source whose log loses records between two attempts, `done`, `written` and `outputs` count all that was written
    by either, `rows` what this one read.

    Attributes:
        sink: sink name, the stage of rejected rows.
        limits: topic → largest record in bytes.
        form: format of keys and values.
        done: input rows seen.
        written: records produced.
        rows: `database.table` → rows produced.
        rejected: rows larger than their topic takes.
        outputs: "topic[partition]" → [first offset, last offset, records]; offsets are -1 until acknowledged.
        offsets_known: whether all offsets are known: a marker too small for those of earlier chunks leaves them out,
            and a record that the broker had already, sent again after a lost answer, may be acknowledged without one.
        vanished: rows that an earlier attempt saw and that this one's input lacks.
        failed: "topic[partition]" → error (KafkaError) of a record that was not delivered.
    """

    sink: str
    limits: Mapping[str, int]
    form: str = "json"
    done: int = 0
    written: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    rejected: list[RejectedRow] = field(default_factory=list)
    outputs: dict[str, list[int]] = field(default_factory=dict)
    offsets_known: bool = True
    vanished: int = 0
    failed: dict[str, Any] = field(default_factory=dict)

    def accept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count a batch of encoded rows and return those that fit their topics."""
        self.done += batch.num_rows
        fits = self._fits(batch)
        if not fits.all():
            self._reject(batch.filter(pa.array(~fits)))
            batch = batch.filter(pa.array(fits))
        tables = pa.table({"database": batch["database"], "table": batch["table"]})
        if batch["database"].null_count:  # boundaries of transactions are records, and no rows
            tables = tables.filter(pc.is_valid(tables["database"]))
        counts = (
            tables.group_by(["database", "table"], use_threads=_many(batch)).aggregate([([], "count_all")]).to_pylist()
        )
        for row in counts:
            self.rows[f"{row['database']}.{row['table']}"] += row["count_all"]
        self.written += batch.num_rows + (pc.sum(batch["tombstone"]).as_py() or 0)
        return batch

    def reports(self, batch: pa.RecordBatch) -> Mapping[int, Callable[..., None]]:
        """Return row → delivery callback for the first and last row of each partition, and count the records.

        Asking for those two only keeps a Python call per record out of the hot loop. A failed record
        needs no report: it fails the transaction.
        """
        numbered = pa.table(
            {
                "t": batch["topic"],
                "p": batch["partition"],
                "i": pa.array(np.arange(batch.num_rows)),
                "d": batch["tombstone"],
            }
        )
        facts_of = [("i", "min"), ("i", "max"), ("i", "count"), ("d", "sum")]
        groups = numbered.group_by(["t", "p"], use_threads=_many(batch)).aggregate(facts_of)
        callbacks: dict[int, Callable[..., None]] = {}
        for group in groups.to_pylist():
            if group["p"] is None:
                raise SinkSettingError(
                    f"sink {self.sink}: topic {group['t']!r} is not in the plan",
                    hint="The topics of a batch are pinned by its plan; report this with the flow's transforms.",
                )
            output = f"{group['t']}[{group['p']}]"
            facts = self.outputs.setdefault(output, [-1, -1, 0])
            facts[2] += group["i_count"] + (group["d_sum"] or 0)
            callback = self.delivered(output, facts)
            callbacks[group["i_min"]] = callbacks[group["i_max"]] = callback
        return callbacks

    def offsets(self) -> dict[str, tuple[int, int, int]] | None:
        """Return the marker's outputs, None when offsets are lost."""
        if not self.offsets_known:
            return None
        return {output: (first, last, records) for output, (first, last, records) in sorted(self.outputs.items())}

    def go_on_from(self, done: int, written: int, outputs: Mapping[str, tuple[int, int, int]] | None) -> None:
        """Take over what an earlier attempt has counted in the marker, once what is left of it was counted here."""
        self.vanished = done - self.done
        self.done, self.written = done, written
        self.restore(outputs)

    def restore(self, outputs: Mapping[str, tuple[int, int, int]] | None) -> None:
        """Take over offsets and number of the records that an earlier attempt committed."""
        if outputs is None:
            self.offsets_known = False
            return
        for output, facts in outputs.items():
            self.outputs.setdefault(output, [-1, -1, 0])[:] = facts

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the receipt's outputs."""
        names = ("first_offset", "last_offset", "records") if self.offsets_known else ("records",)
        return {output: dict(zip(names, f[-len(names) :], strict=True)) for output, f in sorted(self.outputs.items())}

    def receipt(self, slot: int, batch: int, *, duplicate: bool = False) -> WriteReceipt:
        """Return the receipt of a slot; `duplicate` where an earlier attempt had written all of it."""
        return WriteReceipt(
            sink=self.sink,
            slot=slot,
            batch=batch,
            written=self.written,
            rows=dict(self.rows),
            rejected=tuple(self.rejected),
            outputs=self.facts(),
            duplicate=duplicate,
            vanished=self.vanished,
        )

    def delivered(self, output: str, facts: list[int]) -> Callable[..., None]:
        """Return a delivery callback that notes first and last offset in an output's facts."""

        def callback(error: Any, message: Any) -> None:
            if error is not None:
                self.failed[output] = error
                return
            offset = message.offset()
            if offset is None:
                self.offsets_known = False
                return
            facts[0] = offset if facts[0] < 0 else min(facts[0], offset)
            facts[1] = max(facts[1], offset)

        return callback

    def _fits(self, batch: pa.RecordBatch) -> Any:
        size = sum(
            np.asarray(pc.fill_null(pc.binary_length(batch[name]), 0)).astype(np.int64)
            for name in ("key", "value", "event_id")
        )
        size = size + header_bytes(batch)
        smallest = min([DEFAULT_MAX_MESSAGE_BYTES, *self.limits.values()])
        if int(np.max(size, initial=0)) + RECORD_OVERHEAD_BYTES <= smallest:
            return np.ones(batch.num_rows, dtype=bool)
        limit = np.array([self.limit(topic) for topic in batch["topic"].to_pylist()], dtype=np.int64)
        return size + RECORD_OVERHEAD_BYTES <= limit

    def _shown(self, value: bytes) -> str:
        """Return a value as text: JSON without the id of its schema, another format's bytes in base64."""
        if value[:1] != MAGIC:
            return value.decode()
        if self.form == "json_schema":
            return value[len(wire_head(0)) :].decode()
        return json.dumps({"format": self.form, "base64": base64.b64encode(value).decode("ascii")})

    def limit(self, topic: str) -> int:
        """Return the largest record a topic takes, in bytes."""
        # A transform of the user's own may route a row where its plan knows nothing of.
        return self.limits.get(topic, DEFAULT_MAX_MESSAGE_BYTES)

    def _reject(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            if row["database"] is None:
                raise SinkSettingError(
                    f"sink {self.sink}: the end of the transaction at {row['log']}:{row['place']} names so many tables "
                    f"that it takes {len(row['value'])} bytes, topic {row['topic']} takes {self.limit(row['topic'])}",
                    hint="Raise max.message.bytes of that topic; the same batch then goes on.",
                )
            size = len(row["key"] or b"") + len(row["value"] or b"") + len(row["event_id"]) + RECORD_OVERHEAD_BYTES
            size += sum(len(value) for name, value in row.items() if name.startswith(PREFIX) and value)
            self.rejected.append(
                RejectedRow(
                    event_id=row["event_id"],
                    table=f"{row['database']}.{row['table']}",
                    key=None if row["key"] is None else row.get(CANONICAL_KEY, row["key"]).decode(),
                    cause=f"record_too_large: {size} bytes, topic {row['topic']} takes {self.limit(row['topic'])}",
                    stage=self.sink,
                    position=f"{row['log']}:{row['place']}",
                    payload=self._shown(row["value"] or b""),
                )
            )


def too_large(rows: Sequence[RejectedRow], place: str) -> RecordRejectedError:
    """Return the error of a batch that stops for rows which are larger than their topic takes."""
    return stopped(
        rows,
        place,
        "Nothing is committed. Raise max.message.bytes of the topic, drop the large column, or set "
        'on_reject="quarantine" for the sink: the same batch then goes on, and holds such rows back.',
    )


def _many(batch: pa.RecordBatch) -> bool:
    return bool(batch.num_rows > _MANY_ROWS)
