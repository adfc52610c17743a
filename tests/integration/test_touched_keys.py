"""Touched keys of staged ranges of real servers: every image of the log counts, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import READ, TableBatch
from databus.binlog.segments.segment import RangeIndex
from databus.core.state.plan import SourcePlan
from databus.runtime.direct.task import in_order
from databus.sources.mysql.row_filters import RangePartition
from databus.sources.mysql.segments import rows as reading
from databus.sources.mysql.snapshot.chunk_file import write_chunk
from databus.sources.mysql.snapshot.chunk_form import ChunkHead
from databus.sources.mysql.snapshot.chunk_split import ChunkSplit, shared_chunks
from databus.sources.mysql.snapshot.touched_keys import TouchedKeys, _changes, redefined, touched_keys
from databus.sources.mysql.source import MysqlBinlogSource
from tests.contract.source_contract import EVERYTHING, Row, rows_of
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


@pytest.fixture(params=["mysql", "mariadb"])
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Staged:
    """The range from a shop's last place to the head, staged."""

    def __init__(self, shop: Shop, **options: Any):
        self.shop = shop
        self.source: MysqlBinlogSource = shop.open(**options)
        plan = self.source.plan(shop.begin, EVERYTHING)
        assert plan is not None
        self.plan: SourcePlan = plan
        self.store = self.source._stores.segments()
        index = self.store.find(plan.range)
        assert index is not None
        self.index: RangeIndex = index

    def keys(self, **wanted: tuple[str, ...]) -> TouchedKeys:
        return touched_keys(self.index, self.store, {f"{self.shop.name}.{t}": key for t, key in wanted.items()})

    def close(self) -> None:
        self.source.discard(self.plan)
        self.source.close()

    def inserted(self, table: str) -> TableBatch:
        """Return the first batch of a table, all of it inserts, as if a snapshot had read it."""
        name = f"{self.shop.name}.{table}"
        found = next(iter(_changes(self.index, self.store, {name: ()})))
        assert (found.op == 0).all()
        return replace(found, op=found.op + READ)


def told(keys: TouchedKeys, table: str) -> set[str]:
    found = keys.tables[table].keys.to_pylist()
    return {value.decode() for value in found}


def fill(shop: Shop) -> None:
    """Make two tables with rows."""
    orders, items = f"{shop.name}.orders", f"{shop.name}.items"
    shop.sql(
        f"CREATE TABLE {orders} (id BIGINT UNSIGNED, name VARCHAR(20), v TEXT, PRIMARY KEY (id, name))",
        f"CREATE TABLE {items} (n INT, code VARCHAR(10) NOT NULL, d DATETIME, UNIQUE (code))",
        f"INSERT INTO {orders} VALUES (1,'a','x'), (2,'b','x'), (3,'ä','x'), (4,'d','x'), (5,'e','x'), (60,'f','x')",
        f"INSERT INTO {items} VALUES (1,'i1',NULL), (2,'i2',NULL), (3,'i3',NULL)",
    )


def change(shop: Shop) -> None:
    """Change them in all ways; the range begins here."""
    orders, items = f"{shop.name}.orders", f"{shop.name}.items"
    shop.begin = shop.open(start="latest").start_offset()
    shop.sql(
        f"INSERT INTO {orders} VALUES (18446744073709551615,'new','x')",
        f"UPDATE {orders} SET id=20 WHERE id=2",
        f"DELETE FROM {orders} WHERE id=3",
        f"UPDATE {orders} SET v='other' WHERE id=4",
        f"UPDATE {orders} SET v='out of the filter' WHERE id=60",
        f"UPDATE {items} SET n=9 WHERE code='i1'",
        f"UPDATE {items} SET code='i22' WHERE code='i2'",
    )


@pytest.fixture
def pending(shop: Shop) -> Iterator[Callable[[], None]]:
    """Prepare a transaction that deletes an order; it is rolled back in the end."""
    prepared: list[str] = []

    def prepare() -> None:
        session = shop.connect()
        with session.cursor() as cursor:
            for statement in ("START", "END", "PREPARE"):
                cursor.execute(f"XA {statement} '{shop.name}'")
                if statement == "START":
                    cursor.execute("DELETE FROM orders WHERE id=1")
        session.close()
        prepared.append(shop.name)

    yield prepare
    for xid in prepared:
        shop.end_xa("ROLLBACK", f"'{xid}'")


