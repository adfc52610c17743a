"""Columns that carry a Kafka record as it is, beside those of every row: from a raw source to a mirror's sink."""

from __future__ import annotations

import pyarrow as pa

HEADERS = pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())]))
"""Headers in order; names may repeat, values may be null."""

RAW_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("record_partition", pa.int32()),
    ("record_key", pa.binary()),
    ("record_value", pa.binary()),
    ("record_headers", HEADERS),  # null without any
    ("record_ms", pa.int64()),  # the record's timestamp, ms since the epoch; -1 without
)
"""Name and Arrow type, in order."""

ORIGIN = "databus.origin"
"""Header that names the sites a mirrored record came through, oldest first, one header each."""
