"""Routes and keys that values choose, before any row is read: outputs, lineage, refusals, and ids of copies."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from databus import Elasticsearch, Flow, Kafka, KeyBy, Mask, MysqlBinlog, Noop, RenameColumns, Route, Split
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.errors.batch import TransformError
from databus.core.errors.config import ConfigError
from databus.core.events import RowState
from databus.core.findings import Finding, Level
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.core.tables.column_lineage import ColumnStep
from databus.core.trace import Change, ChangeSelector, chunk_of, of_event_id, row_of_copy
from databus.ops.health.preflight import _shared_keys
from databus.ops.trace.query import Kind, recognise
from databus.ops.validation.validate import _require_own_keys
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computing import computed_in_clear
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.keys import canonical_escapes
from databus.rows.murmur2 import key_hashes_of, murmur2
from databus.runtime import counts
from databus.runtime.copies import most_copies, row_id
from databus.runtime.direct.reasons import refusal
from databus.runtime.direct.required import raw_record_errors
from databus.runtime.routing import outputs_of, refused_keys_in, routes_of
from databus.runtime.tables.column_lineage import ColumnLineage, written_tables
from databus.testing.table_batches import table

ORDERS = table("shop.orders", {"id": "bigint", "region": "text", "customer": "int", "rate": "double"})
OTHER = table("shop.other", {"id": "bigint"}, schema_id=1)
TABLES = (ORDERS, OTHER)
ONLY = ("shop.orders",)
BY_REGION = Route(by="region", routes=("eu", "us"), tables=ONLY)
KAFKA = Kafka(conn_id="k", topic="cdc.{route}", tombstones=False)


def flow(*transforms: Any, sinks: tuple[Any, ...] = (KAFKA,)) -> Flow:
    return Flow(
        name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=sinks, checks=(), transforms=transforms
    )


def plan(rows: int = 0) -> SourcePlan:
    return SourcePlan(OffsetRange(SequenceOffset(0), SequenceOffset(1)), TABLES, rows, 1)


def test_all_routes_that_may_come_are_outputs() -> None:
    us, rest = (KAFKA.model_copy(update={"name": n, "routes": r}) for n, r in (("us", ("us",)), ("rest", ("shop.*",))))
    routed = flow(BY_REGION, sinks=(KAFKA, us, rest))
    assert [(t.table, r) for t, r in outputs_of(routed, KAFKA, TABLES)] == [
        ("orders", "eu"), ("orders", "us"), ("other", "shop.other"),
    ]  # fmt: skip
    assert [r for _, r in outputs_of(routed, us, TABLES)] == ["us"]
    assert [r for _, r in outputs_of(routed, rest, TABLES)] == ["shop.other"]
    split = Split({"b": "true", "a": "rate > 1"}, tables=ONLY)
    assert set(routes_of(flow(split), ORDERS)) == {"a", "b"}
    assert routes_of(flow(BY_REGION, Route({"shop.*": "all"})), ORDERS) == ("all",)
    assert routes_of(flow(Route({"shop.*": "all"}), BY_REGION), ORDERS) == ("eu", "us")


def test_rows_that_values_place_are_direct_but_in_a_form_of_its_own() -> None:
    form = KAFKA.model_copy(update={"types": "debezium"})
    for spec, copies in ((BY_REGION, 2), (KeyBy("id"), 4), (Split({"a": "true"}), 2), (Route({"*": "a"}), 1)):
        assert most_copies(flow(spec)) == copies
        assert refusal(flow(spec)) == ""
        assert bool(refusal(flow(spec, sinks=(form,)))) == (copies > 1)
    assert most_copies(flow(Split(dict.fromkeys("abc", "true")), KeyBy("id"))) == 6
    raw = SimpleNamespace(
        name="f", transforms=(BY_REGION,), sinks=(SimpleNamespace(takes_raw_records=True, sink_name="m"),)
    )
    assert len(list(raw_record_errors(raw))) == 1  # type: ignore[arg-type]


def test_a_sink_that_cannot_have_rows_under_a_chosen_key_is_refused_by_name() -> None:
    shared, unique = KeyBy("customer", tables=ONLY), KeyBy("customer", tables=ONLY, unique=True)
    compacted = KAFKA.model_copy(update={"topic_config": {"cleanup.policy": "compact,delete"}})
    cases: list[tuple[Any, tuple[str, ...]]] = [
        (KAFKA, ("", "")),
        (KAFKA.model_copy(update={"tombstones": True}), ("tombstones=True", "")),
        (compacted, ("topic_config compacts", "")),
        (Elasticsearch(conn_id="e"), ("it keeps rows by the source's primary key",) * 2),
        (Elasticsearch(conn_id="e", routes=("shop.other",)), ("", "")),
        (Noop(), ("", "")),
    ]
    for sink, expected in cases:
        for spec, said in zip((shared, unique), expected, strict=True):
            found = [error.message for error in refused_keys_in(flow(spec, sinks=(sink,)), sink, TABLES)]
            assert len(found) == bool(said), (sink, found)
            assert all(f"rows of shop.orders by the key customer: {said}" in message for message in found)


def test_a_compacted_topic_of_shared_keys_is_an_error_of_the_preflight() -> None:
    asked: list[Any] = []

    def judge(outputs: Any) -> list[Finding]:
        asked.extend(outputs)
        return [Finding("k: topic cdc.eu", Level.WARN, "no key", "", "sink_no_primary_key")]

    sink: Any = SimpleNamespace(judge=judge)
    spec = flow(KeyBy("customer", tables=ONLY))
    (found,) = _shared_keys(spec, sink, outputs_of(spec, KAFKA, TABLES))
    assert (found.level, found.code, found.subject) == (Level.ERROR, "sink_key_chosen", "k: topic cdc.eu")
    assert "share the key customer" in found.message
    assert [(t.table, t.primary_key) for t, _ in asked] == [("orders", ())]
    assert not _shared_keys(flow(KeyBy("customer", unique=True)), sink, outputs_of(spec, KAFKA, TABLES))


def test_rows_under_other_keys_are_not_compared() -> None:
    _require_own_keys(flow(KeyBy("customer", tables=ONLY)), KAFKA, ["shop.other"])
    with pytest.raises(ConfigError, match=r"shop.orders by the key customer"):
        _require_own_keys(flow(KeyBy("customer", tables=ONLY)), KAFKA, ["shop.other", "shop.orders"])


def test_a_key_comes_from_its_columns_and_routes_from_those_of_their_conditions() -> None:
    spec = flow(RenameColumns({"customer": "who"}), KeyBy("who", tables=ONLY), BY_REGION)
    assert [t.primary_key for t in written_tables(spec, TABLES)] == [("id",), ("id",)]
    found = {(each.table, each.output): each for each in ColumnLineage().of(spec, plan())}
    assert set(found) == {("shop.orders", "cdc.eu"), ("shop.orders", "cdc.us"), ("shop.other", "cdc.shop.other")}
    eu = found["shop.orders", "cdc.eu"]
    keys = [field for field in eu.fields if field.field.startswith("key")]
    assert [(field.field, field.column) for field in keys] == [("key.who", "customer")]
    assert {(each.column, each.steps) for each in eu.filters} == {
        ("customer", (ColumnStep("key by who"),)),
        ("region", (ColumnStep("route by region to eu, us"),)),
    }


def test_a_key_that_a_mask_behind_hides_stands_in_clear() -> None:
    def told(*specs: Any) -> list[tuple[str, str]]:
        hidden = Hidden()
        changes: Any = FrameChanges(None, (ORDERS,), {0: fields_of(ORDERS)}, hidden=hidden)
        for spec in specs:
            changes = spec.columns_after(changes)
        return [found[1:] for found in computed_in_clear(changes, hidden)]

    assert told(KeyBy("region"), Mask("region")) == [("the records' key", "region")]
    assert told(Mask("region"), KeyBy("region")) == []


def test_a_column_whose_values_have_several_texts_is_no_key() -> None:
    changes = FrameChanges(None, (ORDERS,), {0: fields_of(ORDERS)})
    with pytest.raises(TransformError, match=r"rate of shop\.orders is double") as told:
        KeyBy("rate").columns_after(changes)
    assert told.value.code == "key_column_type"


ROW = "f7ceba1a-e55e-11f1-96ca-02fc00000001:2:0:1"


def test_the_id_of_a_copy_names_its_row() -> None:
    for row in (ROW, f"log3/{ROW}", "7:binlog.000002:645:3:0", "snapshot-1-2-1777803630120:5:0"):
        assert row_of_copy(f"{row}.1") == row == row_of_copy(row)
        assert recognise(f"{row}.1").kind is Kind.EVENT
        told, whole = of_event_id(f"{row}.1"), of_event_id(row)
        assert told == Change(f"{row}.1").plus(whole)
        assert chunk_of(f"{row}.1") == chunk_of(row)
    assert row_id(flow(BY_REGION), f"{ROW}.1") == ROW
    assert row_id(flow(), "of:another.kind:1.5") == "of:another.kind:1.5"
    of_row = ChangeSelector(frozenset({ROW}))
    assert [of_row.names(event_id) for event_id in (ROW, f"{ROW}.1", ROW[:-1] + "0")] == [True, True, False]
    of_copy = ChangeSelector(frozenset({f"{ROW}.1"}))
    assert [of_copy.names(event_id) for event_id in (f"{ROW}.1", f"{ROW}.0", ROW)] == [True, False, False]


def test_a_row_of_which_several_copies_are_refused_is_held_back_once() -> None:
    spec = flow(BY_REGION)
    names = counts.table_names(plan())
    observed = {"changes": 2, **dict.fromkeys((f"{n}_{s}" for n in range(3) for s in RowState), 0)}
    observed["0_dispatched"] = 2
    refused = tuple(
        RejectedRow(f"{ROW}.{number}", "shop.orders", None, "too large", "kafka", "", "{}") for number in (0, 1)
    )
    receipt = WriteReceipt("kafka", 0, 1, 1, {"shop.orders": 1}, refused)
    given = {"kafka": ({"shop.orders": 3}, (receipt,))}
    found = counts.reconcile(spec, plan(2), observed, counts.table_counts(names, observed), given)
    assert (found["shop.orders"].quarantined, found["shop.orders"].dispatched) == (1, 1)


def test_escapes_of_a_key_are_those_of_the_source() -> None:
    written = [rb'{"t":"\u000B\u001F\n"}', rb'{"t":"\\u000B\"\u000E"}', None, b'{"t":"\xc3\x9cA"}']
    theirs = pa.array(written, pa.binary())

    ours = [rb'{"t":"\u000b\u001f\n"}', rb'{"t":"\\u000B\"\u000e"}', None, b'{"t":"\xc3\x9cA"}']
    assert canonical_escapes(theirs).to_pylist() == ours
    plain = [each and json.dumps(json.loads(each), ensure_ascii=False, separators=(",", ":")) for each in ours]
    assert [each and each.encode() for each in plain] == ours
    hashes = key_hashes_of(canonical_escapes(theirs)).to_pylist()
    assert hashes == [each and murmur2(each) & 0x7FFFFFFF for each in ours]
