"""Patterns of routes: Spark takes the same routes as the direct lane and the plan do."""

from __future__ import annotations

from typing import Any

import pytest

from databus import Noop
from databus.runtime.copies import taken_by
from databus.runtime.routing import takes
from databus.sinks.markerless import UnmarkedSink

pytestmark = pytest.mark.spark

ROUTES = ("shop.orders", "shop.items", "shop.Orders", "shop.customers", "shopXorders", "shop.[oi]rders", "a-b", "a[b",
          "ab", "a]b", "a\\b", "a\nb", "a^b", "a&b", "übung.Ä", "")  # fmt: skip


PATTERNS = ("*", "shop.*", "shop.[oi]*", "shop.[!oi]*", "shop.[a-o]*s", "shop.orders", "shop.order?", "*.[io]*s", "a?b",
            "a[b", "a[[]b", "a[]]b", "a[b[]b", "a[\\]b", "a[!^]b", "a[&&]b", "?bung.?", "shop.[[]oi]*")  # fmt: skip


def test_a_sink_takes_the_same_routes_in_both_lanes(spark: Any) -> None:
    specs = [Noop(routes=(pattern, "never")) for pattern in PATTERNS]
    rows = spark.createDataFrame([(route, "c") for route in ROUTES], "route string, op string")
    taken = [taken_by(UnmarkedSink("noop"), spec).alias(str(number)) for number, spec in enumerate(specs)]
    found = rows.select("route", *taken).collect()
    for number, spec in enumerate(specs):
        by_spark = {row["route"] for row in found if row[str(number)]}
        assert by_spark == {route for route in ROUTES if takes(spec, route)}, spec.routes
