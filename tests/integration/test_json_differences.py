"""JSON columns that are logged as differences: the documents are those that SELECT gives, or named as not logged."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.log.scan import scan_events
from databus.core.errors import DecodeError
from tests.contract.source_contract import EVERYTHING, changes, rows_of
from tests.integration.compressed_shop import CompressedShop, fold, make_shop

pytestmark = pytest.mark.integration
assert make_shop  # a fixture

JSON_UPDATES = int(os.environ.get("DATABUS_JSON_UPDATES", "300"))
KEYS = ("a", "b", "c", "two words", 'q"uote', "ключ", "x.y", "z[0]", "", "$", "back\\slash")
COLUMNS = 9


@pytest.fixture
def mysql(make_shop: Callable[[str, str], CompressedShop]) -> CompressedShop:
    return make_shop("mysql", "numba")


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
