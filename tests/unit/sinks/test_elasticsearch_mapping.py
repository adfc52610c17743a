"""Field mappings made of columns."""

from __future__ import annotations

import pytest

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.sinks.elasticsearch.mapping import differs, field_of, fields_of, limit_of

DATE = {"type": "date", "format": "strict_date_optional_time", "ignore_malformed": True}
KEYWORD = {"type": "keyword", "ignore_above": 8191}


def text(longest=256):
    return {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": longest}}}


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("tinyint", {"type": "long"}),
        ("int unsigned", {"type": "long"}),
        ("bigint", {"type": "long"}),
        ("bigint unsigned", {"type": "unsigned_long"}),
        ("bit(1)", {"type": "long"}),
        ("bit(64)", {"type": "unsigned_long"}),
        ("year", {"type": "long"}),
        ("float unsigned", {"type": "double"}),
        ("decimal(18,0)", {"type": "long"}),
        ("decimal(19,0)", KEYWORD),
        ("decimal(15,2) unsigned", {"type": "scaled_float", "scaling_factor": 100.0}),
        ("decimal(16,2)", KEYWORD),
        ("decimal(65,30)", KEYWORD),
        ("date", DATE),
        ("datetime(6)", DATE),
        ("timestamp", DATE),
        ("time(3)", KEYWORD),
        ("varchar(50)", text()),
        ("varchar(4000)", text(4000)),
        ("varchar(16383)", text(8191)),
        ("longtext", text()),
        ("enum", KEYWORD),
        ("set", KEYWORD),
        ("json", {"type": "text"}),
        ("varbinary(9)", {"type": "binary"}),
        ("mediumblob", {"type": "binary"}),
        ("geometry", {"type": "binary"}),
        ("vector(3)", {"type": "binary"}),
        ("uuid", KEYWORD),
        ("something new", None),
    ],
)
def test_a_columns_field(kind, field):
    assert field_of(ColumnSchema("c", kind, "string")) == field


def table(**columns):
    return TableSchema(
        0, "shop", "t", tuple(ColumnSchema(n.replace("__dot__", "."), k, "string") for n, k in columns.items())
    )


def test_the_flows_fields_win_and_the_newest_schema_does():
    tables = [table(a="int", b="date"), table(a="varchar(9)", b="date", new="int")]
    found = fields_of(tables, {"properties": {"b": {"type": "keyword"}, "other": {"type": "long"}}})
    assert found == {"a": text(), "b": {"type": "keyword"}, "new": {"type": "long"}}
    assert fields_of(tables, {"dynamic": "strict"}) == {}


def test_names_that_are_no_plain_fields_are_left_to_the_server():
    assert fields_of([table(a__dot__b="int", _id="int", c="int")], None) == {"c": {"type": "long"}}


def test_room_is_made_for_wide_tables():
    wide = fields_of([table(**{f"c{n}": "varchar(9)" for n in range(600)})], None)
    assert limit_of(wide) == {"index.mapping.total_fields.limit": 2200}
    assert limit_of({"a": {"type": "long"}}) == {}


def test_a_type_differs_by_what_it_takes():
    assert differs({"type": "long"}, {"type": "text", "fields": {}})
    assert differs({"type": "scaled_float", "scaling_factor": 100.0}, {"type": "scaled_float", "scaling_factor": 10.0})
    assert not differs({"type": "date", "format": "x"}, {"type": "date"})
