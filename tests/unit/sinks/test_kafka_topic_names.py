from __future__ import annotations

import pytest

from databus.core.errors import SinkSettingError
from databus.core.tables import TableSchema
from databus.sinks.kafka.topic_names import topic_of, topics_of


def table(database: str, name: str) -> TableSchema:
    return TableSchema(0, database, name, ())


@pytest.mark.parametrize(
    ("template", "route", "topic"),
    [
        ("cdc.{route}", "shop.orders", "cdc.shop.orders"),
        ("cdc.{route}", "archive", "cdc.archive"),
        ("{flow}.{database}.{table}", "archive", "f.shop.orders"),
        ("all", "shop.orders", "all"),
        ("cdc.{route}", "sh op.ordérs", "cdc.sh_op.ord_rs"),
    ],
)
def test_template(template: str, route: str, topic: str) -> None:
    assert topic_of(template, table("shop", "orders"), route, "f") == topic


def test_a_schema_change_without_a_table_has_a_topic() -> None:
    assert topic_of("cdc.{route}", table("shop", ""), "shop.", "f") == "cdc.shop._ddl"


@pytest.mark.parametrize("route", ["", "x" * 250, ".."])
def test_names_that_kafka_refuses(route: str) -> None:
    with pytest.raises(SinkSettingError, match="not one that Kafka allows"):
        topic_of("{route}", table("a", "b"), route, "f")


def test_tables_may_share_a_topic_by_template_only() -> None:
    orders, items = (table("shop", "orders"), "shop.orders"), (table("shop", "items"), "shop.items")
    assert topics_of("all", [orders, items], "f") == ["all"]
    assert topics_of("{route}", [orders, (orders[0], "shop.orders")], "f") == ["shop.orders"]
    with pytest.raises(SinkSettingError, match="would share the topic"):
        topics_of("{route}", [(table("a", "b c"), "a.b c"), (table("a", "b_c"), "a.b_c")], "f")
