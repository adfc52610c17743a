"""Flags of a row: which of its values are not what their column's type says, and why.

A flag is "IMAGE.COLUMN:REASON", the image `before` or `after`, the column as the source names it. Reasons:
`undecodable`, the value stands as bytes (base64 in JSON) because they are no text of the column's character set;
`unframed`, the same because they are not in the wire format of a schema registry;
`schema_unknown`, the same because they name a schema that the registry does not have, or not of the format;
`invalid_date`, it stands as the text of a date that no calendar has;
`claimed`, it stands as the text of a JSON object that says where in the segment store it is
(`databus.binlog.segments.large_values`);
`partial`, it is absent although it changed: the log holds only the differences of the document;
`unjudged`, a row filter goes by it, and the change does not carry it;
`wrapped`, it is unsigned and above 2^63 - 1, and stands as the negative number of the same 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import LargeValue, TableBatch
from databus.binlog.segments.large_values import LargeValueReference

UNDECODABLE = "undecodable"
INVALID_DATE = "invalid_date"
PARTIAL = "partial"
CLAIMED = "claimed"
UNJUDGED = "unjudged"
WRAPPED = "wrapped"


class RefusedBytes(bytes):
    """Bytes that are not of their column's format, for a reason of their own."""

    reason: str

    def __new__(cls, value: bytes, reason: str) -> RefusedBytes:
        """Wrap the bytes."""
        made = super().__new__(cls, value)
        made.reason = reason
        return made


_TYPE = pa.list_(pa.string())


def no_flags(rows: int) -> pa.ListArray:
    """Return the flags of rows that have none."""
    return pa.nulls(rows, _TYPE)


def row_flags(
    batch: TableBatch,
    before: npt.NDArray[np.int32],
    after: npt.NDArray[np.int32],
    more: Mapping[str, Mapping[int, str]] | None = None,
) -> pa.ListArray:
    """Return the flags of each row, null without any.

    Args:
        batch: the decoded changes.
        before: per row its before-image in `batch.images`, -1 without.
        after: the same of its after-image.
        more: column's name → image row → reason that only the form in which values are written has.
    """
    of_image = _image_flags(batch)
    for column, rows in (more or {}).items():
        for row, reason in rows.items():
            of_image.setdefault(row, []).append(f"{column}:{reason}")
    if not of_image:
        return no_flags(len(before))
    flagged = np.fromiter(of_image, np.int32)
    flags: list[list[str] | None] = [None] * len(before)
    for image, numbers in (("before", before), ("after", after)):
        for row in np.flatnonzero(np.isin(numbers, flagged)).tolist():
            flags[row] = (flags[row] or []) + [f"{image}.{flag}" for flag in of_image[int(numbers[row])]]
    return pa.array(flags, _TYPE)


def flag_reason(value: str | bytes | LargeValue) -> str:
    """Return why a value is no value of its column's type."""
    if isinstance(value, LargeValueReference):
        return CLAIMED
    if isinstance(value, RefusedBytes):
        return value.reason
    return UNDECODABLE if isinstance(value, bytes) else INVALID_DATE


def _image_flags(batch: TableBatch) -> dict[int, list[str]]:
    """Return the image rows that have exceptions, partial documents or columns to be judged by, in column order."""
    found: dict[int, list[str]] = {}
    for column in sorted({*batch.exceptions, *batch.partial, *batch.unjudged}):
        name = batch.schema.columns[column].name
        for row, value in batch.exceptions.get(column, {}).items():
            found.setdefault(row, []).append(f"{name}:{flag_reason(value)}")
        for row in batch.partial.get(column, ()):
            found.setdefault(row, []).append(f"{name}:{PARTIAL}")
        for row in batch.unjudged.get(column, ()):
            found.setdefault(row, []).append(f"{name}:{UNJUDGED}")
    return found
