"""A batch that stops for rows a sink refuses: the first of a new index by default, any by on_reject="fail"."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog, NotNull
from databus.core.alerts.alert import AlertEvent
from databus.core.errors import RecordRejectedError
from databus.demo.consumers import index_documents, topic_records
from databus.records.reports import quarantined
from tests.integration.backfills import run_range
from tests.integration.commands import Commands
from tests.integration.conftest import World
from tests.integration.heard_alerts import Heard
from tests.integration.one_process import OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

INTEGER = {"properties": {"note": {"type": "integer"}}}


class Shelf:
    """A table whose notes an index takes for numbers, and a topic beside it that is named first."""

    def __init__(self, world: World, database: str, lane: str = "auto"):
        self.world, self.database, self.lane = world, database, lane
        self.index = f"rejected-{database}"
        self.execute("CREATE TABLE orders (id INT PRIMARY KEY, note TEXT)")
        with world.sql() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position = cursor.fetchone()[:2]
        self.start = f"{file}:{position}"

    def execute(self, *statements: str) -> None:
        with self.world.sql(self.database) as connection:
            run_sql(connection, *statements)

    def flow(self, kafka: dict[str, Any] | None = None, **search: Any) -> Flow:
        given = {"conn_id": "opensearch_default", "index": self.index, "mapping": INTEGER, **search}
        return Flow(
            name=f"rejected_{self.database}",
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{self.database}.orders",), start=self.start),
            sinks=(Kafka(conn_id="kafka_east", topic=self.database, **(kafka or {})), Elasticsearch(**given)),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
            lane=self.lane,
        )

    def stops(self, flow: Flow) -> RecordRejectedError:
        """Run a flow that is to stop by name; its checkpoint stays."""
        before = self.world.checkpoint(flow)
        with pytest.raises(RecordRejectedError) as stopped:
            self.world.run(flow)
        standing = self.world.checkpoint(flow)
        assert before in (None, standing)
        assert standing.batch == (before.batch if before else 0)
        return stopped.value

    def documents(self) -> set[str]:
        return set(index_documents(self.world.sandbox.address("opensearch"), self.index))

    def keys(self) -> list[str]:
        return sorted(
            (key or b"").decode() for key, _ in topic_records(self.world.sandbox.address("kafka"), self.database)
        )

    def held(self, flow: Flow) -> list[tuple[str | None, str]]:
        return sorted((row.key, row.stage) for row in quarantined(self.world.settings.records_url, flow.name))


@pytest.fixture
def direct(world: World) -> OneProcessWorld:
    return OneProcessWorld(world.sandbox, world.home)


@pytest.mark.parametrize("lane", ["auto", "spark"])
def test_the_first_batch_of_a_new_index_stops_and_goes_on_by_on_reject(world: World, database: str, lane: str) -> None:
    if lane == "auto":  # the direct lane, of which Spark is no part
        world = OneProcessWorld(world.sandbox, world.home)
    shelf = Shelf(world, database, lane)
    flow = shelf.flow()
    shelf.execute("INSERT INTO orders VALUES (1, '11'), (2, 'a secret'), (3, '33')")
    stopped = shelf.stops(flow)
    assert f"'{shelf.index}', its first batch: sink elasticsearch refused 1 row of {database}.orders: " in str(stopped)
    assert "mapper_parsing_exception: field [note] of type [integer]" in str(stopped)
    assert "secret" not in str(stopped)
    assert (shelf.keys(), shelf.held(flow)) == ([], [])
    # Documents of the batch are there by now, and yet it stays the first: tried again, and planned anew.
    assert shelf.documents() == {"1", "3"}
    shelf.stops(flow)
    shelf.stops(shelf.flow(max_retries=5))
    assert (shelf.keys(), shelf.held(flow)) == ([], [])

    # The operator's decision is no other definition: the same batch goes on.
    result = world.run(shelf.flow(max_retries=5, on_reject="quarantine"))
    assert result.state == "rejected"
    assert result.summary()["sinks"]["elasticsearch"] == {"dispatched": 2, "rejected": 1}
    assert shelf.documents() == {"1", "3"}
    assert shelf.keys() == ['{"id":1}', '{"id":2}', '{"id":3}']
    assert shelf.held(flow) == [('{"id":2}', "elasticsearch")]

    # Later batches hold back: the index is known to take rows.
    shelf.execute("INSERT INTO orders VALUES (4, 'no number'), (5, '55')")
    later = world.run(shelf.flow(max_retries=5))
    assert later.state == "rejected"
    assert later.summary()["sinks"] == {
        "elasticsearch": {"dispatched": 1, "rejected": 1},
        "kafka": {"dispatched": 2, "rejected": 0},
    }
    assert shelf.held(flow) == [('{"id":2}', "elasticsearch"), ('{"id":4}', "elasticsearch")]
    shelf.execute("INSERT INTO orders VALUES (6, '66')")
    assert world.run(shelf.flow(max_retries=5)).state == "ok"


def test_a_mended_mapping_takes_the_first_batch_whole(direct: OneProcessWorld, database: str) -> None:
    shelf = Shelf(direct, database)
    shelf.execute("INSERT INTO orders VALUES (1, '11'), (2, 'two')")
    assert "delete the index" in shelf.stops(shelf.flow()).hint
    httpx.delete(f"http://{direct.sandbox.address('opensearch')}/{shelf.index}", timeout=60).raise_for_status()
    result = direct.run(shelf.flow(mapping=None))
    assert (result.state, result.quarantined) == ("ok", 0)
    assert shelf.documents() == {"1", "2"}
    assert shelf.keys() == ['{"id":1}', '{"id":2}']


def test_what_each_sink_took_stands_in_ledger_quarantine_and_backfill(
    direct: OneProcessWorld, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(direct, database)
    flow = shelf.flow(on_reject="quarantine")
    shelf.execute("INSERT INTO orders VALUES (1, '11'), (2, 'two'), (3, 'three')")
    direct.run(flow)
    files, run = tmp_path / "dags", Commands(direct, tmp_path / "dags", monkeypatch)
    files.mkdir()
    text = json.dumps(flow.to_json())
    (files / "flow.py").write_text(
        f"import json\nfrom databus.registry import flow_from_json\nflow = flow_from_json(json.loads({text!r}))\n"
    )
    taken = {"elasticsearch": {"dispatched": 1, "rejected": 2}, "kafka": {"dispatched": 3, "rejected": 0}}
    shown = run.json("ledger", flow.name)
    assert shown["sinks"] == taken
    assert (shown["rows"]["dispatched"], shown["rows"]["quarantined"]) == (1, 2)
    table = run("ledger", flow.name).stdout
    assert [line.split() for line in table.splitlines() if line.startswith(("kafka", "elasticsearch"))] == [
        ["elasticsearch", "1", "2"],
        ["kafka", "3", "0"],
    ]
    assert "2 held (elasticsearch 2)" in run("quarantine", "list", flow.name).stderr
    end = direct.checkpoint(flow).offset
    state = run_range(direct, flow, shelf.start, f"{end.file}:{end.pos}")
    assert state.done
    assert state.to_json()["sinks"] == taken
    assert "2 quarantined; elasticsearch took 1 and refused 2, kafka took 3)" in state.line()
    (listed,) = run.json("backfill", flow.name, "--status")
    assert listed["sinks"] == listed["pieces"][0]["sinks"] == taken


def test_refused_rows_are_told_by_sink_and_apart_from_those_that_a_check_holds(
    direct: OneProcessWorld, database: str, heard: Heard
) -> None:
    shelf = Shelf(direct, database)
    flow = shelf.flow(on_reject="quarantine").model_copy(update={"checks": (NotNull("note"),)})
    shelf.execute("INSERT INTO orders VALUES (1, '11'), (2, 'two'), (3, 'three')")
    result = direct.run(flow)
    heard.tell(flow)
    (raised,) = heard.of_kind("rejected")
    assert (raised.event, raised.subject, raised.run_id) == (
        AlertEvent.RAISED, "elasticsearch", result.checkpoint.run_id,
    )  # fmt: skip
    assert raised.figures == {"rejected_new_rows": 2, "rejected_rows": 2}
    assert raised.range.endswith(f", {result.checkpoint.offset}]")
    assert raised.runbook.endswith("rejected.md")
    assert heard.of_kind("quarantine") == []
    shelf.execute("INSERT INTO orders VALUES (4, NULL)")
    direct.run(flow)
    heard.tell(flow)
    assert heard.of_kind("quarantine")[0].figures == {"quarantine_new_rows": 1, "quarantine_rows": 1}
    heard.tell(flow, ahead=timedelta(minutes=61))
    assert heard.events("rejected") == heard.events("quarantine") == ["raised", "recovered"]
    assert "it lacks 2 in all" in heard.of_kind("rejected")[1].summary


@pytest.mark.parametrize("profile", ["exactly_once", "at_least_once"])
def test_a_record_that_is_too_large_stops_the_batch_by_choice(
    direct: OneProcessWorld, database: str, profile: str
) -> None:
    shelf = Shelf(direct, database)
    small: dict[str, Any] = {"topic_config": {"max.message.bytes": "4000"}, "profile": profile}

    def flow(on_reject: str) -> Flow:
        both = shelf.flow(kafka={**small, "on_reject": on_reject})
        return both.model_copy(update={"sinks": both.sinks[:1]})

    shelf.execute(f"INSERT INTO orders VALUES (1, 'small'), (2, '{'large' * 1000}'), (3, 'small')")
    for _ in range(2):
        stopped = shelf.stops(flow("fail"))
        assert f"sink kafka refused 1 row of {database}.orders: 1 × record_too_large: topic {database} takes 4000" in (
            stopped.message
        )
        assert "large" not in stopped.message.replace("record_too_large", "")
        assert (shelf.keys(), shelf.held(flow("fail"))) == ([], [])
    assert direct.run(flow("quarantine")).state == "rejected"
    assert shelf.keys() == ['{"id":1}', '{"id":3}']
    assert shelf.held(flow("fail")) == [('{"id":2}', "kafka")]
    shelf.execute("INSERT INTO orders VALUES (4, 'small')")
    assert direct.run(flow("fail")).state == "ok"
