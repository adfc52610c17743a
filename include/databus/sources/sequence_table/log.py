"""Log of a sequence table: what each kind of server is asked, and which kind of server a connection leads to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.errors.source import OffsetPurgedError, SequenceTableError
from databus.core.findings import Finding
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.sources.sequence_table.captured import AFTER, BEFORE, CapturedTable, captured
from databus.sources.sequence_table.cleaning import Marks
from databus.sources.sequence_table.columns import Columns, reflected, utc
from databus.sources.sequence_table.database import SqlDatabase
from databus.sources.sequence_table.install import installer_of
from databus.sources.sequence_table.install.target import InstallTarget
from databus.sources.simple import RowChange, Table

if TYPE_CHECKING:
    from datetime import datetime

    from databus.core.connections import Connection
    from databus.sources.sequence_table.spec import SequenceTable

ROWS_AT_ONCE = 5_000


class TableLog(ABC):
    """Log of a sequence table on its server.

    Args:
        spec: the source's options.
        database: the server.
        reader: installation and flow, by which rows are cleaned.
    """

    text_type: Any = sa.Text()

    def __init__(self, spec: SequenceTable, database: SqlDatabase, reader: str):
        self.spec, self.database = spec, database
        schema, _, name = spec.table.partition(".")
        self.marks = Marks(schema, spec.table, reader)
        self.source = sa.table(name, schema=schema)
        self.number: sa.ColumnClause[Any] = sa.column(spec.number)
        self.time: sa.ColumnClause[Any] = sa.column(spec.time)
        self._columns: Columns | None = None
        self._captured: CapturedTable | None = None

    @property
    def columns(self) -> Columns:
        """The table's columns, as they were when they were first asked for.

        Raises:
            SequenceTableError: the table lacks something.
        """
        if self._columns is None:
            with self.database.session() as session:
                found, lacking = reflected(session, self._own)
                if lacking:
                    raise lacking[0]
                self._captured = captured(session, self.spec) if self.spec.changes_of else None
            self._columns = found
        return self._columns

    @property
    def table(self) -> Table:
        """The table whose rows or changes are delivered, as rows know it."""
        own = self.columns.table
        return own if self._captured is None else self._captured.table

    @abstractmethod
    def head(self) -> Offset:
        """Return the place behind all rows that can be read; may block for a while."""

    @abstractmethod
    def earliest(self) -> Offset:
        """Return the place before all rows that were not cleaned."""

    @abstractmethod
    def end_after(self, place: Offset) -> Offset | None:
        """Return how far the next range may go; None where nothing behind the place can be read yet."""

    def end_behind_window(self, place: Offset) -> Offset | None:  # noqa: ARG002 - most have no windows
        """Return how far a range may go where the window that the place lies in has no more rows; None outside one."""
        return None

    @abstractmethod
    def require_there(self, place: Offset) -> None:
        """Refuse a place that is not of this log's past.

        Raises:
            OffsetInvalidError, SourceDivergedError: it is not.
        """

    @abstractmethod
    def first_behind(self, place: Offset) -> datetime | None:
        """Return the time of the first row behind a place, whether it can be read yet or not; None without one."""

    @abstractmethod
    def clean(self, planned: OffsetRange, rows: int) -> None:
        """Delete the rows of a committed range, and write down how far; a failure deletes nothing."""

    def server_findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the server's settings and the account's rights."""
        yield from ()

    def noted(self, read: OffsetRange, rows: int) -> None:  # noqa: B027 - most need not
        """Note what was planned, to look later whether rows came into it."""

    def read(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        """Yield the rows of (start, end].

        Raises:
            OffsetPurgedError: a part of them was cleaned.
        """
        if start.compare(end) is Ordering.EQUAL:
            return
        self._require_kept(start)
        yield from self._rows(start, end)
        self._require_kept(start)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with table and server."""
        try:
            with self.database.session() as session:
                _, lacking = reflected(session, self._own)
            for error in lacking:
                yield Finding.of(self.spec.label(), error)
            if not lacking:
                if self.spec.changes_of:
                    yield from self._trigger_findings()
                if (lowest := self._one(sa.select(sa.func.min(self.number)).select_from(self.source))) is not None:
                    yield from self._positive(lowest)
                yield from self.server_findings()
            if self.spec.clean:
                with self.database.session() as session:
                    yield from self.marks.findings(session, self.spec.label())
        except DatabusError as error:
            yield Finding.of(self.spec.label(), error)

    def close(self) -> None:
        """Close what is open."""
        self.database.close()

    @abstractmethod
    def _rows(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        """Yield the rows of (start, end] that are there."""

    def _selected(self) -> list[Any]:
        """Return the columns of a row's query: number, time, and those to deliver, under names of their own."""
        columns = self.columns
        chosen = [columns.selected(name, self.text_type) for name in columns.table.columns]
        named = [column.label(f"c{place}") for place, column in enumerate(chosen)]
        time = sa.column(self.spec.time, columns.types.get(self.spec.time))
        return [self.number.label("row_number_"), time.label("row_time_"), *named]

    def _change(self, row: Any, offset: Offset) -> RowChange:
        names = self.columns.table.columns
        image = self.columns.row({name: row[f"c{place}"] for place, name in enumerate(names)})
        at = utc(row["row_time_"])
        if self._captured is None:
            return RowChange(offset, self.spec.table, at, after=image)
        before, after = (self._captured.image(image[name], row["row_number_"]) for name in (BEFORE, AFTER))
        return RowChange(offset, self.spec.changes_of, at, after=after, before=before)

    def _trigger_findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the table of `changes_of` and its triggers."""
        installer = installer_of(self.database.dialect)
        with self.database.session() as session:
            columns = captured(session, self.spec).table.columns
            if installer is not None:
                target = InstallTarget(self.spec.conn_id, self.spec.table, self.spec.changes_of)
                yield from installer.findings(session, target, columns, self.spec.label())

    @property
    def _own(self) -> SequenceTable:
        """Options by which the table itself is read: a trigger's log has two columns with images."""
        return self.spec.model_copy(update={"columns": (BEFORE, AFTER)}) if self.spec.changes_of else self.spec

    def _one(self, statement: Any) -> Any:
        with self.database.session() as session:
            return session.execute(statement).scalar()

    def _mark(self) -> Offset | None:
        with self.database.session() as session:
            return self.marks.read(session)

    def _require_kept(self, start: Offset) -> None:
        mark = self._mark()
        if mark is not None and start.compare(mark) is not Ordering.EQUAL and start.compare(mark) is not Ordering.AFTER:
            error = OffsetPurgedError(
                f"{self.spec.conn_id}: rows of {self.spec.table} behind {start} were cleaned up to {mark}",
                hint="They are gone. Decide on the gap: `databus gaps` names it.",
            )
            if start.compare(mark) is Ordering.BEFORE:
                error.missing = OffsetRange(start, mark)
            raise error

    def _positive(self, lowest: int) -> Iterator[Finding]:
        if lowest < 1:
            error = SequenceTableError(
                f"{self.spec.conn_id}: table {self.spec.table} has a row with {self.spec.number} {lowest}: numbers "
                "begin at 1",
                hint="Give it another number, or delete it.",
            )
            yield Finding.of(self.spec.label(), error)


def log_of(spec: SequenceTable, connection: Connection, reader: str) -> TableLog:
    """Return the log for the kind of server that a connection leads to; asks no server.

    Raises:
        ConfigError: for this kind of server no rule is known, and no `lag_window` was given.
    """
    from databus.sources.sequence_table.mysql_log import MysqlLog
    from databus.sources.sequence_table.numbered_log import AgedLog
    from databus.sources.sequence_table.postgres_log import PostgresLog

    database = SqlDatabase(connection, spec.table)
    if spec.lag_window_s is not None:
        return AgedLog(spec, database, reader)
    if database.dialect == "postgresql":
        return PostgresLog(spec, database, reader)
    if database.dialect == "mysql":
        return MysqlLog(spec, database, reader)
    raise ConfigError(
        f"connection {connection.conn_id} is of type {connection.conn_type!r}: how to find rows there that are "
        "committed late is not known",
        hint="Give `lag_window`, the longest time that a transaction takes, e.g. lag_window=timedelta(minutes=5); a "
        "row that takes longer may be missed. PostgreSQL and MySQL need none.",
    )
