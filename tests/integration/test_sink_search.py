"""The elasticsearch sink on real servers: OpenSearch 2.19 and Elasticsearch 8.19."""

from __future__ import annotations

import gc
import itertools
import json
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from opensearchpy.exceptions import RequestError

from databus.core.errors import RecordRejectedError, SinkConflictError, SinkSettingError
from databus.core.findings import Level
from databus.core.state.plan import Plan, SinkPlan
from databus.core.tables.schemas import TableSchema
from databus.runtime.dispatch import slot_task
from databus.sinks.elasticsearch.documents import METADATA_FIELDS
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.testing.contract.sink import ContractChange, SinkAdapter, SinkContract
from tests.integration import search_target as given
from tests.integration.search_target import ORDERS, Target, arrow, change, plan

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target


class SearchAdapter(SinkAdapter):
    """Drives sinks on an index of their own."""

    name: ClassVar[str] = "elasticsearch"
    marked: ClassVar[bool] = False

    def __init__(self, to: Target):
        self.to = to
        self.flow = to.flow

    def make_sink(self) -> ElasticsearchSink:
        return ElasticsearchSink(self.to.spec, self.to.connection, self.flow)

    def make_unreachable_sink(self) -> ElasticsearchSink:
        nobody = self.to.connection.model_copy(update={"port": 1})
        return ElasticsearchSink(self.to.spec, nobody, self.flow)

    def encode(self, changes: Sequence[ContractChange], plan: Plan) -> list[pa.RecordBatch]:
        rows = [
            change(
                c.op, c.id, None if c.op == "d" else {"v": c.v}, c.position,
                ordinal=c.ordinal, table="orders", file="mysql-bin.000001",
            )
            for c in changes
        ]  # fmt: skip
        half = (len(rows) + 1) // 2
        return [arrow(rows[:half]), arrow(rows[half:])]

    def read_back(self) -> Mapping[int, int]:
        return {document["id"]: document["v"] for document in self.to.documents().values()}


class TestContract(SinkContract):
    """The promises of every sink."""

    @pytest.fixture
    def adapter(self, target: Any) -> SearchAdapter:
        return SearchAdapter(target())


def test_rows_become_documents_and_follow_updates_and_deletes(target):
    to = target()
    to.prepare()
    receipt = to.write(
        change("c", 1, {"n": 1}), change("c", 2, {"n": 1}, ordinal=1), change("r", 3, {"n": 1}, ordinal=2)
    )
    assert to.documents() == {"1": {"id": 1, "n": 1}, "2": {"id": 2, "n": 1}, "3": {"id": 3, "n": 1}}
    assert receipt.outputs == {to.index(): {"created": 3}}
    receipt = to.write(
        change("u", 1, {"n": 2}, 200),
        change("d", 2, None, 200, ordinal=1),
        change("d", 9, None, 210),
        change("u", 1, {"n": 3}, 220),
    )
    assert to.documents() == {"1": {"id": 1, "n": 3}, "3": {"id": 3, "n": 1}}
    assert receipt.rows == {"shop.Orders": 4}
    assert receipt.written == 2
    assert receipt.outputs == {to.index(): {"updated": 1, "deleted": 1, "not_found": 1, "superseded": 1}}


def test_a_primary_key_update_moves_the_document(target):
    to = target()
    to.prepare()
    to.write(change("c", 1, {"n": 1}))
    to.write(change("d", 1, None, 200), change("c", 2, {"n": 1}, 200, part=1))
    assert to.documents() == {"2": {"id": 2, "n": 1}}


def test_writing_a_batch_again_changes_nothing(target):
    to = target()
    to.prepare()
    first = (change("c", 1, {"n": 1}, 100), change("c", 2, {"n": 1}, 100, ordinal=1))
    second = (change("u", 1, {"n": 2}, 200), change("d", 2, None, 210), change("c", 3, {"n": 1}, 220))
    to.write(*first)
    to.write(*second)
    settled = to.documents()
    again = to.write(*second)
    assert to.documents() == settled == {"1": {"id": 1, "n": 2}, "3": {"id": 3, "n": 1}}
    assert "conflict_newer" not in again.outputs[to.index()]
    late = to.write(*first)
    assert to.documents() == settled
    assert late.outputs == {to.index(): {"conflict_newer": 2}}
    assert late.rows == {"shop.Orders": 2}


