"""Ids of documents back to keys of rows."""

from __future__ import annotations

import json

import pytest

from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.sinks.elasticsearch.documents import document_id, row_keys


def table(**columns):
    made = tuple(ColumnSchema(name, type_, "string") for name, type_ in columns.items())
    return TableSchema(1, "shop", "t", made, tuple(columns))


NUMBER, TEXT = table(id="bigint unsigned"), table(code="varchar(700)")
PAIR = table(a="int", b="varchar(40)")


def keys(of, *ids, shared=False):
    found = row_keys(of, ids, shared=shared)
    return found if found is None else [json.loads(key) for key in found]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("of", "key"),
    [
        (NUMBER, {"id": 18446744073709551615}),
        (table(id="int"), {"id": -5}),
        (table(id="decimal(10,2)"), {"id": 1.5}),
        (TEXT, {"code": 'a "b" [1] ü\n'}),
        (TEXT, {"code": "[1,2]"}),
        (TEXT, {"code": "7"}),
        (TEXT, {"code": '{"code":"x"}'}),
        (PAIR, {"a": 1, "b": 'x,]"y'}),
        (PAIR, {"a": -1, "b": ""}),
        (table(a="varchar(9)", b="varchar(9)", c="int"), {"a": "1", "b": "2", "c": 3}),
    ],
)
def test_an_id_says_the_key_that_it_was_made_of(of, key, shared):
    text = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    made = document_id(text, "shop.t" if shared else "")
    assert keys(of, made, shared=shared) == [key]


def test_ids_that_no_row_of_the_table_can_have_are_left_out():
    assert keys(NUMBER, "1", "by hand", "", "1x", "[1,2]", "2") == [{"id": 1}, {"id": 2}]
    assert keys(PAIR, '[1,"x"]', "7", '["a","b"]', '[1,"x",2]', "[1,", "{}") == [{"a": 1, "b": "x"}]
    assert keys(NUMBER, "shop.u:1", "shop.t:2", "3", shared=True) == [{"id": 2}]


def test_a_digest_does_not_say_its_key():
    digest = document_id('{"code":"' + "x" * 600 + '"}')
    assert keys(TEXT, "a", digest) is None
    assert keys(PAIR, digest) is None
    assert keys(NUMBER, digest, "1") == [{"id": 1}]
