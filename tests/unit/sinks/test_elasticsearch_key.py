"""The key of a table beside that of its documents, against an index that a dictionary stands for."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from opensearchpy.exceptions import AuthorizationException

from databus import Elasticsearch
from databus.core.connections import Connection
from databus.core.errors import SinkSettingError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.versions import source_version
from databus.sinks.elasticsearch.indices import Indices
from databus.sinks.elasticsearch.keys import IndexKeys
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.sinks.elasticsearch.spec import OnKeyChange
from databus.testing.table_batches import table

NAMES = {"id": "int", "b": "int"}
BY_ID = table("shop.pk", NAMES)
BY_B = table("shop.pk", NAMES, ("b",))
BOTH = {"id", "b"}


class Index:
    """One index: its mapping, as servers give what `filter_path` names, and the document that was written last."""

    def __init__(self, newest: dict[str, Any] | None = None, fields: Collection[str] = (), **ours: Any):
        self.meta = {"databus": {"table": "shop.pk", **ours}}
        self.newest, self.fields = newest, {name: {"type": "long"} for name in fields}
        self.looks, self.unseen = 0, False

    def get_mapping(self, *, index: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert index == "pk"
        whole = "*.mappings" in params["filter_path"].split(",")
        return {"pk": {"mappings": {"_meta": self.meta, **({"properties": self.fields} if whole else {})}}}

    def put_mapping(self, *, index: str, body: dict[str, Any]) -> None:
        assert index == "pk"
        self.meta = body.get("_meta", self.meta)
        self.fields |= body.get("properties", {})

    def refresh(self, *, index: str) -> None:
        assert index == "pk"
        self.looks += 1
        if self.unseen:
            raise AuthorizationException(403, "security_exception", {})

    def search(self, **_: Any) -> dict[str, Any]:
        return {"hits": {"hits": [{"_source": self.newest}] if self.newest is not None else []}}

    @property
    def client(self) -> Any:
        return SimpleNamespace(indices=self, search=self.search)


def span(start: int, end: int) -> OffsetRange:
    return OffsetRange(*(BinlogOffset("b.000001", at, "", "mysql", "u") for at in (start, end)))


def place(pos: int) -> int:
    return source_version(0, 1, pos)


FIRST, SECOND, THIRD = span(4, 900), span(900, 1800), span(1800, 2700)


def require(
    index: Index,
    now: TableSchema,
    policy: OnKeyChange = "fail",
    *,
    earlier: Collection[str] = (),
    of: OffsetRange = FIRST,
    shared: bool = False,
) -> None:
    indices = Indices(index.client, "search", {}, shared=shared)
    indices.ensure("pk", "shop.pk")
    IndexKeys(indices, policy, of).require("pk", now, earlier)


def ours(index: Index) -> dict[str, Any]:
    return {name: value for name, value in index.meta["databus"].items() if name != "table"}


@pytest.mark.parametrize("where", ["range", "mapping", "newest document"])
@pytest.mark.parametrize(
    "now", [BY_B, table("shop.pk", NAMES, ("id", "b")), table("shop.pk", {"b": "int"}, ("b",))], ids=str
)
def test_another_key_is_refused_and_ignored_knowingly(
    now: TableSchema, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where types are not the source's, and all rows are of the new definition."""
    newest = {"id": 1, "b": 2} if where == "newest document" else {}
    index = Index(newest, BOTH if where == "mapping" else (), key=["id"])
    had = BOTH if where == "range" else ()
    require(index, BY_ID, earlier=had)
    assert index.looks == 0
    with pytest.raises(SinkSettingError, match=r"ids made of \(id\)") as told:
        require(index, now, earlier=had)
    assert (told.value.code, "on_key_change" in told.value.hint) == ("sink_key_changed", True)
    assert ours(index) == {"key": ["id"], "forms": [["whole"]], "at": [place(4)]}
    require(index, now, "ignore", earlier=had)
    assert "those of former ids stay" in caplog.text
    require(index, now, earlier=had)
    require(index, BY_ID, earlier=had)  # a range that is read again


def test_columns_that_get_another_name_make_the_same_ids() -> None:
    index, renamed = Index({"id": 1, "b": 2}, key=["id"]), table("shop.pk", {"uid": "int", "b": "int"}, ("uid",))
    require(index, renamed)
    assert ours(index) == {"key": ["id"], "keys": [["uid"]], "forms": [[], ["whole"]], "at": [0, place(4)]}
    for of in (FIRST, THIRD):  # a range that is read again, and a column that gets its former name
        require(index, renamed, earlier={*BOTH, "uid"}, of=of)
        require(index, BY_ID, earlier={*BOTH, "uid"}, of=of)
    with pytest.raises(SinkSettingError):
        require(index, table("shop.pk", {"uid": "int", "b": "int"}, ("b",)))


