from __future__ import annotations

from typing import Any

import pytest

from databus.core.errors import SinkSettingError
from databus.core.state.known_outputs import KnownOutputs
from databus.core.tables.schemas import TableSchema
from databus.sinks.kafka.topics.names import replaced, topic_of, topics_of


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
    assert topics_of("all", [orders, items], "f") == {"all": "all"}
    assert topics_of("{route}", [orders, (orders[0], "shop.orders")], "f") == {"shop.orders": "shop.orders"}
    with pytest.raises(SinkSettingError, match="would share the topic") as refused:
        topics_of("{route}", [PLACED, PLAIN], "f")
    assert refused.value.code == "sink_topic_shared"


PLACED, PLAIN = (table("a", "b c"), "a.b c"), (table("a", "b_c"), "a.b_c")


@pytest.mark.parametrize(
    ("first", "second"), [(PLACED, PLAIN), (PLAIN, PLACED), (PLACED, (table("a", "b$c"), "a.b$c"))]
)
def test_tables_of_two_batches_do_not_meet_in_a_topic_either(first: Any, second: Any) -> None:
    names = topics_of("{route}", [first], "f")
    known = KnownOutputs(dict.fromkeys(names, "id"), "", replaced(names))
    assert topics_of("{route}", [first], "f", known) == names
    with pytest.raises(SinkSettingError, match=r"would share the topic 'a\.b_c'") as refused:
        topics_of("{route}", [second], "f", known)
    assert refused.value.code == "sink_topic_shared"
    assert "`databus checkpoint accept f --topic a.b_c`" in refused.value.hint
    assert topics_of("all", [second], "f", KnownOutputs({"all": "id"})) == {"all": "all"}


def test_what_an_older_version_wrote_owns_nothing_until_it_is_learnt() -> None:
    assert topics_of("{route}", [PLACED], "f", KnownOutputs()) == {"a.b_c": "a.b c"}


def test_a_schema_change_without_a_table_needs_no_replacement() -> None:
    assert replaced(topics_of("cdc.{route}", [(table("shop", ""), "shop.")], "f")) == {}
