"""Compressed logs on real servers: what is read is what SELECT gives, as without compression."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.log.scan import scan_events
from databus.core.errors import DecodeError
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset
from tests.contract.source_contract import EVERYTHING, Row, SourceContract, changes, rows_of
from tests.integration.binlog_shop import Shop
from tests.integration.compressed_shop import FLAVORS, CompressedShop, fold, make_shop

pytestmark = pytest.mark.integration
assert make_shop  # a fixture


@pytest.fixture(params=FLAVORS)
def shop(make_shop: Callable[[str, str], CompressedShop], request: pytest.FixtureRequest) -> CompressedShop:
    return make_shop(request.param, "numba")


@pytest.fixture
def mysql(make_shop: Callable[[str, str], CompressedShop]) -> CompressedShop:
    return make_shop("mysql", "numba")


class TestCompressedContract(SourceContract):
    @pytest.fixture(params=FLAVORS)
    def subject(self, make_shop: Callable[[str, str], Shop], request: pytest.FixtureRequest) -> Shop:
        return make_shop(request.param, "numba")


class TestLibraryCompressedContract(SourceContract):
    @pytest.fixture(params=FLAVORS)
    def subject(self, make_shop: Callable[[str, str], Shop], request: pytest.FixtureRequest) -> Shop:
        return make_shop(request.param, "library")


def write(shop: CompressedShop, seed: int, *, mixed: bool = False) -> None:
    """Write the same statements for the same seed: several tables in one transaction, small and large, DDL between."""
    r, switch = random.Random(seed), random.Random(seed)
    name = shop.name
    tables = [f"{name}.t{n}" for n in range(6)]
    for table in tables:
        shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(5000), n INT)")
    for number in range(16):
        if mixed:
            shop.compress(on=switch.random() < 0.5)
        statements = []
        for table in r.sample(tables, r.randint(1, 6)):
            rows = ",".join(
                f"({number * 100 + n},REPEAT('{r.choice('aé語')}',{r.randrange(1500)}),{r.choice(['NULL', '7'])})"
                for n in range(r.randint(1, 30))
            )
            statements += [
                f"INSERT INTO {table} (id, v, n) VALUES {rows}",
                f"UPDATE {table} SET n = id, v = 'new' WHERE id % 7 = 1",
            ]
        table = r.choice(tables)
        statements += [f"DELETE FROM {table} WHERE id % 5 = 2", f"UPDATE {table} SET id = id + 100000 WHERE id = 100"]
        shop.transaction(*statements)
        if number == 8:
            shop.sql(
                f"TRUNCATE {tables[0]}", f"ALTER TABLE {tables[1]} ADD extra VARCHAR(40) DEFAULT 'some default value'"
            )
        if number == 10:
            shop.sql("FLUSH BINARY LOGS")


@pytest.mark.parametrize("decoder", ["numba", "library"])
@pytest.mark.parametrize("apart", [False, True], ids=["one range", "two ranges"])
def test_rows_of_a_compressed_prepare_come_at_its_commit(
    make_shop: Callable[[str, str], CompressedShop], flavor: str, decoder: str, apart: bool
) -> None:
    shop = make_shop(flavor, decoder)
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARCHAR(900))")
    start = shop.open().latest_offset()
    values = ",".join(f"({n}, REPEAT('x', {n}))" for n in range(500))
    shop.sql("XA START 'small'", f"INSERT INTO {shop.name}.t VALUES {values}", "SAVEPOINT s")
    shop.sql(f"DELETE FROM {shop.name}.t WHERE id % 2", "ROLLBACK TO s", f"DELETE FROM {shop.name}.t WHERE id >= 300")
    shop.sql("XA END 'small'", "XA PREPARE 'small'")
    logged = {str(row[2]) for row in shop.sql(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.pos}")}
    assert any("payload" in kind or "compressed" in kind for kind in logged)
    if apart:
        source = shop.open()
        plan = source.plan(start, EVERYTHING)
        assert plan is not None
        assert (plan.rows, rows_of(source, plan)) == (0, [])
        assert isinstance(plan.range.end, BinlogOffset)
        start = plan.range.end
        source.close()
    shop.sql("XA COMMIT 'small'")
    rows = shop.read(start)
    assert [(r["op"], json.loads(r["key"])["id"]) for r in rows] == [
        *(("c", n) for n in range(500)), *(("d", n) for n in range(300, 500))
    ]  # fmt: skip


def told(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return what rows say, without what differs between two runs."""
    kept = ("op", "table", "ordinal", "part", "key", "before", "after", "schema_id")
    return [tuple(row[name] for name in kept) for row in rows if row["op"] != "m"]


@pytest.mark.parametrize("mixed", [False, True])
def test_rows_are_those_of_a_plain_log(
    make_shop: Callable[[str, str], CompressedShop], shop: CompressedShop, mixed: bool
) -> None:
    plain = make_shop(shop.flavor, "numba")
    plain.compress(on=False)
    write(plain, 5)
    shop.compress(on=True)
    write(shop, 5, mixed=mixed)
    rows = shop.read()
    assert told(rows) == told(plain.read())
    assert changes(rows) > 700
    assert shop.read(decoder="library") == rows


