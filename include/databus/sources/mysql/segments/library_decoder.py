"""Decode a segment with python-mysql-replication: slow, on any machine, and an independent opinion on the same bytes.

The library parses TABLE_MAP and rows events of the segment itself; no server is asked. Framing, transactions and
statements come from the same walk as for the columnar decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.arrow_columns import arrow_type
from databus.binlog.decoding.partial_rows import PartialRowError, plain_rows
from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE, SchemaIds, TableBatch, TableEvent
from databus.binlog.decoding.table_rows import partial_row_fault
from databus.binlog.decoding.versioned_rows import current_op
from databus.binlog.kernels.walk import R_AT, R_END, R_SLOT, R_TRANSACTION
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import HEADER_BYTES, ROWS_TYPES, EventType, parse_header
from databus.binlog.log.statements.scope import subjects_of
from databus.binlog.log.statements.statements import StatementKind
from databus.binlog.log.tablemap import Period, TableMap
from databus.binlog.log.transactions.xa import walk_prepared
from databus.binlog.log.walker import Walker
from databus.binlog.schema_history.definitions import Definitions
from databus.core.errors.source import DecodeError
from databus.sources.mysql.segments.address import SegmentAddress
from databus.sources.mysql.segments.emission import Emission, in_log_order
from databus.sources.mysql.segments.library_values import ABSENT, UnsupportedValueError, column_value

_ROWS_AT_ONCE = 10_000

_Parse = Callable[[bytes, int, int], Any]
"""Parses an event, given its offset for messages and its bytes of checksum."""


class _Server:
    """Server answers for the library's connection, from the log itself."""

    charset = "utf8mb4"

    def __init__(self, flavor: str):
        self._flavor = flavor

    def _get_dbms(self) -> str:
        return self._flavor


