"""Repairs: which rows are read again for what a validation found, and in which snapshots."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Elasticsearch, Flow, MysqlBinlog
from databus.core.connections import Connection
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.ops.validation import repair as repairs
from databus.ops.validation.repair import repair_of
from databus.ops.validation.result import DeletedKeys, Difference, ExtraKey, SinkComparison, Validation
from databus.ops.validation.sink_keys import SinkKeys
from databus.sinks.elasticsearch.sink import ElasticsearchSink

NUMBERS = TableSchema(1, "shop", "n", (ColumnSchema("id", "int", "int"),), ("id",))
PAIRS = TableSchema(
    2, "shop", "p", (ColumnSchema("a", "int", "int"), ColumnSchema("b", "varchar(9)", "string")), ("a", "b")
)
TIMES = TableSchema(3, "shop", "t", (ColumnSchema("at", "time(3)", "string"),), ("at",))


def keys_of(ids: Any = "table_key", tables: tuple[TableSchema, ...] = (NUMBERS, PAIRS, TIMES)) -> SinkKeys:
    spec = Elasticsearch(conn_id="search", index="all", ids=ids)
    flow = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(spec,))
    sink = ElasticsearchSink(spec, Connection(conn_id="search", conn_type="opensearch"), "f")
    names = tuple(table.full_name for table in (NUMBERS, PAIRS, TIMES))
    compared = tuple(table.full_name for table in tables)
    return SinkKeys(flow, sink, {"all": names}, compared, {table.full_name: table for table in tables})


def missing(table: str, *ids: str) -> list[Difference]:
    return [Difference("missing", table, "all", f"{table}:{each}".encode(), b"{}", None) for each in ids]


def found(*comparisons: SinkComparison) -> Validation:
    return Validation("f", comparisons, 0, 0.0)


def test_rows_of_keys_are_asked_for_in_the_tables_that_the_keys_name() -> None:
    asked = {("all", b"shop.n:5"), ("all", b'shop.p:[1,"x"]'), ("all", b"other.n:7"), ("all", b"shop.n:by hand")}
    assert keys_of().conditions(asked) == {"shop.n": "`id` IN (5)", "shop.p": "(`a` = 1 AND `b` = _utf8mb4 X'78')"}
    assert keys_of(tables=(PAIRS,)).conditions({("all", b"shop.n:5")}) == {}
    assert keys_of().conditions({("all", b"f" * 64)}) == {"shop.p": "", "shop.t": ""}  # no number is that long


def test_extra_rows_are_those_of_the_compared_tables() -> None:
    keys = keys_of(tables=(NUMBERS,))
    told = [keys.may_be_extra(("all", key)) for key in (b"shop.n:1", b"shop.n:by hand", b"shop.p:1", b"other.n:1")]
    assert told == [True, True, False, False]
    assert keys.shared() == []
    assert (keys.table(("all", b"shop.n:1")), keys.table(("all", b"f" * 64))) == ("shop.n", "shop.n + shop.p + shop.t")
    plain = keys_of("key", (NUMBERS,))
    assert not plain.may_be_extra(("all", b"1"))
    assert plain.shared() == ["all has rows of shop.p, shop.t as well: extra rows were not looked for"]


def test_a_repair_reads_exactly_the_missing_and_different_keys_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databus.ops.validation.sink_keys._AT_ONCE", 2)
    extra = Difference("extra", "shop.n", "all", b"shop.n:9", None, b"{}")
    told = keys_of().repairs([*missing("shop.n", "1", "2", "3"), extra], whole=False)
    assert told.keys() == {"shop.n"}
    assert [sorted(each.removeprefix("`id` IN (")[:-1].split(", ")) for each in told["shop.n"]] == [["1", "2"], ["3"]]
    monkeypatch.setattr("databus.ops.validation.sink_keys._MOST_BYTES", 12)
    assert keys_of().repairs(missing("shop.n", "10", "20"), whole=False)["shop.n"] == ("`id` IN (10)", "`id` IN (20)")


def test_a_table_is_read_whole_where_keys_cannot_be_named_or_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = keys_of()
    differing = [*missing("shop.n", "1", "2"), *missing("shop.t", "10:00:00.000")]
    assert keys.repairs(differing, whole=False)["shop.t"] == ("",)
    assert keys.repairs(differing, whole=True) == {"shop.n": ("",), "shop.p": ("",), "shop.t": ("",)}
    monkeypatch.setattr("databus.ops.validation.sink_keys.MOST_REPAIRED", 1)
    assert keys.repairs(differing, whole=False)["shop.n"] == ("",)


def test_snapshots_hold_each_table_once_and_not_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs, "MOST_BYTES", 4)
    one = SinkComparison("a", {}, missing("t", "1"), repairs={"t": ("x1", "x2"), "u": ("yy",), "v": ("zzz",)})
    other = SinkComparison("b", {}, missing("t", "1"), repairs={"t": ("x1",), "u": ("",), "w": ("w",)})
    made = repair_of(found(one, other))
    assert made.pieces == ({"t": "x1", "u": "", "w": "w"}, {"t": "x2"}, {"v": "zzz"})
    assert (made.keys, made.whole, made.offered) == (2, ("u",), 0)
    assert made.lines() == [
        "2 keys that are missing or different are read by 3 snapshots, one after the other",
        "read whole: u: their keys cannot be named one by one, or are too many",
    ]


def test_a_snapshot_deletes_extra_keys_only_where_that_is_asked_for() -> None:
    deletes = {"shop.n": (DeletedKeys("`id` IN (9)", ('{"id":9}',)),)}
    keys = tuple(ExtraKey("all", f"shop.n:{n}".encode(), '{"id":9}') for n in range(9, 16))
    differing = Validation("f", (), 0, 0.0, deletes, keys, {"of which nothing says it": 1})
    alone = repair_of(differing)
    assert (alone.snapshots, alone.deleted) == ((), ())
    assert alone.lines()[:2] == [
        "1 extra key stays; --delete-extra deletes them",
        "not deleted: 1 extra key of which nothing says it",
    ]
    made = repair_of(differing, delete_extra=True)
    piece = {"shop.n": deletes["shop.n"][0]}
    assert (made.pieces, made.deletes, made.snapshots) == ((), (piece,), (piece,))
    assert made.lines()[:3] == [
        "1 extra key to be deleted by a snapshot, where the source has no such row then",
        "deleted in all: shop.n:9, shop.n:10, shop.n:11, shop.n:12, shop.n:13 and 2 more",
        "not deleted: 1 extra key of which nothing says it",
    ]
    assert made.left_out([]) == ["shop.n"]
    begun = Snapshot(1, "repair", datetime.now(UTC), (TableProgress("shop.n", absent=('{"id":9}',)),))
    assert made.left_out([begun]) == []
    assert Snapshot.from_json(begun.to_json()) == begun
    assert repair_of(found(SinkComparison("a", {}, []))).lines() == ["nothing is to be repaired"]
    assert repairs.repair(None, SimpleNamespace(), repair_of(found()), SimpleNamespace(), 1.0) == []  # type: ignore[arg-type]
