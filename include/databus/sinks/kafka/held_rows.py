"""Rows that topics hold: the last record of each key, as `ROWS_HELD`, of encoded rows and of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from databus.core.errors.sink import ValidationRefusedError
from databus.core.protocols.validated_sink import held_schema
from databus.sinks.envelope import ROW_FIELDS
from databus.sinks.row_state import canonical, parsed, parsed_at

if TYPE_CHECKING:
    import pyarrow as pa

_INSERTED = b'{"before":null,"after":'
"""Beginning of an envelope without an image from before."""


def state_of(value: bytes | None, envelope: str) -> bytes | None:
    """Return what a record leaves of its row: canonical bytes; None for a deleted one.

    A value that is no envelope, which somebody else wrote, is its own content.

    Args:
        value: the record's value.
        envelope: "debezium" or "row".
    """
    if value is None:
        return None
    try:
        if envelope == "debezium":
            new = value.startswith(_INSERTED)  # only its row is parsed
            after = parsed_at(value.decode(), len(_INSERTED)) if new else parsed(value)["after"]
            return None if after is None else canonical(after)
        found = parsed(value)
        deleted = found["__deleted"]
    except (ValueError, KeyError, TypeError):
        return value
    return None if deleted else canonical({name: each for name, each in found.items() if name not in ROW_FIELDS})


def expected_of(encoded: pa.RecordBatch, envelope: str) -> pa.RecordBatch:
    """Return the state that encoded rows (`encoding.COLUMNS`) leave in their topics."""
    import pyarrow as pa

    contents = pa.array([state_of(value, envelope) for value in encoded["value"].to_pylist()], pa.binary())
    columns = [encoded["topic"], encoded["key"].cast(pa.binary()), contents, pa.nulls(encoded.num_rows, pa.string())]
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
