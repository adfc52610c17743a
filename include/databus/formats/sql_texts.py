"""Texts of values as SQL shows them: "2026-05-03 10:20:30" where ISO has a "T" and a "Z"."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from databus.rows.temporal import is_temporal


def spaced(literals: pa.StringArray, kind: pa.DataType) -> pa.StringArray:
    """Return ISO literals of a temporal column with a blank for "T" and without "Z"; others as they are.

    Args:
        literals: quoted or bare, null for NULL.
        kind: Arrow type of the column.
    """
    if not is_temporal(kind) or not pa.types.is_timestamp(kind):
        return literals
    return pc.replace_substring(pc.replace_substring(literals, "T", " "), "Z", "")
