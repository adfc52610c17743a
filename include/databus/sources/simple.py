"""Base of sources of other packages: `head` and `read` are written, everything else of `Source` has a default."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from pydantic import Field, PrivateAttr

from databus.core.connections import Connection, ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.errors.source import SourceSettingError
from databus.core.flow_specs import FlowContext, SourceSpec
from databus.core.positions.offsets import Offset, SequenceOffset
from databus.core.protocols.source import Source
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption
from databus.core.tables.schemas import ColumnSchema, TableSchema


@dataclass(frozen=True)
class Table:
    """A table of a simple source.

    Attributes:
        name: `database.table`.
        columns: column name → type: bigint, int, double, varchar, date, datetime(6) or decimal(p,s).
        key: names of the primary key's columns; empty for a table without one.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()

    def schema(self, schema_id: int) -> TableSchema:
        """Return the same as rows and plans know it."""
        spark = {"varchar": "string", "datetime(6)": "timestamp_ntz"}
        columns = tuple(
            ColumnSchema(name, kind, spark.get(kind, kind), nullable=name not in self.key)
            for name, kind in self.columns.items()
        )
        database, _, table = self.name.partition(".")
        return TableSchema(schema_id, database, table, columns, self.key)


@dataclass(frozen=True)
class RowChange:
    """One row change of a simple source: an insert has no `before`, a delete no `after`, an update has both.

    Attributes:
        offset: place in the log; changes of equal offset are one transaction, which no range cuts.
        table: `database.table`, one of the source's tables.
        committed_at: commit time, aware UTC; the same at every read.
        after: column → value of the new row, all columns of the table.
        before: column → value of the former row, all columns.
    """

    offset: Offset
    table: str
    committed_at: datetime
    after: Mapping[str, Any] | None = None
    before: Mapping[str, Any] | None = None

    @property
    def size(self) -> int:
        """Bytes that batches count for it: those of its values as text."""
        images = [image for image in (self.before, self.after) if image is not None]
        return sum(len(str(value)) for image in images for value in image.values())


class SimpleSource(SourceSpec):
    """Base of a source of one log, in the order of its offsets. Override `head` and `read`, and name the `tables`.

    Guarantee that `read` must give: the same changes for the same range at every call, also days later and in another
    process. `databus.testing.contract.SourceContract` tests it.

    Attributes:
        tables: the tables it reads, for a source whose options do not decide them; else override `tables_read`.
        conn_type: expected type of the connection; "" for any.
        conn_id: id of the connection, in `self.connection` once opened, e.g. "counter_default"; default "", none.
        start: where a flow without a checkpoint begins, "earliest" (default) or "latest".
        poll_interval: time between two looks at the head while a flow waits for changes, e.g. timedelta(seconds=2);
            default 0.2 seconds.
    """

    direct: ClassVar[bool] = True
    login_in_splits: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = frozenset({"poll_interval"})
    tables: ClassVar[tuple[Table, ...]] = ()
    conn_type: ClassVar[str] = ""

    conn_id: str = ""
    start: Literal["earliest", "latest"] = "earliest"
    poll_interval: Duration = Field(timedelta(seconds=0.2), gt=ZERO)
    _connection: Connection | None = PrivateAttr(None)

    poll_interval_s: ClassVar = StoredOption[float]("poll_interval", SECOND)

    @abstractmethod
    def head(self) -> Offset:
        """Return the offset of the last change that is there; it never goes back.

        Raises:
            SourceUnavailableError: no answer; the flow tries again later.
        """

    @abstractmethod
    def read(self, start: Offset, end: Offset) -> Iterable[RowChange]:
        """Yield the changes of (start, end] in the order of their offsets; the same at every call.

        Raises:
            OffsetPurgedError: the log does not hold the range any more.
            SourceUnavailableError: no answer; the flow tries again later.
        """

    def earliest(self) -> Offset:
        """Return the offset before everything that is still there; 0 by default.

        Raises:
            SourceSettingError: `head` gives another kind of offset, and the class does not say where its log begins.
        """
        if not isinstance(self.head(), SequenceOffset):
            raise self._lacking("earliest", "where its log begins")
        return SequenceOffset(0)

    def offset_at(self, when: datetime) -> Offset:  # noqa: ARG002 - for those that override it
        """Return the last offset at which every later change was committed at or after a time.

        Raises:
            SourceSettingError: the class does not say, as by default.
        """
        raise self._lacking("offset_at", "which offset a time has")

    def place_of(self, offset: Offset) -> int:
        """Return the place of an offset: a number of 63 bits that rises with the log; rows carry it as `place`.

        Raises:
            SourceSettingError: another kind of offset, and the class does not say.
        """
        if not isinstance(offset, SequenceOffset):
            raise self._lacking("place_of", f"which number an offset of kind {offset.kind} has")
        return offset.sequence

    def tables_read(self) -> tuple[Table, ...]:
        """Return the tables it reads; `tables` by default.

        Raises:
            ConfigError: the class names none.
        """
        if not self.tables:
            raise ConfigError(f"source {self.kind} names no table", hint="Set `tables`, or override `tables_read`.")
        return self.tables

    def log_name(self) -> str:
        """Return the name of its log. Rows carry it, and event ids are made of it: it may never change.

        The default is made of kind, connection and first table. Override it where these do not distinguish two logs.
        """
        return "/".join(filter(None, (self.kind, self.conn_id, self.tables_read()[0].name)))

    @property
    def connection(self) -> Connection:
        """The connection of `conn_id`.

        Raises:
            ConfigError: no connection is set, or the source was not opened.
        """
        if self._connection is None:
            raise ConfigError(f"source {self.kind} has no connection", hint="Set conn_id, and open the source.")
        return self._connection

    def open(self, connections: ConnectionSource, context: FlowContext) -> Source:  # noqa: ARG002 - the protocol's
        """Return the open source."""
        from databus.sources.simple_source import OpenSimpleSource

        opened = self.model_copy()
        if self.conn_id:
            opened._connection = connections.get(self.conn_id)  # noqa: SLF001 - a copy of its own class
        return OpenSimpleSource(opened)

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the connection's id and type."""
        return ((self.conn_id, self.conn_type),) if self.conn_id else ()

    def datasets(self) -> tuple[str, ...]:
        """Return the tables' names."""
        return tuple(table.name for table in self.tables_read())

    def label(self) -> str:
        """Return kind and tables."""
        return f"{self.kind} {', '.join(self.datasets())}"

    def _lacking(self, method: str, what: str) -> SourceSettingError:
        return SourceSettingError(
            f"source {self.kind} does not say {what}",
            hint=f"Its class {type(self).__name__} has to override `{method}`.",
        )