def test_batches_that_arrive_out_of_order_end_in_the_newest_state(target):
    batches = [
        (change("c", 1, {"n": 1}, 100, file="bin.999999"),),
        (change("u", 1, {"n": 2}, 50, file="bin.1000000"), change("c", 2, {"n": 1}, 50, file="bin.1000000")),
        (change("d", 1, None, 60, file="bin.1000000"),),
    ]
    small = [
        tuple({**row, "log": row["log"].replace("999999", "000001").replace("1000000", "000002")} for row in b)
        for b in batches
    ]
    for order in itertools.permutations(small):
        to = target()
        to.prepare()
        for batch in order:
            to.write(*batch)
        assert to.documents() == {"2": {"id": 2, "n": 1}}, order


def test_a_failover_outranks_higher_files_of_the_old_server(target):
    to = target()
    to.prepare()
    to.write(change("c", 1, {"n": "old"}, 900, file="bin.000900"))
    to.write(change("u", 1, {"n": "new"}, 100, file="other.000001"), timeline=1)
    to.write(change("u", 1, {"n": "late"}, 950, file="bin.000900"), mode="replay")
    assert to.documents() == {"1": {"id": 1, "n": "new"}}


def test_a_deleted_document_is_not_brought_back_by_an_older_row(target, client):
    to = target()
    to.prepare()
    (described,) = client.indices.get_settings(index=to.index(), params={"flat_settings": "true"}).values()
    assert described["settings"]["index.gc_deletes"] == "7d"
    to.write(change("c", 1, {"n": 1}, 100))
    to.write(change("d", 1, None, 200))
    assert to.write(change("c", 1, {"n": 1}, 100)).outputs == {to.index(): {"conflict_newer": 1}}
    assert to.documents() == {}


def test_a_soft_delete_outlives_the_servers_memory_of_deletes(target):
    hard, soft = target(gc_deletes="0s"), target(gc_deletes="0s", soft_deletes=True)
    for to in (hard, soft):
        to.prepare()
        to.write(change("c", 1, {"n": 1}, 100))
        to.write(change("d", 1, None, 200))
        to.client.indices.refresh(index=to.index())
        to.write(change("u", 1, {"n": 1}, 150))
    assert soft.documents() == {"1": {"id": 1, "__deleted": True}}
    soft.write(change("c", 1, {"n": 5}, 300))
    assert soft.documents() == {"1": {"id": 1, "n": 5}}


def test_a_document_the_mapping_refuses_is_held_back_and_the_others_land(target):
    mapping = {"dynamic": "strict", "properties": {"id": {"type": "long"}, "n": {"type": "integer"}}}
    to = target(mapping=mapping)
    to.prepare()
    before = {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}  # the variant 1
    receipt = to.write(
        change("c", 1, {"n": 1}),
        change("u", 2, {"n": "many"}, ordinal=1, before=before),
        change("c", 3, {"extra": 1}, ordinal=2),
        change("c", 4, {"n": 4}, ordinal=3),
    )
    assert to.documents() == {"1": {"id": 1, "n": 1}, "4": {"id": 4, "n": 4}}
    assert receipt.rows == {"shop.Orders": 2}
    many, extra = receipt.rejected
    assert "many" in many.cause
    assert extra.cause.startswith("strict_dynamic_mapping_exception")
    assert (many.event_id, many.table, many.key) == ("server:bin.000001:100:1:0", "shop.Orders", '{"id":2}')
    assert (many.stage, many.position) == ("elasticsearch", "bin.000001:100")
    assert json.loads(many.payload) == {"op": "u", "before": 1, "after": {"id": 2, "n": "many"}}


