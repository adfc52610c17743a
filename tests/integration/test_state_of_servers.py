"""Flows go on from what a commit left in real servers when it was killed: log, topics, markers, znodes, records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from databus import Flow, __version__
from databus.binlog.segments.kept_segments import KeptSegments, servers_with_kept_segments
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.plan import Plan
from databus.ops.ledger.verify import verify
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.records.quarantine.rows import HeldRows
from databus.records.store import RecordStore
from databus.runtime.context import RunIdentity, Services
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.sandbox.connections import airflow_connections
from tests.integration.kafka_target import consume, forget_kept
from tests.state_fixtures.left_flow import INSTALLATION, SNAPSHOT, InlineEngine, left_flow
from tests.state_fixtures.server_state import ARCHIVE, PEOPLE, Changes, KeptServers, sql_of

pytestmark = pytest.mark.integration

FIXTURES = Path(__file__).parents[1] / "fixtures"
KEPT = {"021bfd3": FIXTURES / "state_021bfd3", "0.1.0": FIXTURES / "state" / "0.1.0"}


@dataclass
class Left:
    """Servers with kept state, and flows on them."""

    kept: KeptServers

    @property
    def settings(self) -> Settings:
        home = self.kept.home
        return Settings(INSTALLATION, str(home / "segments"), f"sqlite:///{home / 'records.db'}", segment_keep="3650d")

    def flow(self, name: str) -> Flow:
        flow: Flow = left_flow(name, self.kept.facts["start"])
        return flow

    def services(self, name: str) -> Any:
        connections = EnvironmentConnections(airflow_connections(self.kept.sandbox.status()))
        return open_services(self.flow(name), connections, self.settings)

    def go_on(self, name: str, services: Services) -> None:
        """Run a window until the flow has caught up; the dead holder's lease ends with its session."""
        limits = WindowLimits(max_seconds=120, until_caught_up=True, lease_wait_s=60)
        identity = RunIdentity("next-run", "http://airflow/next", __version__)
        run_flow(self.flow(name), services, InlineEngine(), identity, WindowControl(limits))

    def seen(self, topic: str) -> dict[str, list[list[Any]]]:
        """Return table.id → [op, row after] of each message, in order, once each."""
        found: dict[str, list[list[Any]]] = {}
        ids = []
        for message in consume(self.kept.sandbox.address("kafka"), topic):
            if message.value() is None:
                continue
            value = json.loads(message.value(), parse_float=str)
            ids.append(dict(message.headers())["event_id"])
            after = value["after"]
            row = None if after is None else {name: str(field) for name, field in after.items() if field is not None}
            key = f"{value['source']['table']}.{(after or value['before'])['id']}"
            found.setdefault(key, []).append([value["op"], row])
        assert len(set(ids)) == len(ids)
        return found


@pytest.fixture(scope="module", params=KEPT)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    archive = KEPT[request.param] / ARCHIVE
    with KeptServers(archive, tmp_path_factory.mktemp("kept")) as kept:
        yield Left(kept)
        forget_kept()


def _entries_of(services: Services, name: str, plan: Plan) -> list[HistoryEntry]:
    return [entry for entry in services.store.history(name, 1000) if entry.batch == plan.batch]


def test_the_plan_in_flight_is_finished_once_and_the_flow_goes_on(left: Left) -> None:
    facts = left.kept.facts
    made: dict[str, list[list[Any]]] = facts["changes"]
    rows = {key: changes for key, changes in made.items() if not key.startswith("people.")}
    with closing(sql_of(left.kept.sandbox)) as connection:
        more = Changes(connection, json.loads(json.dumps(rows)))
        more.round(4)
    for name in facts["flows"]:
        with left.services(name) as services:
            plan = services.store.pending_plan(name)
            before = services.store.load(name)
            assert plan is not None
            assert before is not None
            assert plan.batch == before.batch + 1
            left.go_on(name, services)
            (taken,) = _entries_of(services, name, plan)
            assert (taken.plan_hash, taken.offset) == (plan.hash, plan.range.end)
            after = services.store.load(name)
            assert after is not None
            assert after.batch > plan.batch
            assert services.store.pending_plan(name) is None
            assert [str(problem) for problem in verify(left.flow(name), services, None).problems] == []
        expected = more.made
        if name == SNAPSHOT:
            expected = {f"people.{n}": [["r", {"id": str(n), "name": f"person {n}"}]] for n in range(1, PEOPLE + 1)}
        assert left.seen(name) == expected


def test_records_and_kept_segments_are_read(left: Left) -> None:
    with RecordStore(left.settings.records_url) as store:
        held = HeldRows(store, "kept_half").tally()["held"]
    assert sum(held.values()) >= 1
    (server,) = servers_with_kept_segments(left.settings.segment_store)
    assert KeptSegments(left.settings.segment_store, server).list()
