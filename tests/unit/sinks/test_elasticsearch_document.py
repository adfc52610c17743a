"""Ids and bulk lines."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.sinks.elasticsearch.documents import RowWrite, document_id, key_values, tombstone


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ('{"id":1}', "1"),
        ('{"id":-18446744073709551615}', "-18446744073709551615"),
        ('{"price":1.10}', "1.10"),
        ('{"price":123456789012345678901234567890.12}', "123456789012345678901234567890.12"),
        ('{"code":"a\\"b,}"}', 'a"b,}'),
        ('{"code":"Ünï"}', "Ünï"),
        ('{"b":2,"a":"x,y"}', '[2,"x,y"]'),
        ('{"a":"1","b":1.50}', '["1",1.50]'),
    ],
)
def test_the_id_is_the_plain_value_or_the_array_of_values_in_key_order(key, expected):
    assert document_id(key) == expected


def test_a_table_can_stand_before_the_key():
    assert document_id('{"id":1}', "shop.orders") == "shop.orders:1"


@pytest.mark.parametrize("text", ["x" * 513, "ü" * 257, ""])
def test_an_id_the_servers_refuse_becomes_its_digest(text):
    assert document_id(f'{{"k":"{text}"}}') == hashlib.sha256(text.encode()).hexdigest()


def test_512_bytes_are_still_plain():
    assert document_id('{"k":"' + "x" * 512 + '"}') == "x" * 512


@given(st.dictionaries(st.text(min_size=1), st.one_of(st.integers(), st.text(), st.booleans()), min_size=1, max_size=4))
def test_key_values_finds_every_value_of_any_key(key):
    text = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    assert [json.loads(value) for value in key_values(text)] == list(key.values())


def test_bulk_lines_carry_the_external_version_and_the_document_untouched():
    write = RowWrite("shop.orders", 'a"b', 77, '{"n":1.10}', "shop.orders", ("f", 1), (None, 0))
    head, document, rest = write.lines().split(b"\n")
    assert json.loads(head) == {
        "index": {"_index": "shop.orders", "_id": 'a"b', "version": 77, "version_type": "external_gte"}
    }
    assert (document, rest) == (b'{"n":1.10}', b"")
    write.document = None
    assert list(json.loads(write.lines())) == ["delete"]


def test_a_soft_delete_keeps_the_key():
    assert json.loads(tombstone('{"a":1,"b":"x"}')) == {"a": 1, "b": "x", "__deleted": True}