def test_a_key_that_goes_back_to_a_former_one_is_another_key() -> None:
    index = Index({"id": 1, "b": 2}, key=["id"])
    require(index, BY_B, "ignore", of=SECOND)
    for of in (FIRST, SECOND):  # read again
        require(index, BY_ID, of=of)
        require(index, BY_B, of=of)
    with pytest.raises(SinkSettingError, match=r"ids made of \(b\)"):
        require(index, BY_ID, of=THIRD)
    require(index, BY_ID, "ignore", of=THIRD)
    assert ours(index)["keys"] == [["b"], ["id"]]
    behind = span(2700, 3600)
    require(index, BY_ID, of=behind)
    with pytest.raises(SinkSettingError, match=r"ids made of \(id\)"):
        require(index, BY_B, of=behind)


def test_keys_that_an_earlier_databus_has_accepted_are_all_known() -> None:
    """It did not write down from where on they are another key."""
    index = Index({"id": 1, "b": 2}, key=["id"], keys=[["b"]])
    for now in (BY_ID, BY_B):
        require(index, now, of=THIRD)
    assert ours(index) == {
        "key": ["id"], "keys": [["b"]], "forms": [["whole"], ["whole"]], "at": [place(1800)] * 2,
    }  # fmt: skip


def test_an_index_without_documents_takes_another_key(caplog: pytest.LogCaptureFixture) -> None:
    """As after a DROP TABLE that took them away, and a CREATE; rows of the range may come before the other key."""
    caplog.set_level(logging.INFO)
    index = Index(None, BOTH, key=["id"], emptied={"shop.pk": 1})
    with pytest.raises(SinkSettingError, match="primary key") as told:
        require(index, BY_B, earlier=BOTH)
    assert "dropped and made anew" in told.value.hint
    require(index, BY_B)
    assert "has no documents of shop.pk, whose key was (id)" in caplog.text
    index.newest = {"id": 1, "b": 2}
    require(index, BY_B, of=SECOND)
    with pytest.raises(SinkSettingError, match=r"ids made of \(b\)"):
        require(index, BY_ID, of=SECOND)


def test_a_table_that_was_emptied_and_filled_again_still_has_its_key() -> None:
    with pytest.raises(SinkSettingError, match="primary key"):
        require(Index({"id": 1, "b": 2}, BOTH, key=["id"], emptied={"shop.pk": 1}), BY_B)


def test_documents_that_the_login_may_not_look_at_may_be_there() -> None:
    index = Index(None, BOTH, key=["id"])
    index.unseen = True
    with pytest.raises(SinkSettingError, match="primary key"):
        require(index, BY_B)


def test_an_index_that_does_not_say_its_key_takes_the_present_one() -> None:
    index = Index({})
    require(index, BY_ID)
    assert ours(index) == {"key": ["id"], "forms": [["whole"]], "at": [place(4)]}
    with pytest.raises(SinkSettingError):
        require(index, BY_B, earlier=BOTH)
    of_others = Index({})
    of_others.meta = {"theirs": {}}
    require(of_others, BY_ID)
    assert of_others.meta == {"theirs": {}}


def test_of_a_shared_index_nothing_is_asked() -> None:
    require(Index({}, BOTH, key=["id"]), BY_B, shared=True)


def typed(kind: str, *, beside: str = "", name: str = "id") -> TableSchema:
    """Return a table with a key column of a type, and with another one beside it."""
    columns = (ColumnSchema(name, kind, ""), ColumnSchema("b", beside or "int", "int"))
    return TableSchema(0, "shop", "pk", columns, (name, "b") if beside else (name,))


