from __future__ import annotations

import pytest

from databus.core.connections import Connection
from databus.core.errors import ConfigError, SinkSettingError
from databus.core.events import Op
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.kafka.client import ClientSettings
from databus.registry import spec_class
from databus.sinks.kafka import Kafka
from databus.sinks.kafka.sink import KafkaSink
from databus.sinks.kafka.topics.cluster_topics import Topics


def open_sink(**options: object) -> KafkaSink:
    connection = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    return KafkaSink(Kafka(conn_id="k", **options), connection, FlowContext("f", Settings("inst", "", "")))


def test_the_registry_knows_it() -> None:
    assert spec_class("sinks", "kafka") is Kafka


def test_defaults() -> None:
    spec = Kafka(conn_id="kafka_east")
    assert (spec.sink_name, spec.topic, spec.envelope, spec.slots) == ("kafka", "cdc.{route}", "debezium", 1)
    assert spec.conn_ids() == (("kafka_east", "kafka"),)
    assert Kafka.from_stored({k: v for k, v in spec.to_json().items() if k != "kind"}) == spec


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topic": "cdc.{schema}"}, "{route}"),
        ({"topic": ""}, "topic template"),
        ({"envelope": "avro"}, "envelope"),
        ({"producer": {"transactional.id": "x"}}, "transactional.id"),
        ({"producer": {"acks": 1}}, "exactly once"),
        ({"producer": {"request.required.acks": 0}, "profile": "throughput_first"}, "request.required.acks"),
        ({"producer": {"queuing.strategy": "lifo"}, "profile": "throughput_first"}, "queuing.strategy"),
        ({"producer": {"bootstrap.servers": "b:9092"}}, "belongs into the connection"),
        ({"producer": {"metadata.broker.list": "b:9092"}}, "belongs into the connection"),
        ({"producer": {"enable.ssl.certificate.verification": False}}, "belongs into the connection"),
        ({"ddl": True, "envelope": "row"}, "ddl"),
        ({"slots": 0}, "slots"),
        ({"topics": "x"}, "unknown option 'topics'"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=__file__) as caught:
        Kafka(conn_id="k", **options)
    assert says in str(caught.value)


def test_operations_it_takes() -> None:
    rows = {Op.CREATE, Op.UPDATE, Op.DELETE, Op.READ}
    assert open_sink(envelope="row").accepts() == rows
    assert open_sink().accepts() == {*rows, Op.TRUNCATE}
    assert open_sink(ddl=True).accepts() == {*rows, Op.TRUNCATE, Op.DDL}


def test_markers_and_transactional_ids_carry_installation_flow_and_sink() -> None:
    key = open_sink(name="east").key
    assert key.group == "databus.inst.f.east"
    assert key.transactional_id(3) == "databus.inst.f.east.3"


def test_servers_come_from_extra_or_host() -> None:
    extra = Connection(conn_id="k", conn_type="kafka", host="h", extra={"bootstrap.servers": "a:1,b:2"})
    assert ClientSettings.of(extra, 1.0).servers == "a:1,b:2"
    assert ClientSettings.of(Connection(conn_id="k", conn_type="kafka", host="h"), 1.0).servers == "h:9092"
    with pytest.raises(SinkSettingError, match="names no Kafka broker"):
        ClientSettings.of(Connection(conn_id="k", conn_type="kafka"), 1.0)


def test_a_setting_that_librdkafka_does_not_know_is_named() -> None:
    connection = Connection(conn_id="k", conn_type="kafka", host="h", extra={"sasl.mechanisme": "PLAIN"})
    sink = KafkaSink(Kafka(conn_id="k"), connection, FlowContext("f", Settings("inst", "", "")))
    with pytest.raises(SinkSettingError, match=r"sasl\.mechanisme"):
        sink.topics.metadata()
    assert [f.code for f in sink.preflight()] == ["sink_setting"]


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.location", "security.protocol", "ssl.key.pem", "my.token"])
def test_a_flow_holds_no_security_settings(name: str) -> None:
    with pytest.raises(ConfigError, match="belongs into the connection") as caught:
        Kafka(conn_id="k", producer={name: "hunter2-hunter2"})
    assert "hunter2" not in str(caught.value)


def test_errors_of_settings_quote_no_secret() -> None:
    extra = {"sasl.mechanism": "hunter2-hunter2", "ssl.key.password": "hunter2-hunter2"}
    connection = Connection(conn_id="k", conn_type="kafka", host="h", extra={**extra, "security.protocol": "nonsense"})
    with pytest.raises(SinkSettingError, match="librdkafka refuses") as caught:
        Topics(ClientSettings.of(connection, 1.0)).metadata()
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_sasl_without_a_mechanism_is_named() -> None:
    connection = Connection(conn_id="k", conn_type="kafka", host="h", extra={"security.protocol": "sasl_plaintext"})
    with pytest.raises(SinkSettingError) as caught:
        ClientSettings.of(connection, 1.0)
    assert caught.value.code == "sasl_mechanism"
