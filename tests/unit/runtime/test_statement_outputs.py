"""Outputs of statements: planned like those of rows, by route and operation, and made for a plan that lacks them."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic

from databus import Flow, Kafka, MysqlBinlog, Route
from databus.core.connections import Connection
from databus.core.errors import SinkOutputChangedError, SinkSettingError
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.known_outputs import NOTHING_KNOWN, KnownOutputs
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.kafka.client import ClientSettings
from databus.runtime.routing import outputs_named, outputs_of, prepare
from databus.sinks.kafka.session import ProducerSettings
from databus.sinks.kafka.sink import KafkaSink
from databus.sinks.kafka.tally import MessageTally
from databus.sinks.kafka.topics import standing
from databus.sinks.kafka.topics.cluster_topics import Topics
from databus.sinks.kafka.writer import KafkaSlotWriter

RANGE = OffsetRange(SequenceOffset(0), SequenceOffset(9))
ROWS = TableSchema(0, "shop", "t", ())
EMPTY, MADE, SHOP = (TableSchema(-1, "shop", name, ()) for name in ("empty", "made", ""))
PLANNED = SourcePlan(RANGE, (ROWS,), 1, 1, statements=3, named=(("t", EMPTY), ("m", MADE), ("m", SHOP)))


class Cluster(Topics):
    """Topics with ids, kept here."""

    def __init__(self, *names: str):
        super().__init__(ClientSettings("east", "127.0.0.1:1"))
        self.there = dict.fromkeys(names, "id")

    def partitions(self) -> dict[str, int]:
        return dict.fromkeys(self.there, 1)

    def create(self, topic: NewTopic, **_: Any) -> None:
        self.there[topic.topic] = "id"

    def ids(self, topics: Any, *, anew: bool = False) -> dict[str, str]:
        return {name: self.there[name] for name in topics if name in self.there}


def opened(*there: str, **options: Any) -> tuple[Flow, Kafka, KafkaSink]:
    spec = Kafka(conn_id="east", topic="k.{table}", profile="at_least_once", **options)
    flow = Flow(name="f", source=MysqlBinlog(conn_id="shop", tables=("shop.*",)), sinks=(spec,), checks=())
    connection = Connection(conn_id="east", conn_type="kafka", host="127.0.0.1", port=1)
    sink = KafkaSink(spec, connection, FlowContext("f", Settings("test", "", "")))
    sink.topics = Cluster(*there)
    return flow, spec, sink


def pinned(flow: Flow, spec: Kafka, sink: KafkaSink, known: KnownOutputs = NOTHING_KNOWN) -> SinkPlan:
    named = outputs_named(flow, spec, sink, PLANNED)
    return prepare(sink, PLANNED, outputs_of(flow, spec, PLANNED.tables), known, named)


def in_flight(*topics: str) -> Plan:
    sinks = {"kafka": SinkPlan(partitions=dict.fromkeys(topics, 1), ids=dict.fromkeys(topics, "id"))}
    return Plan("test", "f", 1, RANGE, sinks, "", datetime.now(UTC))


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({}, ["k.empty", "k.t"]),
        ({"ddl": True}, ["k._ddl", "k.empty", "k.made", "k.t"]),
        ({"envelope": "row"}, ["k.t"]),
        ({"routes": ("shop.t", "shop.m*"), "ddl": True}, ["k.made", "k.t"]),
    ],
)
def test_topics_of_statements_are_made_and_pinned_with_ids(options: dict[str, Any], made: list[str]) -> None:
    plan = pinned(*opened(**options))
    assert sorted(plan.partitions) == sorted(plan.ids) == made


def test_a_statement_goes_by_the_route_of_its_table() -> None:
    flow, spec, sink = opened(ddl=True)
    spec = spec.model_copy(update={"topic": "k.{route}"})
    sink.spec = spec
    flow = flow.model_copy(update={"transforms": (Route({"shop.made": "new"}, default="rest"),), "sinks": (spec,)})
    assert sorted(pinned(flow, spec, sink).partitions) == ["k.new", "k.rest", "k.rest_ddl"]


def test_a_deleted_topic_is_not_made_again_for_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "_PAUSES_S", (0.0,))
    flow, spec, sink = opened("k.t")
    known = KnownOutputs({"k.empty": "former"}, "batch 1 was committed")
    with pytest.raises(SinkOutputChangedError, match=r"topic k\.empty .*was deleted"):
        pinned(flow, spec, sink, known)
    with pytest.raises(SinkOutputChangedError, match=r"topic k\.empty .*was deleted"):
        sink.make_unplanned(in_flight("k.t"), outputs_named(flow, spec, sink, PLANNED), known)
    assert sink.topics.partitions() == {"k.t": 1}


def test_a_plan_in_flight_that_lacks_a_topic_gets_it() -> None:
    flow, spec, sink = opened("k.t")
    sink.make_unplanned(in_flight("k.t"), outputs_named(flow, spec, sink, PLANNED), NOTHING_KNOWN)
    assert sorted(sink.topics.partitions()) == ["k.empty", "k.t"]


def test_a_topic_that_is_pinned_is_not_made_beside_the_plan() -> None:
    """The writer says that it was deleted."""
    flow, spec, sink = opened("k.t")
    sink.make_unplanned(in_flight("k.t", "k.empty"), outputs_named(flow, spec, sink, PLANNED), NOTHING_KNOWN)
    assert sorted(sink.topics.partitions()) == ["k.t"]


def test_a_topic_that_no_plan_can_know_is_named_by_the_error() -> None:
    from confluent_kafka import KafkaError

    session: Any = SimpleNamespace(flush=lambda: None)
    tally = MessageTally("kafka", {})
    tally.delivered("k.mine[0]", [-1, -1, 0])(KafkaError(KafkaError._UNKNOWN_TOPIC), None)
    writer = KafkaSlotWriter("kafka", in_flight("k.t"), ProducerSettings(ClientSettings("east", "127.0.0.1:1")))
    with pytest.raises(SinkSettingError, match=r"cannot produce to k\.mine\[0\]: _UNKNOWN_TOPIC"):
        writer._commit(session, 0, tally)
