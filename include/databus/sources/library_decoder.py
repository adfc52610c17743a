"""Decode a segment with python-mysql-replication: slow, on any machine, and an independent opinion on the same bytes.

The library parses TABLE_MAP and rows events of the segment itself; no server is asked. Framing, transactions and
statements come from the same walk as for the columnar decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.arrow_columns import arrow_type
from databus.binlog.capture import TableCapture
from databus.binlog.events import HEADER_BYTES, ROWS_TYPES, EventType, parse_header
from databus.binlog.kernels.walk import R_AT, R_SLOT, R_TRANSACTION
from databus.binlog.schema_ids import SchemaIds
from databus.binlog.statements import StatementKind
from databus.binlog.table_batch import DELETE, INSERT, UPDATE, TableBatch, TableEvent
from databus.binlog.tablemap import TableMap
from databus.binlog.walker import Walker, as_buffer
from databus.core.errors import DecodeError
from databus.rows.emit import emit, emit_events
from databus.sources.library_values import ABSENT, UnsupportedValueError, column_value
from databus.sources.segment_rows import in_log_order
from databus.sources.segment_split import SegmentSplit

_ROWS_AT_ONCE = 10_000


class _Server:
    """What the library asks of its connection, answered from the log itself."""

    charset = "utf8mb4"

    def __init__(self, flavor: str):
        self._flavor = flavor

    def _get_dbms(self) -> str:
        return self._flavor


class LibraryEvents:
    """The rows of one segment."""

    def __init__(
        self, data: npt.NDArray[np.uint8], file: str, start_pos: int, capture: TableCapture, schema_ids: SchemaIds
    ):
        """Walk the segment.

        Raises:
            DecodeError: an event is damaged, unknown or unsupported.
        """
        self._data = as_buffer(data)
        self._walker = Walker(file, start_pos)
        self._walk = self._walker.walk(self._data)
        self._capture, self._ids = capture, schema_ids
        if self._walk.open or self._walk.consumed_bytes != len(self._data):
            raise DecodeError(f"{file}:{self._walker.position}: the segment ends inside a transaction")

    def rows(self, split: SegmentSplit, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yield batches of `ROW_COLUMNS` in log order.

        Args:
            split: what is read: its server is part of the event ids of rows without GTID, its filters leave rows out.
            count: told the row changes of each batch.

        Raises:
            DecodeError: the library cannot read a value, or is known to read it wrongly.
        """
        pending = _Pending()
        for item in self._changes():
            pending.add(item)
            if len(pending) >= _ROWS_AT_ONCE:
                yield from self._flush(pending, split, count)
                pending = _Pending()
        yield from self._flush(pending, split, count)

    def _flush(self, pending: _Pending, split: SegmentSplit, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        log = self._walk.transactions
        batches = emit_events(pending.events, log, split.server)
        for table, changes in pending.tables.values():
            batch = _table_batch(table, changes, self._ids)
            count(len(batch))
            batches.extend(emit(split.filters.narrow(batch), log, split.server))
        yield from in_log_order(batches)

    def _changes(self) -> Iterator[TableEvent | _Change]:
        """Yield captured row changes and table events in log order, with their place in their transaction."""
        lines = {int(line[R_AT]): number for number, line in enumerate(self._walk.rows)}
        statements = {s.row_event: s for s in self._walk.statements}
        parse = self._parser()
        transaction, ordinal = -1, 0
        for at, header in self._events():
            number = lines.get(at)
            event = self._data[at : at + header.size_bytes].tobytes()
            if header.event_type == EventType.TABLE_MAP:
                parse(event, at)
            if number is None:
                continue
            line = self._walk.rows[number]
            if int(line[R_TRANSACTION]) != transaction:
                transaction, ordinal = int(line[R_TRANSACTION]), 0
            if number in statements:
                logged = statements[number]
                database, name = logged.statement.database or logged.query.database, logged.statement.table
                if not name or self._capture(database, name):
                    op = "t" if logged.statement.kind is StatementKind.TRUNCATE else "m"
                    yield TableEvent(op, database, name, logged.query.statement, transaction, ordinal)  # type: ignore[arg-type]
                ordinal += 1
                continue
            table = self._walk.slots[int(line[R_SLOT])]
            wanted = self._capture(table.database, table.table)
            for row in self._rows_of(parse, event, at):
                if wanted:
                    yield self._change(table, header.event_type, row, transaction, ordinal, at)
                ordinal += 1

    def _rows_of(self, parse: Callable[[bytes, int], Any], event: bytes, at: int) -> list[dict[str, Any]]:
        parsed = parse(event, at)
        try:
            found: list[dict[str, Any]] = parsed.rows
        except Exception as error:  # the library raises whatever its parsing runs into
            raise DecodeError(f"{self._where(at)}: python-mysql-replication cannot read the rows: {error}") from error
        return found

    def _change(
        self, table: TableMap, event_type: int, row: dict[str, Any], transaction: int, ordinal: int, at: int
    ) -> _Change:
        op = _OPS[event_type]
        before = after = None
        if op == UPDATE:
            before = self._image(table, row["before_values"], row["before_none_sources"], at)
            after = self._image(table, row["after_values"], row["after_none_sources"], at)
        elif op == INSERT:
            after = self._image(table, row["values"], row["none_sources"], at)
        else:
            before = self._image(table, row["values"], row["none_sources"], at)
        return _Change(table, op, before, after, transaction, ordinal)

    def _image(self, table: TableMap, values: dict[str, Any], sources: dict[str, str], at: int) -> list[Any]:
        image = []
        for column in table.columns:
            try:
                image.append(column_value(column, values[column.name], sources.get(column.name, "null")))
            except UnsupportedValueError as error:
                raise DecodeError(
                    f"{self._where(at)}: {table.full_name}.{column.name} ({column.source_type}): "
                    f"python-mysql-replication cannot read {error}",
                    hint='Use decoder="numba" for this table.',
                ) from None
        return image

    def _parser(self) -> Callable[[bytes, int], Any]:
        from pymysql.protocol import MysqlPacket
        from pymysqlreplication.packet import BinLogPacketWrapper

        description = self._walker.format
        assert description is not None  # noqa: S101 - the walk has read it
        server, tables = _Server(description.flavor), {}  # type: ignore[var-annotated]
        numbers = description.server_version.split("-")[0].split(".")
        version = tuple(int(n) for n in numbers[:3])
        allowed = _allowed_events()

        def parse(event: bytes, at: int) -> Any:
            try:
                wrapper = BinLogPacketWrapper(
                    MysqlPacket(b"\0" + event, "utf8"), tables, server, version, description.checksum, allowed,
                    None, None, None, None, False, False, False, True, False,
                )  # fmt: skip
                if event[4] == EventType.TABLE_MAP:
                    tables[wrapper.event.table_id] = wrapper.event.get_table()
            except Exception as error:  # the library raises whatever its parsing runs into
                raise DecodeError(
                    f"{self._where(at)}: python-mysql-replication cannot read the event: {error}"
                ) from error
            return wrapper.event

        return parse

    def _events(self) -> Iterator[tuple[int, Any]]:
        at = 0
        while at + HEADER_BYTES <= len(self._data):
            header = parse_header(self._data[at : at + HEADER_BYTES].tobytes())
            yield at, header
            at += header.size_bytes

    def _where(self, at: int) -> str:
        return f"{self._walker.file}:{at + self._walker.position - self._walk.consumed_bytes}"


class _Change:
    """One row change."""

    __slots__ = ("after", "before", "op", "ordinal", "table", "transaction")

    def __init__(
        self,
        table: TableMap,
        op: int,
        before: list[Any] | None,
        after: list[Any] | None,
        transaction: int,
        ordinal: int,
    ):
        self.table, self.op, self.before, self.after = table, op, before, after
        self.transaction, self.ordinal = transaction, ordinal


class _Pending:
    """Row changes and table events that wait to be emitted together."""

    def __init__(self) -> None:
        self.tables: dict[int, tuple[TableMap, list[_Change]]] = {}
        self.events: list[TableEvent] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, item: TableEvent | _Change) -> None:
        """Take one more."""
        self._size += 1
        if isinstance(item, TableEvent):
            self.events.append(item)
        else:
            self.tables.setdefault(id(item.table), (item.table, []))[1].append(item)


