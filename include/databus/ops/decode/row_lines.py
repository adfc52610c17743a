"""Rows as lines of JSON for people: the one form in which `databus peek` and `databus decode` print them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from databus.rows.former_columns import as_printed
from databus.rows.variant.values import variant_value

if TYPE_CHECKING:
    import pyarrow as pa


def plain_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch of `ROW_COLUMNS` as plain JSON values, images and keys opened, as they are printed."""
    for row in batch.to_pylist():
        for image in ("before", "after"):
            if row[image] is not None:
                row[image] = variant_value(row[image])
        row["key"] = json.loads(row["key"]) if row["key"] is not None else None
        yield as_printed(row)


def printable(row: dict[str, Any]) -> str:
    """Return a row as one line of JSON; bytes as base64."""
    return json.dumps(row, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