@pytest.mark.parametrize("beside", ["", "int"], ids=["alone", "of two"])
@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("decimal(10,0)", "decimal(10,2)"),
        ("datetime", "datetime(3)"),
        ("timestamp(3)", "timestamp(6)"),
        ("time", "time(1)"),
        ("binary(4)", "binary(8)"),
        ("datetime", "timestamp"),
        ("date", "datetime"),
        ("float", "double"),
        ("varbinary(9)", "binary(9)"),
        ("varchar(9)", "int"),
        ("varchar(9)", "varbinary(9)"),
    ],
)
def test_a_type_that_writes_the_ids_otherwise_is_another_key(before: str, now: str, beside: str) -> None:
    index, of = Index({"id": 1, "b": 2}), [typed(each, beside=beside) for each in (before, now)]
    require(index, of[0])
    with pytest.raises(SinkSettingError, match=r"ids made of \(id [a-z]+") as told:
        require(index, of[1], of=SECOND)
    assert told.value.code == "sink_key_changed"
    require(index, of[1], "ignore", of=SECOND)
    for each in of:  # read again
        require(index, each, of=SECOND)
    require(index, of[1], of=THIRD)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("int", "bigint unsigned"),
        ("int", "decimal(10,0)"),
        ("varchar(10)", "varchar(20)"),
        ("char(9)", "text"),
        ("enum", "varchar(20)"),
        ("decimal(10,2)", "decimal(20,2) unsigned"),
        ("binary(4)", "varbinary(8)"),
        ("date", "varchar(20)"),
        ("uuid", "char(36)"),
        ("year", "int"),
    ],
)
def test_a_type_that_writes_the_ids_as_before_goes_on(before: str, now: str) -> None:
    for beside in ("", "int"):
        index = Index({"id": 1, "b": 2})
        require(index, typed(before, beside=beside))
        require(index, typed(now, beside=beside), of=SECOND)
        require(index, typed(before, beside=beside), of=FIRST)


@pytest.mark.parametrize(("before", "now"), [("int", "varchar(9)"), ("decimal(40,2)", "decimal(20,2)")])
def test_quotes_are_in_the_ids_of_keys_of_several_columns_alone(before: str, now: str) -> None:
    index, of_two = Index({"id": 1, "b": 2}), Index({"id": 1, "b": 2})
    require(index, typed(before))
    require(index, typed(now), of=SECOND)
    require(of_two, typed(before, beside="int"))
    with pytest.raises(SinkSettingError, match="primary key"):
        require(of_two, typed(now, beside="int"), of=SECOND)


def test_the_way_back_to_a_type_that_wrote_them_otherwise_is_another_key() -> None:
    index = Index({"id": 1, "b": 2})
    require(index, typed("decimal(9,1)"))
    require(index, typed("decimal(9,2)"), "ignore", of=SECOND)
    with pytest.raises(SinkSettingError, match=r"is \(id decimal\(1\)\) now.*made of \(id decimal\(2\)\)"):
        require(index, typed("decimal(9,1)"), of=THIRD)


def test_the_way_back_from_a_type_that_keeps_the_ids_may_change_them() -> None:
    index = Index({"id": 1, "b": 2})
    require(index, typed("int"))
    require(index, typed("varchar(9)"), of=SECOND)
    require(index, typed("int"), of=SECOND)
    with pytest.raises(SinkSettingError, match="primary key"):
        require(index, typed("int"), of=THIRD)


def test_a_column_that_gets_another_name_and_another_type_is_compared() -> None:
    index = Index({"id": 1, "b": 2})
    require(index, typed("int"))
    with pytest.raises(SinkSettingError, match="primary key"):
        require(index, typed("decimal(9,1)", name="uid"))
    require(index, typed("bigint", name="uid"))


def test_an_index_of_a_databus_that_kept_no_forms_takes_the_present_ones() -> None:
    index = Index({"id": 1, "b": 2}, key=["uid"], keys=[["id"]])
    require(index, typed("decimal(9,1)"))
    assert ours(index) == {"key": ["uid"], "keys": [["id"]], "forms": [[], ["decimal(1)"]], "at": [0, place(4)]}
    with pytest.raises(SinkSettingError, match="primary key"):
        require(index, typed("decimal(9,2)"), of=SECOND)
    index.newest = None
    require(index, typed("decimal(9,2)"), of=SECOND)


@pytest.mark.parametrize("types", ["source", "dynamic"])
def test_the_sink_compares_keys_before_it_plans(types: str) -> None:
    index = Index({}, BOTH, key=["id"])
    sink = object.__new__(ElasticsearchSink)
    sink.spec = Elasticsearch(conn_id="s", index="pk", on_reject="quarantine", types=types)
    sink._flow, sink._unlisted, sink._told = "f", set(), set()
    sink._client = lambda: index.client  # type: ignore[method-assign]
    sink._connection = Connection(conn_id="s", conn_type="opensearch", host="h", port=1)
    now = table("shop.pk", {"b": "int"}, ("b",))
    with pytest.raises(SinkSettingError, match="primary key"):
        sink.prepare(SourcePlan(FIRST, (now,), 1, 1, None, None, False), [(now, "shop.pk")])