def test_when_the_newest_row_is_refused_the_one_before_it_is_kept(target):
    to = target(mapping={"properties": {"n": {"type": "integer"}}})
    to.prepare()
    receipt = to.write(change("c", 1, {"n": 1}, 100), change("u", 1, {"n": 2}, 200), change("u", 1, {"n": "x"}, 300))
    assert to.documents() == {"1": {"id": 1, "n": 2}}
    assert receipt.rows == {"shop.Orders": 2}
    assert [row.position for row in receipt.rejected] == ["bin.000001:300"]


def test_an_index_is_new_until_it_has_held_a_document(target):
    """Also one that a delete came to, or that somebody else has made; one that is made anew is new again."""
    to = target()
    other = target(index=f"{to.flow}-hand", on_reject="quarantine")
    assert other.prepare().first == ()  # it does not matter to a sink that says what to do
    by_hand = target(index=f"{to.flow}-hand", ids="key")
    assert by_hand.prepare().first == (f"{to.flow}-hand",)
    assert to.prepare().first == (to.index(),)
    to.write(change("d", 1))
    assert to.documents() == {}
    assert to.prepare().first == ()
    to.client.indices.delete(index=to.index())
    assert to.prepare().first == (to.index(),)


def test_a_refused_row_of_a_new_index_stops_the_batch_and_says_nothing_of_the_row(target):
    to = target(mapping={"properties": {"n": {"type": "integer"}}})
    pinned = to.prepare()
    rows = change("c", "ada@x.org", {"n": 1}), change("c", "eve@x.org", {"n": "secret"}, ordinal=1)
    for _ in range(2):  # the documents of the first attempt change nothing
        with pytest.raises(RecordRejectedError) as stopped:
            to.write(*rows, flow=to.flow, pinned=pinned)
        told = f"{to.index()!r}, its first batch: sink elasticsearch refused 1 row of shop.Orders: "
        assert told in stopped.value.message
        assert "1 × mapper_parsing_exception: field [n] of type [integer]" in stopped.value.message or (
            "1 × document_parsing_exception: field [n] of type [integer]" in stopped.value.message
        )
        assert "event ids: server:bin.000001:100:1:0" in stopped.value.message
        assert "@x.org" not in str(stopped.value)
        assert "secret" not in str(stopped.value)
        assert 'on_reject="quarantine"' in stopped.value.hint
        assert not stopped.value.retryable
        assert stopped.value.sink == "elasticsearch"
    # A replay of rows that were held back holds them back again, and so does every later batch.
    assert len(to.write(*rows, flow=f"{to.flow}.quarantine", pinned=pinned).rejected) == 1
    assert len(to.write(*rows, flow=to.flow, pinned=to.prepare()).rejected) == 1
    always = target(index=to.index(), mapping={}, on_reject="fail", ids="key")
    with pytest.raises(RecordRejectedError) as stopped:
        always.write(*rows, flow=always.flow, pinned=always.prepare())
    assert "first batch" not in stopped.value.message
    assert "delete the index" not in stopped.value.hint


def test_composite_and_long_keys(target):
    to = target()
    to.prepare()
    long_key = "k" * 600
    to.write(change("c", {"b": 2, "a": "ü"}, {"n": 1}), change("c", {"code": long_key}, {"n": 2}, ordinal=1))
    composite, digest = sorted(to.documents(), key=len)
    assert composite == '[2,"ü"]'
    assert len(digest) == 64
    to.write(change("d", {"code": long_key}, None, 200), change("d", {"b": 2, "a": "ü"}, None, 200, ordinal=1))
    assert to.documents() == {}


def test_many_requests_per_batch(target):
    to = target(bulk_bytes=2000, refresh=True)
    to.prepare()
    receipt = to.write(*(change("c", n, {"n": n}, 100 + n) for n in range(300)))
    assert receipt.written == 300
    assert len(to.documents()) == 300


