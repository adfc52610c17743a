"""A dump that stays open between ranges: the same ranges and rows as from dumps that are asked for each time."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from databus.core.batching import Batching
from databus.core.positions.offsets import Ordering
from databus.core.state.plan import SourcePlan
from databus.sandbox import Sandbox
from databus.sources.mysql.source import MysqlBinlogSource
from tests.contract.source_contract import EVERYTHING, IMPATIENT, Row, SourceContract, rows_of
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


class StreamingShop(Shop):
    """A shop whose sources keep their dump."""

    def open(self, tables: tuple[str, ...] = (), **options: object) -> MysqlBinlogSource:
        source = super().open(tables, **options)
        source.stream(on=True)
        return source


@pytest.fixture
def shop(databases: Sandbox, flavor: str, tmp_path: Path) -> StreamingShop:
    return StreamingShop(flavor, databases.address(flavor), tmp_path, "numba")


class TestStreamingContract(SourceContract):
    @pytest.fixture
    def subject(self, shop: StreamingShop) -> StreamingShop:
        return shop


def followed(source: MysqlBinlogSource, plan: SourcePlan) -> tuple[SourcePlan, list[Row]]:
    """Plan and read what comes next, and let go of what was read before."""
    found = source.plan(plan.range.end, EVERYTHING)
    assert found is not None
    rows = rows_of(source, found)
    source.release(found)
    return found, rows


def begun(shop: Shop, table: str) -> tuple[MysqlBinlogSource, SourcePlan]:
    """Make a table, and read up to where it stands."""
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v LONGTEXT)")
    source = shop.open()
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    return source, plan


def test_one_dump_serves_many_ranges_which_another_source_finds_again(shop: StreamingShop) -> None:
    table = f"{shop.name}.t"
    source, plan = begun(shop, table)
    for number in range(5):
        shop.sql(f"INSERT INTO {table} VALUES ({number}, 'v')")
        plan, rows = followed(source, plan)
        assert [row["op"] for row in rows] == ["c"]
        assert source.plan(plan.range.end, IMPATIENT) is None
        # Nothing of the range is kept: the server is asked for exactly it, and what is found is compared with it.
        fresh = Shop.open(shop, flow=f"{shop.name}_again")
        again = fresh.reopen(plan.range)
        assert (again.range, again.rows) == (plan.range, 1)
        assert rows_of(fresh, again) == rows
        fresh.close()
    source.close()


def test_no_other_dump_is_asked_for_at_the_head(shop: StreamingShop, monkeypatch: pytest.MonkeyPatch) -> None:
    table = f"{shop.name}.t"
    source, plan = begun(shop, table)
    asked = []
    dump = source._dumps.open
    monkeypatch.setattr(source._dumps, "open", lambda *given: asked.append(given) or dump(*given))
    for number in range(6):
        shop.sql(f"INSERT INTO {table} VALUES ({number}, 'v')")
        plan, _ = followed(source, plan)
    assert len(asked) == 1
    (thread,) = shop.dump_threads()
    source.close()
    shop.wait_for(lambda: thread not in shop.dump_threads())


@pytest.mark.parametrize("cut", ["rotation", "killed", "elsewhere"])
def test_it_goes_on_behind_whatever_ends_the_dump(shop: StreamingShop, cut: str) -> None:
    table = f"{shop.name}.t"
    source, plan = begun(shop, table)
    first = plan
    seen: list[Row] = []
    for number in range(6):
        shop.sql(f"INSERT INTO {table} VALUES ({number}, 'v')")
        if cut == "rotation" and number % 2:
            shop.sql("FLUSH BINARY LOGS", f"UPDATE {table} SET v = 'w' WHERE id = {number}")
        if cut == "killed" and number % 2:
            for thread in shop.dump_threads():
                shop.sql(f"KILL {thread}")
            shop.wait_for(lambda: not shop.dump_threads())
        if cut == "elsewhere" and number % 2:
            earlier = source.plan(first.range.end, Batching(max_rows=1, max_wait=timedelta(seconds=2)))
            assert earlier is not None
            source.release(earlier)
        while True:
            plan, rows = followed(source, plan)
            seen += rows
            if not plan.more:
                break
    while (more := source.plan(plan.range.end, IMPATIENT)) is not None:
        seen += rows_of(source, more)
        plan = more
    source.close()
    assert seen == [row for row in shop.read(first.range.end) if row["op"] != "m"]


def test_transactions_of_all_sizes_are_cut_at_their_ends_only(shop: StreamingShop) -> None:
    """Large transactions arrive in pieces, so that ranges end while one has arrived in part."""
    table = f"{shop.name}.t"
    source, plan = begun(shop, table)
    first, chance, done = plan.range.end, random.Random(5), threading.Event()

    def write() -> None:
        with shop.connect() as connection, connection.cursor() as cursor:
            for number in range(0, 400, 10):
                for row in range(number, number + 10):
                    size = chance.choice((1, 100, 40_000))
                    cursor.execute(f"INSERT INTO t VALUES ({row}, REPEAT('x', {size}))")
                connection.commit()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[Row] = []
    ranges = 0
    while len(seen) < 400:
        found = source.plan(plan.range.end, EVERYTHING)
        assert found is not None or not done.is_set()
        if found is None:
            continue
        assert found.range.start.compare(plan.range.end) is Ordering.EQUAL
        rows = rows_of(source, found)
        assert len(rows) == found.rows
        assert found.rows % 10 == 0
        seen, plan, ranges = seen + rows, found, ranges + 1
        source.release(found)
    writer.join()
    source.close()
    assert seen == [row for row in shop.read(first) if row["op"] != "m"]
