"""What the tests of the elasticsearch sink stand on: both servers, a sink on an index of its own, encoded rows."""

from __future__ import annotations

import itertools
import json
import os
import pickle
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest

from databus.core.connections import Connection
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.rows.variant.images import VARIANT
from databus.sinks.elasticsearch.client import connect
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.sinks.elasticsearch.spec import Elasticsearch

ENGINES = ("opensearch", "elasticsearch")
ORDERS = TableSchema(0, "shop", "Orders", (), ("id",))
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module", params=ENGINES)
def connection(request, started):
    """One server after the other; each is started by the first test that asks for it."""
    host, port = started(request.param).address(request.param).split(":")
    return Connection(conn_id="search", conn_type=request.param, host=host, port=int(port))


@pytest.fixture(scope="module")
def client(connection):
    with connect(connection) as opened:
        yield opened


class Target:
    """A sink on an index of its own, and the documents in it."""

    def __init__(self, client, connection, spec):
        self.client = client
        self.connection = connection
        self.flow = f"flow_{os.getpid()}_{next(NUMBERS)}"
        self.spec = spec
        self.sink = ElasticsearchSink(spec, connection, self.flow)
        self.readers = []

    def reader(self):
        """Open what a trace reads documents with: each document is read once."""
        self.readers.append(self.spec.tracing(SimpleNamespace(get=lambda _: self.connection)))
        return self.readers[-1]

    def index(self, table=ORDERS):
        return f"{self.flow}-{table.table}".lower()

    def prepare(self, *tables):
        outputs = [(table, table.full_name) for table in tables or (ORDERS,)]
        return self.sink.prepare(SourcePlan(offsets(4), tuple(t for t, _ in outputs), 0, 0), outputs)

    def write(self, *changes, timeline=0, slot=0, **planned):
        writer = pickle.loads(pickle.dumps(self.sink.writer(plan(timeline, **planned))))
        return writer.write([arrow(changes)], slot)

    def documents(self, index=None):
        self.client.indices.refresh(index=index or self.index())
        found = self.client.search(index=index or self.index(), body={"size": 1000, "version": True})
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


@pytest.fixture
def target(client, connection):
    made = []

    def make(through=None, **options):
        spec = Elasticsearch(conn_id="search", **{"index": "{flow}-{table}", "max_retries": 2, **options})
        made.append(Target(client, through or connection, spec))
        return made[-1]

    yield make
    for each in made:
        each.sink.close()
        for reader in each.readers:
            reader.close()
        made_by_it = client.indices.get(index=f"{each.flow}*")
        if made_by_it:
            client.indices.delete(index=",".join(made_by_it))


def offsets(pos, timeline=0, file="bin.000009"):
    return OffsetRange(BinlogOffset("bin.000001", 4, timeline=timeline), BinlogOffset(file, pos, timeline=timeline))


def plan(timeline=0, mode="live", end=1 << 30, end_file="bin.000009", flow="flow", pinned=None):
    clock = datetime(2026, 11, 21, tzinfo=UTC)
    return Plan(
        "test", flow, 7, offsets(end, timeline, end_file), {"elasticsearch": pinned or SinkPlan()}, "hash", clock, mode
    )


def change(
    op,
    key,
    after=None,
    pos=100,
    *,
    file="bin.000001",
    ordinal=0,
    part=0,
    table="Orders",
    before=None,
    absent=None,
    other=None,
    statement=None,
):
    key = key if isinstance(key, dict) else {"id": key}
    text = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    document = None if after is None else after if isinstance(after, str) else json.dumps({**key, **after})
    return {
        "event_id": f"server:{file}:{pos}:{ordinal}:{part}",
        "database": "shop",
        "table": table,
        "route": f"shop.{table}",
        "key": text.encode(),
        "log": file,
        "place": pos,
        "ordinal": ordinal,
        "part": part,
        "op": op,
        "before": before,
        "absent": absent,
        "other_key": None if other is None else json.dumps({"id": other}, separators=(",", ":")).encode(),
        "document": document,
        "statement": statement,
        "slot": 0,
    }


def arrow(changes):
    types = {"key": pa.binary(), "place": pa.int64(), "ordinal": pa.int64(), "part": pa.int16(), "before": VARIANT}
    types |= {"slot": pa.int32(), "absent": pa.list_(pa.string()), "other_key": pa.binary()}
    names = change("c", 1, {})
    fields = [pa.field(name, types.get(name, pa.string())) for name in names]
    return pa.RecordBatch.from_pylist(list(changes), pa.schema(fields))
