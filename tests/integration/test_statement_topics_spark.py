"""Statements on tables without a row in their batch, in Spark's lane on real servers."""

from __future__ import annotations

import pytest

from databus import Route
from tests.integration.conftest import World
from tests.integration.test_statement_topics import Tables, change

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(300)]


def test_definitions_and_routes_in_sparks_lane(world: World) -> None:
    tables = Tables(world, "named_spark", ddl=True)
    (sink,) = tables.flow.sinks
    tables.flow = tables.flow.model_copy(
        update={
            "lane": "spark",
            "transforms": (Route({"named_spark.empty": "emptied"}, default="rest"),),
            "sinks": (sink.model_copy(update={"topic": "named_spark.{route}"}),),
        }
    )
    change(tables)
    tables.run()
    assert tables.topics() == tables.known() == ["emptied", "rest", "rest_ddl"]
    assert (tables.ops("emptied"), tables.ops("rest"), tables.ops("rest_ddl")) == (
        {"m": 1, "t": 1},
        {"m": 1, "c": 2},
        {"m": 1},
    )
