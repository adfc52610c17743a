"""Rows that topics hold: the last record of each key, as `ROWS_HELD`, of encoded rows and of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from databus.core.errors.sink import ValidationRefusedError
from databus.core.protocols.validated_sink import RowOrigin, held_schema
from databus.sinks.envelope import ROW_FIELDS
from databus.sinks.row_state import FOREIGN, canonical, parsed
from databus.sinks.written_rows import OTHER, written_rows

if TYPE_CHECKING:
    import pyarrow as pa


def state_of(value: bytes | None, envelope: str) -> bytes | None:
    """Return what a record leaves of its row: canonical bytes; None for a deleted one.

    A value that is no envelope, which somebody else wrote, is foreign.

    Args:
        value: the record's value.
        envelope: "debezium" or "row".
    """
    if value is None:
        return None
    try:
        found = parsed(value)
        if envelope == "debezium":
            after = found["after"]
            return None if after is None else canonical(after)
        deleted = found["__deleted"]
    except (ValueError, KeyError, TypeError):
        return FOREIGN + value
    return None if deleted else canonical({name: each for name, each in found.items() if name not in ROW_FIELDS})


def origin_of(value: bytes | None, envelope: str) -> RowOrigin | None:
    """Return the origin of a record's row: `source` of the Debezium envelope; None of any other value.

    Args:
        value: the record's value.
        envelope: "debezium" or "row"; plain rows do not say it.
    """
    if value is None or envelope != "debezium":
        return None
    try:
        source = parsed(value)["source"]
        told = source["name"], source["db"], source["table"]
    except (ValueError, KeyError, TypeError):
        return None
    return RowOrigin(told[0], f"{told[1]}.{told[2]}") if all(isinstance(each, str) for each in told) else None


def contents_of(values: pa.BinaryArray, envelope: str) -> pa.BinaryArray:
    """Return what records leave of their rows, as it was written where databus wrote it; null for deleted ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, states = written_rows(values, envelope)
    other = states == OTHER
    if not other.any():
        return rows
    mask = pa.array(other)
    read = [state_of(value, envelope) for value in values.filter(mask).to_pylist()]
    return pc.replace_with_mask(rows, mask, pa.array(read, pa.binary()))


def expected_of(encoded: pa.RecordBatch, envelope: str) -> pa.RecordBatch:
    """Return the state that encoded rows (`encoding.COLUMNS`) leave in their topics."""
    import pyarrow as pa

    contents = contents_of(encoded["value"].cast(pa.binary()), envelope)
    columns = [encoded["topic"], encoded["key"].cast(pa.binary()), contents, pa.nulls(encoded.num_rows, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=held_schema())


def records_of(messages: Sequence[Any], envelope: str) -> pa.RecordBatch:
    """Return the state that consumed messages leave, as `ROWS_HELD`; messages without a key are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keyed = [message for message in messages if message.key() is not None]
    places = [
        pa.array(np.array([each() for each in found], np.int64)).cast(pa.string())
        for found in ([m.partition for m in keyed], [m.offset for m in keyed])
    ]
    columns = [
        pa.array([message.topic() for message in keyed], pa.string()),
        pa.array([message.key() for message in keyed], pa.binary()),
        contents_of(pa.array([message.value() for message in keyed], pa.binary()), envelope),
        pc.binary_join_element_wise(*places, ":"),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=held_schema())


def require_state(topics: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse topics that forget rows.

    Args:
        topics: topic → setting → value.

    Raises:
        ValidationRefusedError: names the topics and their settings.
    """
    if forgetting := {name: why for name, settings in topics.items() if (why := _forgets(settings))}:
        named = "; ".join(f"{name} ({why})" for name, why in sorted(forgetting.items()))
        raise ValidationRefusedError(
            f"state cannot be told from a topic that forgets: {named}",
            hint='Compact it (topic_config={"cleanup.policy": "compact"}, or kafka-configs.sh --alter), or let it keep '
            "all records (retention.ms=-1 and retention.bytes=-1). What it has forgotten by then comes again by "
            "`databus snapshot begin`.",
        )


def _forgets(settings: Mapping[str, str]) -> str:
    """Return the settings by which a topic forgets rows; "" for one that keeps the last record of each key."""
    if "delete" not in settings.get("cleanup.policy", "delete").replace(" ", "").split(","):
        return ""
    bounds = {name: settings.get(name, "?") for name in ("retention.ms", "retention.bytes")}
    limits = [f"{name}={value}" for name, value in bounds.items() if value != "-1"]
    return f"cleanup.policy={settings.get('cleanup.policy', 'delete')}, {', '.join(limits)}" if limits else ""


def batch_of(rows: Sequence[tuple[str, bytes, bytes | None, str | None]]) -> pa.RecordBatch:
    """Return (output, key, content, version) of rows as `ROWS_HELD`."""
    import pyarrow as pa

    schema = held_schema()
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
