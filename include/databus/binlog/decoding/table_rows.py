"""Decode the rows events of one table, a bounded batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.arena import MAX_TEXT_BYTES, Arena, allocate, kernel_columns
from databus.binlog.decoding.arrow_columns import arrow_type, column_array
from databus.binlog.decoding.partial_rows import PartialRowError, plain_rows
from databus.binlog.decoding.table_batch import MAX_IMAGES, LargeValue, SchemaIds, TableBatch
from databus.binlog.kernels import images as im
from databus.binlog.kernels import kinds as k
from databus.binlog.kernels import values as v
from databus.binlog.kernels import walk as w
from databus.binlog.kernels.rows import FULL, decode_rows
from databus.binlog.log.events import EventType, type_name
from databus.binlog.log.expansion import Expansion
from databus.binlog.log.mapped import release
from databus.binlog.log.tablemap import TableMap
from databus.binlog.values.value_texts import exception_text
from databus.core.errors.source import DecodeError

Ints = npt.NDArray[np.int64]
Exceptions = dict[int, dict[int, str | bytes | LargeValue]]

_TEXT_BYTES = 8 << 20
"""Room for one column's values in a batch, unless a single row needs more."""
_PRESENCE_SETS = 256
_LOG_BYTES = 32 << 20
"""A batch ends behind so many bytes of log, however many columns its values lie in."""


@dataclass(frozen=True)
class LogPlace:
    """Log position of a buffer.

    Attributes:
        file: log file.
        shift: file position minus raw offset.
        expansion: the buffer's place among the raw bytes.
    """

    file: str
    shift: int
    expansion: Expansion

    def where(self, offset: int) -> str:
        """Return "file:position" of a buffer offset."""
        return f"{self.file}:{self.expansion.raw_offset(offset) + self.shift}"


def row_fault(fault: int, where: str, event_type: int, table: TableMap, column: int) -> DecodeError:
    """Return the error for rows that do not fit their table."""
    what = {
        im.BAD_COLUMN_COUNT: f"does not have the {len(table.columns)} columns of its TABLE_MAP",
        im.CUT_SHORT: "ends inside a row",
        im.BAD_VALUE: "holds a value that its type does not allow",
        im.BAD_ENUM: "holds a member that the column's list does not have",
        im.NO_IMAGE: "holds rows without any column, whose number cannot be determined",
    }[fault]
    name = f".{table.columns[column].name}" if column >= 0 else ""
    hint = (
        "SET GLOBAL binlog_row_image=FULL on the server and start after this event." if fault == im.NO_IMAGE else None
    )
    return DecodeError(f"{where}: event {type_name(event_type)} for {table.full_name}{name} {what}", hint=hint)


def partial_row_fault(fault: PartialRowError, where: str, table: TableMap) -> DecodeError:
    """Return the error for an update whose differences cannot be applied."""
    kind = int(EventType.PARTIAL_UPDATE_ROWS)
    if fault.fault:
        return row_fault(fault.fault, where, kind, table, fault.column)
    name = f".{table.columns[fault.column].name}" if fault.column >= 0 else ""
    return DecodeError(
        f"{where}: event {type_name(kind)} for {table.full_name}{name} {fault.problem}",
        hint="The log is damaged: compare with mysqlbinlog at this position.",
    )


