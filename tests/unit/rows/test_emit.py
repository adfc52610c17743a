# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.table_batch import TableEvent
from databus.core.errors import DecodeError
from databus.core.events import ROW_COLUMNS
from databus.core.stored_form import canonical_json
from databus.rows import emit as emit_module
from databus.rows.emit import emit, emit_events
from databus.rows.murmur2 import murmur2
from databus.rows.variant.images import arrow_schema
from databus.testing.table_batches import Image, Unrepresentable, batch, table, transactions

Read = Callable[[Any], Any]
SCHEMA = table("shop.orders", {"id": "int", "v": "text"}, schema_id=3)


def rows_of(*changes: tuple[Image | None, Image | None], **options: Any) -> list[dict[str, Any]]:
    return [r for piece in emit(batch(SCHEMA, changes, **options), transactions(4), "srv") for r in piece.to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(text: str, expected: int) -> None:
    assert murmur2(text.encode()) == expected


def test_columns_are_the_one_shape() -> None:
    piece = emit(batch(SCHEMA, [(None, {"id": 1, "v": "x"})]), transactions(), "srv")[0]

    assert piece.schema.equals(arrow_schema(), check_metadata=True)
    assert tuple(piece.schema.names) == tuple(name for name, _ in ROW_COLUMNS)
    assert piece.validate(full=True) is None


def test_one_row_of_each_kind(read: Read) -> None:
    insert, update, delete = rows_of(
        (None, {"id": 1, "v": "a"}), ({"id": 2, "v": "a"}, {"id": 2, "v": "b"}), ({"id": 3, "v": "c"}, None)
    )

    assert (insert["op"], read(insert["before"]), read(insert["after"])) == ("c", None, {"id": 1, "v": "a"})
    assert (update["op"], read(update["before"]), read(update["after"])) == (
        "u",
        {"id": 2, "v": "a"},
        {"id": 2, "v": "b"},
    )
    assert (delete["op"], read(delete["before"]), read(delete["after"])) == ("d", {"id": 3, "v": "c"}, None)
    assert [r["key"] for r in (insert, update, delete)] == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    assert insert["key_hash"] == murmur2(b'{"id":1}') & 0x7FFFFFFF
    without = {k: v for k, v in insert.items() if k not in ("before", "after", "key", "key_hash")}
    assert without == {
        "op": "c",
        "database": "shop",
        "table": "orders",
        "schema_id": 3,
        "log": "binlog.000001",
        "place": 104,
        "transaction": "source:1",
        "ordinal": 0,
        "part": 0,
        "event_id": "source:1:0:0",
        "ts_ms": 1_700_000_000_000,
        "server_id": 1,
        "statement": None,
        "flags": None,
        "absent": None,
        "other_key": None,
    }


def test_columns_that_an_after_image_lacks_are_named() -> None:
    rows = rows_of(
        ({"id": 1}, {"v": "b"}),
        (None, {"id": 2}),
        ({"id": 3}, None),
        (None, {"id": 4, "v": None}),
        ({"id": 5}, {"id": 6}),
    )
    assert [(r["op"], r["absent"]) for r in rows] == [
        ("u", ["id"]), ("c", ["v"]), ("d", None), ("c", None), ("d", ["v"]), ("c", ["v"]),
    ]  # fmt: skip


def test_both_halves_of_a_primary_key_update_name_the_other_key() -> None:
    rows = rows_of(
        (None, {"id": 1, "v": "a"}),
        ({"id": 1, "v": "a"}, {"id": 2, "v": "b"}),
        ({"id": 2, "v": "b"}, {"id": 2, "v": "c"}),
        ({"id": 2}, {"id": 3}),
    )
    assert [(r["key"], r["other_key"]) for r in rows] == [
        (b'{"id":1}', None),
        (b'{"id":1}', b'{"id":2}'),
        (b'{"id":2}', b'{"id":1}'),
        (b'{"id":2}', None),
        (b'{"id":2}', b'{"id":3}'),
        (b'{"id":3}', b'{"id":2}'),
    ]


def test_a_changed_key_becomes_delete_and_insert(read: Read) -> None:
    first, old, new, last = rows_of(
        (None, {"id": 1, "v": "a"}), ({"id": 1, "v": "a"}, {"id": 2, "v": "b"}), ({"id": 2, "v": "b"}, None)
    )

    assert (old["op"], old["key"], old["part"], read(old["before"]), read(old["after"])) == (
        "d",
        b'{"id":1}',
        0,
        {"id": 1, "v": "a"},
        None,
    )
    assert (new["op"], new["key"], new["part"], read(new["before"]), read(new["after"])) == (
        "c",
        b'{"id":2}',
        1,
        None,
        {"id": 2, "v": "b"},
    )
    assert old["ordinal"] == new["ordinal"] == 1
    assert (old["event_id"], new["event_id"]) == ("source:1:1:0", "source:1:1:1")
    assert (first["ordinal"], last["ordinal"]) == (0, 2)


def test_without_gtid_the_boundary_names_the_event() -> None:
    piece = emit(batch(SCHEMA, [(None, {"id": 1})], transactions=[2], ordinals=[7]), transactions(4, gtid=False), "9")

    row = piece[0].to_pylist()[0]
    assert (row["event_id"], row["transaction"], row["place"]) == ("9:binlog.000001:304:7:0", "", 304)


def test_event_ids_of_a_log_that_replaced_another_are_others() -> None:
    changes = batch(SCHEMA, [(None, {"id": 1, "v": "x"})])
    for log in (transactions(), transactions(gtid=False)):
        (former,), (later,) = (emit(changes, log, "srv", prefix=prefix) for prefix in ("", "log1/"))
        assert later["event_id"].to_pylist() == [f"log1/{event}" for event in former["event_id"].to_pylist()]
        assert later["transaction"].equals(former["transaction"])


def test_order_is_transaction_ordinal_part() -> None:
    found = rows_of(
        (None, {"id": 5}),
        ({"id": 1}, {"id": 2}),
        (None, {"id": 4}),
        (None, {"id": 3}),
        transactions=[2, 1, 1, 0],
        ordinals=[0, 10, 9, 0],
    )

    assert [(r["place"], r["ordinal"], r["part"]) for r in found] == [
        (104, 0, 0),
        (204, 9, 0),
        (204, 10, 0),
        (204, 10, 1),
        (304, 0, 0),
    ]
    assert [r["key"] for r in found] == [b'{"id":%d}' % n for n in (3, 4, 1, 2, 5)]


def test_a_table_without_a_key_has_none() -> None:
    schema = table("shop.log", {"v": "text"}, ())

    row = emit(batch(schema, [({"v": "a"}, {"v": "b"})]), transactions(), "srv")[0].to_pylist()[0]

    assert (row["op"], row["key"], row["key_hash"], row["part"]) == ("u", None, 0, 0)


def test_minimal_images_take_the_key_from_the_image_that_has_it(read: Read) -> None:
    schema = table("shop.t", {"a": "int", "b": "int", "v": "text"}, ("b", "a"))
    changes = [({"a": 1, "b": 2}, {"v": "x"}), ({"a": 1, "b": 2}, {"b": 3}), ({"a": 1, "b": 3}, None)]

    found = [r for piece in emit(batch(schema, changes), transactions(), "srv") for r in piece.to_pylist()]

    assert [(r["op"], r["key"]) for r in found] == [
        ("u", b'{"b":2,"a":1}'),
        ("d", b'{"b":2,"a":1}'),
        ("c", b'{"b":3,"a":1}'),
        ("d", b'{"b":3,"a":1}'),
    ]
    assert read(found[0]["after"]) == {"v": "x"}


def test_a_change_without_its_key_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"shop\.orders does not carry its key column id"):
        rows_of((None, {"v": "x"}))


