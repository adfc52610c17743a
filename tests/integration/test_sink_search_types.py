"""Indices with fields of a table's columns, on both servers."""

from __future__ import annotations

import base64
import json
import logging
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from tests.integration import search_target as given
from tests.integration.search_target import change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target


def orders(**columns):
    listed = (ColumnSchema("id", "int", "int"), *(ColumnSchema(name, kind, "string") for name, kind in columns.items()))
    return TableSchema(0, "shop", "Orders", listed, ("id",))


def document(key, **literals):
    """Return a document whose values are JSON texts, digit for digit."""
    return "{" + ",".join([f'"id":{key}', *(f'"{name}":{text}' for name, text in literals.items())]) + "}"


def fields(to):
    (described,) = to.client.indices.get_mapping(index=to.index()).values()
    return described["mappings"].get("properties", {})


def lacks_types(to):
    """Elasticsearch stands here without its modules: unsigned_long and scaled_float become keywords."""
    return to.connection.conn_type == "elasticsearch"


def found(to, query):
    to.client.indices.refresh(index=to.index())
    return sorted(hit["_id"] for hit in to.client.search(index=to.index(), body={"query": query})["hits"]["hits"])


EXTREMES = {
    "tinyint": ("-128", "127"),
    "bigint": (str(-(2**63)), str(2**63 - 1)),
    "bigint unsigned": ("0", str(2**64 - 1)),
    "bit(64)": ("0", str(2**64 - 1)),
    "year": ("0", "2155"),
    "float": ("-3.40282e38", "1.5"),
    "double": ("1.7976931348623157e308", "-0.0"),
    "decimal(18,0)": ("-" + "9" * 18, "9" * 18),
    "decimal(15,4)": ("-99999999999.9999", "0.0001"),
    "decimal(38,10)": ("-" + "9" * 28 + "." + "9" * 10, "0.0000000001"),
    "decimal(65,0)": (f'"{"9" * 65}"', '"-1"'),
    "date": ('"1000-01-01"', '"9999-12-31"', '"0000-00-00"', '"2024-02-30"', '"2024-00-10"'),
    "datetime": ('"1000-01-01T00:00:00"', '"9999-12-31T23:59:59"', '"0000-00-00T00:00:00"'),
    "datetime(6)": ('"2024-01-31T10:00:00.123456"', '"1000-01-01T00:00:00.000001"'),
    "timestamp(3)": ('"1970-01-01T00:00:01.000Z"', '"2038-01-19T03:14:07.999Z"', '"0000-00-00T00:00:00.000Z"'),
    "time(6)": ('"-838:59:59.000000"', '"838:59:59.000000"'),
    "varchar(50)": ('""', '"Übergröße 😀"'),
    "longtext": (json.dumps("x" * 70_000), '"2024-01-01"', '"12"'),
    "enum": ('""', '"new"'),
    "set": (json.dumps(",".join("m" * 250 for _ in range(64))), '""'),
    "json": (json.dumps('{"a": [1, {"b": null}]}'), '"1"'),
    "varbinary(9)": ('""', json.dumps(base64.b64encode(b"\0\xff\x10").decode())),
    "longblob": (json.dumps(base64.b64encode(b"\1" * 90_000).decode()), '"{\\"claimed\\": 1}"'),
    "geometry": (json.dumps(base64.b64encode(b"\0" * 25).decode()),),
}


def test_every_value_that_a_column_can_hold_is_taken(target):
    kinds = list(EXTREMES)
    to = target()
    to.prepare(orders(**{f"c{n}": kind for n, kind in enumerate(kinds)}))
    typed = fields(to)
    to.prepare(orders(**{f"c{n}": kind for n, kind in enumerate(kinds)}))
    assert len(typed) == len(kinds) + 2, "with id and __flags"
    rounds = max(map(len, EXTREMES.values()))
    written = [
        document(n, **{f"c{c}": EXTREMES[kind][n % len(EXTREMES[kind])] for c, kind in enumerate(kinds)})
        for n in range(rounds)
    ]
    written.append(document(rounds, **{f"c{c}": "null" for c in range(len(kinds))}))
    receipt = to.write(*(change("c", n, text, ordinal=n) for n, text in enumerate(written)))
    assert [row.cause for row in receipt.rejected] == []
    assert len(to.documents()) == rounds + 1
    assert fields(to) == typed, "the server has decided nothing itself"


def test_values_are_found_by_their_type(target):
    to = target()
    to.prepare(
        orders(
            u="bigint unsigned", d="decimal(12,2)", e="decimal(30,2)", at="datetime(6)", day="date", name="varchar(9)"
        )
    )
    to.write(
        change("c", 1, document(
            1, u=2**64 - 1, d="0.10", e="1234567890123456789012345678.90", at='"2024-01-31T10:00:00.123456"',
            day='"2024-01-31"', name='"Ann B"',
        )),
        change("c", 2, document(
            2, u=2**64 - 2, d="0.11", e="1234567890123456789012345678.91", at='"2024-01-31T10:00:00.124000"',
            day='"0000-00-00"', name='"ann"',
        ), ordinal=1),
    )  # fmt: skip
    if lacks_types(to):
        assert found(to, {"term": {"u": str(2**64 - 1)}}) == ["1"]
        assert found(to, {"term": {"d": "0.10"}}) == ["1"]
    else:
        assert found(to, {"range": {"u": {"gt": 2**64 - 2}}}) == ["1"]
        assert found(to, {"term": {"d": 0.1}}) == ["1"]
    assert found(to, {"term": {"e": "1234567890123456789012345678.91"}}) == ["2"]
    assert found(to, {"range": {"at": {"gte": "2024-01-31T10:00:00.124"}}}) == ["2"]
    assert found(to, {"range": {"day": {"gte": "1000-01-01"}}}) == ["1"]
    assert found(to, {"term": {"_ignored": "day"}}) == ["2"]
    assert found(to, {"match": {"name": "ann"}}) == ["1", "2"]
    assert found(to, {"term": {"name.keyword": "Ann B"}}) == ["1"]


