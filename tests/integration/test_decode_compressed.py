"""Compressed logs and JSON differences on real servers: what is read is what SELECT gives, as without them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.decoding.decode import DecodedEvents, decode_events
from databus.binlog.decoding.table_batch import DELETE, TableBatch
from databus.binlog.log.scan import scan_events
from databus.core.errors import DecodeError
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset
from databus.sandbox import Sandbox
from tests.contract.source_contract import EVERYTHING, Row, SourceContract, changes, rows_of
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration

FLAVORS = ("mysql", "mariadb")
COMPRESS = {"mysql": "SET SESSION binlog_transaction_compression = {}", "mariadb": "SET GLOBAL log_bin_compress = {}"}
JSON_UPDATES = int(os.environ.get("DATABUS_JSON_UPDATES", "300"))


class CompressedShop(Shop):
    """A shop whose own transactions are logged compressed, down to the smallest event."""

    def __init__(self, flavor: str, address: str, folder: Path, decoder: str):
        super().__init__(flavor, address, folder, decoder)
        if flavor == "mariadb":
            self.sql("SET GLOBAL log_bin_compress_min_len = 10")
        self.compress(on=True)

    def compress(self, *, on: bool) -> None:
        self.sql(COMPRESS[self.flavor].format("ON" if on else "OFF"))

    def log(self) -> tuple[str, bytes]:
        """Return name and events of the newest log file, from the disk."""
        ((_, base),) = self.sql("SHOW VARIABLES LIKE 'log_bin_basename'")
        name = str(self.sql("SHOW BINARY LOGS")[-1][0])
        return name, Path(base).with_name(name).read_bytes()[4:]

    def decode(self) -> DecodedEvents:
        name, data = self.log()
        return decode_events(data, file=name, tables=lambda database, _: database == self.name)

    def drop(self) -> None:
        self.sql("ROLLBACK")
        self.compress(on=False)
        super().drop()


@pytest.fixture
def make_shop(databases: Sandbox, tmp_path: Path) -> Iterator[Callable[[str, str], CompressedShop]]:
    made: list[CompressedShop] = []

    def make(flavor: str, decoder: str = "numba") -> CompressedShop:
        made.append(CompressedShop(flavor, databases.address(flavor), tmp_path, decoder))
        return made[-1]

    yield make
    for shop in made:
        shop.drop()


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


def fold(events: DecodedEvents) -> dict[str, dict[int, dict[str, Any]]]:
    """Apply the decoded changes in log order; each before-image must be the row as it stood."""
    todo = []
    for batch in events:
        if not isinstance(batch, TableBatch):
            continue
        images = batch.images.to_pylist()
        for n, op in enumerate(batch.op.tolist()):
            before, after = int(batch.before_row[n]), int(batch.after_row[n])
            place = (int(batch.transaction[n]), int(batch.ordinal[n]))
            todo.append((place, batch.schema.table, op, images[before], images[after], before, after))
    tables: dict[str, dict[int, dict[str, Any]]] = {}
    for _, name, op, old, new, before, _ in sorted(todo, key=lambda x: x[0]):
        rows = tables.setdefault(name, {})
        if before >= 0:
            assert rows.pop(old["id"]) == old
        if op != DELETE:
            rows[new["id"]] = new
    return tables


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


KEYS = ("a", "b", "c", "two words", 'q"uote', "ключ", "x.y", "z[0]", "", "$", "back\\slash")
COLUMNS = 9


def some_json(r: random.Random, depth: int = 0) -> Any:
    kind = r.random()
    if depth < 3 and kind < 0.35:
        return {r.choice(KEYS): some_json(r, depth + 1) for _ in range(r.randrange(5))}
    if depth < 3 and kind < 0.7:
        return [some_json(r, depth + 1) for _ in range(r.randrange(5))]
    numbers = (r.randrange(-(2**15), 2**15), r.randrange(-(2**40), 2**40), 2**63 + 5, 1.5e-7)
    return r.choice([None, True, False, *numbers, "", 'é\n"\\', "str" * r.randrange(60), "x" * r.randrange(400)])


def some_path(r: random.Random) -> str:
    legs = (
        "." + json.dumps(r.choice(KEYS), ensure_ascii=False)
        if r.random() < 0.55
        else f"[{r.choice(['0', '1', '2', '3', '99', 'last', 'last-1'])}]"
        for _ in range(r.randrange(1, 4))
    )
    return "$" + "".join(legs)


def some_change(r: random.Random, expression: str, values: list[Any]) -> str:
    call, path = r.choice(("JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE")), some_path(r)
    values.append(path)
    if call == "JSON_REMOVE":
        return f"JSON_REMOVE({expression}, %s)"
    values.append(json.dumps(some_json(r, 1)))
    return f"{call}({expression}, %s, CAST(%s AS JSON))"


def write_json(shop: CompressedShop, r: random.Random, updates: int, *, mixed: bool = True) -> None:
    """Insert documents, and change them in place by chains of functions that the server logs as differences."""
    with shop._sql.cursor() as cursor:
        for number in range(20):
            documents = [None if r.random() < 0.1 else json.dumps(some_json(r)) for _ in range(COLUMNS)]
            marks = ",".join(["%s"] * (COLUMNS + 2))
            cursor.execute(f"INSERT INTO {shop.name}.j VALUES ({marks})", [number, 0, *documents])
        for _ in range(updates):
            if mixed:
                shop.compress(on=r.random() < 0.5)
            assignments, values = [], []
            for column in r.sample(range(COLUMNS), r.randrange(1, 4)):
                expression = f"j{column}"
                steps: list[Any] = []
                for _ in range(r.randrange(1, 4)):
                    expression = some_change(r, expression, steps)
                assignments.append(f"j{column} = {expression}")
                values += steps
            if r.random() < 0.3:
                assignments.append("n = n + 1")
            where = f"id = {r.randrange(20)}" if r.random() < 0.8 else "id < 10"
            cursor.execute(f"UPDATE {shop.name}.j SET {', '.join(assignments)} WHERE {where}", values)


def create_json(shop: CompressedShop) -> None:
    columns = ", ".join(f"j{n} JSON" for n in range(COLUMNS))
    shop.sql(f"CREATE TABLE {shop.name}.j (id INT PRIMARY KEY, n INT, {columns})", "FLUSH BINARY LOGS")


def test_json_differences_give_the_documents_that_select_gives(mysql: CompressedShop) -> None:
    seed = random.SystemRandom().getrandbits(32)
    create_json(mysql)
    mysql.sql("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
    write_json(mysql, random.Random(seed), JSON_UPDATES)
    name, data = mysql.log()
    assert scan_events(data, file=name).events["PARTIAL_UPDATE_ROWS (39)"] >= JSON_UPDATES // 2
    found = fold(mysql.decode())["j"]
    wrong = []
    for number, _, *documents in mysql.sql(f"SELECT * FROM {mysql.name}.j"):
        for column, right in enumerate(documents):
            ours = found[number][f"j{column}"]
            # Keys stand in the same order; only the blanks of SELECT are not ours.
            same = ours == right if None in (ours, right) else list_of(ours) == list_of(right)
            wrong += [] if same else [(seed, number, column, ours, right)]
    assert wrong[:3] == []
    rows = mysql.read()
    assert changes(rows) == sum(len(b) for b in mysql.decode() if isinstance(b, TableBatch))


def test_the_library_decoder_is_given_whole_documents(mysql: CompressedShop) -> None:
    create_json(mysql)
    mysql.sql("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
    texts = '", "'.join("abcdefghij" * 3 for _ in range(9))
    mysql.sql(f"""INSERT INTO {mysql.name}.j (id, j0, j8) VALUES (1, '{{"k": ["{texts}"]}}', '["{texts}"]')""")
    for n in range(9):
        mysql.compress(on=n % 2 == 0)
        mysql.sql(
            f"UPDATE {mysql.name}.j SET j0 = JSON_SET(j0, '$.k[{n}]', {n}, '$.new', 'é'), "
            f"j8 = JSON_REMOVE(j8, '$[0]'), n = {n}"
        )
    rows = mysql.read()
    assert changes(rows) == 10
    assert b'"k":[0,1,2,3,4,5,6,7,8]' in rows[-1]["after"]["value"]
    assert mysql.read(decoder="library") == rows


def list_of(text: str) -> Any:
    """Return a document with its objects as lists of pairs, so that the order of keys counts."""
    return json.loads(text, object_pairs_hook=lambda pairs: ["object", *pairs])


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_documents_that_are_not_logged_are_never_null(mysql: CompressedShop, image: str) -> None:
    """NOBLOB logs a JSON column of an update only when it changed; the before-image has it if the server needs it."""
    table = f"{mysql.name}.j"
    create_json(mysql)
    mysql.sql(f"SET SESSION binlog_row_image = '{image}', binlog_row_value_options = 'PARTIAL_JSON'")
    mysql.sql(
        f"""INSERT INTO {table} (id, n, j1, j8) """
        """VALUES (1, 0, '{"k": [1, 2]}', '["a text that is longer than a difference", 5]')""",
        f"UPDATE {table} SET j1 = JSON_SET(j1, '$.k[0]', 7) WHERE id = 1",
        f"UPDATE {table} SET j8 = JSON_REMOVE(j8, '$[1]'), n = 3 WHERE id = 1",
        f"UPDATE {table} SET j1 = JSON_SET(j1, '$.k[0]', 7), n = 4 WHERE id = 1",
        f"UPDATE {table} SET n = 5, j8 = '{{}}' WHERE id = 1",
        f"DELETE FROM {table}",
    )
    source = mysql.open()
    plan = source.plan(mysql.begin, EVERYTHING)
    assert plan is not None
    assert plan.rows == 6
    updates = []
    for batch in mysql.decode():
        assert isinstance(batch, TableBatch)
        names = batch.images.schema.names
        for after in batch.after_row[batch.op == 1].tolist():
            present = batch.presence_sets[batch.presence[after]]
            unknown = {names[column] for column, images in batch.partial.items() if after in images}
            carried = {
                n: batch.images.column(n)[after].as_py() for n, there in zip(names, present, strict=True) if there
            }
            updates.append((unknown, {n: v for n, v in carried.items() if n in ("n", "j1", "j8")}))
    if image == "MINIMAL":
        assert updates == [
            ({"j1"}, {}),
            ({"j8"}, {"n": 3}),
            (set(), {"n": 4}),
            (set(), {"n": 5, "j8": "{}"}),
        ]
        flags = [r["flags"] for r in rows_of(source, plan) if r["op"] == "u"]
        assert flags == [["after.j1:partial"], ["after.j8:partial"], None, None]
        with pytest.raises(DecodeError, match=rf"{mysql.name}\.j\.j1"):
            mysql.read(decoder="library")
    else:
        # The server logs a whole before-image where it logs differences.
        assert [u for u, _ in updates] == [set()] * 4
        assert [c.get("j1") for _, c in updates][:2] == ['{"k":[7,2]}', '{"k":[7,2]}']
        short = '["a text that is longer than a difference"]'
        assert [c.get("j8") for _, c in updates][1:] == [short, short, "{}"]
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
