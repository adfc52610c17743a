"""Sinks that a refused row stops the batch at are written first; a plan that is given up leaves what was new new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databus import Elasticsearch, Flow, Kafka, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.times import SystemClock
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.dispatch import writing_order
from databus.runtime.plan import next_plan
from databus.sinks.noop import Noop
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints

NEW = SinkPlan(first=("orders",))


def order(sinks: tuple[Any, ...], names: str = "", **pinned: SinkPlan) -> list[str]:
    flow = Flow(name="order", source=Mock(rows=1), sinks=sinks)
    plans = {spec.sink_name: pinned.get(spec.sink_name, SinkPlan()) for spec in sinks}
    plan: Any = type("Planned", (), {"sinks": plans})
    return writing_order(flow, plan, names.split() or [spec.sink_name for spec in sinks])


def kafka(name: str, **options: Any) -> Kafka:
    return Kafka(conn_id="k", name=name, **options)


def search(name: str, **options: Any) -> Elasticsearch:
    return Elasticsearch(conn_id="s", name=name, **options)


def test_the_flows_order_stands_where_nothing_may_stop_the_batch() -> None:
    sinks = (kafka("a"), search("b"), search("c", on_reject="quarantine"), kafka("d"))
    assert order(sinks) == ["a", "b", "c", "d"]
    assert order(sinks, c=NEW) == ["a", "b", "c", "d"]
    assert order(sinks, names="d b") == ["b", "d"]


def test_what_may_stop_it_comes_first_and_what_can_be_written_for_nothing_before_that() -> None:
    sinks = (kafka("a"), kafka("b", on_reject="fail"), search("c"), search("d", on_reject="fail"), kafka("e"))
    assert order(sinks) == ["d", "b", "a", "c", "e"]
    assert order(sinks, c=NEW) == ["c", "d", "b", "a", "e"]


class Sink:
    """A sink with an index that is new until its first plan."""

    def __init__(self) -> None:
        self.prepared = 0

    def prepare(self, plan: SourcePlan, outputs: Any) -> SinkPlan:
        self.prepared += 1
        return NEW if self.prepared == 1 else SinkPlan()

    def fence(self, plan: Plan) -> None:
        return

    def close(self) -> None:
        pass


def test_a_plan_of_another_definition_takes_for_new_what_the_former_one_did(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, store = Sink(), MemoryCheckpoints()
    monkeypatch.setattr(Noop, "open", lambda self, connections, context: opened)
    services = Services(
        Settings("t", "", ""), EnvironmentConnections({}), store, None, object(), SystemClock()  # type: ignore[arg-type]
    )  # fmt: skip
    source = Mock(rows=60, rows_per_transaction=1)
    former = Flow(name="order", source=source, sinks=(Noop(name="s"),))
    changed = replace_sinks(former, Noop(name="s", routes=("shop.*",)))
    lease = store.claim("order", "run", 0)
    plans = []
    for flow in (former, former, changed):
        with open_session(flow, replace(services), None, RunIdentity("run", "", __version__)) as session:
            checkpoint = store.load("order") or store.start("order", lease, session.source.start_offset(), "run")
            batch = next_plan(session, lease, checkpoint)
            assert batch is not None
            plans.append(batch.plan)
    assert [plan.sinks["s"].first for plan in plans] == [("orders",)] * 3
    assert [plan.batch for plan in plans] == [1, 1, 2]
    assert opened.prepared == 2


def replace_sinks(flow: Flow, *sinks: Any) -> Flow:
    return flow.model_copy(update={"sinks": sinks})
