"""Log of a MySQL table: a number is decided when no transaction that may hold one holds the table's metadata lock.

Source: MySQL 8.0 Reference Manual, "Metadata Locking", "The metadata_locks Table", "AUTO_INCREMENT Handling in InnoDB".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from databus.core.errors.source import OffsetInvalidError, SourceAccessError, SourceSettingError
from databus.core.findings import Finding
from databus.core.positions.offsets import Offset
from databus.sources.sequence_table.database import SqlDatabase
from databus.sources.sequence_table.decided import DecidedNumbers
from databus.sources.sequence_table.numbered_log import NumberedLog, _number

if TYPE_CHECKING:
    from databus.core.errors.root import DatabusError
    from databus.sources.sequence_table.spec import SequenceTable

_READS = ("SHARED", "SHARED_HIGH_PRIO", "SHARED_READ", "SHARED_READ_ONLY")
_WRITERS = sa.text(
    "SELECT CONCAT_WS(':', l.owner_thread_id, l.owner_event_id, l.object_instance_begin), "
    "t.thread_id IS NULL OR t.type = 'BACKGROUND' "
    "FROM performance_schema.metadata_locks l "
    "LEFT JOIN performance_schema.threads t ON t.thread_id = l.owner_thread_id "
    "WHERE l.object_type = 'TABLE' AND l.object_schema = :schema AND l.object_name = :name "
    "AND l.lock_type NOT IN :reads"
).bindparams(sa.bindparam("reads", _READS, expanding=True))
"""Holders of a lock to write, and whether each has no session any more: a prepared transaction, of any age."""

_PREPARED = sa.text(
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_xa_prepare', 'Com_xa_commit', 'Com_xa_rollback') AND Value > 0"
)
"""Rows where transactions were prepared. Such a one changes hands: its lock is copied, with a name of its own."""

_COPIED_S = 0.01
"""A lock that is copied while the locks are listed may be missed; the next list, so much later, has it."""

_LOST = sa.text(
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Performance_schema_metadata_lock_lost', "
    "'Performance_schema_thread_instances_lost') AND Value > 0"
)
_INSTRUMENT = sa.text(
    "SELECT enabled FROM performance_schema.setup_instruments WHERE name = 'wait/lock/metadata/sql/mdl'"
)
_REPLICA = sa.text("SELECT COUNT(*) FROM performance_schema.replication_connection_configuration WHERE host <> ''")
_NEXT = sa.text(
    "SELECT t.auto_increment FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, "
    "table_name) WHERE t.table_schema = :schema AND t.table_name = :name AND c.column_name = :number "
    "AND c.extra LIKE '%auto_increment%'"
)
_WAY_OUT = "Or give `lag_window`, the longest time that a transaction takes; a row that takes longer may be missed."


class MysqlLog(NumberedLog):
    """See `NumberedLog`. Nothing is locked, and nobody waits but the reader."""

    text_type: Any = sa.CHAR()

    def __init__(self, spec: SequenceTable, database: SqlDatabase, reader: str):
        super().__init__(spec, database, reader)
        schema, _, name = spec.table.partition(".")
        self._of = {"schema": schema, "name": name}
        self._decided = DecidedNumbers()

    def decided(self) -> int | None:
        """See `NumberedLog.decided`."""
        newest = self.reached()  # before the writers are listed: see `DecidedNumbers`
        with self.database.session() as session:
            writers = list(session.execute(_WRITERS, self._of).all())
            time.sleep(_COPIED_S)
            writers += session.execute(_WRITERS, self._of).all()
            prepared = bool(session.execute(_PREPARED).all())
            if lost := session.execute(_LOST).all():
                raise self._setting(
                    f"{', '.join(f'{name}={value}' for name, value in lost)}: locks are missing in "
                    "performance_schema.metadata_locks",
                    "Raise performance_schema_max_metadata_locks and performance_schema_max_thread_instances.",
                )
        names = [str(name) for name, _ in writers]
        return self._decided.look(newest, names, [str(name) for name, alone in writers if alone or prepared])

    def require_there(self, place: Offset) -> None:
        """Refuse a number that was never reached, or that is to be handed out again."""
        with self.database.session() as session:
            session.execute(sa.text("SET SESSION information_schema_stats_expiry = 0"))
            following = session.execute(_NEXT, self._of | {"number": self.spec.number}).scalar()
        if following is None:
            super().require_there(place)
        elif int(following) <= (number := _number(place)):
            raise OffsetInvalidError(
                f"{self.spec.conn_id}: {self.spec.table} gives {following} as its next {self.spec.number}, the flow "
                f"has read up to {number}",
                hint=f"Numbers begin again (TRUNCATE, a restored copy), or it is another table: ALTER TABLE "
                f"{self.spec.table} AUTO_INCREMENT = {number + 1}, or begin anew by a flow of another name.",
            )

    def server_findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the server's settings and the account's rights."""
        subject = self.spec.label()
        for error in self._problems():
            yield Finding.of(subject, error)

    def _problems(self) -> Iterator[DatabusError]:
        with self.database.session() as session:
            mariadb = bool(getattr(session.dialect, "is_mariadb", False))
            on, step, read_only = session.execute(
                sa.text("SELECT @@performance_schema, @@auto_increment_increment, @@read_only")
            ).one()
        if mariadb:
            yield self._setting("MariaDB does not say who holds a table's lock", "")
            return
        if read_only:
            yield self._setting("the server is read-only: a replica does not keep the locks of who wrote a row", "")
        if step != 1:
            yield self._setting(
                f"auto_increment_increment is {step}: servers that give numbers by turns do not give them in order",
                "Set it to 1.",
            )
        if not on:
            yield self._setting("performance_schema is off: it says who writes to the table", "Start it with ON.")
            return
        try:
            with self.database.session() as session:
                enabled = session.execute(_INSTRUMENT).scalar()
                session.execute(_WRITERS, self._of).all()
                replica = session.execute(_REPLICA).scalar()
        except SourceAccessError as error:
            yield SourceAccessError(
                error.message,
                hint="GRANT SELECT ON performance_schema.* TO the account: it says who writes to the table.",
            )
            return
        if enabled != "YES":
            yield self._setting(
                "the instrument wait/lock/metadata/sql/mdl is off",
                "UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = "
                "'wait/lock/metadata/sql/mdl'; and have sessions that write connect anew.",
            )
        if replica:
            yield self._setting("the server is a replica: it does not keep the locks of who wrote a row", "")

    def _setting(self, what: str, hint: str) -> SourceSettingError:
        return SourceSettingError(f"{self.spec.conn_id}: {what}", hint=f"{hint} {_WAY_OUT}".strip())
