"""Tables that change while they are written to, on real servers: each row has the columns of its own place.

With binlog_row_metadata=FULL the log describes itself; with the least that a server writes (MariaDB NO_LOG, MySQL
MINIMAL) the columns come from the schema history. Sizes: DATABUS_STORM_ALTERS (default 30), DATABUS_SWAPS (3).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pymysql
import pytest

from databus.core.errors import SchemaUnknownError, SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset
from databus.sandbox import Sandbox
from tests.contract.source_contract import EVERYTHING, Row, changes, rows_of
from tests.integration.binlog_shop import Shop
from tests.integration.online_change import Writer, changes_in_turn, gh_ost, pt_osc
from tests.integration.schema_storm import SchemaStorm

pytestmark = pytest.mark.integration

ALTERS = int(os.environ.get("DATABUS_STORM_ALTERS", "30"))
SWAPS = int(os.environ.get("DATABUS_SWAPS", "3"))


@pytest.fixture(params=["mysql", "mariadb"])
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_shop(databases: Sandbox, tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    made: list[Shop] = []

    def make(flavor: str, decoder: str = "numba") -> Shop:
        made.append(Shop(flavor, databases.address(flavor), tmp_path, decoder))
        return made[-1]

    yield make
    for shop in made:
        shop.drop()


@pytest.fixture(params=["FULL", "least"])
def metadata(request: pytest.FixtureRequest, databases: Sandbox, flavor: str, tmp_path: Path) -> Iterator[str]:
    """Set binlog_row_metadata for one test."""
    with contextlib.closing(_sql(databases.address(flavor))) as connection, connection.cursor() as cursor:
        least = "NO_LOG" if flavor == "mariadb" else "MINIMAL"
        cursor.execute(f"SET GLOBAL binlog_row_metadata={'FULL' if request.param == 'FULL' else least}")
        yield str(request.param)
        cursor.execute("SET GLOBAL binlog_row_metadata=FULL")


def _sql(address: str) -> pymysql.connections.Connection[Any]:
    host, port = address.split(":")
    return pymysql.connect(host=host, port=int(port), user="root", autocommit=True)


def begin_history(shop: Shop, **options: Any) -> BinlogOffset:
    """Do what a flow's first run does on a log where nothing happens; returns the offset it would commit."""
    source = shop.open(**options)
    start = source.latest_offset()
    assert source.plan(start, EVERYTHING.model_copy(update={"max_wait": timedelta(seconds=0.1)})) is None
    source.close()
    return start


def fields(variant: dict[str, bytes] | None) -> dict[str, Any] | None:
    from pyspark.sql.types import VariantVal

    return None if variant is None else json.loads(VariantVal(variant["value"], variant["metadata"]).toJson())


def in_random_ranges(shop: Shop, start: BinlogOffset, seed: int, **options: Any) -> list[Row]:
    """Read from a place to the head in ranges of any size; each is read again after its segments were lost."""
    r = random.Random(seed)
    source, after, rows = shop.open(**options), start, []
    while True:
        plan = source.plan(
            after, EVERYTHING.model_copy(update={"max_rows": r.randint(1, 40), "max_wait": timedelta(seconds=0.3)})
        )
        if plan is None:
            break
        got = rows_of(source, plan, r.randint(1, 4))
        assert changes(got) == plan.rows
        if r.random() < 0.15:
            source.release(plan)
            source.close()
            source = shop.open(**options)
            assert rows_of(source, source.reopen(plan.range)) == got
        source.release(plan)
        rows += got
        after = plan.range.end
    source.close()
    return rows


def story(rows: list[Row], table: str) -> list[tuple[str, Any, Any]]:
    return [
        (r["op"], fields(r["before"]), fields(r["after"])) for r in rows if r["table"] == table and r["op"] in "cud"
    ]


@pytest.mark.usefixtures("metadata")
@pytest.mark.timeout(max(300, 4 * ALTERS))
def test_alter_storm(make_shop: Callable[..., Shop], flavor: str) -> None:
    shop = make_shop(flavor)
    start = begin_history(shop)
    storm = SchemaStorm(shop, 31)
    storm.run(ALTERS)
    rows = in_random_ranges(shop, start, 32)
    assert story(rows, "storm") == storm.changes
    assert all(json.loads(r["key"]) == {"id": (fields(r["after"]) or fields(r["before"]) or {})["id"]}
               for r in rows if r["op"] in "cud")  # fmt: skip


@pytest.mark.timeout(max(300, 4 * ALTERS))
def test_alter_storm_through_the_library(make_shop: Callable[..., Shop], flavor: str) -> None:
    shop = make_shop(flavor, "library")
    storm = SchemaStorm(shop, 33)
    storm.run(min(ALTERS, 15))
    assert story(shop.read(), "storm") == storm.changes