def test_all_images_of_the_range_count(
    shop: Shop, pending: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop)
    other = shop.connect()
    with other.cursor() as cursor:
        cursor.execute("XA START 'before'")
        cursor.execute("INSERT INTO orders VALUES (8,'prepared before','x')")
        cursor.execute("XA END 'before'")
        cursor.execute("XA PREPARE 'before'")
    other.close()
    change(shop)
    other = shop.connect()
    with other.cursor() as cursor:
        cursor.execute("XA START 'later'")
        cursor.execute("UPDATE orders SET name='xa' WHERE id=5")
        cursor.execute("INSERT INTO orders VALUES (7,'xa too','x')")
        cursor.execute("XA END 'later'")
        cursor.execute("XA PREPARE 'later'")
    other.close()
    shop.end_xa("COMMIT", "'later'")
    shop.end_xa("COMMIT", "'before'")
    pending()
    staged = Staged(shop, row_filters=(RangePartition(tables=f"{shop.name}.orders", column="id", upper=50),))
    expected = {
        '{"id":18446744073709551615,"name":"new"}', '{"id":2,"name":"b"}', '{"id":20,"name":"b"}',
        '{"id":3,"name":"ä"}', '{"id":4,"name":"d"}', '{"id":60,"name":"f"}', '{"id":5,"name":"e"}',
        '{"id":8,"name":"prepared before"}', '{"id":5,"name":"xa"}', '{"id":7,"name":"xa too"}',
    }  # fmt: skip

    one, two = f"{shop.name}.orders", f"{shop.name}.items"
    keys = staged.keys(orders=("id", "name"), items=("code",))
    assert told(keys, one) == expected
    assert told(keys, two) == {'{"code":"i1"}', '{"code":"i2"}', '{"code":"i22"}'}
    assert keys.untold == frozenset()
    alone = staged.keys(items=("code",))
    assert list(alone.tables) == [two]
    assert redefined(staged.plan, {t.full_name: t for t in staged.index.tables}) == frozenset()
    monkeypatch.setattr(reading, "_WHOLE_BYTES", 0)
    assert told(staged.keys(orders=("id", "name")), one) == expected
    staged.close()


def test_a_chunk_in_front_of_its_range_is_the_table_again(shop: Shop) -> None:
    """Rows read before the range, without those that it touches, then the range: what the table holds at its end."""
    orders, items = f"{shop.name}.orders", f"{shop.name}.items"
    fill(shop)
    first = Staged(shop)
    chunks = {name: first.inserted(name) for name in ("orders", "items")}
    first.close()
    change(shop)
    after, staged = shop.begin, Staged(shop)
    keys = staged.keys(orders=("id", "name"), items=("code",))
    store = staged.source._stores.chunks()
    files = [
        write_chunk(store, ChunkHead(batch.schema, 1, number, 5), [batch], keys)
        for number, batch in enumerate(chunks.values(), 1)
    ]

    assert [(file.rows, file.superseded) for file in files] == [(2, 4), (1, 2)]
    for count in (1, 2):
        ahead = [
            ChunkSplit(group, after.file, after.pos, staged.plan.tables) for group in shared_chunks(files, store, count)
        ]
        assert len(ahead) == count
        splits = [*ahead, *staged.source.splits(staged.plan, 1)]
        text = list(in_order(batch for split in splits for batch in split.read_text({})))
        rows: list[Row] = [row for batch in text for row in batch.to_pylist()]
        assert [row["op"] for row in rows[:4]] == ["r", "r", "r", rows[3]["op"]]
        assert "r" not in {row["op"] for row in rows[3:]}
        assert [row["event_id"] for row in rows[:3]] == [
            f"snapshot-1-{n}-5:0:0" if n == 2 else f"snapshot-1-1-5:{o}:0" for n, o in ((1, 0), (1, 1), (2, 0))
        ]
        assert len({row["event_id"] for row in rows}) == len(rows)
        variant = [row for split in ahead for batch in split.read() for row in batch.to_pylist()]
        assert [row["key"] for row in variant] == [row["key"] for row in rows[:3]]
    final: dict[str, dict[bytes, Any]] = {"orders": {}, "items": {}}
    number = 0
    for row in rows:
        if row["table"] == "items":  # without a primary key: its unique one names its rows
            for image in ("before", "after"):
                if row[image]:
                    final["items"].pop(json.loads(row[image])["code"], None)
            if row["after"]:
                final["items"][json.loads(row["after"])["code"]] = json.loads(row["after"])
        elif row["op"] == "d":
            final["orders"].pop(row["key"], None)
        else:
            final["orders"][row["key"]] = json.loads(row["after"])
        number += 1
    assert number == len(rows)
    assert sorted((r["id"], r["name"], r["v"]) for r in final["orders"].values()) == sorted(
        shop.sql(f"SELECT id, name, v FROM {orders}")
    )
    assert sorted((r["n"], r["code"]) for r in final["items"].values()) == sorted(
        shop.sql(f"SELECT n, code FROM {items}")
    )
    staged.close()


