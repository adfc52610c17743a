"""Keys of row changes: canonical JSON of the primary key, e.g. {"id":1} or {"a":1,"b":"x"}, as UTF-8 bytes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import LargeValue, TableBatch
from databus.core.errors.source import DecodeError
from databus.rows.json_text import json_literals

Rows = npt.NDArray[np.int32]

_ESCAPE = re.compile(rb"\\(?:u00[0-9A-F]{2}|.)")
"""An escape of JSON: of two backslashes the second begins none."""


@dataclass(frozen=True)
class KeyEncoder:
    """Makes the keys of one batch; the literals of each key column are made once for all images.

    Attributes:
        table: `database.table`, for errors.
        names: key columns in key order.
        literals: per key column its JSON literals, one per image.
        carried: per key column bool[images], whether the image holds the column.
    """

    table: str
    names: tuple[str, ...]
    literals: tuple[pa.StringArray, ...]
    carried: tuple[npt.NDArray[np.bool_], ...]

    def keys(self, first: Rows, other: Rows) -> pa.BinaryArray:
        """Return each change's key, from image `first`; columns that it lacks (or all, where it is -1) from `other`.

        Raises:
            DecodeError: neither image holds a key column, or it is NULL.
        """
        parts: list[pa.Array | pa.Scalar] = []
        for c, name in enumerate(self.names):
            label = json.dumps(name, ensure_ascii=False)
            parts.append(pa.scalar(("{" if c == 0 else ",") + label + ":"))
            parts.append(self._column(c, first, other))
        parts.append(pa.scalar("}"))
        joined: pa.StringArray = pc.binary_join_element_wise(*parts, "")
        return joined.cast(pa.binary())

    def differ(self, first: Rows, other: Rows) -> npt.NDArray[np.bool_]:
        """Return which changes have another key in image `first` than in `other`; what one lacks is the other's.

        Raises:
            DecodeError: as `keys`.
        """
        found = np.zeros(len(first), np.bool_)
        for column in range(len(self.names)):
            unlike = pc.not_equal(self._column(column, first, other), self._column(column, other, first))
            found |= unlike.to_numpy(zero_copy_only=False)
        return found

    def _column(self, column: int, first: Rows, other: Rows) -> pa.StringArray:
        carried = self.carried[column]
        rows = np.where((first >= 0) & carried[first], first, other)
        missing = (rows < 0) | ~carried[rows]
        taken = self.literals[column].take(pa.array(rows.clip(0)))
        if missing.any() or taken.null_count:
            raise DecodeError(
                f"a row change of {self.table} does not carry its key column {self.names[column]}",
                hint="binlog_row_image FULL and PRIMARY KEY columns that are NOT NULL make every change name its row.",
            )
        return taken


def key_encoder(
    batch: TableBatch, write: Callable[[TableBatch, int], pa.StringArray] | None = None
) -> KeyEncoder | None:
    """Return the encoder of a batch's keys, None for a table without a primary key.

    Args:
        batch: the decoded changes.
        write: gives the literals of a column in another form; None for the canonical one.
    """
    schema = batch.schema
    if not schema.primary_key:
        return None
    place = {column.name: c for c, column in enumerate(schema.columns)}
    chosen = [place[name] for name in schema.primary_key]
    literals = [(write or key_literals)(batch, c) for c in chosen]
    sets = np.array(batch.presence_sets, np.bool_).reshape(len(batch.presence_sets), len(schema.columns))
    return KeyEncoder(
        schema.full_name, schema.primary_key, tuple(literals), tuple(sets[:, c][batch.presence] for c in chosen)
    )


def canonical_escapes(keys: pa.BinaryArray) -> pa.BinaryArray:
    r"""Return JSON texts with escapes as this module writes them: of control characters in lower case; null stays null.

    Args:
        keys: JSON as Spark writes it, whose `\u001F` is in upper case.
    """
    odd = pc.fill_null(pc.match_substring(keys, b"\\u00"), False)
    if not odd.true_count:
        return keys
    texts = [_ESCAPE.sub(lambda found: found[0].lower(), each) for each in keys.filter(odd).to_pylist()]
    return pc.replace_with_mask(keys, odd, pa.array(texts, keys.type))


def key_literals(batch: TableBatch, column: int) -> pa.StringArray:
    """Return a key column's values as canonical JSON literals, one for each image."""
    literals = json_literals(batch.images.column(column), batch.schema.columns[column])
    return with_exceptions(literals, batch.exceptions.get(column, {}))


def with_exceptions(literals: pa.StringArray, exceptions: Mapping[int, str | bytes | LargeValue]) -> pa.StringArray:
    """Return the literals with the texts of values that Arrow cannot hold (row → text) in their places."""
    if not exceptions:
        return literals
    rows = sorted(exceptions)
    mask = np.zeros(len(literals), np.bool_)
    mask[rows] = True
    texts = pa.array([_exception(exceptions[row]) for row in rows], pa.string())
    return pc.replace_with_mask(literals, pa.array(mask), texts)


def _exception(value: str | bytes | LargeValue) -> str:
    """Return the literal of a value that has no literal of its type.

    Bytes that are no text become an object, which no text can equal: two rows must not share a key.
    """
    if isinstance(value, LargeValue):
        raise TypeError("a value that was left in the log has to be moved out before its row is written")
    if isinstance(value, bytes):
        return f'{{"base64":"{base64.b64encode(value).decode("ascii")}"}}'
    return json.dumps(value, ensure_ascii=False)
