"""Whether anything of a flow's own was changed, on servers where others write: told from one reading of the log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.source import MysqlBinlogSource
from databus.sources.mysql.tables import changes as mysql_table_changes
from tests.integration.binlog_shop import Shop

pytestmark = [pytest.mark.integration]


@pytest.fixture(autouse=True)
def _looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_table_changes, "_READ_EVERY_S", 0.0)
    monkeypatch.setattr(mysql_table_changes, "_shared", {})


@pytest.fixture
def mine(shop: Shop) -> Iterator[MysqlBinlogSource]:
    shop.sql(*(f"CREATE TABLE {shop.name}.{t} (id INT PRIMARY KEY)" for t in ("mine", "theirs")))
    source = shop.open((f"{shop.name}.mine",))
    yield source
    source.close()


def head(source: MysqlBinlogSource) -> BinlogOffset:
    found = source.latest_offset()
    assert isinstance(found, BinlogOffset)
    return found


def test_only_changes_of_own_tables_count(shop: Shop, mine: MysqlBinlogSource) -> None:
    place = head(mine)
    assert not mine.changed_since(place)
    shop.transaction(f"INSERT INTO {shop.name}.theirs VALUES (1), (2)")
    shop.sql(f"ALTER TABLE {shop.name}.theirs ADD COLUMN v INT", f"TRUNCATE TABLE {shop.name}.theirs")
    shop.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    assert mine.lag(place).bytes > 0
    assert not mine.changed_since(place)
    later = head(mine)
    shop.transaction(f"INSERT INTO {shop.name}.theirs VALUES (3, 3)", f"INSERT INTO {shop.name}.mine VALUES (1)")
    shop.transaction(f"INSERT INTO {shop.name}.theirs VALUES (4, 4)")
    assert (mine.changed_since(place), mine.changed_since(later)) == (True, True)
    place = head(mine)
    assert not mine.changed_since(place)
    shop.sql("FLUSH BINARY LOGS")
    shop.transaction(f"DELETE FROM {shop.name}.mine")
    assert mine.changed_since(place)


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE {}.mine", "ALTER TABLE {}.mine ADD COLUMN v INT"])
def test_what_is_done_to_a_whole_own_table_counts(shop: Shop, mine: MysqlBinlogSource, statement: str) -> None:
    place = head(mine)
    assert not mine.changed_since(place)
    shop.sql(statement.format(shop.name))
    assert mine.changed_since(place)


def test_a_prepared_transaction_counts_for_everybody_once_it_commits(shop: Shop, mine: MysqlBinlogSource) -> None:
    place = head(mine)
    shop.sql("XA START 'x'", f"INSERT INTO {shop.name}.theirs VALUES (1)", "XA END 'x'", "XA PREPARE 'x'")
    shop.reconnect()
    shop.sql("XA COMMIT 'x'")
    assert mine.changed_since(place)
    assert not mine.changed_since(head(mine))


def test_flows_share_a_reading_and_one_that_stands_before_it_is_told_that_there_may_be_something(
    shop: Shop, mine: MysqlBinlogSource
) -> None:
    early = head(mine)
    shop.transaction(f"INSERT INTO {shop.name}.theirs VALUES (1)")
    late = head(mine)
    assert not mine.changed_since(late)
    theirs = shop.open((f"{shop.name}.theirs",))
    try:
        assert mine.changed_since(early)  # nothing is known of what lies before
        assert not theirs.changed_since(late)
        shop.transaction(f"INSERT INTO {shop.name}.theirs VALUES (2)")
        assert (mine.changed_since(late), theirs.changed_since(late)) == (False, True)
        assert len(mysql_table_changes._shared) == 1
    finally:
        theirs.close()


def test_where_the_log_cannot_be_read_there_may_be_something(shop: Shop, mine: MysqlBinlogSource) -> None:
    place = head(mine)
    shop.sql("FLUSH BINARY LOGS")
    shop.purge_to(str(shop.sql("SHOW BINARY LOGS")[-1][0]))
    assert mine.changed_since(place)
    assert not mine.changed_since(head(mine))


def test_a_log_that_replaced_another_is_looked_at_by_itself(shop: Shop, mine: MysqlBinlogSource) -> None:
    """Of flows that went on with it, and of one that began there; the process had read the former one further."""
    shop.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    shop.transaction(f"INSERT INTO {shop.name}.mine VALUES (1)")
    former = head(mine)
    assert not mine.changed_since(former)
    begun = shop.sql("SELECT UNIX_TIMESTAMP()")[0][0]
    shop.wait_for(lambda: shop.sql("SELECT UNIX_TIMESTAMP()")[0][0] > begun)
    shop.sql("RESET MASTER")
    shop.transaction(f"INSERT INTO {shop.name}.theirs VALUES (1)")
    fresh = shop.open((f"{shop.name}.mine",), start="latest")
    try:
        began = fresh.start_offset()
    finally:
        fresh.close()
    places = [began, began.on_new_log(former)]
    for place in places:
        assert [mine.changed_since(place) for _ in range(2)] == [False, False]
    shop.transaction(f"INSERT INTO {shop.name}.theirs VALUES (2)")
    shop.sql("FLUSH BINARY LOGS")
    assert [mine.changed_since(place) for place in places] == [False, False]
    shop.transaction(f"INSERT INTO {shop.name}.mine VALUES (2)")
    shop.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    assert [mine.changed_since(place) for place in places] == [True, True]