def test_a_change_that_does_not_tell_its_key_is_said(shop: Shop) -> None:
    t = f"{shop.name}.t"
    shop.sql(
        f"CREATE TABLE {t} (id INT PRIMARY KEY, code VARCHAR(10) NOT NULL, v INT, UNIQUE (code))",
        f"INSERT INTO {t} VALUES (1,'a',1), (2,'b',2)",
    )
    shop.begin = shop.open(start="latest").start_offset()
    shop.sql("SET SESSION binlog_row_image=MINIMAL", f"UPDATE {t} SET code='c' WHERE id=1")
    staged = Staged(shop)

    # The before-image has the primary key alone: what the code was, nothing tells.
    assert told(staged.keys(t=("id",)), t) == {'{"id":1}'}
    lacking = staged.keys(t=("code",))
    assert lacking.untold == {t}
    for asked in (lambda: lacking.any_of(t), lambda: lacking.any_of(f"{shop.name}.u")):
        with pytest.raises(ValueError, match=r"does not tell its key|were not looked for"):
            asked()
    staged.close()
    shop.reconnect()


CHANGES: dict[str, tuple[str, frozenset[str]]] = {
    "alter": ("ALTER TABLE {0}.a ADD COLUMN w INT", frozenset({"a"})),
    "truncate": ("TRUNCATE {0}.a", frozenset({"a"})),
    "drop": ("DROP TABLE {0}.a, {0}.b", frozenset({"a", "b"})),
    # A statement on several tables is delivered as one on their database: all of it is read anew.
    "rename": ("RENAME TABLE {0}.a TO {0}.x, {0}.b TO {0}.a", frozenset({"a", "b", "c", "p"})),
    "rename from elsewhere": ("RENAME TABLE {0}.other TO {0}.c", frozenset({"c"})),
    "alter rename": ("ALTER TABLE {0}.b RENAME TO {0}.c", frozenset({"b", "c"})),
    "create": ("CREATE TABLE {0}.c (id INT PRIMARY KEY)", frozenset({"c"})),
    "create like": ("CREATE TABLE {0}.c LIKE {0}.a", frozenset({"c"})),
    "partition": ("ALTER TABLE {0}.p TRUNCATE PARTITION p0", frozenset({"p"})),
    "exchange": ("ALTER TABLE {0}.p EXCHANGE PARTITION p0 WITH TABLE {0}.b", frozenset({"p", "b"})),
    "index": ("CREATE INDEX i ON {0}.b (v)", frozenset({"b"})),
    "database": ("DROP DATABASE {0}", frozenset({"a", "b", "c", "p"})),
    "another table": ("CREATE TABLE {0}.more (id INT)", frozenset()),
}