def test_two_tables_in_one_index_are_refused_unless_their_ids_differ(target):
    clash = target(index="{flow}-all")
    with pytest.raises(SinkSettingError, match=r"shop.Orders and of shop.Items") as refused:
        clash.prepare(ORDERS, TableSchema(1, "shop", "Items", (), ("id",)))
    assert refused.value.code == "sink_index_shared"
    later = target(index="{flow}-all")
    later.write(change("c", 1, {"n": 1}))
    with pytest.raises(SinkSettingError, match=r"shop.Orders and of shop.Items"):
        later.write(change("c", 1, {"n": 2}, table="Items"))
    shared = target(index="{flow}-all", ids="table_key")
    shared.write(change("c", 1, {"n": 1}), change("c", 1, {"n": 2}, ordinal=1, table="Items"))
    assert shared.documents(f"{shared.flow}-all") == {
        "shop.Orders:1": {"id": 1, "n": 1},
        "shop.Items:1": {"id": 1, "n": 2},
    }


def test_names_that_are_no_columns_are_those_that_the_server_refuses(target):
    to = target()
    to.prepare()
    for field in METADATA_FIELDS:
        for value in (1, "a", None):
            with pytest.raises(RequestError, match=r"mapper_parsing|document_parsing"):
                to.client.index(index=to.index(), id="1", body={"id": 1, field: value})
    for field in ("_type", "_score", "_doc", "_ID", "__id"):
        to.client.index(index=to.index(), id="1", body={"id": 1, field: 1})


def test_a_table_without_a_primary_key_is_refused(target):
    to = target()
    with pytest.raises(SinkSettingError, match=r"shop\.log") as refused:
        to.prepare(TableSchema(0, "shop", "log", ()))
    assert refused.value.code == "sink_no_primary_key"
    with pytest.raises(SinkSettingError, match=r"shop\.Orders"):
        to.write({**change("c", 1, {"n": 1}), "key": None})
    assert not to.client.indices.exists(index=f"{to.flow}-log")


def test_an_index_that_cannot_be_made_is_named(target):
    to = target(mapping={"properties": {"n": {"type": "no_such_type"}}})
    with pytest.raises(SinkSettingError, match="no_such_type") as refused:
        to.prepare()
    assert refused.value.code == "sink_index_refused"


def test_preparing_twice_leaves_an_index_and_its_mapping_alone(target, client):
    to = target(mapping={"properties": {"n": {"type": "integer"}}})
    assert to.prepare() == SinkPlan(1, (0,), first=(to.index(),))
    assert to.prepare() == SinkPlan(1, (0,), first=(to.index(),))
    to.write(change("c", 1, {"n": 1}))
    assert to.prepare() == SinkPlan(1, (0,))
    assert to.documents() == {"1": {"id": 1, "n": 1}}
    (described,) = client.indices.get_mapping(index=to.index()).values()
    assert described["mappings"]["properties"]["n"] == {"type": "integer"}


def test_preflight_names_version_and_settings(target, client):
    to = target()
    to.prepare()
    found = {f.subject.split(": ", 1)[1]: f for f in to.sink.preflight()}
    assert found["version"].level is Level.OK
    assert found[f"{to.index()}: index.gc_deletes"].level is Level.OK
    client.indices.put_settings(index=to.index(), body={"index.gc_deletes": "60s", "index.blocks.write": True})
    found = {f.subject.split(": ", 1)[1]: f for f in to.sink.preflight()}
    assert found[f"{to.index()}: index.gc_deletes"].level is Level.WARN
    assert found[f"{to.index()}: index.blocks.write"].level is Level.ERROR
    assert not found[f"{to.index()}: index.blocks.write"].retryable
    with pytest.raises(SinkSettingError, match="write"):
        to.write(change("c", 1, {"n": 1}))


def test_a_full_disk_is_an_outage_of_the_sink(target, client):
    to, block = target(), "index.blocks.read_only_allow_delete"
    to.prepare()
    for _ in range(3):  # the server looks at its disk each half minute, and lifts the block
        client.indices.put_settings(index=to.index(), body={block: True})
        found = [f for f in to.sink.preflight() if f.subject.endswith(block)]
        if found:
            break
    assert [(f.level, f.code, f.retryable) for f in found] == [(Level.ERROR, "sink_backpressure", True)]


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        yield session
        session.stop()


