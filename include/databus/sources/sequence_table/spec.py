"""Source of a table with a growing number: an outbox, or the log of a trigger."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import Offset
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption
from databus.sources.simple import RowChange, SimpleSource, Table

if TYPE_CHECKING:
    from databus.core.protocols.source import Source
    from databus.sources.sequence_table.log import TableLog

_NAME = re.compile(r"^[^.]+\.[^.]+$")


class SequenceTable(SimpleSource):
    """Rows that are added to a table with a growing number: an outbox, or the log of a trigger. Each is an insert.

    A row is delivered once, however late its transaction commits. PostgreSQL: rows carry their transaction's id, and
    come in whole transactions. MySQL: rows come by number, up to the one below which no transaction is open. Other
    databases need `lag_window`.

    Attributes:
        conn_id: id of the connection, e.g. "postgres_shop"; its type is "postgres", "mysql", or the name of another
            driver of SQLAlchemy.
        table: `schema.table`, of MySQL `database.table`, e.g. "public.outbox".
        number: column with the growing number, not null and unique, e.g. "seq"; default "id".
        time: column with the time of the change, not null, in UTC where it has no zone; default "created_at".
        transaction: of PostgreSQL, column with the id of the row's transaction, default "txid":
            `txid xid8 NOT NULL DEFAULT pg_current_xact_id()`.
        columns: columns to deliver, e.g. ("id", "payload"); default all but `transaction`. With `changes_of` of that
            table's columns, those of its key among them.
        changes_of: `schema.table` whose changes the rows are, e.g. "public.orders", as triggers of `databus outbox
            install --table` write them: delivered are inserts, updates and deletes of that table, not rows of `table`;
            default "", rows of `table`.
        lag_window: longest time a transaction takes from its beginning to its commit, e.g. timedelta(minutes=1). Rows
            wait until their `time`, which the server fills in, is twice as long ago; one that takes longer may be
            missed; default None, no such time is relied on.
        clean: whether rows are deleted once they are delivered; default False. Of one flow only.
        start: where a flow without a checkpoint begins, "earliest" (default) or "latest".
        poll_interval: time between two looks at the table while a flow waits for rows; default 0.2 seconds.
    """

    kind: ClassVar[str] = "sequence_table"
    transactional: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = frozenset({"start", "poll_interval", "clean"})

    conn_id: str = Field(min_length=1)
    table: str
    number: str = Field("id", min_length=1)
    time: str = Field("created_at", min_length=1)
    transaction: str = Field("txid", min_length=1)
    columns: tuple[str, ...] = ()
    changes_of: str = ""
    lag_window: Duration | None = Field(None, gt=ZERO)
    clean: bool = False
    poll_interval: Duration = Field(timedelta(seconds=0.2), gt=ZERO)
    _log: TableLog | None = PrivateAttr(None)

    lag_window_s: ClassVar = StoredOption[float | None]("lag_window", SECOND)

    @field_validator("table", "changes_of")
    @classmethod
    def _has_a_schema(cls, table: str, info: ValidationInfo) -> str:
        if not _NAME.match(table) and (table or info.field_name == "table"):
            raise ValueError(f"{info.field_name} {table!r} is not of the form schema.table")
        return table

    @model_validator(mode="after")
    def _log_is_another_table(self) -> SequenceTable:
        if self.changes_of == self.table:
            raise ValueError(f"changes_of is the table whose triggers write to {self.table}, not that one")
        return self

    def stored(self) -> dict[str, Any]:
        """Return the options as plain JSON; without `changes_of` where it is not set, so that earlier hashes stay."""
        return {name: value for name, value in super().stored().items() if value or name != "changes_of"}

    def head(self) -> Offset:
        """Return the offset behind every row that can be read now."""
        return self.log.head()

    def read(self, start: Offset, end: Offset) -> Iterable[RowChange]:
        """Yield the rows of (start, end]."""
        return self.log.read(start, end)

    def earliest(self) -> Offset:
        """Return the offset before every row that was not cleaned."""
        return self.log.earliest()

    def place_of(self, offset: Offset) -> int:
        """Return the number of a row, or the highest one of its transaction."""
        return int(getattr(offset, "number", getattr(offset, "sequence", 0)))

    def tables_read(self) -> tuple[Table, ...]:
        """Return the table whose rows or changes are delivered, with its columns as the server has them."""
        return (self.log.table,)

    def datasets(self) -> tuple[str, ...]:
        """Return the name of the table whose rows or changes are delivered."""
        return (self.changes_of or self.table,)

    def log_name(self) -> str:
        """Return the name of its log."""
        return f"{self.kind}/{self.conn_id}/{self.table}"

    @property
    def log(self) -> TableLog:
        """The table on its server.

        Raises:
            ConfigError: the source was not opened.
        """
        if self._log is None:
            raise ConfigError(f"source {self.kind} of {self.table} was not opened", hint="Call `open` first.")
        return self._log

    def open(self, connections: ConnectionSource, context: FlowContext) -> Source:
        """Return the open source; the server is asked when it is first used."""
        from databus.sources.sequence_table.log import log_of
        from databus.sources.sequence_table.source import OpenSequenceTable

        opened = self.model_copy()
        reader = f"{context.settings.installation}/{context.flow}"
        opened._log = log_of(self, connections.get(self.conn_id), reader)  # noqa: SLF001 - a copy of its own class
        return OpenSequenceTable(opened)