def test_tables_that_statements_redefine(make_shop: Callable[[str, str], Shop], flavor: str) -> None:
    wrong: dict[str, Any] = {}
    shop = make_shop(flavor, "numba")
    name = shop.name
    for what, (statement, expected) in CHANGES.items():
        shop.sql(
            f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} CHARACTER SET utf8mb4",
            *(f"CREATE TABLE {name}.{t} (id INT PRIMARY KEY, v INT)" for t in ("a", "b", "other")),
            f"CREATE TABLE {name}.p (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) "
            "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
            *(f"INSERT INTO {name}.{t} VALUES (1, 1)" for t in ("a", "b", "other", "p")),
        )  # fmt: skip
        before = Staged(shop)
        schemas = {t.table: t for t in before.index.tables}
        before.close()
        shop.begin = shop.open(start="latest").start_offset()
        shop.sql(statement.format(name))
        chunks = {f"{name}.{t}": schemas.get(t, replace(schemas["a"], table=t)) for t in ("a", "b", "c", "p")}
        staged = Staged(shop, tables=tuple(chunks), on_partition_ddl="event")
        found = {table.rpartition(".")[2] for table in redefined(staged.plan, chunks)}
        if found != expected:
            wrong[what] = sorted(found)
        staged.close()
        shop.begin = shop.open(start="latest").start_offset()
    assert wrong == {}


def test_another_schema_in_the_range_is_seen_without_the_statement(shop: Shop) -> None:
    t = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {t} (id INT PRIMARY KEY, v INT)")
    shop.begin = shop.open(start="latest").start_offset()
    shop.sql(f"INSERT INTO {t} VALUES (1, 1)")
    staged = Staged(shop)
    (schema,) = staged.index.tables
    assert redefined(staged.plan, {t: replace(schema, schema_id=5)}) == frozenset()
    assert redefined(staged.plan, {t: replace(schema, columns=schema.columns[:1])}) == {t}
    staged.close()


def test_hundred_thousands_of_rows_take_seconds(shop: Shop) -> None:
    """Bounds of time are generous: what grows with the square of the rows would take minutes."""
    import time

    t = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {t} (id INT PRIMARY KEY, v INT)")
    shop.begin = shop.open(start="latest").start_offset()
    numbers = " UNION ALL ".join(f"SELECT {n} AS n" for n in range(10))
    cross = " CROSS JOIN ".join(f"({numbers}) t{n}" for n in range(5))
    of = "+".join(f"t{n}.n*{10**n}" for n in range(5))
    shop.sql(*(f"INSERT INTO {t} SELECT {of} + {k * 100_000}, 1 FROM {cross}" for k in range(4)))
    staged = Staged(shop)
    begun = time.process_time()
    keys = staged.keys(t=("id",))
    assert time.process_time() - begun < 20
    assert len(keys.tables[t].keys) == 400_000
    staged.close()


def test_rows_of_op_read_come_out_of_both_forms(shop: Shop) -> None:
    """See `test_a_chunk_in_front_of_its_range_is_the_table_again`; here filtered rows and the rows' provenance."""
    t = f"{shop.name}.t"
    begin = shop.begin
    shop.sql(f"CREATE TABLE {t} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {t} VALUES (1, 1), (60, 1), (2, NULL)")
    staged = Staged(shop)
    batch = staged.inserted("t")
    store = staged.source._stores.chunks()
    file = write_chunk(store, ChunkHead(batch.schema, 4, 9, 1_234), [batch])
    filters = shop.open(row_filters=(RangePartition(tables=t, column="id", upper=50),))._filters
    (group,) = shared_chunks([file], store, 3)
    split = ChunkSplit(group, begin.file, begin.pos, staged.plan.tables, filters, prefix="log2/")
    expected = [("r", b'{"id":1}'), ("f", None), ("r", b'{"id":2}')]

    for rows in (list(split.read()), list(split.read_text({}))):
        told_rows = [row for piece in rows for row in piece.to_pylist()]
        assert [(row["op"], row["key"]) for row in told_rows] == expected
        for ordinal, row in enumerate(told_rows):
            assert (row["log"], row["place"], row["transaction"]) == (begin.file, begin.pos, "")
            assert (row["ts_ms"], row["server_id"], row["ordinal"]) == (1_234, 0, ordinal)
            assert row["event_id"] == f"log2/snapshot-4-9-1234:{ordinal}:0"
            assert row["before"] is None
            assert (row["after"] is None) == (row["op"] == "f")
    assert [r["op"] for r in rows_of(staged.source, staged.plan)][:1] == ["m"]
    staged.close()
