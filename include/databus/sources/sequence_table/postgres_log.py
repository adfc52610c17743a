"""Log of a PostgreSQL table whose rows carry the id of their transaction: windows between two snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.core.errors.source import SourceDivergedError, SourceSettingError
from databus.core.findings import Finding, Level
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.positions.pg_snapshot import NOTHING, PgSnapshot, PgSnapshotOffset
from databus.sources.sequence_table.columns import utc
from databus.sources.sequence_table.log import ROWS_AT_ONCE, TableLog
from databus.sources.sequence_table.windows import LAST, SnapshotWindow, snapshot_offset, windows
from databus.sources.simple import RowChange

OLDEST = 13
"""First version with `xid8` and `pg_current_snapshot()`."""

_SNAPSHOT = sa.text("SELECT CAST(pg_current_snapshot() AS text), pg_is_in_recovery()")
_SERVER = sa.text(
    "SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(), "
    "current_setting('synchronous_commit')"
)
_CACHED = sa.text(
    "SELECT seqcache FROM pg_sequence WHERE seqrelid = CAST(pg_get_serial_sequence(:table, :number) AS regclass)"
)


class PostgresLog(TableLog):
    """See `TableLog`. Its offsets are snapshots: nothing waits for a transaction that is open."""

    def head(self) -> PgSnapshotOffset:
        """Return the snapshot of now.

        Raises:
            SourceSettingError: the server is a standby, also one that it became since.
        """
        with self.database.session() as session:
            snapshot, standby = session.execute(_SNAPSHOT).one()
        if standby:
            raise self._standby()
        return PgSnapshotOffset(snapshot)

    def earliest(self) -> Offset:
        """Return the place before all rows that were not cleaned."""
        return self._mark() or PgSnapshotOffset(str(NOTHING))

    def end_after(self, place: Offset) -> Offset | None:
        """Return the end of the window that the place lies in, else the head."""
        standing = snapshot_offset(place)
        if standing.within:
            return PgSnapshotOffset(standing.within)
        self.require_there(place)
        return self.head()

    def end_behind_window(self, place: Offset) -> Offset | None:
        """Return the head for a place inside of a window, whose other rows were deleted."""
        if not snapshot_offset(place).within:
            return None
        self.require_there(place)
        return self.head()

    def require_there(self, place: Offset) -> None:
        """Refuse a place that the server has not come to: it is another one, or was restored."""
        wanted, now = snapshot_offset(place), self.head()
        if not now.upper.reaches(wanted.upper):
            raise SourceDivergedError(
                f"{self.spec.conn_id}: the flow has read transactions ({wanted}) that this server does not have "
                f"({now})",
                hint="It is another server, or one that was restored from a copy. Point the connection at the right "
                "one, or begin anew by a flow of another name, from its `start`; rows of the copy may come again.",
            )

    def first_behind(self, place: Offset) -> datetime | None:
        """Return the time of the first row behind a place."""
        for window in windows(place, self.head()):
            first = self._window(window).order_by("place_", "row_number_").limit(1)
            with self.database.session() as session:
                found = session.execute(first).mappings().first()
            if found is not None:
                return utc(found["row_time_"])
        return None

    def clean(self, planned: OffsetRange, rows: int) -> None:  # noqa: ARG002 - the snapshot says which
        """Delete the rows of the last whole window up to a range's end, and of all before."""
        upto = PgSnapshotOffset(snapshot_offset(planned.end).seen)
        with self.database.session(writes=True) as session:
            if self.marks.advance(session, upto):
                seen = _seen(sa.column(self.spec.transaction), upto.lower)
                session.execute(sa.delete(self.source).where(seen))

    def server_findings(self) -> Iterator[Finding]:
        """Yield what is wrong with version, role of the server, durability and sequence."""
        subject = self.spec.label()
        with self.database.session() as session:
            version, standby, durable = session.execute(_SERVER).one()
            table = ".".join('"' + part.replace('"', '""') + '"' for part in self.spec.table.split("."))
            cached = session.execute(_CACHED, {"table": table, "number": self.spec.number}).scalar()
        if version < OLDEST:
            error = SourceSettingError(
                f"{self.spec.conn_id}: PostgreSQL {version} has no pg_current_snapshot()",
                hint=f"Upgrade it to {OLDEST} or later.",
            )
            yield Finding.of(subject, error)
        if standby:
            yield Finding.of(subject, self._standby())
        if durable == "off":
            yield Finding(
                f"{subject}: synchronous_commit", Level.WARN,
                "off: rows that were delivered may be lost when the server crashes, and later ones then missed",
                "Set synchronous_commit=on for those who write to the table.", SourceSettingError.code,
            )  # fmt: skip
        if cached is not None and cached > 1:
            yield Finding(
                f"{subject}: {self.spec.number}", Level.WARN,
                f"its sequence hands out {cached} numbers at once to a session: changes of a row may come out of order",
                "ALTER SEQUENCE … CACHE 1", SourceSettingError.code,
            )  # fmt: skip

    def _standby(self) -> SourceSettingError:
        return SourceSettingError(
            f"{self.spec.conn_id} is a standby: it does not know which transactions are open",
            hint="Point the connection at the primary.",
        )

    def _rows(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        for window in windows(start, end):
            statement = self._window(window).order_by("place_", "row_number_")
            with (
                self.database.session(writes=True) as session,
                session.execution_options(yield_per=ROWS_AT_ONCE).execute(statement) as streamed,
            ):
                for row in streamed.mappings():
                    yield self._change(row, window.offset(row["place_"]))

    def _window(self, window: SnapshotWindow) -> Any:
        """Return the query of a window's rows, each with the highest number of its transaction."""
        transaction: sa.ColumnClause[Any] = sa.column(self.spec.transaction)
        highest = sa.func.max(self.number).over(partition_by=transaction).label("place_")
        rows = (
            sa.select(*self._selected(), highest)
            .select_from(self.source)
            .where(_seen(transaction, window.upper), _not_seen(transaction, window.lower))
            .subquery()
        )
        query = sa.select(rows)
        if window.after:
            query = query.where(rows.c.place_ > window.after)
        return query.where(rows.c.place_ <= window.until) if window.until < LAST else query


def _seen(transaction: Any, snapshot: PgSnapshot) -> Any:
    ended = transaction < _id(snapshot.xmax)
    return ended & transaction.not_in([_id(each) for each in sorted(snapshot.open)]) if snapshot.open else ended


def _not_seen(transaction: Any, snapshot: PgSnapshot) -> Any:
    later = transaction >= _id(snapshot.xmax)
    if not snapshot.open:
        return later
    # The lower bound alone is what an index serves.
    lowest = transaction >= _id(min(snapshot.open))
    return lowest & (later | transaction.in_([_id(each) for each in sorted(snapshot.open)]))


def _id(transaction: int) -> Any:
    """Return a transaction's id as a literal that takes the column's type: xid8, or bigint."""
    return sa.literal_column(f"'{int(transaction)}'")
