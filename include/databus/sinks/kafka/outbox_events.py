"""Events of an outbox as messages: what Debezium's outbox event router makes of a row.

Source: Debezium 3.5 documentation, "Outbox Event Router": the value is the payload alone, the key the aggregate's id,
the event's id a header, and further columns headers by choice. The topic is that of the row's route.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.errors.sink import SinkSettingError
from databus.core.events import Op
from databus.formats.literals import loads_written, written
from databus.rows.murmur2 import key_hashes_of
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.encoding import CANONICAL_KEY
from databus.sinks.kafka.headers import PREFIX

ID, KEY, PAYLOAD = "id", "aggregateid", "payload"
"""Columns of an event, under the names that the router has by default."""

_EVENT = "event:"
"""Begins the names of columns that an event's parts are kept in until they are written."""


@dataclass(frozen=True)
class OutboxEncoder(KafkaEncoder):
    """Encodes rows of an outbox. A key's partition is that of its own bytes, as of the router behind Kafka Connect."""

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        """Return the rows of a slot as `encoding.COLUMNS`, with the headers.

        Raises:
            SinkSettingError: a row is no insert, or lacks a column of an event.
        """
        return super().encode(self._with_events(rows), slot)

    def _with_events(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = tuple(dict.fromkeys((ID, KEY, PAYLOAD, *self.spec.event_headers)))
        found: dict[str, list[str | None]] = {name: [] for name in names}
        for number, op in enumerate(rows["op"].to_pylist()):
            if op not in (Op.CREATE.value, Op.READ.value):
                raise self._unfit(
                    rows, number, f"is an operation {op!r}, and events of an outbox are inserts", _INSERTS
                )
            row = loads_written(rows["after"][number].as_py())
            for name in names:
                if name not in row:
                    raise self._unfit(rows, number, f"has no column {name}", _COLUMNS)
                found[name].append(_text(row[name]))
        if self.spec.payload == "string":
            found[PAYLOAD] = [None if text is None else json_string(text) for text in found[PAYLOAD]]
        columns = {f"{_EVENT}{name}": pa.array(texts, pa.string()) for name, texts in found.items()}
        return pa.RecordBatch.from_arrays([*rows.columns, *columns.values()], names=[*rows.schema.names, *columns])

    def _values(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        return rows[_EVENT + PAYLOAD].cast(pa.binary())

    def _keys(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        return {"key": rows[_EVENT + KEY].cast(pa.binary()), CANONICAL_KEY: rows["key"]}

    def _hashes(self, rows: pa.RecordBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32]]:
        keys = rows[_EVENT + KEY].cast(pa.binary())
        return np.asarray(pc.is_valid(keys)), np.asarray(key_hashes_of(keys.fill_null(b"")))

    def _headers(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        events = {f"{PREFIX}{name}": rows[_EVENT + name] for name in (ID, *self.spec.event_headers)}
        return super()._headers(rows) | events

    def _unfit(self, rows: pa.RecordBatch, number: int, what: str, hint: str) -> SinkSettingError:
        event_id, database, table = (rows[name][number].as_py() for name in ("event_id", "database", "table"))
        return SinkSettingError(
            f'sink {self.spec.sink_name}: row {event_id} of {database}.{table} {what}, with envelope="outbox"',
            hint=hint,
        )


_ESCAPES = {
    **{number: f"\\u{number:04X}" for number in range(32)},
    **{ord(char): f"\\{short}" for char, short in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)},
}
_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")


def json_string(text: str) -> str:
    """Return a text as a JSON string, with the escapes that Kafka Connect's JsonConverter (Jackson) writes."""

    def pair(found: re.Match[str]) -> str:
        high, low = divmod(ord(found[0]) - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"

    return f'"{_SUPPLEMENTARY.sub(pair, text.translate(_ESCAPES))}"'


_INSERTS = (
    'Read the outbox as `SequenceTable`, whose rows are inserts, or leave other operations out; `envelope="row"` takes '
    "them all."
)
_COLUMNS = (
    f"An event has the columns {ID}, {KEY} and {PAYLOAD}, and those of `event_headers`: deliver them (`columns`), or "
    "rename others to them (`Rename`)."
)


def _text(value: Any) -> str | None:
    """Return a column's value as the text it has in the database; None for NULL."""
    if value is None or isinstance(value, str):
        return value
    return written(value) if isinstance(value, (Mapping, list)) else json.dumps(value)
