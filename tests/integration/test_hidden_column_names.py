"""Hidden columns whose name, or whose table's name, changes in the log: none of their values is delivered in clear."""

from __future__ import annotations

import pytest

from databus import DropColumns, Mask, MysqlBinlog
from databus.demo.consumers import topic_records
from tests.integration.broken_table import Bench, refused
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture
def bench(world: World, database: str) -> Bench:
    return Bench(world, database)


@pytest.mark.parametrize("kind", [DropColumns, Mask])  # one for each lane
def test_a_hidden_column_that_gets_another_name_is_not_delivered_in_clear(
    bench: Bench, kind: type[DropColumns] | type[Mask]
) -> None:
    flow = bench.flow(transforms=(kind("note"),))
    bench.start(flow)
    bench.execute("INSERT INTO orders VALUES (2, 2.50, 'two')", "ALTER TABLE orders RENAME COLUMN note TO remark")
    bench.execute("INSERT INTO orders VALUES (3, 3.50, 'three')")
    refused(bench, flow, "hidden_column_gone", f'former=("{bench.table}.note",)')
    assert len(bench.delivered()) == 1
    # Without the former name the older rows of the range would show it.
    refused(bench, bench.flow(transforms=(kind("remark"),)), "hidden_column_shown", f'former=("{bench.table}.note",)')
    # The plan in flight is of the former definition; the range has rows of both names.
    mended = bench.flow(transforms=(kind("remark", former=(f"{bench.table}.note",)),))
    bench.run(mended)
    assert len(bench.delivered()) == 3
    # Without a row that still has it: what was hidden in earlier runs is remembered.
    bench.execute("ALTER TABLE orders RENAME COLUMN remark TO note_2", "INSERT INTO orders VALUES (4, 4.50, 'four')")
    refused(bench, mended, "hidden_column_gone", f'former=("{bench.table}.remark",)')
    former = (f"{bench.table}.note", f"{bench.table}.remark")
    bench.run(bench.flow(transforms=(kind("note_2", former=former),)))
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert len(bench.delivered()) == 4
    assert not any(word in value for _, value in records for word in (b"one", b"two", b"three", b"four"))


@pytest.mark.parametrize("meant", ["*", "orders"])
def test_a_hidden_column_whose_table_gets_another_name_is_not_delivered_in_clear(bench: Bench, meant: str) -> None:
    tables = ("*",) if meant == "*" else (bench.table,)
    source = MysqlBinlog(conn_id="mysql_shop", tables=(f"{bench.database}.*",), snapshot="never")
    hides = DropColumns("note", tables=tables)
    flow = bench.flow(source=source, transforms=(hides,))
    bench.start(flow)
    bench.execute("ALTER TABLE orders RENAME customers")
    bench.run(flow)  # no row of the new name yet: that it was another is remembered
    bench.execute("ALTER TABLE customers RENAME COLUMN note TO remark", "INSERT INTO customers VALUES (2, 2.50, 'two')")
    new = f"{bench.database}.customers"
    if meant == "*":
        refused(bench, flow, "hidden_column_gone", f'former=("{new}.note",)')
        mended = [DropColumns("remark", former=(f"{bench.table}.note", f"{new}.note"))]
    else:
        refused(bench, flow, "hidden_column_shown", f'former=("{new}.note",)')
        mended = [hides, DropColumns("remark", former=(f"{new}.note",), tables=(new,))]
    bench.run(bench.flow(source=source, transforms=tuple(mended)))
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert any(b"2.5" in value for _, value in records)
    assert not any(b"two" in value for _, value in records)


EXCHANGED = "ALTER TABLE orders RENAME COLUMN note TO remark, RENAME COLUMN remark TO note"

REPLACED = "ALTER TABLE orders CHANGE note note_old VARCHAR(20), ADD COLUMN note VARCHAR(20) DEFAULT 'new'"


