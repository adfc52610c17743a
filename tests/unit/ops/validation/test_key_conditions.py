"""Conditions for some keys: values that a key says as the table holds them, else all of the table."""

from __future__ import annotations

import pytest

from databus import DropColumns, Flow, Kafka, MysqlBinlog
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.ops.validation.key_conditions import MOST_KEYS, conditions_for, sample_condition

FLOW = Flow(
    name="f",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("s.*",)),
    transforms=(DropColumns("x"),),
    sinks=(Kafka(conn_id="kafka_east"),),
)


def table(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> dict[str, TableSchema]:
    made = tuple(ColumnSchema(name, kind, "string") for name, kind in columns)
    return {"s.t": TableSchema(0, "s", "t", made, key)}


def asked(keys: list[bytes], schemas: dict[str, TableSchema]) -> str:
    return conditions_for(FLOW, ["s.t"], keys, schemas)["s.t"]


def test_whole_numbers_and_texts_are_named() -> None:
    assert asked([b'{"id":1}', b'{"id":-2}'], table(("id", "bigint unsigned"))) == "`id` IN (1, -2)"
    assert asked([b'{"id":"a\'b"}'], table(("id", "varchar(20)"))) == "`id` IN (_utf8mb4 X'612762')"
    both = table(("a", "int"), ("b`", "char(3)"), key=("a", "b`"))
    assert asked([b'{"a":1,"b`":""}'], both) == "(`a` = 1 AND `b``` = '')"


@pytest.mark.parametrize(
    ("key", "schemas"),
    [
        (b'{"id":"2020-01-01"}', table(("id", "date"))),
        (b'{"id":1.5}', table(("id", "decimal(5,2)"))),
        (b'{"id":"1"}', table(("id", "bigint"))),
        (b'{"id":true}', table(("id", "tinyint"))),
        (b'{"other":1}', table(("id", "int"))),
        (b"17", table(("id", "int"))),
        (b"not JSON", table(("id", "int"))),
        (b'{"id":1}', {}),
        (b'{"id":1}', table(("id", "int"), key=())),
        (b'{"id":1}', table(("id", "point"))),
    ],
)
def test_all_of_the_table_is_read_where_a_key_says_less(key: bytes, schemas: dict[str, TableSchema]) -> None:
    assert asked([key], schemas) == ""


def test_many_keys_are_not_named() -> None:
    assert asked([b'{"id":%d}' % n for n in range(MOST_KEYS + 1)], table(("id", "int"))) == ""


def test_a_sample_names_its_columns() -> None:
    assert sample_condition(("a", "b`"), 7, 3) == "CRC32(CONCAT_WS('|', HEX(`a`), HEX(`b```))) MOD 7 = 3"