class LibraryEvents:
    """The rows of one segment."""

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        segment: SegmentAddress,
        capture: TableCapture,
        schema_ids: SchemaIds,
        definitions: Definitions | None = None,
    ):
        """Walk the segment.

        Raises:
            DecodeError: an event is damaged, unknown or unsupported.
        """
        file, commits = segment.file, segment.commits
        self._walker = Walker(file, segment.start_pos, prepared=commits is not None, definitions=definitions)
        self._walk = walk_prepared(self._walker, data) if commits else self._walker.walk(data)
        self._data = self._walk.expansion.buffer
        self._log = commits.transactions if commits else self._walk.transactions
        self._capture, self._ids = capture, schema_ids
        if self._walk.open or self._walk.consumed_bytes != len(data):
            raise DecodeError(f"{file}:{self._walker.position}: the segment ends inside a transaction")

    def rows(self, emission: Emission) -> Iterator[pa.RecordBatch]:
        """Yield batches of `ROW_COLUMNS` in log order.

        Raises:
            DecodeError: the library cannot read a value, or is known to read it wrongly.
        """
        pending = _Pending()
        for item in self._changes():
            pending.add(item)
            if len(pending) >= _ROWS_AT_ONCE:
                yield from self._flush(pending, emission)
                pending = _Pending()
        yield from self._flush(pending, emission)

    def _flush(self, pending: _Pending, emission: Emission) -> Iterator[pa.RecordBatch]:
        log = self._log
        batches = emission.events(pending.events, log)
        for table, changes in pending.tables.values():
            batches.extend(emission.rows(_table_batch(table, changes, self._ids), log))
        yield from in_log_order(batches)

    def _changes(self) -> Iterator[TableEvent | _RowChange]:
        """Yield captured row changes and table events in log order, with their place in their transaction."""
        lines = {int(line[R_AT]): number for number, line in enumerate(self._walk.rows)}
        statements = {s.row_event: s for s in self._walk.statements}
        parse = self._parser()
        transaction, ordinal = -1, 0
        for at, header in self._events():
            number = lines.get(at)
            event = self._data[at : at + header.size_bytes].tobytes()
            if header.event_type == EventType.TABLE_MAP:
                parse(event, at, self._checksum_bytes(at))
            if number is None:
                continue
            line = self._walk.rows[number]
            if int(line[R_TRANSACTION]) != transaction:
                transaction, ordinal = int(line[R_TRANSACTION]), 0
            if number in statements:
                logged = statements[number]
                op: Literal["t", "m"] = "t" if logged.statement.kind is StatementKind.TRUNCATE else "m"
                for part, (database, name) in enumerate(subjects_of(self._capture, logged)):
                    yield TableEvent(op, database, name, logged.query.statement, transaction, ordinal, part)
                ordinal += 1
                continue
            table = self._walk.slots[int(line[R_SLOT])]
            wanted = self._capture(table.database, table.table)
            plain = [(header.event_type, event, self._checksum_bytes(at))]
            if header.event_type == EventType.PARTIAL_UPDATE_ROWS:
                plain = [(EventType.UPDATE_ROWS, update, 0) for update in self._plain_updates(line, table)]
            for kind, whole, checksum in plain:
                for row in self._rows_of(parse, whole, at, checksum):
                    change = self._change(table, kind, row, transaction, ordinal, at) if wanted else None
                    if change is not None and table.period is not None and not change.keep_current(table.period):
                        continue
                    if change is not None:
                        yield change
                    ordinal += 1

    def _checksum_bytes(self, at: int) -> int:
        """Return the bytes of checksum of the event at an offset; one that was compressed has none."""
        description = self._walker.format
        return description.checksum_bytes if description and not self._walk.expansion.expanded(at) else 0

    def _plain_updates(self, line: npt.NDArray[np.int64], table: TableMap) -> Iterator[bytes]:
        """Yield the events without differences that stand for one with them."""
        at = int(line[R_AT])
        try:
            plain = plain_rows(self._data, line[np.newaxis], np.array([-1], np.int64), table)
        except PartialRowError as fault:
            raise partial_row_fault(fault, self._where(at), table) from fault
        for columns in plain.partial.values():
            raise DecodeError(
                f"{self._where(at)}: {table.full_name}.{table.columns[columns[0]].name}: the log holds only the "
                "differences of the document",
                hint='Use decoder="numba" for this table, or SET GLOBAL binlog_row_image=FULL.',
            )
        for event in plain.events:
            yield plain.buffer[event[R_AT] : event[R_END]].tobytes()

    def _rows_of(self, parse: _Parse, event: bytes, at: int, checksum_bytes: int) -> list[dict[str, Any]]:
        parsed = parse(event, at, checksum_bytes)
        try:
            found: list[dict[str, Any]] = parsed.rows
        except Exception as error:  # the library raises whatever its parsing runs into
            raise DecodeError(f"{self._where(at)}: python-mysql-replication cannot read the rows: {error}") from error
        return found

    def _change(
        self, table: TableMap, event_type: int, row: dict[str, Any], transaction: int, ordinal: int, at: int
    ) -> _RowChange:
        op = _OPS[event_type]
        before = after = None
        if op == UPDATE:
            before = self._image(table, row["before_values"], row["before_none_sources"], at)
            after = self._image(table, row["after_values"], row["after_none_sources"], at)
        elif op == INSERT:
            after = self._image(table, row["values"], row["none_sources"], at)
        else:
            before = self._image(table, row["values"], row["none_sources"], at)
        return _RowChange(table, op, before, after, transaction, ordinal)

    def _image(self, table: TableMap, values: dict[str, Any], sources: dict[str, str], at: int) -> list[Any]:
        image = []
        for column in table.columns:
            if column.name not in values:
                raise DecodeError(
                    f"{self._where(at)}: {table.full_name} is logged without column names, which "
                    "python-mysql-replication needs",
                    hint='Use decoder="numba", or SET GLOBAL binlog_row_metadata=FULL and start after it.',
                )
            try:
                image.append(column_value(column, values[column.name], sources.get(column.name, "null")))
            except UnsupportedValueError as error:
                raise DecodeError(
                    f"{self._where(at)}: {table.full_name}.{column.name} ({column.source_type}): "
                    f"python-mysql-replication cannot read {error}",
                    hint='Use decoder="numba" for this table.',
                ) from None
        return image

    def _parser(self) -> _Parse:
        from pymysql.protocol import MysqlPacket
        from pymysqlreplication.packet import BinLogPacketWrapper

        description = self._walker.format
        assert description is not None  # noqa: S101 - the walk has read it
        server, tables = _Server(description.flavor), {}  # type: ignore[var-annotated]
        numbers = description.server_version.split("-")[0].split(".")
        version = tuple(int(n) for n in numbers[:3])
        allowed = _allowed_events()

        def parse(event: bytes, at: int, checksum_bytes: int) -> Any:
            try:
                wrapper = BinLogPacketWrapper(
                    MysqlPacket(b"\0" + event, "utf8"), tables, server, version, checksum_bytes > 0, allowed,
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
        raw = self._walk.expansion.raw_offset(at)
        return f"{self._walker.file}:{raw + self._walker.position - self._walk.consumed_bytes}"


class _RowChange:
    """Row change of the library."""

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

    def keep_current(self, period: Period) -> bool:
        """Turn a change of a versioned row into what SELECT shows of it; False for history rows."""
        ends = [None if image is None else image[period.end] for image in (self.before, self.after)]
        op = current_op(self.op, *(None if end is ABSENT else end for end in ends))
        if op is None:
            return False
        if op == DELETE:
            self.after = None
        self.op = op
        return True


class _Pending:
    """Row changes and table events that wait to be emitted together."""

    def __init__(self) -> None:
        self.tables: dict[int, tuple[TableMap, list[_RowChange]]] = {}
        self.events: list[TableEvent] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, item: TableEvent | _RowChange) -> None:
        """Take one more."""
        self._size += 1
        if isinstance(item, TableEvent):
            self.events.append(item)
        else:
            self.tables.setdefault(id(item.table), (item.table, []))[1].append(item)


