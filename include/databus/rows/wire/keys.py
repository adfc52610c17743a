"""Keys in a binary format: the fields of the primary key's columns, in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors.source import DecodeError
from databus.rows.keys import KeyEncoder, Rows
from databus.rows.wire.columns import WireField, column_writer
from databus.rows.wire.kernels import Framing


@dataclass(frozen=True)
class WireKeyEncoder(KeyEncoder):
    """Encoder of a batch's keys; `literals` are values of the format.

    Attributes:
        head: what each key begins with.
    """

    head: bytes = b""

    def keys(self, first: Rows, other: Rows) -> pa.BinaryArray:
        """Return each change's key, from image `first`; columns that it lacks (or all, where it is -1) from `other`.

        Raises:
            DecodeError: neither image holds a key column, or it is NULL.
        """
        columns = [self._column(number, first, other) for number in range(len(self.names))]
        joined: pa.BinaryArray = pc.binary_join_element_wise(
            pa.scalar(self.head, pa.binary()), *columns, pa.scalar(b"", pa.binary())
        )
        return joined


def wire_key_encoder(
    batch: TableBatch, fields: Sequence[tuple[WireField, Framing]], head: bytes, form: str
) -> WireKeyEncoder | None:
    """Return the encoder of a batch's keys, None for a table without a primary key.

    Args:
        batch: row changes of one table.
        fields: those of the Key record, named by column as the primary key names them.
        head: what each key begins with: the wire format's first bytes.
        form: what the format is called.

    Raises:
        DecodeError: a key is no text of its column's character set: it could not be told from another key.
    """
    schema = batch.schema
    if not schema.primary_key:
        return None
    place = {column.name: number for number, column in enumerate(schema.columns)}
    chosen = [place[field.column] for field, _ in fields]
    refuse_undecodable_keys(batch, chosen, form)
    sets = np.array(batch.presence_sets, np.bool_).reshape(len(batch.presence_sets), len(schema.columns))
    return WireKeyEncoder(
        schema.full_name,
        tuple(field.column for field, _ in fields),
        tuple(
            column_writer(batch, number, field, form).written(frame)
            for number, (field, frame) in zip(chosen, fields, strict=True)
        ),
        tuple(sets[:, number][batch.presence] for number in chosen),
        head,
    )


def refuse_undecodable_keys(batch: TableBatch, columns: Sequence[int], form: str) -> None:
    """Refuse keys that are no text of their column's character set.

    Args:
        batch: row changes of one table.
        columns: numbers of the primary key's columns.
        form: what the format is called.

    Raises:
        DecodeError: there is one.
    """
    for number in columns:
        if any(isinstance(value, bytes) for value in batch.exceptions.get(number, {}).values()):
            raise DecodeError(
                f"a key of {batch.schema.full_name} is no text of the character set of column "
                f"{batch.schema.columns[number].name}, and {form} has no form for it that another key could not have",
                hint="Correct the row at the source, or give the sink format='json', whose keys have one.",
            )
