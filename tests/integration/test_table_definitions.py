"""What TABLE_MAP never says, on a real MariaDB: UUID, INET4, INET6, system versioning, hidden columns."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus.core.errors import SchemaUnknownError
from databus.sandbox import Sandbox
from tests.contract.source_contract import EVERYTHING, Row, changes, rows_of
from tests.integration.binlog_shop import Shop
from tests.integration.versioned_writer import VERSIONED, VersionedWriter

pytestmark = pytest.mark.integration

Image = dict[str, Any] | None


@pytest.fixture(params=["numba", "library", "numba without metadata"])
def shop(databases: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    decoder, _, less = request.param.partition(" ")
    shop = Shop("mariadb", databases.address("mariadb"), tmp_path, decoder)
    shop.sql(f"SET GLOBAL binlog_row_metadata={'NO_LOG' if less else 'FULL'}")
    assert shop.open().plan(shop.begin, EVERYTHING.model_copy(update={"max_wait": timedelta(seconds=0.1)})) is None
    yield shop
    shop.sql("SET GLOBAL binlog_row_metadata=FULL")
    shop.drop()


@pytest.fixture
def make_shop(databases: Sandbox, tmp_path: Path) -> Iterator[Callable[[], Shop]]:
    made: list[Shop] = []

    def make() -> Shop:
        made.append(Shop("mariadb", databases.address("mariadb"), tmp_path, "numba"))
        return made[-1]

    yield make
    for shop in made:
        shop.drop()


def fields(variant: dict[str, bytes] | None) -> Image:
    from pyspark.sql.types import VariantVal

    return None if variant is None else json.loads(VariantVal(variant["value"], variant["metadata"]).toJson())


def delivered(rows: list[Row], table: str) -> list[tuple[str, Image, Image]]:
    return [(r["op"], fields(r["before"]), fields(r["after"])) for r in rows if r["table"] == table and r["op"] != "m"]


def dense(rows: list[Row]) -> bool:
    """Whether each transaction counts its changes from 0 without holes."""
    of: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        if row["part"] == 0:
            of.setdefault((row["log"], row["place"]), []).append(row["ordinal"])
    return all(ordinals == list(range(len(ordinals))) for ordinals in of.values())


def random_inet6(r: random.Random) -> str:
    shape = r.choice(["0", "g", "0g", "v4", "mapped"])
    if shape in ("v4", "mapped"):
        quad = ".".join(str(r.choice([0, 1, r.randrange(256)])) for _ in range(4))
        return ("::ffff:" if shape == "mapped" else "::") + quad
    return ":".join(f"{r.getrandbits(16):x}" if r.choice(shape) == "g" else "0" for _ in range(8))


def random_uuid(r: random.Random) -> str:
    made = uuid.UUID(int=r.getrandbits(128), version=r.randint(1, 5))
    return str(r.choice([made, uuid.UUID(int=r.getrandbits(63)), uuid.UUID(int=made.int & ~0xFFFF)]))


def test_uuid_and_inet_are_what_select_gives(shop: Shop) -> None:
    r = random.Random(20)
    table = f"{shop.name}.t"
    shop.sql(
        f"CREATE TABLE {table} (u UUID PRIMARY KEY, v UUID, i INET6, j INET4, b BINARY(16), c BINARY(4)) ENGINE=InnoDB"
    )
    keys = sorted({random_uuid(r) for _ in range(400)})
    values = []
    for key in keys:
        four = ".".join(str(r.choice([0, r.randrange(256)])) for _ in range(4))
        value = [f"'{random_uuid(r)}'", f"'{random_inet6(r)}'", f"'{four}'", f"x'{r.getrandbits(128):032x}'"]
        value = [v if r.random() > 0.1 else "NULL" for v in value]
        values.append(f"('{key}',{','.join(value)}, x'00010000')")
    shop.sql(f"INSERT INTO {table} VALUES {','.join(values)}", f"UPDATE {table} SET i = '::1', v = u LIMIT 100")
    rows = shop.read()
    stored: dict[str, Image] = {}
    for row in (r for r in rows if r["op"] != "m"):
        after = fields(row["after"])
        assert after is not None
        assert json.loads(row["key"]) == {"u": after["u"]}
        assert row["op"] == "c" or stored[after["u"]] == fields(row["before"])
        stored[after["u"]] = after
    selected = {
        str(u): {"u": str(u), "v": v, "i": i, "j": j, "b": b, "c": c}
        for u, v, i, j, b, c in shop.sql(f"SELECT u, v, i, j, TO_BASE64(b), TO_BASE64(c) FROM {table}")
    }
    assert stored == selected
    plan = shop.open().plan(shop.begin, EVERYTHING)
    assert plan is not None
    (schema,) = [s for s in plan.tables if s.table == "t"]
    assert [(c.type, c.spark_type) for c in schema.columns[:4]] == [
        ("uuid", "string"), ("uuid", "string"), ("inet6", "string"), ("inet4", "string"),
    ]  # fmt: skip


def pair(image: Image) -> tuple[int, int] | None:
    return None if image is None else (image["id"], image["n"])


def test_versioned_tables_change_as_select_shows_them(shop: Shop) -> None:
    writer = VersionedWriter(shop, 21)
    writer.write(60)
    rows = shop.read()
    for name, story in writer.seen.items():
        assert [(op, pair(before), pair(after)) for op, before, after in delivered(rows, name)] == story, name
    keys = {name: {tuple(json.loads(r["key"])) for r in rows if r["table"] == name and r["key"]} for name in VERSIONED}
    assert keys == {name: {("id",)} for name in VERSIONED}
    assert dense(rows)
    shown = next(after for _, _, after in delivered(rows, "shown") if after)
    hidden = next(after for _, _, after in delivered(rows, "hidden") if after)
    assert (list(shown), list(hidden)) == (["e", "id", "n", "s"], ["id", "n"])


def test_minimal_images_of_versioned_tables(make_shop: Callable[[], Shop]) -> None:
    shop = make_shop()
    table = f"{shop.name}.v"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT, w INT) WITH SYSTEM VERSIONING")
    shop.sql("SET SESSION binlog_row_image=MINIMAL")
    shop.sql(f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2)", f"UPDATE {table} SET n = 5", f"DELETE FROM {table}")
    got = [(op, before and before["id"], after and after.get("n")) for op, before, after in delivered(shop.read(), "v")]
    assert got == [("c", None, 1), ("c", None, 2), ("u", 1, 5), ("u", 2, 5), ("d", 1, None), ("d", 2, None)]


def test_ranges_of_versioned_tables_count_what_they_deliver(make_shop: Callable[[], Shop]) -> None:
    shop = make_shop()
    VersionedWriter(shop, 22).write(40)
    whole = shop.read()
    source, after, got = shop.open(), shop.begin, []
    while (
        plan := source.plan(after, EVERYTHING.model_copy(update={"max_rows": 9, "max_wait": timedelta(seconds=0.3)}))
    ) is not None:
        rows = rows_of(source, plan)
        assert changes(rows) == plan.rows
        source.release(plan)
        assert rows_of(source, source.reopen(plan.range)) == rows
        got += rows
        after = plan.range.end
    source.close()
    strip = [{**r, "schema_id": None} for r in whole]
    assert [{**r, "schema_id": None} for r in got] == strip


def test_generated_and_invisible_columns_come_by_name(make_shop: Callable[[], Shop]) -> None:
    shop = make_shop()
    table = f"{shop.name}.g"
    shop.sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT AS (a + 1) STORED, u UUID, c INT AS (a + 2) VIRTUAL, "
        "d INT INVISIBLE DEFAULT 7)"
    )
    shop.sql(f"INSERT INTO {table} (id, a) VALUES (1, 10)", f"UPDATE {table} SET a = 20, d = 8")
    first = {"id": 1, "a": 10, "b": 11, "u": None, "c": 12, "d": 7}
    then = {**first, "a": 20, "b": 21, "c": 22, "d": 8}
    assert delivered(shop.read(), "g") == [("c", None, first), ("u", first, then)]


def test_a_table_changed_before_it_was_first_seen_is_refused_and_named(make_shop: Callable[[], Shop]) -> None:
    shop = make_shop()
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, b BINARY(16))")
    begin = shop.open().latest_offset()
    shop.sql(f"INSERT INTO {table} VALUES (1, REPEAT('a', 16))", f"ALTER TABLE {table} MODIFY b UUID")
    changed = shop.open().latest_offset()
    shop.sql(f"INSERT INTO {table} VALUES (2, UUID())")
    with pytest.raises(SchemaUnknownError) as caught:
        shop.read(begin)
    assert f"MODIFY b UUID (at {changed})" in caught.value.message
    assert "changed before its definition was first read" in caught.value.message
    assert "id int, b binary(16)" in caught.value.message
    (row,) = delivered(shop.read(changed), "t")
    assert row[2] == dict(
        zip(("id", "b"), shop.sql(f"SELECT id, CAST(b AS CHAR) FROM {table} WHERE id = 2")[0], strict=True)
    )


def test_a_history_once_begun_knows_both_sides_of_an_alter(make_shop: Callable[[], Shop]) -> None:
    shop = make_shop()
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, b BINARY(16))")
    source = shop.open()
    begin = source.latest_offset()
    shop.sql(f"INSERT INTO {table} VALUES (1, REPEAT('a', 16))")
    first = source.plan(begin, EVERYTHING)
    assert first is not None
    shop.sql(f"INSERT INTO {table} VALUES (2, REPEAT('b', 16))", f"ALTER TABLE {table} MODIFY b UUID")
    shop.sql(f"INSERT INTO {table} VALUES (3, '00000000-0000-0000-0000-000000000003')")
    source.close()
    got = [after["b"] for _, _, after in delivered(shop.read(begin), "t") if after]
    assert got == ["YWFhYWFhYWFhYWFhYWFhYQ==", "YmJiYmJiYmJiYmJiYmJiYg==", "00000000-0000-0000-0000-000000000003"]


def test_sequences_are_tables_of_one_row(shop: Shop) -> None:
    shop.sql(f"CREATE SEQUENCE {shop.name}.s", f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (NEXT VALUE FOR {shop.name}.s)", f"SELECT NEXT VALUE FOR {shop.name}.s")
    rows = shop.read()
    assert [after for _, _, after in delivered(rows, "t")] == [{"id": 1}]
    assert {after["next_not_cached_value"] for _, _, after in delivered(rows, "s") if after} == {1001}


def test_an_alter_of_a_temporary_table_says_nothing_of_the_table_of_its_name(shop: Shop) -> None:
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, price INT, qty INT)")
    shop.sql("SET SESSION binlog_format = 'STATEMENT'", f"CREATE TEMPORARY TABLE {table} (id INT, price INT, qty INT)")
    behind = shop.open(start="latest").start_offset()  # the flow would stop in front of it
    with shop.connect() as other, other.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} VALUES (1, 100, 2)")
        other.commit()
    assert len(shop.read(behind)) == 1
    shop.sql(f"ALTER TABLE {table} CHANGE price qty INT, CHANGE qty price INT", f"DROP TEMPORARY TABLE {table}")
    shop.sql("SET SESSION binlog_format = 'ROW'", f"INSERT INTO {table} VALUES (2, 100, 2)")
    rows = [fields(row["after"]) for row in shop.read(behind) if row["op"] == "c"]
    assert rows == [{"id": n, "price": 100, "qty": 2} for n in (1, 2)]