_OPS: dict[int, int] = {
    **dict.fromkeys((EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1), INSERT),
    **dict.fromkeys((EventType.UPDATE_ROWS, EventType.UPDATE_ROWS_V1), UPDATE),
    **dict.fromkeys((EventType.DELETE_ROWS, EventType.DELETE_ROWS_V1), DELETE),
}


def _allowed_events() -> frozenset[type]:
    from pymysqlreplication import row_event

    assert set(_OPS) == set(ROWS_TYPES)  # noqa: S101 - a new rows event needs a new line above
    return frozenset(
        {row_event.TableMapEvent, row_event.WriteRowsEvent, row_event.UpdateRowsEvent, row_event.DeleteRowsEvent}
    )


def _table_batch(table: TableMap, changes: list[_Change], ids: SchemaIds) -> TableBatch:
    images: list[list[Any]] = []
    before = np.full(len(changes), -1, np.int32)
    after = np.full(len(changes), -1, np.int32)
    for number, change in enumerate(changes):
        for image, place in ((change.before, before), (change.after, after)):
            if image is not None:
                place[number] = len(images)
                images.append(image)
    presence, sets = _presence(images, len(table.columns))
    arrays = [
        pa.array([None if image[c] is ABSENT else image[c] for image in images], arrow_type(column))
        for c, column in enumerate(table.columns)
    ]
    return TableBatch(
        ids.number(table.to_schema(-1)),
        pa.RecordBatch.from_arrays(arrays, [c.name for c in table.columns]),
        np.array([c.op for c in changes], np.int8),
        before,
        after,
        np.array([c.transaction for c in changes], np.int32),
        np.array([c.ordinal for c in changes], np.int64),
        presence,
        sets,
    )


def _presence(images: list[list[Any]], columns: int) -> tuple[npt.NDArray[np.int32], tuple[npt.NDArray[np.bool_], ...]]:
    known: dict[tuple[bool, ...], int] = {(True,) * columns: 0}
    numbers = [known.setdefault(tuple(value is not ABSENT for value in image), len(known)) for image in images]
    return np.array(numbers, np.int32), tuple(np.array(bits, np.bool_) for bits in known)
