"""An older range read beside a flow leaves the flow what it knows of its tables, on servers whose log says little."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.sources.mysql.source import MysqlBinlogSource
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.binlog_shop import Shop, fields

pytestmark = pytest.mark.integration

SPARSE = {"mysql": "MINIMAL", "mariadb": "NO_LOG"}


@pytest.fixture
def sparse(flavor: str, make_shop: Callable[[str, str], Shop]) -> Iterator[Shop]:
    """A shop with a table `o`, whose rows are logged without names and members."""
    shop = make_shop(flavor, "numba")
    shop.sql(f"SET GLOBAL binlog_row_metadata={SPARSE[flavor]}")
    shop.reconnect()
    shop.sql(f"CREATE TABLE {shop.name}.o (id INT PRIMARY KEY, e ENUM('one','two'))")
    yield shop
    shop.sql("SET GLOBAL binlog_row_metadata=FULL")


def moved(source: MysqlBinlogSource, plan: SourcePlan | None) -> tuple[BinlogOffset, list[object]]:
    """Read a range and commit it; return its end and the after-images of its rows."""
    assert plan is not None
    rows = [fields(row["after"]) for row in rows_of(source, plan) if row["op"] == "c"]
    source.release(plan)
    assert isinstance(plan.range.end, BinlogOffset)
    return plan.range.end, list(rows)


@pytest.mark.parametrize("reader", ["a look", "a piece of a backfill"])
def test_rows_before_a_statement_are_decoded_after_an_older_range_was_read(sparse: Shop, reader: str) -> None:
    table = f"{sparse.name}.o"
    before = sparse.open().latest_offset()
    sparse.sql(f"INSERT INTO {table} VALUES (1, 'one')")
    start = sparse.open().latest_offset()
    live = sparse.open((table,))
    sparse.sql(f"INSERT INTO {table} VALUES (2, 'two')")
    place, rows = moved(live, live.plan(start, EVERYTHING))
    assert rows == [{"id": 2, "e": "two"}]

    older = (
        sparse.open((table,), staged=f"{sparse.name}.look_1")
        if reader == "a look"
        else sparse.open((table,), flow=f"{sparse.name}.backfill-replay-0123456789ab-0")
    )
    end, rows = moved(older, older.plan_exactly(OffsetRange(before, start)))
    older.close()
    assert (end, rows) == (start, [{"id": 1, "e": "one"}])

    sparse.sql(f"INSERT INTO {table} VALUES (3, 'one')")
    place, rows = moved(live, live.plan(place, EVERYTHING))
    live.close()
    assert rows == [{"id": 3, "e": "one"}]
    sparse.sql(f"INSERT INTO {table} VALUES (4, 'two')")
    sparse.sql(f"ALTER TABLE {table} CHANGE e f ENUM('none','one','two')", f"INSERT INTO {table} VALUES (5, 'two')")
    following = sparse.open((table,))
    _, rows = moved(following, following.plan(place, EVERYTHING))
    following.close()
    assert rows == [{"id": 4, "e": "two"}, {"id": 5, "f": "two"}]