KEYS: list[tuple[str, Any, Any]] = [
    ("bigint unsigned", 2**64 - 1, 2**64 - 1),
    ("tinyint", -1, -1),
    ("date", dt.date(2024, 1, 2), "2024-01-02"),
    ("datetime(3)", dt.datetime(2024, 1, 2, 3, 4, 5, 6000), "2024-01-02T03:04:05.006"),
    ("date", Unrepresentable("0000-00-00"), "0000-00-00"),
    ("binary(3)", b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
    ("varbinary(9)", b"", ""),
    ("varchar(9)", 'é"\\\n\x01\x7f/', 'é"\\\n\x01\x7f/'),
    ("varchar(9)", "", ""),
    ("year", 2024, 2024),
]


@pytest.mark.parametrize(("kind", "value", "expected"), KEYS)
def test_keys_are_canonical_json(kind: str, value: Any, expected: Any) -> None:
    schema = table("shop.t", {'k"é': kind}, ('k"é',))

    row = emit(batch(schema, [(None, {'k"é': value})]), transactions(), "srv")[0].to_pylist()[0]

    assert row["key"] == canonical_json({'k"é': expected})


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("decimal(12,2)", Decimal("-1.50"), "-1.50"),
        ("decimal(12,2)", Decimal("0.00"), "0.00"),
        ("decimal(30,20)", Decimal("0.00000000000000000001"), "0.00000000000000000001"),
        ("decimal(38,0)", Decimal("9" * 38), "9" * 38),
    ],
)
def test_decimal_keys_are_plain_numbers(kind: str, value: Decimal, text: str) -> None:
    schema = table("shop.t", {"k": kind}, ("k",))

    row = emit(batch(schema, [(None, {"k": value})]), transactions(), "srv")[0].to_pylist()[0]

    assert row["key"] == f'{{"k":{text}}}'.encode()
    assert Decimal(str(json.loads(row["key"], parse_float=Decimal)["k"])) == value


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.binary()), min_size=1, max_size=5))
def test_any_text_and_binary_key(values: list[tuple[str, bytes]]) -> None:
    schema = table("shop.t", {"b": "blob", "a": "text"}, ("b", "a"))
    found = emit(batch(schema, [(None, {"a": a, "b": b}) for a, b in values]), transactions(), "srv")[0]

    expected = [
        json.dumps({"b": base64.b64encode(b).decode(), "a": a}, separators=(",", ":"), ensure_ascii=False).encode()
        for a, b in values
    ]
    assert found.column("key").to_pylist() == expected
    assert found.column("key_hash").to_pylist() == [murmur2(key) & 0x7FFFFFFF for key in expected]