class TableRows:
    """The rows events of one table within one buffer.

    Args:
        buffer: raw events.
        table: the table.
        events: R_… lines of its rows events.
        bases: ordinal of each event's first change, −1 to count on.
        schema_ids: numbers for schemas.
        place: where the buffer lies, for messages.
        most_bytes: a larger value is not read, but comes out as a `LargeValue`; None to read all.

    Raises:
        DecodeError: the table cannot be decoded (see `TableMap.refusal`).
    """

    def __init__(  # noqa: PLR0913 - what a stretch of rows does not say of itself
        self,
        buffer: npt.NDArray[np.uint8],
        table: TableMap,
        events: Ints,
        bases: Ints,
        schema_ids: SchemaIds,
        place: LogPlace,
        *,
        most_bytes: int | None = None,
    ) -> None:
        self._table, self._place = table, place
        refusal = table.refusal()
        if refusal is not None:
            raise DecodeError(f"{place.where(int(events[0, w.R_AT]))}: {refusal[0]}", hint=refusal[1])
        try:
            self._rows = plain_rows(buffer, events, bases, table)
        except PartialRowError as fault:
            raise partial_row_fault(fault, place.where(fault.at), table) from fault
        self._buffer, self._bases = self._rows.buffer, self._rows.bases
        self._events = np.ascontiguousarray(self._rows.events)
        self._changes_done = 0
        self._schema = schema_ids.number(table.to_schema(-1))
        self._arrow_schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in table.columns])
        self._matrix = kernel_columns(table.columns, most_bytes)

    def _where(self, offset: int) -> str:
        return self._place.where(self._rows.origin(offset))

    def batches(self) -> Iterator[TableBatch]:
        """Decode batch after batch.

        Raises:
            DecodeError: rows are damaged.
        """
        cursor = np.zeros(v.K_WIDTH, dtype=np.int64)
        cursor[v.K_LAST_TRANSACTION] = -1
        sizes = self._events[:, w.R_END] - self._events[:, w.R_AT]
        least = 0
        while cursor[v.K_EVENT] < len(self._events):
            left = int(sizes[cursor[v.K_EVENT] :].sum())
            text = np.full(len(self._matrix), max(min(left, _TEXT_BYTES), least), dtype=np.int64)
            # Values that are padded or spelled out take more room than in the log.
            text += 256
            begin = int(cursor[v.K_AT]) or int(self._events[cursor[v.K_EVENT], w.R_AT])
            cursor[v.K_STOP] = begin + _LOG_BYTES
            images = max(2, min(MAX_IMAGES, left))
            batch = self._fill(cursor, allocate(self._matrix, images, text))
            if batch is None:
                # Not one row fits: make more room for texts.
                least = max(2 * least, 4 * _TEXT_BYTES)
                if least > MAX_TEXT_BYTES:
                    least = MAX_TEXT_BYTES if text.max() < MAX_TEXT_BYTES - 256 else self._too_large(cursor)
                continue
            least = 0
            if len(batch):
                yield batch
            if sizes.max() > w.LARGE_BYTES:
                release(self._buffer[begin : int(cursor[v.K_AT]) or len(self._buffer)])

    def _too_large(self, cursor: Ints) -> int:
        raise DecodeError(
            f"{self._where(int(cursor[v.K_AT]))}: a value of {self._table.full_name} is larger than 2 GiB"
        )

    def _fill(self, cursor: Ints, arena: Arena) -> TableBatch | None:
        """Decode into one arena; None when not even one row fitted."""
        count = len(self._table.columns)
        changes = np.empty((arena.max_images, v.H_WIDTH), dtype=np.int32)
        ordinals = np.empty(arena.max_images, dtype=np.int64)
        presence = np.empty(arena.max_images, dtype=np.int32)
        sets = np.zeros((_PRESENCE_SETS, (count + 7) // 8), dtype=np.uint8)
        sets[0] = 0xFF
        exceptions = np.empty((max(4 * count, MAX_IMAGES), v.X_WIDTH), dtype=np.int64)
        cursor[[v.K_IMAGES, v.K_CHANGES, v.K_EXCEPTIONS]] = 0
        cursor[v.K_SETS] = 1
        status = decode_rows(
            self._buffer,
            self._events,
            self._bases,
            arena.columns,
            cursor,
            arena.max_images,
            arena.memory,
            changes,
            ordinals,
            presence,
            sets,
            exceptions,
        )
        if status < 0:
            self._raise(int(status), cursor)
        images, number = int(cursor[v.K_IMAGES]), int(cursor[v.K_CHANGES])
        if status == FULL and images == 0:
            return None
        changes = changes[:number]
        found = self._exceptions(exceptions[: cursor[v.K_EXCEPTIONS]])
        return TableBatch(
            schema=self._schema,
            images=self._record_batch(arena, images, found),
            op=changes[:, v.H_OP].astype(np.int8),
            before_row=changes[:, v.H_BEFORE].copy(),
            after_row=changes[:, v.H_AFTER].copy(),
            transaction=changes[:, v.H_TRANSACTION].copy(),
            ordinal=ordinals[:number].copy(),
            presence=presence[:images].copy(),
            presence_sets=self._presence_sets(sets, int(cursor[v.K_SETS]), count),
            exceptions=found,
            partial=self._partial(changes[:, v.H_AFTER]),
        )

    def _partial(self, after: npt.NDArray[np.int32]) -> dict[int, frozenset[int]]:
        """Return the columns left unknown by the changes whose after-images these are, with the images' rows."""
        first = self._changes_done
        self._changes_done += len(after)
        found: dict[int, set[int]] = {}
        for change, columns in self._rows.partial.items():
            if first <= change < self._changes_done:
                for column in columns:
                    found.setdefault(column, set()).add(int(after[change - first]))
        return {column: frozenset(rows) for column, rows in found.items()}

    def _raise(self, fault: int, cursor: Ints) -> None:
        event = self._events[cursor[v.K_EVENT]]
        raise row_fault(
            fault, self._where(int(event[w.R_AT])), int(event[w.R_TYPE]), self._table, int(cursor[v.K_COLUMN])
        )

    def _record_batch(self, arena: Arena, images: int, exceptions: Exceptions) -> pa.RecordBatch:
        """Return the images; what is no text goes to the exceptions."""
        arrays = []
        for number, column in enumerate(self._table.columns):
            try:
                array, undecodable = column_array(column, number, arena, images)
            except (ValueError, pa.ArrowInvalid) as error:
                first = self._where(int(self._events[0, w.R_AT]))
                name = f"{self._table.full_name}.{column.name} ({column.source_type})"
                form = column.charset.name if column.charset else column.type.name
                raise DecodeError(
                    f"{first} and after: column {name} holds a value that cannot be read as {form}: {error}"
                ) from error
            arrays.append(array)
            if undecodable:
                exceptions.setdefault(number, {}).update(undecodable)
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    @staticmethod
    def _presence_sets(sets: npt.NDArray[np.uint8], used: int, count: int) -> tuple[npt.NDArray[np.bool_], ...]:
        bits = np.unpackbits(sets[:used], axis=1, count=count, bitorder="little").astype(np.bool_)
        return tuple(bits)

    def _exceptions(self, lines: Ints) -> Exceptions:
        found: Exceptions = {}
        for column, row, value, us in lines.tolist():
            described = self._table.columns[column]
            kept: str | LargeValue
            if described.kind in (k.STRING, k.PADDED):
                at = value - self._buffer.__array_interface__["data"][0]
                kept = LargeValue(self._buffer[at : at + us], described.charset.name if described.text else None)
            else:
                kept = exception_text(described, value, us)
            found.setdefault(column, {})[row] = kept
        return found