def test_the_first_value_decides_nothing(target):
    """What dynamic mappings get wrong: a small first value, a text that looks like a date."""
    dynamic, typed = target(types="dynamic"), target()
    for to in (dynamic, typed):
        to.prepare(orders(u="bigint unsigned", name="varchar(20)", price="decimal(12,2)"))
        to.write(change("c", 1, document(1, u=1, name='"2024-01-01"', price="1")))
    second = change("c", 2, document(2, u=2**64 - 1, name='"never"', price="1.55"), 200)
    assert len(dynamic.write(second).rejected) == 1
    assert typed.write(second).rejected == ()


def test_columns_that_come_later_get_their_fields_first(target):
    to = target()
    to.prepare(orders(a="int"))
    to.write(change("c", 1, document(1, a=1)))
    wider = orders(a="int", u="bigint unsigned", day="date")
    with ThreadPoolExecutor(4) as pool:
        sinks = [ElasticsearchSink(to.spec, to.connection, to.flow) for _ in range(4)]
        list(pool.map(lambda sink: prepared(to, sink, wider), sinks))
        for sink in sinks:
            sink.close()
    assert fields(to)["u"]["type"] == ("keyword" if lacks_types(to) else "unsigned_long")
    assert fields(to)["day"]["type"] == "date"
    assert to.write(change("c", 2, document(2, a=1, u=2**64 - 1, day='"0000-00-00"'), 200)).rejected == ()


def prepared(to, sink, *tables):
    to.sink, own = sink, to.sink
    try:
        return to.prepare(*tables)
    finally:
        to.sink = own


def test_a_type_that_the_index_cannot_take_is_named_and_stops_nothing(target, caplog):
    to = target()
    to.prepare(orders(a="int"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            to.prepare(orders(a="varchar(9)", b="int"))
    warned = [record.getMessage() for record in caplog.records if "'a'" in record.getMessage()]
    assert len(warned) == 1
    assert f"field 'a' of index '{to.index()}' is long, its column now wants text" in warned[0]
    assert fields(to)["b"] == {"type": "long"}
    receipt = to.write(change("u", 1, document(1, a='"7"', b=1)), change("u", 2, document(2, a='"x"', b=1), ordinal=1))
    assert [row.key for row in receipt.rejected] == ['{"id":2}']
    assert set(to.documents()) == {"1"}


def test_the_flows_fields_win_and_an_index_that_is_there_keeps_its_own(target):
    given_ = target(mapping={"properties": {"a": {"type": "keyword"}}})
    given_.prepare(orders(a="int", b="int"))
    assert fields(given_)["a"] == {"type": "keyword"}
    assert fields(given_)["b"] == {"type": "long"}
    strict = target(mapping={"dynamic": "strict", "properties": {"id": {"type": "long"}}})
    strict.prepare(orders(a="int"))
    assert set(fields(strict)) == {"__flags", "id"}
    old = target()
    old.client.indices.create(index=old.index(), body={"mappings": {"properties": {"a": {"type": "text"}}}})
    old.prepare(orders(a="int", b="date"))
    assert fields(old)["a"] == {"type": "text"}
    assert fields(old)["b"]["type"] == "date"
    closed = target()
    closed.client.indices.create(index=closed.index(), body={"mappings": {"dynamic": False}})
    closed.prepare(orders(a="int"))
    assert fields(closed) == {}


def test_types_that_a_server_lacks_are_left_to_it(target, caplog, monkeypatch):
    monkeypatch.setattr(
        "databus.sinks.elasticsearch.mapping._PLAIN", {"int": {"type": "no_such_type"}, "date": {"type": "date"}}
    )
    to = target()
    with caplog.at_level(logging.WARNING):
        to.prepare(orders(a="int"))
    assert "is not made with types of the columns of shop.Orders" in caplog.text
    to.prepare(orders(a="int", b="date"))
    assert "does not take mappings of" in caplog.text
    assert to.write(change("c", 1, {"a": 1})).rejected == ()


def test_wide_tables_get_room(target):
    to = target()
    to.prepare(orders(**{f"c{n}": "varchar(9)" for n in range(700)}))
    assert to.write(change("c", 1, document(1, **{f"c{n}": '"x"' for n in range(700)}))).rejected == ()


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_columns_and_values_leaves_no_row_out(target, seed):
    """Columns are added, dropped and come back between batches; whatever value comes first, none is refused."""
    random_ = random.Random(seed)
    to, columns, rows = target(), {}, {}
    for batch in range(8):
        for _ in range(random_.randrange(3)):
            kind = random_.choice(list(EXTREMES))
            columns[f"c{list(EXTREMES).index(kind)}"] = kind
        if columns and random_.random() < 0.3:
            columns.pop(random_.choice(list(columns)))
        to.prepare(orders(**columns))
        changes = []
        for ordinal in range(4):
            key = random_.randrange(5)
            text = document(key, **{n: random_.choice([*EXTREMES[k], "null"]) for n, k in columns.items()})
            rows[str(key)] = text
            changes.append(change("u", key, text, 100 + 10 * batch, ordinal=ordinal))
        assert to.write(*changes).rejected == ()
    assert to.documents() == {key: json.loads(text) for key, text in rows.items()}
