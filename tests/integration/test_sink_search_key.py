"""A primary key that changes, beside a real index: what its documents' ids are made of is remembered there."""

from __future__ import annotations

import pytest

from databus.core.errors import SinkSettingError
from databus.rows.versions import source_version
from databus.testing.table_batches import table
from tests.integration import search_target as given
from tests.integration.search_target import change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target

NAMES = {"id": "int", "b": "int"}
BY_ID = table("shop.Orders", NAMES)
BY_B = table("shop.Orders", NAMES, ("b",), schema_id=1)
ONLY_B = table("shop.Orders", {"b": "int"}, ("b",), schema_id=1)


@pytest.mark.parametrize("types", ["source", "dynamic"])
def test_another_key_stops_before_a_row_and_goes_on_knowingly(target, types):
    to = target(types=types)
    to.prepare(BY_ID)
    to.write(change("c", 1, {"id": 1, "b": 2}, 100), change("c", 2, {"id": 2, "b": 1}, 110))
    for tables in ((BY_B,), (BY_ID, BY_B), (ONLY_B,)):
        with pytest.raises(SinkSettingError) as told:
            to.prepare(*tables)
        assert told.value.code == "sink_key_changed"
    to.prepare(BY_ID)
    to.sink.spec = to.spec.model_copy(update={"on_key_change": "ignore"})
    to.prepare(BY_B)
    to.sink.spec = to.spec
    to.prepare(BY_B)
    assert {**to.client.indices.get_mapping(index=to.index())}[to.index()]["mappings"]["_meta"]["databus"] == {
        "table": "shop.Orders", "key": ["id"], "keys": [["b"]], "former": 1, "since": source_version(0, 9, 4),
        "forms": [["whole"], ["whole"]], "at": [source_version(0, 1, 4)] * 2,
        **({"typed": True} if types == "source" else {}),
    }  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"soft_deletes": True}, {"mapping": {"dynamic": False}}], ids=str)
def test_an_index_that_a_drop_has_emptied_takes_the_key_of_the_table_that_is_made_anew(target, options):
    to = target(**options)
    to.prepare(BY_ID)
    to.write(change("c", 1, {"id": 1, "b": 2}, 100))
    with pytest.raises(SinkSettingError):
        to.prepare(ONLY_B)
    dropped = change("m", {}, None, 200, statement="DROP TABLE Orders")
    to.write({**dropped, "key": None})
    to.prepare(BY_B)
    to.write(change("c", 2, {"id": 1, "b": 2}, 300))
    to.prepare(BY_B)


@pytest.mark.parametrize("types", ["source", "dynamic"])
def test_both_keys_in_the_first_batch_are_told_and_a_new_name_makes_the_same_id(target, types):
    to = target(types=types)
    with pytest.raises(SinkSettingError):
        to.prepare(BY_ID, BY_B)
    renamed = table("shop.Orders", {"uid": "int", "b": "int"}, ("uid",), schema_id=1)
    to.prepare(BY_ID, renamed)
    to.write(change("c", 1, {"b": 2}, 100), change("u", {"uid": 1}, {"b": 3}, 110))
    assert to.documents() == {"1": {"uid": 1, "b": 3}}
    to.prepare(renamed)
    to.prepare(BY_ID, renamed)
