"""Plans of a `SequenceTable` of PostgreSQL over rows in memory: bounded by a place, and from inside of a window."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import MagicMock

import pytest

from databus import SequenceTable
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors import SourceSettingError
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.positions.pg_snapshot import PgSnapshotOffset
from databus.runtime.beside.bounded_source import between
from databus.sources.sequence_table.database import SqlDatabase
from databus.sources.sequence_table.postgres_log import PostgresLog
from databus.sources.sequence_table.windows import windows
from databus.sources.simple import RowChange, Table
from databus.testing.contract.simple_sink import FixedConnections, context

AT = datetime(2026, 11, 27, tzinfo=UTC)
TWO = Batching(max_rows=2, max_wait=timedelta(milliseconds=20))


class InMemory(PostgresLog):
    """Rows (number, transaction) of a server that has come to a snapshot."""

    rows: list[tuple[int, int]]
    now: str

    @property
    def table(self) -> Table:
        return Table("public.outbox", {"id": "bigint"}, ("id",))

    def head(self) -> PgSnapshotOffset:
        return PgSnapshotOffset(self.now)

    def _mark(self) -> None:
        return None

    def _rows(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        for window in windows(start, end):
            for place, number, _ in window.ordered(self.rows):
                yield RowChange(window.offset(place), "public.outbox", AT, after={"id": number})


@pytest.fixture
def source() -> Any:
    connection = Connection(conn_id="pg", conn_type="postgres", host="nowhere")
    spec = SequenceTable(conn_id="pg", table="public.outbox", poll_interval=timedelta(milliseconds=5))
    opened: Any = spec.open(FixedConnections([connection]), context("f"))
    log = InMemory(spec, SqlDatabase(connection, spec.table), "reader")
    log.rows = [(number, number) for number in range(2, 15)]
    opened._table._log = log
    return opened


def test_a_server_that_became_a_standby_is_refused() -> None:
    session = MagicMock()
    database: Any = MagicMock()
    database.session.return_value.__enter__.return_value = session
    log = PostgresLog(SequenceTable(conn_id="pg", table="public.outbox"), database, "reader")
    session.execute.return_value.one.return_value = ("7:7:", False)
    assert log.head() == PgSnapshotOffset("7:7:")
    session.execute.return_value.one.return_value = ("7:7:", True)
    with pytest.raises(SourceSettingError, match="is a standby"):
        log.head()


def numbers(source: Any, planned: OffsetRange) -> list[int]:
    return [change.after["id"] for change in source._table.log.read(planned.start, planned.end)]


@pytest.mark.parametrize(
    "end", [PgSnapshotOffset("7:7:"), PgSnapshotOffset("5:8:5,6"), PgSnapshotOffset("5:5:", "9:9:", 6)]
)
def test_a_sink_that_is_behind_comes_to_the_place_of_the_flow_and_no_further(
    source: Any, end: PgSnapshotOffset
) -> None:
    source._table.log.now = "15:15:"
    begin = PgSnapshotOffset("2:2:")
    place: Offset = begin
    got: list[int] = []
    while (plan := between(source, OffsetRange(begin, end), source.reopen).plan(place, TWO)) is not None:
        assert 0 < plan.rows <= 2
        got += numbers(source, plan.range)
        place = plan.range.end
    assert place.compare(end) is Ordering.EQUAL
    assert got == numbers(source, OffsetRange(begin, end))
    assert len(got) > 2


def test_a_window_whose_other_rows_are_gone_is_left(source: Any) -> None:
    log = source._table.log
    log.now = "15:15:"
    first = source.plan(PgSnapshotOffset("2:2:"), TWO)
    assert first.range.end.within == "15:15:"
    log.rows = [(number, transaction) for number, transaction in log.rows if number <= 3]
    assert source.plan(first.range.end, TWO) is None
    log.rows += [(20, 16), (21, 17)]
    log.now = "17:17:"
    following = source.plan(first.range.end, TWO)
    assert numbers(source, following.range) == [20]
    log.now = "18:18:"
    assert numbers(source, source.plan(following.range.end, TWO).range) == [21]