def test_large_rows_are_cut_into_several_batches(monkeypatch: pytest.MonkeyPatch, read: Read) -> None:
    monkeypatch.setattr(emit_module, "MAX_BATCH_BYTES", 1000)
    sizes = [10, 400, 400, 400, 5000, 10, 10]

    pieces = emit(batch(SCHEMA, [(None, {"id": n, "v": "x" * s}) for n, s in enumerate(sizes)]), transactions(), "srv")

    assert [piece.num_rows for piece in pieces] == [3, 1, 1, 2]
    found = [read(v) for piece in pieces for v in piece.column("after").to_pylist()]
    assert [(r["id"], len(r["v"])) for r in found] == list(enumerate(sizes))


def test_an_empty_batch_is_no_rows() -> None:
    assert emit(batch(SCHEMA, []), transactions(), "srv") == []
    assert emit_events([], transactions(), "srv") == []


def test_statements_have_neither_key_nor_images() -> None:
    events = [
        TableEvent("m", "shop", "", "CREATE DATABASE shop", 1, 0),
        TableEvent("t", "shop", "orders", "TRUNCATE orders", 0, 2),
    ]

    piece = emit_events(events, transactions(2), "srv")[0]

    piece.validate(full=True)
    assert piece.column("before").field("value").null_count == 0
    truncate, ddl = piece.to_pylist()
    assert (truncate["op"], truncate["table"], truncate["event_id"]) == ("t", "orders", "source:1:2:0")
    assert (ddl["op"], ddl["table"], ddl["statement"]) == ("m", "", "CREATE DATABASE shop")
    for row in (truncate, ddl):
        assert (row["schema_id"], row["key"], row["key_hash"], row["before"], row["after"]) == (-1, None, 0, None, None)


def test_the_same_batch_comes_out_the_same() -> None:
    changes = [({"id": n}, {"id": n + n % 2, "v": "x"}) for n in range(100)]
    first, second = (emit(batch(SCHEMA, changes), transactions(), "srv") for _ in range(2))

    assert first == second
    assert np.concatenate([piece.column("part").to_numpy() for piece in first]).sum() == 50


def test_values_that_are_not_of_their_type_are_flagged_and_kept(read: Read) -> None:
    schema = table("shop.t", {"name": "varchar(20)", "born": "date", "v": "int"}, ["name"])
    bad, worse = Unrepresentable(b"\xff\xfe"), Unrepresentable(b"\xff")
    never = Unrepresentable("0000-00-00")
    piece, *_ = emit(
        batch(
            schema,
            [
                (None, {"name": bad, "born": never, "v": 1}),
                ({"name": bad, "born": never}, {"born": dt.date(2024, 1, 2)}),
                ({"name": bad, "v": 1}, {"name": worse, "v": None}),
                ({"name": "w", "born": None, "v": 1}, None),
            ],
        ),
        transactions(),
        "srv",
    )
    rows = piece.to_pylist()
    assert [row["flags"] for row in rows] == [
        ["after.name:undecodable", "after.born:invalid_date"],
        ["before.name:undecodable", "before.born:invalid_date"],
        ["before.name:undecodable"],  # a changed key: the delete of the old one
        ["after.name:undecodable"],  # and the insert of the new
        None,
    ]
    assert read(rows[0]["after"]) == {"name": b"\xff\xfe", "born": "0000-00-00", "v": 1}
    keys = [row["key"] for row in rows]
    assert keys[0] == b'{"name":{"base64":"//4="}}'
    assert keys == [keys[0]] * 3 + [b'{"name":{"base64":"/w=="}}', b'{"name":"w"}']
