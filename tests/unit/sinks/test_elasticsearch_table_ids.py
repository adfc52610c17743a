"""ids="table_key": a table whose documents could be taken for another's is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from databus import Elasticsearch
from databus.core.connections import Connection
from databus.core.errors import SinkSettingError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.sinks.elasticsearch.clearing import EmptyingStatement
from databus.sinks.elasticsearch.documents import document_id, ids_may_meet
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.sinks.elasticsearch.writer import ElasticsearchWriter

NOBODY = Connection(conn_id="search", conn_type="opensearch", host="127.0.0.1", port=1)
BEGIN, END = (BinlogOffset("log.000001", pos, "", "mysql", "here") for pos in (4, 90))
RANGE = OffsetRange(BEGIN, END)


def test_two_tables_can_give_one_id() -> None:
    assert document_id('{"id":"x:1"}', "shop.t") == document_id('{"id":"1"}', "shop.t:x")


@pytest.mark.parametrize(
    ("table", "may"),
    [("shop.t", False), ("shop.t:x", True), ("shop.t.x", False), ("a:b.t", False), ("a.b:c.t", True), ("shop.:", True)],
)
def test_which_names_may_begin_with_another_and_a_colon(table: str, *, may: bool) -> None:
    assert ids_may_meet(table) is may


def test_such_a_table_is_refused_before_anything_is_made() -> None:
    sink = ElasticsearchSink(Elasticsearch(conn_id="search", index="all", ids="table_key"), NOBODY, "f")
    tables = [TableSchema(0, "shop", "t", (), ("id",)), TableSchema(1, "shop", "t:x", (), ("id",))]
    with pytest.raises(SinkSettingError, match=r"table shop\.t:x has a colon .* of shop\.t Hint") as error:
        sink.prepare(SourcePlan(RANGE, tuple(tables), 1, 1), [(table, table.full_name) for table in tables])
    assert error.value.code == "sink_ids_meet"


@pytest.mark.parametrize(("ids", "code"), [("table_key", "sink_ids_meet"), ("key", "sink_truncate_untold")])
def test_its_truncate_takes_no_documents(ids: Any, code: str) -> None:
    spec = Elasticsearch(conn_id="search", index="all", ids=ids)
    row: Any = None
    writer = ElasticsearchWriter(spec, NOBODY, "f", 1, END, False, SinkPlan().slots)
    with pytest.raises(SinkSettingError) as error:
        writer._emptied(EmptyingStatement("all", "shop.t:x", 7, ("log.000001", 90), row))
    assert error.value.code == code