@pytest.mark.parametrize("statement", [EXCHANGED, REPLACED], ids=["exchanged", "replaced"])
@pytest.mark.parametrize("kind", [DropColumns, Mask])  # one for each lane
def test_a_hidden_column_whose_name_another_one_takes_is_not_delivered_in_clear(
    bench: Bench, kind: type[DropColumns] | type[Mask], statement: str
) -> None:
    new = "remark" if statement is EXCHANGED else "note_old"
    flow, former = bench.flow(transforms=(kind("note"),)), f'former=("{bench.table}.note",)'
    bench.start(flow)
    bench.execute(
        "ALTER TABLE orders ADD COLUMN remark VARCHAR(20) DEFAULT 'plain'",
        "INSERT INTO orders VALUES (2, 2.50, 'SECRET', 'plain')", statement,
        f"INSERT INTO orders (id, total, {new}) VALUES (3, 3.50, 'SECRET')",
    )  # fmt: skip
    error = refused(bench, flow, "hidden_column_gone", former)
    assert f"Name {new} as well" in error.hint
    # By its new name alone the range's older rows would show it, though the table has a column of the old one; of an
    # exchange that is the same again, the other way round.
    told = ("hidden_column_gone", "Name note as well") if statement is EXCHANGED else ("hidden_column_shown", former)
    refused(bench, bench.flow(transforms=(kind(new),)), *told)
    mended = bench.flow(transforms=(kind("note", new, former=(f"{bench.table}.note",)),))
    bench.run(mended)
    assert len(bench.delivered()) == 3
    # Behind the statement as well, where no row of the range is an older one.
    bench.execute(f"INSERT INTO orders (id, total, {new}) VALUES (4, 4.50, 'SECRET')")
    refused(bench, bench.flow(transforms=(kind(new),)), "hidden_column_shown", former)
    bench.run(mended)
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert len(bench.delivered()) == 4
    assert not any(b"SECRET" in value for _, value in records)


@pytest.mark.parametrize("again", [True, False], ids=["another of its name", "gone"])
def test_a_hidden_column_that_an_online_change_renames_is_not_delivered_in_clear(bench: Bench, again: bool) -> None:
    """As gh-ost and pt-online-schema-change do: a copy that is none of the flow's is altered, filled, and exchanged."""
    flow, column = bench.flow(transforms=(Mask("note"),)), f"{bench.table}.note"
    bench.start(flow)
    more = ", ADD COLUMN note VARCHAR(20) DEFAULT 'new'" if again else ""
    renames = f"ALTER TABLE _orders_gho CHANGE COLUMN note remark VARCHAR(50){more}"
    # One that was given up, and one that adds a column: neither needs anybody.
    bench.execute("CREATE TABLE _orders_gho LIKE orders", renames)
    bench.run(flow)
    bench.execute("DROP TABLE _orders_gho", "CREATE TABLE _orders_gho LIKE orders")
    bench.execute("ALTER TABLE _orders_gho ADD COLUMN remark VARCHAR(20) DEFAULT 'plain'")
    bench.execute("INSERT INTO _orders_gho (id, total, note) SELECT id, total, note FROM orders")
    bench.run(flow)
    bench.execute("RENAME TABLE orders TO _orders_del, _orders_gho TO orders", "DROP TABLE _orders_del")
    bench.execute("INSERT INTO orders VALUES (2, 2.50, 'SECRET', 'plain')")
    bench.run(flow)
    assert len(bench.delivered()) == 2
    # The same again with a rename.
    bench.execute("CREATE TABLE _orders_gho LIKE orders", "ALTER TABLE _orders_gho DROP COLUMN remark", renames)
    bench.execute("INSERT INTO _orders_gho (id, total, remark) SELECT id, total, note FROM orders")
    bench.run(flow)
    bench.execute("RENAME TABLE orders TO _orders_del, _orders_gho TO orders")
    bench.execute("INSERT INTO orders (id, total, remark) VALUES (3, 3.50, 'SECRET')")
    error = refused(bench, flow, "hidden_column_gone", f'former=("{column}",)')
    if again:
        assert f"in {bench.table} a statement of the log gives note" in error.message
        assert "altered a table that took this one's name" in error.message
    assert len(bench.delivered()) == 2
    mended = bench.flow(transforms=(Mask("remark", former=(column,)),))
    bench.run(mended)
    bench.execute("UPDATE orders SET total = 4.50, remark = 'SECRET TOO'")
    bench.run(mended)
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert len(bench.delivered()) == 3
    assert not any(b"SECRET" in value for _, value in records)
