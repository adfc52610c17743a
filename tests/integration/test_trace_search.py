"""Documents of real search clusters lead back to their change, batch and run."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from databus import Flow, MysqlBinlog
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import SinkUnavailableError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.settings import Settings
from databus.core.state.plan import SinkPlan
from databus.core.trace import ChangeSelector, TraceExpiredError, TraceNotRecordedError
from databus.ops.trace.follow import trace
from databus.ops.trace.query import recognise
from databus.records.recorder import SqlRecorder
from databus.rows.versions import source_version
from databus.sinks.elasticsearch.tracing import DocumentReader, place_of
from tests.contract.record_samples import report
from tests.integration import search_target as given
from tests.integration.search_target import change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target


@pytest.mark.parametrize("place", [(0, 1, 4), (3, 812, 4411), (1023, (1 << 19) - 1, (1 << 34) - 1)])
def test_a_version_is_turned_back_into_its_place(place: tuple[int, int, int]) -> None:
    assert place_of(source_version(*place)) == place


def test_a_document_tells_the_place_of_the_change_it_shows(target: Any) -> None:
    to = target()
    to.prepare()
    to.write(change("c", 1, {"n": 1}, 100), change("u", 1, {"n": 2}, 250, file="bin.000002"), change("c", 2, {}, 300))
    seen = to.reader().sighting(f"{to.index()}/1")
    assert (seen.kind, seen.change.file, seen.change.position) == ("document", ".000002", 250)
    (by_key,) = to.reader().newest([to.index()], '{"id":2}', "")
    assert (by_key.place, by_key.change.position) == (f"{to.index()}/2", 300)
    assert to.reader().sightings({to.index(): {}}, ChangeSelector(key='{"id":9}')) == []
    to.write(change("d", 2, None, 400))
    with pytest.raises(TraceExpiredError, match=f"index {to.index()} has no document 2"):
        to.reader().sighting(f"{to.index()}/2")
    to.client.index(index=to.index(), id="7", body={"by": "hand"})
    with pytest.raises(TraceNotRecordedError, match="no place of a log"):
        to.reader().sighting(f"{to.index()}/7")


def test_documents_that_are_expected_are_read_by_one_request_and_tell_the_same(target: Any) -> None:
    to = target()
    to.prepare()
    to.write(*(change("c", n, {"n": n}, 100 + n) for n in range(1, 40)))
    to.write(change("d", 7, None, 400))
    index, keys = to.index(), [f'{{"id":{n}}}' for n in range(1, 42)]
    one_by_one = [to.reader().newest([index], key, "") for key in keys]
    reader = to.reader()
    asked: list[str] = []
    get = reader._lookup._ask
    reader._lookup._ask = lambda path, body, place: asked.append(path) or get(path, body, place)
    reader.expect([index, f"{index}-gone"], [(key, "") for key in keys])
    assert [reader.newest([index], key, "") for key in keys] == one_by_one
    assert reader.newest([f"{index}-gone"], keys[0], "") == []
    assert asked == [f"/{index}/_mget", f"/{index}-gone/_mget"]
    assert [bool(found) for found in one_by_one] == [n not in (7, 40, 41) for n in range(1, 42)]


def test_a_node_that_is_away_is_passed_over_and_one_that_is_nowhere_is_named(target: Any) -> None:
    to = target()
    to.prepare()
    to.write(change("c", 1, {"n": 1}, 100))
    here = f"{to.connection.host}:{to.connection.port}"
    both = to.connection.model_copy(update={"host": f"127.0.0.1:1,{here}"})
    with closing(DocumentReader("search", both, shared=False)) as reader:
        assert reader.newest([to.index()], '{"id":1}', "")
    away = DocumentReader("search", to.connection.model_copy(update={"host": "127.0.0.1:1"}), shared=False)
    with pytest.raises(SinkUnavailableError, match=r"127\.0\.0\.1:1\): reading .* no answer \(ConnectionRefusedError"):
        away.newest([to.index()], '{"id":1}', "")


def test_keys_of_several_columns_and_kept_deletes(target: Any) -> None:
    to = target(ids="table_key", soft_deletes=True)
    to.prepare()
    key = {"order": 1, "line": "a"}
    to.write(change("c", key, {"n": 1}, 100), change("d", key, None, 200))
    (seen,) = to.reader().newest([to.index()], json.dumps(key, separators=(",", ":")), "shop.Orders")
    assert seen.place == f'{to.index()}/shop.Orders:[1,"a"]'
    assert (seen.change.op, seen.change.position) == ("d", 200)


def test_a_document_leads_to_its_batch_and_run(target: Any, tmp_path: Any) -> None:
    to = target()
    to.prepare()
    name = to.flow
    flow = Flow(name=name, source=MysqlBinlog(conn_id="gone", tables=("shop.Orders",)), sinks=(to.spec,))
    settings = Settings("test", str(tmp_path), f"sqlite:///{tmp_path / 'records.db'}")
    connections = EnvironmentConnections({
        "AIRFLOW_CONN_GONE": json.dumps({"conn_type": "mysql", "host": "127.0.0.1", "port": 1}),
        "AIRFLOW_CONN_SEARCH": json.dumps(
            {"conn_type": to.connection.conn_type, "host": to.connection.host, "port": to.connection.port}
        ),
    })  # fmt: skip
    with SqlRecorder.open(settings.records_url) as recorder:
        for batch, at in ((1, 100), (2, 200)):
            receipt = to.write(change("c" if batch == 1 else "u", 1, {"n": batch}, at + 50))
            moved = OffsetRange(BinlogOffset("bin.000001", at), BinlogOffset("bin.000001", at + 100))
            done = report(batch, f"run-{batch}")
            sinks = {to.spec.sink_name: SinkPlan()}
            done = replace(done, plan=replace(done.plan, flow=name, range=moved, sinks=sinks), receipts=(receipt,))
            recorder.record(done)
    for what in (f"{to.index()}/1", '{"id":1}'):
        (journey,) = trace(recognise(what), [flow], (connections, settings))
        assert [(b.batch, b.run_id) for b in journey.batches] == [(2, "run-2")], what
        assert [s.place for s in journey.sightings] == [f"{to.index()}/1"]
        assert journey.change.position == 250
        assert any(note.startswith("the log: ") for note in journey.notes)  # the server is away, and that is said
    with pytest.raises(TraceNotRecordedError, match="none of its newest batches wrote to an index elsewhere"):
        trace(recognise("elsewhere/1"), [flow], (connections, settings))
