"""Rows of simple sources: row changes as the columns of `ROW_COLUMNS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE, TableBatch, Transactions
from databus.core.errors.config import ConfigError
from databus.core.errors.source import DecodeError
from databus.rows.emit import emit
from databus.rows.image_form import ImageForm
from databus.sources.simple import RowChange, Table

_ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "date": pa.date32(),
    "datetime(6)": pa.timestamp("us"),
}
_ORDER = ("place", "ordinal", "part")


class RowMaker:
    """Makes rows of changes.

    Args:
        tables: the source's tables, in the order of their schemas in a plan.
        log: name of the log, in each row and in its event id.
        server: name of the server, in the event id.

    Raises:
        ConfigError: a column has an unknown type.
    """

    def __init__(self, tables: Sequence[Table], log: str, server: str):
        self._log, self._server = log, server
        self._tables = {table.name: (table, table.schema(number)) for number, table in enumerate(tables)}
        self._types = {table.name: [_arrow(table, name) for name in table.columns] for table in tables}

    def rows(self, placed: Sequence[tuple[int, RowChange]], form: ImageForm) -> Iterator[pa.RecordBatch]:
        """Yield the rows of (place, change) pairs in their order.

        Raises:
            DecodeError: a table or column that the source does not name, or a value of another type.
        """
        positions = sorted({place for place, _ in placed})
        transaction = {place: number for number, place in enumerate(positions)}
        ordinals: list[int] = []
        for number, (place, _) in enumerate(placed):
            follows = bool(number) and placed[number - 1][0] == place
            ordinals.append(ordinals[-1] + 1 if follows else 0)
        ts_ms = np.zeros(len(positions), np.int64)
        for place, change in placed:
            moment = change.committed_at
            if moment.tzinfo is None:
                raise DecodeError(f"the change at {change.offset} has a commit time without a zone: {moment}")
            stamp = int(moment.astimezone(UTC).timestamp() * 1000)
            ts_ms[transaction[place]] = max(ts_ms[transaction[place]], stamp)
        ends = np.array(positions, np.int64)
        log = Transactions(
            self._log, ends - 1, ends, pa.array([""] * len(ends), pa.string()), ts_ms, np.zeros(len(ends), np.int64)
        )
        pieces: list[pa.RecordBatch] = []
        names = dict.fromkeys(change.table for _, change in placed)
        for name in names:
            mine = [number for number, (_, change) in enumerate(placed) if change.table == name]
            of = np.array([transaction[placed[number][0]] for number in mine], np.int32)
            changes = [placed[number][1] for number in mine]
            batch = self._batch(name, changes, of, np.array([ordinals[number] for number in mine], np.int64))
            pieces += emit(batch, log, self._server, form)
        if len(names) == 1 or not pieces:
            yield from pieces
            return
        merged = pa.Table.from_batches(pieces)
        order = np.lexsort([merged[column].to_numpy() for column in reversed(_ORDER)])
        yield from merged.take(pa.array(order)).combine_chunks().to_batches()

    def _batch(self, name: str, changes: Sequence[RowChange], transaction: Any, ordinal: Any) -> TableBatch:
        if name not in self._tables:
            raise DecodeError(f"a change at {changes[0].offset} is of the table {name}, which the source does not name")
        table, schema = self._tables[name]
        images: list[Mapping[str, Any]] = []
        op: list[int] = []
        before: list[int] = []
        after: list[int] = []
        for change in changes:
            if change.before is None and change.after is None:
                raise DecodeError(f"the change at {change.offset} has neither a row before nor one after")
            op.append(INSERT if change.before is None else DELETE if change.after is None else UPDATE)
            for image, rows in ((change.before, before), (change.after, after)):
                rows.append(-1 if image is None else len(images))
                if image is not None:
                    if image.keys() != table.columns.keys():
                        raise DecodeError(
                            f"the change at {change.offset} names the columns {', '.join(sorted(image))} of {name}, "
                            f"which has {', '.join(sorted(table.columns))}"
                        )
                    images.append(image)
        columns = [
            self._column(name, column, kind, images)
            for column, kind in zip(table.columns, self._types[name], strict=True)
        ]
        return TableBatch(
            schema,
            pa.RecordBatch.from_arrays(columns, list(table.columns)),
            np.array(op, np.int8),
            np.array(before, np.int32),
            np.array(after, np.int32),
            transaction,
            ordinal,
            np.zeros(len(images), np.int32),
            (np.ones(len(table.columns), np.bool_),),
        )

    @staticmethod
    def _column(table: str, column: str, kind: pa.DataType, images: Sequence[Mapping[str, Any]]) -> pa.Array:
        try:
            return pa.array([image[column] for image in images], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DecodeError(f"column {column} of {table} holds a value that is no {kind}: {error}") from error


def _arrow(table: Table, column: str) -> pa.DataType:
    kind = table.columns[column]
    if kind in _ARROW:
        return _ARROW[kind]
    name, _, digits = kind.rstrip(")").partition("(")
    parts = digits.split(",")
    if name == "decimal" and len(parts) == 2 and all(part.strip().isdigit() for part in parts):
        return pa.decimal128(int(parts[0]), int(parts[1]))
    raise ConfigError(
        f"column {column} of {table.name} has the unknown type {kind!r}",
        hint=f"Known: {', '.join(_ARROW)}, decimal(p,s).",
    )
