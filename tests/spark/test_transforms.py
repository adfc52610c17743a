"""Each transform on real DataFrames."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.core.errors import TransformError
from databus.core.flow_specs import TransformSpec
from databus.rows.emit import emit_events
from databus.rows.frames.changes import FrameChanges
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from databus.transforms.drop import DropColumns
from databus.transforms.filter import Filter
from databus.transforms.hash import Hash
from databus.transforms.mask import Mask
from databus.transforms.project import Project
from databus.transforms.rename import RenameColumns
from databus.transforms.route import Route

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

ORDERS = table(
    "shop.orders",
    {"id": "bigint", "amount": "decimal(12,2)", "created_at": "datetime(6)", "card": "varchar(20)", "code": "int"},
)
CUSTOMERS = table("shop.customers", {"id": "bigint unsigned", "code": "varchar(8)", "email": "text"}, schema_id=1)


def order(id: int, amount: str | None = "10.50", day: int = 1, card: str | None = "4111111111111111") -> dict[str, Any]:  # noqa: A002
    value = None if amount is None else Decimal(amount)
    return {"id": id, "amount": value, "created_at": dt.datetime(2024, 1, day), "card": card, "code": 7}


def orders(*rows: tuple[Any, Any]) -> TableBatch:
    return batch(ORDERS, rows)


def customers(*rows: tuple[Any, Any]) -> TableBatch:
    return batch(CUSTOMERS, rows)


def apply(changes: FrameChanges, *specs: TransformSpec) -> FrameChanges:
    for spec in specs:
        changes = spec.apply(changes)  # type: ignore[assignment]  # the protocol's one implementation
    return changes


def kept(changes: FrameChanges) -> list[bytes | None]:
    rows = changes.materialize().orderBy("database", "table", "ordinal").select("key", "filtered").collect()
    return [bytes(row["key"]).decode() for row in rows if not row["filtered"]]


def images(changes: FrameChanges) -> list[tuple[Any, Any]]:
    rows = changes.materialize().orderBy("table", "ordinal").selectExpr("to_json(before)", "to_json(after)").collect()
    return [tuple(json.loads(text) if text else None for text in row) for row in rows]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("amount > 100.5", [2]),
        ("amount = 100.50 OR `Amount` IS NULL", [1, 3]),
        ("created_at >= timestamp'2024-01-02'", [2, 4]),
        ("_op = 'd'", [4]),
        ("_table = 'orders' AND _database = 'shop' AND _ts_ms > 0", [1, 2, 3, 4]),
        ("before.amount <> after.amount", [2]),
        ("before.id IS NULL", [1, 3]),
        ("card LIKE '4%' -- visa", [1, 2, 4]),
        ("NULL", []),
    ],
)
def test_filter_sees_typed_columns(changes_of: Build, condition: str, expected: list[int]) -> None:
    changes = changes_of(
        orders(
            (None, order(1, "100.50")),
            (order(2, "5"), order(2, "100.51", day=2)),
            (None, order(3, None, card=None)),
            (order(4, day=3), None),
        )
    )

    result = apply(changes, Filter(condition))

    assert kept(result) == [f'{{"id":{n}}}' for n in expected]
    assert result.rows.count() == 4


def test_filter_knows_each_tables_own_types(changes_of: Build) -> None:
    rows = (None, {"id": 1, "code": "0", "email": "a"}), (None, {"id": 2**64 - 1, "code": "x7", "email": None})
    changes = changes_of(orders((None, order(1))), customers(*rows))

    assert kept(apply(changes, Filter("code > 5", tables=("*.orders",)))) == [
        '{"id":1}',
        '{"id":18446744073709551615}',
        '{"id":1}',
    ]
    assert kept(apply(changes, Filter("code = '0'", tables=("shop.cust*",)))) == ['{"id":1}', '{"id":1}']
    assert kept(apply(changes, Filter("id > 9223372036854775807"))) == ['{"id":18446744073709551615}']


def test_filter_uses_the_before_image_where_the_after_image_is_partial(changes_of: Build) -> None:
    changes = changes_of(orders(({"id": 1, "amount": Decimal(500)}, {"card": "x"})))

    assert kept(apply(changes, Filter("amount > 100 AND card = 'x'"))) == ['{"id":1}']


def test_filter_on_an_unknown_column_names_table_and_columns(changes_of: Build) -> None:
    with pytest.raises(TransformError, match=r"shop\.customers has no column 'amount'") as raised:
        apply(changes_of(orders((None, order(1))), customers()), Filter("amount > 1"))

    assert raised.value.code == "column_unknown"
    assert "id, code, email" in raised.value.hint


def test_statements_pass_filters_and_are_routed(changes_of: Build) -> None:
    events = emit_events(
        [TableEvent("t", "shop", "orders_old", "TRUNCATE orders_old", 1, 0)], transactions(2), "server"
    )
    changes = changes_of(orders((None, order(1, "1"))), statements=events)

    result = apply(changes, Filter("amount > 5"), DropColumns("card"), Route({"shop.orders?old": "archive"}))

    rows = result.materialize().orderBy("op").select("op", "filtered", "route", "before", "statement").collect()
    assert [tuple(row) for row in rows] == [
        ("c", True, "shop.orders", None, None),
        ("t", False, "archive", None, "TRUNCATE orders_old"),
    ]


def test_drop_leaves_the_value_nowhere(changes_of: Build) -> None:
    changes = changes_of(
        orders((None, order(1)), (order(1), order(2)), (order(2), None)), customers((None, {"id": 1, "email": "e"}))
    )

    result = apply(changes, DropColumns("CARD"))

    assert all("card" not in (image or {}) for pair in images(result) for image in pair)
    assert "4111" not in json.dumps([row.asDict() for row in result.materialize().collect()], default=_bytes_as_text)
    assert [c.name for c in result.schema(0).columns] == ["id", "amount", "created_at", "code"]
    assert images(result)[0] == (None, {"id": 1, "email": "e"})


def _bytes_as_text(value: Any) -> str:
    data = getattr(value, "_value", value)
    return bytes(data).decode("latin-1") if isinstance(data, bytes | bytearray) else str(value)


def test_rebuilding_keeps_types_and_absence(changes_of: Build) -> None:
    columns = {
        "id": "int",
        "u": "bigint unsigned",
        "d": "decimal(38,10)",
        "f": "float",
        "b": "blob",
        "z": "date",
        "gone": "int",
        "n": "int",
        "e": "text",
    }
    schema = table("shop.t", columns)
    row = {
        "id": 1,
        "u": 2**64 - 1,
        "d": Decimal("9999999999999999999999999999.0000000001"),
        "f": 0.1,
        "b": b"\xff",
        "z": Unrepresentable("2024-00-00"),
        "n": None,
        "e": "",
    }
    changes = changes_of(batch(schema, [(None, row)]))
    plain = changes.rows.selectExpr("schema_of_variant(after)", "to_json(after)").collect()[0]

    rebuilt = apply(changes, RenameColumns({"gone": "left", "e": "empty"}), DropColumns("id", tables=("other.*",)))

    kind, text = rebuilt.materialize().selectExpr("schema_of_variant(after)", "to_json(after)").collect()[0]
    before = json.loads(plain[1], parse_float=str)
    before["empty"] = before.pop("e")
    assert json.loads(text, parse_float=str) == before
    assert sorted(kind[7:-1].replace("empty", "e").split(", ")) == sorted(plain[0][7:-1].split(", "))
    typed = rebuilt.rows.select(*[rebuilt.column(n, rebuilt.tables[0]) for n in ("u", "d", "b", "z", "left", "empty")])
    assert tuple(typed.collect()[0]) == (Decimal(2**64 - 1), row["d"], bytearray(b"\xff"), None, None, "")


def test_mask_hides_both_images_and_keeps_null(changes_of: Build) -> None:
    changes = changes_of(
        orders((order(1), order(1, card=None)), (None, order(2, card="123")), ({"id": 3}, {"code": 1}))
    )

    result = apply(changes, Mask("card", keep_last=4, value="…"), Mask("amount", "code"))

    (one_before, one_after), (_, two), (three_before, three_after) = images(result)
    assert one_before["card"] == "…1111"
    assert one_after["card"] is None
    assert two["card"] == "…"
    assert (two["amount"], two["code"]) == ("***", "***")
    assert (three_before, three_after) == ({"id": 3}, {"code": "***"})
    assert {c.name: c.spark_type for c in result.tables[0].columns}["amount"] == "string"


def test_hash_is_sha256_of_the_text(changes_of: Build) -> None:
    schema = table("shop.t", {"id": "int", "email": "text", "raw": "blob", "amount": "decimal(5,2)", "at": "date"})
    row = {"id": 1, "email": "ü@x", "raw": b"\xff\x00", "amount": Decimal("1.50"), "at": dt.date(2024, 1, 2)}

    result = images(apply(changes_of(batch(schema, [(None, row)])), Hash("email", "raw", "amount", "at")))[0][1]

    expected = {"email": "ü@x".encode(), "raw": b"\xff\x00", "amount": b"1.5", "at": b"2024-01-02"}
    assert {name: result[name] for name in expected} == {n: hashlib.sha256(v).hexdigest() for n, v in expected.items()}


def test_rewrites_chain_with_renames_and_filters(changes_of: Build) -> None:
    changes = changes_of(orders((None, order(1)), (None, order(2, card="5500000000000004"))))

    result = apply(
        changes,
        Mask("card", keep_last=4),
        RenameColumns({"card": "tail", "id": "number"}),
        Filter("tail = '***1111' AND number > 0"),
        Project("number", "tail"),
    )

    assert kept(result) == ['{"id":1}']
    assert images(result)[0] == (None, {"number": 1, "tail": "***1111"})
    assert result.tables[0].primary_key == ("number",)
    assert images(result.materialized()) == images(result)


def test_project_keeps_the_record_key(changes_of: Build) -> None:
    result = apply(changes_of(orders((order(1), order(1, "2")))), Project("amount"))

    assert images(result) == [({"amount": 10.5}, {"amount": 2})]
    assert kept(result) == ['{"id":1}']


@pytest.mark.parametrize("spec", [DropColumns("id"), Mask("ID"), Hash("id"), DropColumns("id", tables=("shop.*",))])
def test_key_columns_are_not_hidden(changes_of: Build, spec: TransformSpec) -> None:
    with pytest.raises(TransformError, match=r"id is part of the primary key of shop\.orders") as raised:
        apply(changes_of(orders((None, order(1)))), spec)
    assert raised.value.code == "key_column_hidden"


def test_a_renamed_key_column_is_not_hidden_either(changes_of: Build) -> None:
    with pytest.raises(TransformError, match="primary key"):
        apply(changes_of(orders((None, order(1)))), RenameColumns({"id": "x"}), Mask("x"))


@pytest.mark.parametrize(
    "spec",
    [
        DropColumns("nope", tables=("shop.orders",)),
        Project("id", "nope", tables=("shop.o*",)),
        Mask("nope", tables=("*.*",)),
    ],
)
def test_a_table_meant_by_name_must_have_the_column(changes_of: Build, spec: TransformSpec) -> None:
    with pytest.raises(TransformError, match="has no column 'nope'"):
        apply(changes_of(orders((None, order(1)))), spec)


def test_a_column_that_no_table_has_is_warned_of(changes_of: Build, caplog: pytest.LogCaptureFixture) -> None:
    result = apply(changes_of(orders((None, order(1)))), DropColumns("crad", "card"))

    assert "no table of this batch has the column crad" in caplog.text
    assert "card" not in images(result)[0][1]


def test_rename_refuses_two_columns_of_one_name(changes_of: Build) -> None:
    with pytest.raises(TransformError, match="two columns named amount"):
        apply(changes_of(orders((None, order(1)))), RenameColumns({"card": "amount"}))


def test_the_last_characters_of_binary_are_refused(changes_of: Build) -> None:
    changes = changes_of(batch(table("shop.t", {"id": "int", "b": "blob"}), [(None, {"id": 1, "b": b"x"})]))
    with pytest.raises(TransformError, match="binary"):
        apply(changes, Mask("b", keep_last=2))
    assert images(apply(changes, Mask("b")))[0][1] == {"id": 1, "b": "***"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Route({"shop.orders": "a", "shop.*": "b"}), ["b", "a"]),
        (Route({"*.orders": "a"}), ["shop.customers", "a"]),
        (Route({"other.*": "a"}, default="rest"), ["rest", "rest"]),
        (Route({"shop.[co]*": "a"}, tables=("*.orders",), default="rest"), ["shop.customers", "a"]),
    ],
)
def test_route_by_table(changes_of: Build, spec: Route, expected: list[str]) -> None:
    changes = changes_of(orders((None, order(1))), customers((None, {"id": 1})))

    rows = apply(changes, spec).rows.orderBy("table").select("route").collect()

    assert [row["route"] for row in rows] == expected


def test_odd_column_names(changes_of: Build) -> None:
    names = ["a b", "it's", 'say "hi"', "a.b", "back\\slash", "semi;--", "why?", "`tick`", "имя"]
    schema = table("shop.t", {"id": "int", **dict.fromkeys(names, "int"), "x": "int"})
    row = {name: number for number, name in enumerate(names)}
    changes = changes_of(
        batch(schema, [(None, {"id": 1, **row, "x": 6}), (None, {"id": 2, **dict.fromkeys(row, -1), "x": 6})])
    )
    conditions = ("`{}` = {}".format(name.replace("`", "``"), number) for name, number in row.items())

    result = apply(changes, DropColumns("x"), *map(Filter, conditions))

    assert kept(result) == ['{"id":1}']
    assert images(result)[0][1] == {"id": 1, **row}