@pytest.mark.usefixtures("metadata")
@pytest.mark.parametrize("tool", [gh_ost, pt_osc])
def test_swaps_under_load(make_shop: Callable[..., Shop], flavor: str, tool: Callable[[Shop, str], None]) -> None:
    shop = make_shop(flavor)
    shop.sql(f"CREATE TABLE {shop.name}.t (id BIGINT NOT NULL PRIMARY KEY, a BIGINT NOT NULL)")
    shop.sql(f"INSERT INTO {shop.name}.t SELECT seq.n, seq.n * 7 FROM ({_NUMBERS}) seq")
    start = begin_history(shop, tables=(f"{shop.name}.t",))
    with Writer(shop, 41) as writer:
        writer.wait_for_row()
        for change in changes_in_turn(SWAPS):
            tool(shop, change)
            writer.wait_for_row()
    assert len({tuple(after) for _, _, after in writer.changes if after}) > SWAPS  # writes saw every definition
    rows = in_random_ranges(shop, start, 42, tables=(f"{shop.name}.t",))
    assert story(rows, "t") == writer.changes
    assert {r["table"] for r in rows if r["op"] in "cud"} == {"t"}


_NUMBERS = " UNION ALL ".join(f"SELECT {n} n" for n in range(1, 300))


def begin_busy_history(shop: Shop) -> BinlogOffset:
    """Begin a flow where things happen; returns the offset of its first range."""
    source = shop.open(start="latest")
    try:
        start = source.start_offset()
        with contextlib.suppress(SchemaUnknownError):
            source.plan(start, EVERYTHING.model_copy(update={"max_wait": timedelta(seconds=0.01), "max_rows": 1}))
    finally:
        source.close()
    return start


@pytest.mark.usefixtures("metadata")
def test_histories_begun_while_tables_change(make_shop: Callable[..., Shop], flavor: str, tmp_path: Path) -> None:
    """Whenever a flow begins, between which statements ever: its rows are right, or refused by name; never misnamed."""
    shop = make_shop(flavor)
    storm = SchemaStorm(shop, 61)
    begun: list[tuple[Path, BinlogOffset]] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(storm.run, max(20, ALTERS // 2))
        while not running.done():
            shop.folder = tmp_path / str(len(begun))
            with contextlib.suppress(SourceUnavailableError):
                begun.append((shop.folder, begin_busy_history(shop)))
        running.result()
    shop.folder = tmp_path / "calm"
    begun.append((shop.folder, begin_history(shop)))
    storm.run(3)
    right = 0
    for folder, start in begun:
        shop.folder = folder
        with contextlib.suppress(SchemaUnknownError):
            found = story(in_random_ranges(shop, start, 62), "storm")
            assert found == storm.changes[len(storm.changes) - len(found) :]
            right += bool(found)
    assert right


@pytest.mark.usefixtures("metadata")
def test_tables_that_come_and_go_under_one_name(make_shop: Callable[..., Shop], flavor: str) -> None:
    shop = make_shop(flavor)
    start = begin_history(shop)
    t, u = f"{shop.name}.t", f"{shop.name}.u"
    shop.sql(f"CREATE TABLE {t} (a INT PRIMARY KEY, b INT)", f"INSERT INTO {t} VALUES (1, 2)", f"TRUNCATE TABLE {t}")
    shop.sql(f"DROP TABLE {t}", f"CREATE TABLE {t} (b INT, a INT PRIMARY KEY)", f"INSERT INTO {t} VALUES (3, 4)")
    shop.sql(
        "FLUSH BINARY LOGS", f"CREATE TABLE {u} AS SELECT b AS c, a AS d FROM {t}", f"INSERT INTO {u} VALUES (5, 6)"
    )
    shop.sql(f"RENAME TABLE {t} TO {shop.name}.x, {u} TO {t}, {shop.name}.x TO {u}", "FLUSH TABLES")
    shop.sql(f"UPDATE {t} SET c = 7 WHERE d = 6", f"UPDATE {u} SET b = 8", f"DROP TABLE {t}, {u}")
    rows = in_random_ranges(shop, start, 51)
    assert story(rows, "t") == [
        ("c", None, {"a": 1, "b": 2}),
        ("c", None, {"b": 3, "a": 4}),
        ("u", {"c": 5, "d": 6}, {"c": 7, "d": 6}),
    ]
    assert story(rows, "u") == [
        ("c", None, {"c": 3, "d": 4}),
        ("c", None, {"c": 5, "d": 6}),
        ("u", {"b": 3, "a": 4}, {"b": 8, "a": 4}),
    ]
    assert [r["statement"].split()[0] for r in rows if r["op"] == "t"] == ["TRUNCATE"]


def test_a_server_restarted_between_gives_table_ids_anew(
    databases: Sandbox, make_shop: Callable[..., Shop], flavor: str
) -> None:
    shop = make_shop(flavor)
    start = begin_history(shop)
    for turn in range(2):
        table = f"{shop.name}.a{turn}"
        shop.sql(f"CREATE TABLE {table} (x{turn} INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
        databases.restart(flavor)
        shop.reconnect()
    rows = in_random_ranges(shop, start, 52)
    assert [fields(r["after"]) for r in rows if r["op"] == "c"] == [{"x0": 1}, {"x1": 1}]
