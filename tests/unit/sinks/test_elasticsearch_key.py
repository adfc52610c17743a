"""The key of a table beside that of its documents, against an index that a dictionary stands for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.errors import SinkSettingError
from databus.core.tables import TableSchema
from databus.sinks.elasticsearch_index import Indices
from databus.sinks.elasticsearch_key import OnKeyChange, require_key
from databus.testing.table_batches import table

NAMES = {"id": "int", "b": "int"}
BY_ID = table("shop.pk", NAMES)
BY_B = table("shop.pk", NAMES, ("b",))
BOTH = {"id", "b"}


class Mapping:
    """The mapping of one index."""

    def __init__(self, **ours: Any):
        self.meta = {"databus": {"table": "shop.pk", **ours}}

    def get_mapping(self, **_: Any) -> dict[str, Any]:
        return {"pk": {"mappings": {"_meta": self.meta}}}

    def put_mapping(self, *, index: str, body: dict[str, Any]) -> None:
        assert index == "pk"
        self.meta = body["_meta"]


def require(
    mapping: Mapping, now: TableSchema, earlier: set[str], policy: OnKeyChange = "fail", *, shared: bool = False
) -> None:
    client: Any = SimpleNamespace(indices=mapping)
    indices = Indices(client, "search", {}, shared=shared)
    indices.ensure("pk", "shop.pk")
    require_key(indices, "pk", now, earlier, policy)


@pytest.mark.parametrize(
    "now", [BY_B, table("shop.pk", NAMES, ("id", "b")), table("shop.pk", {"b": "int"}, ("b",))], ids=str
)
def test_another_key_is_refused_and_ignored_knowingly(now: TableSchema, caplog: pytest.LogCaptureFixture) -> None:
    mapping = Mapping(key=["id"])
    require(mapping, BY_ID, BOTH)
    with pytest.raises(SinkSettingError, match=r"ids made of \(id\)") as told:
        require(mapping, now, BOTH)
    assert (told.value.code, "on_key_change" in told.value.hint) == ("sink_key_changed", True)
    assert mapping.meta["databus"] == {"table": "shop.pk", "key": ["id"]}
    require(mapping, now, BOTH, "ignore")
    assert "those of former ids stay" in caplog.text
    require(mapping, now, BOTH)
    require(mapping, BY_ID, BOTH)  # a range that is read again


def test_columns_that_get_another_name_make_the_same_ids() -> None:
    mapping, renamed = Mapping(key=["id"]), table("shop.pk", {"uid": "int", "b": "int"}, ("uid",))
    require(mapping, renamed, BOTH)
    assert mapping.meta["databus"] == {"table": "shop.pk", "key": ["id"], "keys": [["uid"]]}
    require(mapping, renamed, {*BOTH, "uid"})
    require(mapping, BY_ID, {*BOTH, "uid"})
    with pytest.raises(SinkSettingError):
        require(mapping, table("shop.pk", {"uid": "int", "b": "int"}, ("b",)), {*BOTH, "uid"})


def test_an_index_that_does_not_say_its_key_takes_the_present_one() -> None:
    mapping = Mapping()
    require(mapping, BY_ID, BOTH)
    assert mapping.meta["databus"]["key"] == ["id"]
    with pytest.raises(SinkSettingError):
        require(mapping, BY_B, BOTH)
    of_others = Mapping()
    of_others.meta = {"theirs": {}}
    require(of_others, BY_ID, BOTH)
    assert of_others.meta == {"theirs": {}}


def test_of_a_shared_index_nothing_is_asked() -> None:
    require(Mapping(key=["id"]), BY_B, BOTH, shared=True)
