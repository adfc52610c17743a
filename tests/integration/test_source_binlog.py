"""The binlog source on real servers: the contract for both decoders, and what only a server's log can hold."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from databus.binlog.dump import Dump, DumpRequest
from databus.core.errors import (
    DecodeError,
    OffsetInvalidError,
    OffsetPurgedError,
    SchemaUnknownError,
    SourceAccessError,
    SourceDivergedError,
    SourceUnavailableError,
)
from databus.core.findings import Level
from databus.core.offsets import BinlogOffset, Ordering
from tests.contract.source_contract import EVERYTHING, IMPATIENT, SourceContract, changes, rows_of
from tests.integration.binlog_shop import Shop, fields

pytestmark = pytest.mark.integration

DEADLINE_S = 20.0


@pytest.fixture
def shop(make_shop: Callable[[str, str], Shop], flavor: str) -> Shop:
    return make_shop(flavor, "numba")


class TestNumbaContract(SourceContract):
    @pytest.fixture
    def subject(self, make_shop: Callable[[str, str], Shop], flavor: str) -> Shop:
        return make_shop(flavor, "numba")


class TestLibraryContract(SourceContract):
    @pytest.fixture
    def subject(self, make_shop: Callable[[str, str], Shop], flavor: str) -> Shop:
        return make_shop(flavor, "library")


@pytest.fixture(params=["numba", "library"])
def either(make_shop: Callable[[str, str], Shop], flavor: str, request: pytest.FixtureRequest) -> Shop:
    return make_shop(flavor, request.param)


def test_images_keys_and_order(either: Shop) -> None:
    shop = either
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARCHAR(9), n INT UNSIGNED)")
    shop.sql(f"CREATE TABLE {shop.name}.u (id INT, w INT)")
    shop.transaction(
        f"INSERT INTO {shop.name}.t VALUES (1, 'a', 4000000000), (2, NULL, 2)",
        f"INSERT INTO {shop.name}.u VALUES (7, 7)",
        f"UPDATE {shop.name}.t SET v = 'é' WHERE id = 1",
        f"UPDATE {shop.name}.t SET id = 3 WHERE id = 2",
        f"DELETE FROM {shop.name}.t WHERE id = 1",
    )
    rows = [r for r in shop.read() if r["op"] != "m"]
    got = [
        (r["op"], r["table"], r["ordinal"], r["part"], r["key"], fields(r["before"]), fields(r["after"])) for r in rows
    ]
    one, accented = {"id": 1, "v": "a", "n": 4000000000}, {"id": 1, "v": "é", "n": 4000000000}
    assert got == [
        ("c", "t", 0, 0, b'{"id":1}', None, one),
        ("c", "t", 1, 0, b'{"id":2}', None, {"id": 2, "v": None, "n": 2}),
        ("c", "u", 2, 0, None, None, {"id": 7, "w": 7}),
        ("u", "t", 3, 0, b'{"id":1}', one, accented),
        ("d", "t", 4, 0, b'{"id":2}', {"id": 2, "v": None, "n": 2}, None),
        ("c", "t", 4, 1, b'{"id":3}', None, {"id": 3, "v": None, "n": 2}),
        ("d", "t", 5, 0, b'{"id":1}', accented, None),
    ]


def test_definitions_come_in_order_and_rows_have_the_columns_of_their_time(either: Shop) -> None:
    shop = either
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))", f"INSERT INTO {table} VALUES (1, 'a')")
    shop.sql(f"ALTER TABLE {table} ADD COLUMN n INT DEFAULT 5", f"INSERT INTO {table} VALUES (2, 'b', 6)")
    shop.sql(f"ALTER TABLE {table} DROP COLUMN v", f"UPDATE {table} SET n = 7 WHERE id = 1", f"TRUNCATE TABLE {table}")
    rows = shop.read()
    got = [
        (r["op"], r["statement"] and r["statement"].split()[0].upper(), fields(r["before"]), fields(r["after"]))
        for r in rows
    ]
    assert got == [
        ("m", "CREATE", None, None),
        ("c", None, None, {"id": 1, "v": "a"}),
        ("m", "ALTER", None, None),
        ("c", None, None, {"id": 2, "v": "b", "n": 6}),
        ("m", "ALTER", None, None),
        ("u", None, {"id": 1, "n": 5}, {"id": 1, "n": 7}),
        ("t", "TRUNCATE", None, None),
    ]
    assert [r["schema_id"] for r in rows] == [-1, 0, -1, 1, -1, 2, -1]
    assert {(r["database"], r["table"]) for r in rows} == {(shop.name, "t")}


def test_absent_is_not_null(either: Shop) -> None:
    shop = either
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT)", "SET SESSION binlog_row_image = 'MINIMAL'")
    shop.sql(
        f"INSERT INTO {table} VALUES (1, 2, NULL)", f"UPDATE {table} SET a = NULL WHERE id = 1", f"DELETE FROM {table}"
    )
    images = [(r["op"], r["key"], fields(r["before"]), fields(r["after"])) for r in shop.read() if r["op"] != "m"]
    assert images == [
        ("c", b'{"id":1}', None, {"id": 1, "a": 2, "b": None}),
        ("u", b'{"id":1}', {"id": 1}, {"a": None}),
        ("d", b'{"id":1}', {"id": 1}, None),
    ]


def test_both_decoders_agree_on_every_type(shop: Shop) -> None:
    table = f"{shop.name}.t"
    document = ", j JSON" if shop.flavor == "mysql" else ""
    shop.sql(
        f"CREATE TABLE {table} (id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b SMALLINT "
        "UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT,"
        " f FLOAT, g DOUBLE, h DECIMAL(12,2), i DECIMAL(50,5), k CHAR(10), l VARCHAR(300), m "
        "TEXT, n BINARY(6), o VARBINARY(10), p BLOB,"
        " q DATE, r DATETIME(3), s TIMESTAMP(6) NULL, t TIME(2), u TIME, v YEAR, w "
        "ENUM('x','y'), x SET('a','b','c'), y BIT(12),"
        f" z VARCHAR(20) CHARACTER SET latin1{document})"
    )
    value = """, '{"a": [1, 2, "x"], "b": null}'""" if document else ""
    for number in (0, 1, 2**64 - 1):
        shop.sql(
            f"INSERT INTO {table} VALUES ({number}, -5, 65535, -70000, 4000000000, -9000000000, 1.5, 2.25, -12.34,"
            " 123456789012345678901234567890.12345, 'ch', 'vär', 'txt', 'ab', x'00ff', "
            "x'0102', '2024-02-29', '2024-01-02 03:04:05.678',"
            f" '2024-01-02 03:04:05.123456', '12:34:56.78', '-01:02:03', 2024, 'y', 'a,c', b'101010101010', 'é'{value})"
        )
    shop.sql(f"UPDATE {table} SET a = NULL, x = '', h = 99 WHERE id = 1", f"DELETE FROM {table} WHERE id = 0")
    assert shop.read(decoder="library") == shop.read(decoder="numba")


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        ("TIME(1)", "'-00:00:00.5'", "negative TIME"),
        ("YEAR", "0", "YEAR 0000"),
        ("DATE", "'0000-00-00'", "impossible date"),
    ],
)
def test_library_refuses_what_it_gets_wrong(shop: Shop, column: str, value: str, named: str) -> None:
    shop.sql("SET SESSION sql_mode = ''", f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, bad {column})")
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (1, {value})")
    assert changes(shop.read(decoder="numba")) == 1
    with pytest.raises(DecodeError, match=rf"{shop.name}\.t\.bad .*{named}"):
        shop.read(decoder="library")


def test_foreign_tables_move_the_checkpoint_without_rows(shop: Shop) -> None:
    shop.sql(
        f"CREATE TABLE {shop.name}.other (id INT PRIMARY KEY)", f"CREATE TABLE {shop.name}.mine (id INT PRIMARY KEY)"
    )
    source = shop.open((f"{shop.name}.mine",))
    after = source.latest_offset()
    shop.sql(f"INSERT INTO {shop.name}.other VALUES (1), (2)")
    plan = source.plan(after, EVERYTHING)
    assert plan is not None
    assert (plan.rows, plan.tables) == (0, ())
    assert plan.range.end.compare(after) is Ordering.AFTER
    assert source.splits(plan, 4) == []
    source.close()


def test_excluded_tables_are_left_out(shop: Shop) -> None:
    for name in ("orders", "items", "audit_log"):
        shop.sql(f"CREATE TABLE {shop.name}.{name} (id INT PRIMARY KEY)", f"INSERT INTO {shop.name}.{name} VALUES (1)")
    rows = shop.read(tables=(rf"re:{shop.name}\.(orders|audit_.*)",), exclude_tables=("*.audit_log",))
    assert {r["table"] for r in rows} == {"orders"}


def test_rotations_alone_move_the_checkpoint_once(shop: Shop) -> None:
    source = shop.open()
    after = source.latest_offset()
    shop.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    assert source.lag(after).caught_up
    moved = source.plan(after, IMPATIENT)
    assert moved is not None
    assert (moved.rows, moved.bytes, moved.tables, moved.statements) == (0, 0, (), 0)
    end = moved.range.end
    assert isinstance(end, BinlogOffset)
    assert (end.file, end.pos, end.gtids) == (source.latest_offset().file, 4, after.gtids)
    assert source.splits(moved, 4) == []
    assert source.plan(end, IMPATIENT) is None
    assert source.plan(end, IMPATIENT) is None
    assert source.lag(end).caught_up
    source.release(moved)
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)", f"INSERT INTO {shop.name}.t VALUES (1)")
    assert source.reopen(moved.range).range == moved.range
    for start in (after, end):
        plan = source.plan(start, EVERYTHING)
        assert plan is not None
        assert plan.rows == 1
    source.close()


def test_an_idle_flow_outlives_the_deletion_of_old_files(shop: Shop) -> None:
    source = shop.open()
    offset = source.latest_offset()
    for _ in range(3):
        shop.sql("FLUSH BINARY LOGS")
        plan = source.plan(offset, IMPATIENT)
        assert plan is not None
        assert plan.rows == 0
        source.release(plan)
        assert isinstance(plan.range.end, BinlogOffset)
        offset = plan.range.end
        shop.purge_to(offset.file)
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)", f"INSERT INTO {shop.name}.t VALUES (1)")
    plan = source.plan(offset, EVERYTHING)
    assert plan is not None
    assert plan.rows == 1
    source.close()


def test_open_transactions_are_not_read(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    source = shop.open()
    after = source.latest_offset()
    shop.sql("BEGIN", f"INSERT INTO {shop.name}.t VALUES (1)")
    assert source.plan(after, IMPATIENT) is None
    shop.sql("ROLLBACK")
    assert source.plan(after, IMPATIENT) is None
    source.close()


def test_waiting_plan_takes_a_transaction_as_it_comes(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    source = shop.open()
    after = source.latest_offset()

    def write() -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not writer.dump_threads() and time.monotonic() < deadline:
            time.sleep(0.01)
        writer.sql(f"INSERT INTO {shop.name}.t VALUES (1)")

    writer = Shop(shop.flavor, f"{shop.connection.host}:{shop.connection.port}", shop.folder, "numba")
    after = source.latest_offset()
    thread = threading.Thread(target=write)
    thread.start()
    plan = source.plan(after, EVERYTHING.model_copy(update={"max_seconds": 60.0}))
    thread.join()
    assert plan is not None
    assert plan.rows == 1
    source.close()
    writer.drop()


def test_gtids_follow_the_log(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    end = plan.range.end
    assert isinstance(end, BinlogOffset)
    assert end.gtids
    assert end.gtids == source.latest_offset().gtids
    source.close()


def test_starts(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    whole = source.plan(shop.begin, EVERYTHING)
    part = source.plan(shop.begin, EVERYTHING.model_copy(update={"max_rows": 50}))
    assert whole is not None
    assert part is not None
    middle = part.range.end
    assert isinstance(middle, BinlogOffset)
    assert shop.open(start=f"{middle.file}:{middle.pos}").start_offset() == middle
    assert shop.open(start="latest").start_offset().gtids == whole.range.end.to_json()["gtids"]
    earliest = shop.open(start="earliest").start_offset()
    assert earliest.compare(middle) is Ordering.BEFORE
    assert source.plan(earliest, EVERYTHING.model_copy(update={"max_rows": 1})) is not None
    # A GTID start may lie in a later file than the boundary it names, as long as nothing lies in between.
    by_gtid = shop.open(start=f"gtid:{middle.gtids}").start_offset()
    assert by_gtid.gtids == middle.gtids
    rest = source.plan(middle, EVERYTHING)
    again = source.plan(by_gtid, EVERYTHING)
    assert rest is not None
    assert again is not None
    assert [r["event_id"] for r in rows_of(source, rest)] == [r["event_id"] for r in rows_of(source, again)]
    source.close()


def test_gtid_sets_that_no_place_stands_for_are_refused(make_shop: Callable[[str, str], Shop]) -> None:
    shop = make_shop("mysql", "numba")
    shop.grow()
    head = shop.open().latest_offset()
    uuid, _, numbers = head.gtids.partition(":")
    last = int(numbers.split("-")[-1])
    with pytest.raises(OffsetInvalidError, match="both sides"):
        shop.open(start=f"gtid:{uuid}:1-{last - 5}:{last - 3}-{last - 2}").start_offset()
    with pytest.raises(SourceDivergedError, match="never executed"):
        shop.open(start=f"gtid:{uuid}:1-{last + 10}").start_offset()


def ahead_of(gtids: str) -> str:
    """Return GTIDs that no server has yet."""
    return gtids + "00000"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda o: {"pos": o.pos + 3}, OffsetInvalidError),
        (lambda o: {"pos": o.pos + (1 << 30)}, OffsetInvalidError),
        (lambda o: {"file": f"{o.file.rpartition('.')[0]}.099999"}, OffsetInvalidError),
        (lambda _: {"server": "another", "gtids": ""}, SourceDivergedError),
        (lambda o: {"server": "another", "gtids": ahead_of(o.gtids)}, SourceDivergedError),
    ],
)
def test_offsets_of_no_transaction_are_refused(
    shop: Shop, change: Callable[[BinlogOffset], dict[str, Any]], error: type
) -> None:
    shop.grow()
    source = shop.open()
    bad = dataclasses.replace(shop.begin, **change(shop.begin))
    with pytest.raises(error, match=shop.connection.conn_id) as caught:
        source.plan(bad, IMPATIENT)
    assert caught.value.hint
    findings = [f for f in source.preflight(bad) if f.subject.endswith("start")]
    assert [f.level for f in findings] == [
        Level.OK if change(shop.begin).get("pos") == shop.begin.pos + 3 else Level.ERROR
    ]
    assert shop.dump_threads() == []
    source.close()


def test_place_inside_a_transaction_is_refused(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    events = shop.sql(f"SHOW BINLOG EVENTS IN '{shop.begin.file}' FROM {shop.begin.pos} LIMIT 30")
    inside = next(
        r
        for r in events
        if str(r[2]) in ("Table_map", "Query") and "BEGIN" not in str(r[5]) and "CREATE" not in str(r[5])
    )
    with pytest.raises(OffsetInvalidError, match="inside a transaction"):
        source.plan(dataclasses.replace(shop.begin, pos=int(inside[1])), IMPATIENT)
    source.close()


def test_purged_log_is_named(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    last = source.latest_offset().file
    shop.purge_to(last)
    with pytest.raises(OffsetPurgedError, match=rf"{shop.begin.file}:{shop.begin.pos} to {last}:4"):
        source.plan(shop.begin, IMPATIENT)
    source.close()


def test_closing_ends_the_dump_on_the_server(shop: Shop) -> None:
    dump = Dump(shop.connection, DumpRequest(shop.begin.file, shop.begin.pos, shop.flavor, follow=True))
    next(dump.batches())
    assert len(shop.dump_threads()) == 1
    dump.close()
    deadline = time.monotonic() + DEADLINE_S
    while shop.dump_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shop.dump_threads() == []
    dump.close()


def test_an_event_over_16_mib_comes_whole(either: Shop) -> None:
    shop, half = either, 9 << 20
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v LONGBLOB)",
        f"INSERT INTO {shop.name}.t VALUES (1, REPEAT('x', {half}))",
    )
    shop.sql(f"UPDATE {shop.name}.t SET v = REPEAT('y', {half})", f"INSERT INTO {shop.name}.t VALUES (2, 'z')")
    rows = [r for r in shop.read() if r["op"] != "m"]
    assert [r["op"] for r in rows] == ["c", "u", "c"]
    before, after = rows[1]["before"]["value"], rows[1]["after"]["value"]
    assert (before.count(b"x" * 1024), after.count(b"y" * 1024)) == (half >> 10, half >> 10)


def test_refused_logins_and_grants_are_named(shop: Shop) -> None:
    shop.sql(f"CREATE USER IF NOT EXISTS '{shop.name}'@'%' IDENTIFIED BY 'secret'")
    wrong = shop.connection.model_copy(update={"login": shop.name, "password": SecretStr("guess")})
    right = wrong.model_copy(update={"password": SecretStr("secret")})
    nobody = shop.connection.model_copy(update={"port": 1})
    try:
        for connection, error in (
            (wrong, SourceAccessError),
            (right, SourceAccessError),
            (nobody, SourceUnavailableError),
        ):
            shop.connection = connection
            source = shop.open()
            with pytest.raises(error) as caught:
                source.plan(shop.begin, IMPATIENT)
            assert caught.value.hint
            assert "guess" not in str(caught.value)
            errors = {f.code for f in source.preflight(None) if f.level is Level.ERROR}
            assert error.code in errors
            source.close()
    finally:
        shop.sql(f"DROP USER '{shop.name}'@'%'")


def test_preflight_names_what_is_missing(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.keyless (id INT)")
    source = shop.open((f"{shop.name}.*", f"{shop.name}.nothing_like_it"))
    settings = {"binlog_format": "MIXED", "binlog_row_metadata": "MINIMAL", "binlog_row_image": "NOBLOB"}
    before = {name: shop.sql(f"SELECT @@GLOBAL.{name}")[0][0] for name in settings}
    try:
        for name, value in settings.items():
            shop.sql(f"SET GLOBAL {name} = '{value}'")
        found = {f.subject.partition(": ")[2]: f for f in source.preflight(None)}
    finally:
        for name, value in before.items():
            shop.sql(f"SET GLOBAL {name} = '{value}'")
    assert {name: found[name].level for name in settings} == {
        "binlog_format": Level.ERROR,
        "binlog_row_metadata": Level.WARN,
        "binlog_row_image": Level.WARN,
    }
    assert all(name in found[name].hint for name in settings)
    assert found[f"table {shop.name}.keyless"].code == "source_no_primary_key"
    assert "nothing_like_it" in found["tables"].message
    assert all(f.level is not Level.ERROR for f in source.preflight(None))
    source.close()


def test_rows_without_column_names_have_those_of_their_definition(shop: Shop) -> None:
    before = shop.sql("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, big BIGINT UNSIGNED)")
    begin = shop.open().latest_offset()
    try:
        shop.sql("SET GLOBAL binlog_row_metadata = 'MINIMAL'", f"INSERT INTO {shop.name}.t VALUES (1, 1 << 63)")
    finally:
        shop.sql(f"SET GLOBAL binlog_row_metadata = '{before}'")
    (row,) = shop.read(begin)
    assert (row["key"], fields(row["after"])) == (b'{"id":1}', {"id": 1, "big": 1 << 63})


def test_rows_whose_definition_cannot_be_told_stop_with_their_position(shop: Shop) -> None:
    before = shop.sql("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    begin = shop.open().latest_offset()
    try:
        shop.sql("SET GLOBAL binlog_row_metadata = 'MINIMAL'", f"INSERT INTO {shop.name}.t VALUES (1)")
    finally:
        shop.sql(f"SET GLOBAL binlog_row_metadata = '{before}'")
    shop.sql(f"ALTER TABLE {shop.name}.t RENAME COLUMN id TO other")
    changed = shop.open().latest_offset()
    with pytest.raises(SchemaUnknownError, match=f"rows of {shop.name}.t are logged as") as caught:
        shop.open().plan(begin, IMPATIENT)
    assert f"RENAME COLUMN id TO other (at {changed})" in caught.value.message
    assert "binlog_row_metadata=FULL" in caught.value.hint
    assert shop.open(start=str(changed)).start_offset().pos == changed.pos
