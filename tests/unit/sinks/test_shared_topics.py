"""Topics of transactions: never compacted, of one flow; templates of topics without formats."""

from __future__ import annotations

import pytest

from databus import Flow, Kafka, MysqlBinlog
from databus.core.connections import Connection
from databus.core.errors import ConfigError
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.ops.flows.shared_topics import shared_transaction_topics
from databus.sinks.kafka.sink import KafkaSink

SOURCE = MysqlBinlog(conn_id="m", tables=("shop.*",))


def flow_of(name: str, topic: str, conn_id: str = "k") -> Flow:
    return Flow(name=name, source=SOURCE, sinks=(Kafka(conn_id=conn_id, transaction_topic=topic),))


@pytest.mark.parametrize(
    ("policy", "wanted"), [("compact", "delete"), ("compact,delete", "delete"), ("delete", "delete"), (None, None)]
)
def test_the_topic_of_transactions_is_not_compacted(policy: str | None, wanted: str | None) -> None:
    config = {"retention.ms": "1000", **({"cleanup.policy": policy} if policy else {})}
    spec = Kafka(conn_id="k", transaction_topic="cdc.transactions", topic_config=config)
    connection = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    sink = KafkaSink(spec, connection, FlowContext("orders", Settings("i", "", "")))

    assert sink.new_topic("cdc.shop.orders").config == config
    made = sink.new_topic("cdc.transactions", 1).config
    assert made.get("cleanup.policy") == wanted
    assert made["retention.ms"] == "1000"


def test_flows_that_share_a_topic_of_transactions_are_named() -> None:
    flows = [flow_of("a", "cdc.tx"), flow_of("b", "cdc.tx"), flow_of("c", "{flow}.tx"), flow_of("d", "cdc.tx", "west")]
    (problem,) = shared_transaction_topics(flows)
    assert (problem.mirrors, problem.code) == (("a", "b"), "sink_transaction_topic_shared")
    assert "'cdc.tx' of k" in problem.message
    assert shared_transaction_topics(flows[1:]) == []


@pytest.mark.parametrize("topic", ["cdc.{table!r}", "cdc.{table:>30}", "{route!s}"])
def test_fields_of_a_topic_have_no_format(topic: str) -> None:
    with pytest.raises(ConfigError, match=r"has fields as they are: write \{"):
        Kafka(conn_id="k", topic=topic)
