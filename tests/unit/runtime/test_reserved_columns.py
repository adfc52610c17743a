"""Columns with names that a sink gives members of its own: refused before a batch is planned, and told by a look."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus import Cast, DropColumns, Elasticsearch, Filter, Flow, Kafka, Mask, MysqlBinlog, RenameColumns
from databus.core.errors import SinkSettingError
from databus.core.findings import Level
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.ops.tables.compare import compare
from databus.ops.tables.wants import wants_of
from databus.runtime.plan import next_plan
from databus.runtime.routing import require_unreserved, reserved_in
from databus.runtime.tables.changed_keys import ChangedKeys
from databus.runtime.tables.column_lineage import written_tables
from databus.testing.table_batches import table
from tests.unit.ops.told_tables import Told, now

NAMES = ("__op", "__deleted", "__ts_ms", "__event_id", "__flags", "__tables", "__emptied", "_type")
TABLE = table("shop.k2", {"id": "bigint", **dict.fromkeys(NAMES, "int")})
PLAIN = Kafka(conn_id="k", topic="t", envelope="row")


def flow(sink: Any, *transforms: Any) -> Flow:
    return Flow(
        name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(sink,), checks=(), transforms=transforms
    )


def refused(sink: Any, *transforms: Any) -> list[str]:
    spec = flow(sink, *transforms)
    return [error.message for error in reserved_in(spec, sink, written_tables(spec, (TABLE,)))]


@pytest.mark.parametrize(
    ("sink", "names"),
    [
        (PLAIN, "columns __deleted, __event_id, __flags, __op, __ts_ms"),
        (Kafka(conn_id="k", topic="t"), ""),
        (Elasticsearch(conn_id="e"), "column __flags"),
        (Elasticsearch(conn_id="e", soft_deletes=True), "columns __deleted, __flags"),
        (Elasticsearch(conn_id="e", ids="table_key"), "columns __emptied, __flags, __tables"),
        (PLAIN.model_copy(update={"routes": ("other.*",)}), ""),
    ],
)
def test_names_that_a_sink_keeps_for_itself(sink: Any, names: str) -> None:
    found = refused(sink)
    assert [message.partition(", and sink ")[0] for message in found] == (
        [f"table shop.k2 has the {names}"] if names else []
    )


def test_a_metadata_field_of_the_servers_is_no_column_of_a_search_sink() -> None:
    spec, odd = flow(Elasticsearch(conn_id="e")), table("shop.k2", {"id": "bigint", "_id": "int", "_seq_no": "int"})
    (error,) = reserved_in(spec, spec.sinks[0], (odd,))
    assert "has the columns _id, _seq_no, and sink elasticsearch keeps those names" in error.message
    assert (error.code, "envelope" in error.hint) == ("sink_reserved_column", False)
    assert list(reserved_in(flow(PLAIN), PLAIN, (odd,))) == []
    assert len(only_of(spec, odd)) == 1
    renamed = flow(spec.sinks[0], RenameColumns({"_id": "own_id", "_seq_no": "own_seq_no"}))
    assert only_of(renamed, odd) == []


def only_of(spec: Flow, odd: TableSchema) -> list[str]:
    """Return the codes that a look at the tables tells."""
    return [f.code for f in compare(spec, Told(now(odd))).findings if f.level is Level.ERROR]


def test_the_way_on_is_one_of_the_sink() -> None:
    for sink, other in ((PLAIN, 'envelope="debezium" of the sink'), (Elasticsearch(conn_id="e"), "")):
        (error,) = reserved_in(flow(sink), sink, (TABLE,))
        assert (other in error.hint) if other else error.hint.endswith("of shop.k2 into the flow's transforms.")


def test_transforms_are_the_way_on() -> None:
    assert len(refused(PLAIN, RenameColumns({"__op": "op"}))) == 1
    assert refused(PLAIN, RenameColumns({"__op": "op"}), DropColumns(*NAMES[1:])) == []
    (message,) = refused(PLAIN, DropColumns(*NAMES), RenameColumns({"id": "__op"}))
    assert message.startswith("table shop.k2 has the column __op, and sink kafka ")


def test_nothing_is_prepared_at_any_sink() -> None:
    spec = flow(PLAIN)
    spec = spec.model_copy(update={"sinks": (Kafka(conn_id="k", topic="t", name="first"), PLAIN)})
    place = SequenceOffset(0)
    session: Any = SimpleNamespace(
        flow=spec,
        sinks={"first": None, "kafka": None},  # a sink that is asked for anything fails
        sink_spec={sink.sink_name: sink for sink in spec.sinks}.__getitem__,
        split=False,
        passed=None,
        snapshots=None,
        keys=ChangedKeys(),
        replays=False,
        source=SimpleNamespace(plan=lambda *_: SourcePlan(OffsetRange(place, SequenceOffset(9)), (TABLE,), 1, 1)),
    )
    no_lease: Any = None
    standing: Any = SimpleNamespace(offset=place, batch=0, slots={}, closed_until=None, pace={})
    with pytest.raises(SinkSettingError, match=r"shop\.k2 has the columns .*__op") as error:
        next_plan(session, no_lease, standing, settled=True)
    assert (error.value.code, error.value.sink) == ("sink_reserved_column", "kafka")
    assert "RenameColumns or DropColumns" in error.value.hint


def test_a_look_at_the_tables_tells_them() -> None:
    spec = flow(PLAIN, DropColumns(*NAMES[1:], tables=("shop.k2",)))
    (finding,) = compare(spec, Told(now(TABLE))).findings
    assert (finding.level, finding.code, finding.subject) == (Level.ERROR, "sink_reserved_column", "sink kafka")
    assert "shop.k2 has the column __op" in finding.message
    (finding,) = compare(spec, Told(now(TABLE)), wants_of(spec)).findings
    assert finding.level is Level.WARN


@pytest.mark.parametrize("options", [{"types": "debezium"}, {"envelope": "maxwell"}, {"envelope": "canal"}])
def test_a_key_column_that_messages_name_in_the_row_stays_as_it_is(options: dict[str, Any]) -> None:
    sink = Kafka(conn_id="k", topic="t", **options)
    renamed = flow(sink, RenameColumns({"id": "order_id"}))
    with pytest.raises(SinkSettingError, match=r"renames, drops or changes key column id of shop\.k2") as caught:
        require_unreserved(renamed, sink, written_tables(renamed, (TABLE,)), (TABLE,))
    assert caught.value.code == "sink_key_column_lost"
    (finding,) = compare(renamed, Told(now(TABLE))).findings
    assert (finding.level, finding.code) == (Level.ERROR, "sink_key_column_lost")
    changed = flow(sink, Cast({"id": "string"}))
    with pytest.raises(SinkSettingError, match="changes key column id"):
        require_unreserved(changed, sink, written_tables(changed, (TABLE,)), (TABLE,))
    other = flow(sink, RenameColumns({"__op": "op"}))
    require_unreserved(other, sink, written_tables(other, (TABLE,)), (TABLE,))
    plain = Kafka(conn_id="k", topic="t")
    require_unreserved(flow(plain, *renamed.transforms), plain, written_tables(renamed, (TABLE,)), (TABLE,))


def test_a_look_tells_a_table_that_goes_through_spark_to_a_form_of_the_direct_lane() -> None:
    sink = Kafka(conn_id="k", topic="t", types="debezium")
    (finding,) = compare(flow(sink, Filter("xpath_boolean(concat(id, ''), 'a')")), Told(now(TABLE))).findings
    assert (finding.level, finding.code) == (Level.ERROR, "lane_required")
    assert "table shop.k2 goes through Spark, because filter" in finding.message
    (finding,) = compare(flow(sink, Filter("id > 1"), Mask("_type")), Told(now(TABLE))).findings
    assert finding.level is Level.OK