def test_folded_rows_are_what_select_gives(shop: CompressedShop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARCHAR(3000), n INT)")
    shop.sql("FLUSH BINARY LOGS")
    r = random.Random(7)
    for number in range(60):
        table = f"{shop.name}.t"
        shop.transaction(
            f"INSERT INTO {table} VALUES ({number}, REPEAT('é', {r.randrange(1500)}), NULL), (-{number + 1}, 'x', 1)",
            f"UPDATE {table} SET n = {number}, v = CONCAT(v, 'y') WHERE id < {r.randrange(60)}",
            f"DELETE FROM {table} WHERE id = {r.randrange(-60, 60)}",
        )
    name, data = shop.log()
    kinds = scan_events(data, file=name).events
    if shop.flavor == "mysql":
        assert kinds["TRANSACTION_PAYLOAD (40)"] == 60
    else:
        assert kinds["WRITE_ROWS_COMPRESSED_V1 (166)"] == 60
        assert kinds["UPDATE_ROWS_COMPRESSED_V1 (167)"] > 40
    found = fold(shop.decode())["t"]
    right = {i: {"id": i, "v": v, "n": n} for i, v, n in shop.sql(f"SELECT id, v, n FROM {shop.name}.t")}
    assert found == right
    shown = shop.sql(f"SHOW BINLOG EVENTS IN '{name}'")
    if shop.flavor == "mysql":
        ends = [int(e[4]) for e in shown if e[2] == "Transaction_payload"]
    else:
        ends = [int(e[4]) for e in shown if e[2] == "Xid"]
    assert shop.decode().transactions.end_pos.tolist() == ends


@pytest.mark.parametrize("checksum", ["NONE", "CRC32"])
def test_damage_at_rest_is_detected(shop: CompressedShop, checksum: str) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARCHAR(300))")
    shop.sql(f"SET GLOBAL binlog_checksum = {checksum}")
    try:
        shop.sql("FLUSH BINARY LOGS")
        shop.transaction(*(f"INSERT INTO {shop.name}.t VALUES ({n}, REPEAT('ab', 99))" for n in range(3)))
        name, data = shop.log()
    finally:
        shop.sql("SET GLOBAL binlog_checksum = CRC32")
    right = fold(decode_events(data, file=name))
    assert len(right["t"]) == 3
    r = random.Random(11)
    detected = 0
    for _ in range(300):
        damaged = bytearray(data)
        at = r.randrange(len(data) // 2, len(data))
        damaged[at] ^= 1 << r.randrange(8)
        try:
            list(decode_events(bytes(damaged), file=name))
        except DecodeError as found:
            detected += found.message.startswith(f"{name}:")
    assert detected == 300 if checksum == "CRC32" else detected > 100


def test_a_payload_larger_than_a_packet(mysql: CompressedShop) -> None:
    mysql.sql(f"CREATE TABLE {mysql.name}.big (id INT PRIMARY KEY, b LONGBLOB)")
    blobs = [random.Random(n).randbytes(3 << 20) for n in range(7)]
    with mysql._sql.cursor() as cursor:
        cursor.execute("BEGIN")
        for number, blob in enumerate(blobs):
            cursor.execute(f"INSERT INTO {mysql.name}.big VALUES (%s, _binary %s)", (number, blob))
        cursor.execute("COMMIT")
    name, data = mysql.log()
    assert scan_events(data, file=name).events["TRANSACTION_PAYLOAD (40)"] == 1
    assert len(data) > 0xFFFFFF
    source = mysql.open()
    plan = source.plan(mysql.begin, EVERYTHING)
    assert plan is not None
    assert plan.rows == len(blobs)
    rows = [r for r in rows_of(source, plan) if r["op"] == "c"]
    assert [blob in row["after"]["value"] for blob, row in zip(blobs, rows, strict=True)] == [True] * len(blobs)
    source.release(plan)
    source.close()


def test_preflight_lets_compression_pass(shop: CompressedShop) -> None:
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    settings = {"binlog_transaction_compression": "ON", "binlog_row_value_options": "'PARTIAL_JSON'"}
    if shop.flavor == "mariadb":
        settings = {"log_bin_compress": "ON"}

    def findings(level: Level) -> list[str]:
        return [f.subject for f in shop.open().preflight(shop.begin) if f.level is level]

    try:
        shop.sql(*(f"SET GLOBAL {name} = {value}" for name, value in settings.items()))
        assert findings(Level.ERROR) == []
        if shop.flavor == "mysql":
            shop.sql("SET GLOBAL binlog_row_image = 'MINIMAL'")
            assert findings(Level.ERROR) == []
            assert "shop: binlog_row_value_options" in findings(Level.WARN)
    finally:
        if shop.flavor == "mysql":
            shop.sql(
                "SET GLOBAL binlog_row_image = 'FULL'", "SET GLOBAL binlog_row_value_options = ''",
                "SET GLOBAL binlog_transaction_compression = OFF",
            )  # fmt: skip