@pytest.mark.spark
def test_variant_rows_become_documents_through_spark(target, spark):
    """Values keep every digit and kind on the way VARIANT → JSON text → index."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    to = target(slots=2, mapping={"properties": {"big": {"type": "keyword"}}})
    to.prepare()
    text = '{"id":1,"price":12345678901234567890.10,"name":"Ü\\"","none":null,"big":18446744073709551615}'
    rows = spark.createDataFrame(
        [
            ("c", b'{"id":1}', 5, None, text, 0),
            ("d", b'{"id":2}', 6, '{"id":2}', None, 1),
        ],
        "op string, key binary, key_hash int, b string, a string, ordinal bigint",
    ).selectExpr(
        "op", "'shop' database", "'Orders' table", "0 schema_id", "key", "key_hash", "parse_json(b) before",
        "parse_json(a) after", "'bin.000001' log", "bigint(100) place", "'' transaction", "ordinal", "smallint(0) part",
        "concat('e', ordinal) event_id", "bigint(0) ts_ms", "bigint(1) server_id", "cast(null as string) statement",
        "if(op = 'c', array('after.name:undecodable'), null) flags",
        "cast(null as array<string>) absent", "cast(null as binary) other_key",
        "'shop.Orders' route",
    )  # fmt: skip
    pinned = plan()
    pinned = replace(plan(), sinks={"elasticsearch": SinkPlan(2, (0, 0))})
    encoded = to.sink.encode(rows, pinned).repartitionById(2, F.col("slot"))
    assert {row["slot"]: row["document"] for row in encoded.collect()} == {
        1: '{"big":18446744073709551615,"id":1,"name":"Ü\\"","none":null,"price":12345678901234567890.1,'
        '"__flags":["after.name:undecodable"]}',
        0: None,
    }
    collected = encoded.mapInArrow(slot_task(to.sink.writer(pinned), 2), "slot int, receipt binary").collect()
    receipts = {row["slot"]: pickle.loads(row["receipt"]) for row in collected}
    assert receipts[1].outputs == {to.index(): {"created": 1}}
    assert receipts[0].outputs == {to.index(): {"not_found": 1}}
    assert to.documents()["1"]["price"] == 12345678901234567890.1
    assert to.documents()["1"]["name"] == 'Ü"'
    gc.collect()


def test_a_snapshot_s_row_replaces_what_somebody_wrote_by_hand_while_nothing_was_logged(target):
    to = target(max_retries=0)
    to.prepare()
    rows = [change("c", n, {"n": n}, 200) for n in range(4)]
    to.write(*rows, end=200, end_file="bin.000001")
    standing = to.documents()
    for wrong in (-1, -2):
        to.client.index(index=to.index(), id="1", body={"id": 1, "n": wrong})
    to.client.delete(index=to.index(), id="2")
    read = [{**row, "op": "r"} for row in rows]
    receipt = to.write(*read, end=200, end_file="bin.000001")
    assert to.documents() == standing
    assert receipt.outputs == {to.index(): {"updated": 3, "created": 1}}
    to.write(change("u", 1, {"n": 9}, 219), end=219, end_file="bin.000001")
    assert to.documents()["1"] == {"id": 1, "n": 9}


@pytest.mark.parametrize("ahead", [19, 5_000])
def test_a_document_of_a_later_place_is_not_taken_for_one_that_was_changed_by_hand(target, ahead):
    to = target()
    to.prepare()
    to.write(change("c", 1, {"n": 1}, 200 + ahead), end=1 << 30)
    with pytest.raises(SinkConflictError, match="the end of its batch"):
        to.write(change("r", 1, {"n": 0}, 200), end=200, end_file="bin.000001")
    assert to.documents() == {"1": {"id": 1, "n": 1}}