_OPS: dict[int, int] = {
    **dict.fromkeys((EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1), INSERT),
    **dict.fromkeys((EventType.UPDATE_ROWS, EventType.UPDATE_ROWS_V1, EventType.PARTIAL_UPDATE_ROWS), UPDATE),
    **dict.fromkeys((EventType.DELETE_ROWS, EventType.DELETE_ROWS_V1), DELETE),
}


def _allowed_events() -> frozenset[type]:
    from pymysqlreplication import row_event

    assert set(_OPS) == set(ROWS_TYPES)  # noqa: S101 - a new rows event needs a new line above
    return frozenset(
        {row_event.TableMapEvent, row_event.WriteRowsEvent, row_event.UpdateRowsEvent, row_event.DeleteRowsEvent}
    )


def _table_batch(table: TableMap, changes: list[_RowChange], ids: SchemaIds) -> TableBatch:
    images: list[list[Any]] = []
    before = np.full(len(changes), -1, np.int32)
    after = np.full(len(changes), -1, np.int32)
    for number, change in enumerate(changes):
        for image, place in ((change.before, before), (change.after, after)):
            if image is not None:
                place[number] = len(images)
                images.append(image)
    presence, sets = _presence(images, len(table.columns))
    sets = tuple(np.delete(bits, table.hidden) for bits in sets)
    shown = [(c, column) for c, column in enumerate(table.columns) if c not in table.hidden]
    arrays = [
        pa.array([None if image[c] is ABSENT else image[c] for image in images], arrow_type(column))
        for c, column in shown
    ]
    return TableBatch(
        ids.number(table.to_schema(-1)),
        pa.RecordBatch.from_arrays(arrays, [column.name for _, column in shown]),
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
