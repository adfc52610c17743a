"""Options of the Kafka sink that choose a message's form: what is refused, and what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.errors import ConfigError, SinkSettingError
from databus.core.errors.sink import ValidationRefusedError
from databus.core.flow import Flow
from databus.runtime.direct.required import lane_findings
from databus.sinks.kafka.spec import Kafka
from databus.sources.mock.spec import Mock
from tests.unit.sinks.test_kafka_spec import open_sink

FORMS: tuple[dict[str, Any], ...] = ({"types": "debezium"}, {"envelope": "maxwell"}, {"envelope": "canal"})


def test_a_definition_without_them_is_stored_as_before() -> None:
    assert not {"types", "schemas", "decimal", "headers", "cloudevents"} & Kafka(conn_id="k").to_json().keys()


@pytest.mark.parametrize(
    "options",
    [*FORMS, {"types": "debezium", "schemas": True, "decimal": "string"}, {"headers": ("event_id", "op")},
     {"cloudevents": True}],
)  # fmt: skip
def test_chosen_ones_are_stored(options: dict[str, Any]) -> None:
    spec = Kafka(conn_id="k", **options)
    stored = {name: value for name, value in spec.to_json().items() if name != "kind"}
    assert stored.items() >= {name: list(v) if isinstance(v, tuple) else v for name, v in options.items()}.items()
    assert Kafka.from_stored(stored) == spec


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"types": "debezium", "envelope": "row"}, 'types="debezium" is of envelope="debezium"'),
        ({"schemas": True}, 'schemas: with types="debezium" alone'),
        ({"decimal": "string", "binary": "hex"}, 'binary, decimal: with types="debezium" alone'),
        ({"envelope": "maxwell", "ddl": True}, "ddl"),
        ({"types": "avro"}, "types"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Kafka(conn_id="k", **options)
    assert says in str(caught.value)


@pytest.mark.parametrize("options", FORMS)
def test_a_flow_whose_rows_go_through_spark_is_refused_by_name(options: dict[str, Any]) -> None:
    sink = Kafka(conn_id="k", **options)
    source = Mock(rows=10)
    assert lane_findings(Flow(name="f", source=source, sinks=(sink,))) == []
    ((name, value),) = options.items()
    (finding,) = lane_findings(Flow(name="f", source=source, sinks=(sink,), lane="spark"))
    assert finding.code == "lane_required"
    assert f'{name}="{value}" needs rows as they are decoded: lane="spark"' in finding.message
    assert lane_findings(Flow(name="f", source=source, sinks=(Kafka(conn_id="k"),), lane="spark")) == []


def test_spark_s_encoder_and_a_comparison_refuse_it() -> None:
    sink: Any = open_sink(types="debezium")
    with pytest.raises(SinkSettingError, match="direct lane alone"):
        sink.encode(None, None)
    for asked in (lambda: sink.expected(None), lambda: sink.held(())):
        with pytest.raises(ValidationRefusedError, match='types="debezium"'):
            asked()
