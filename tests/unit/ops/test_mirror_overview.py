"""A mirror at a glance: its lag over all partitions, its groups, what its DAG file says."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus import Flow, Kafka, Mirror, MysqlBinlog
from databus.core.errors import ConfigError
from databus.core.positions.lag import PartitionLag
from databus.ops.mirror.overview import groups_of, is_mirror, lag_of_all, mirror_listed
from databus.ops.mirror.translate import mirror_sink

MIRROR = Mirror(
    name="east_to_west", source_conn_id="kafka_east", target_conn_id="kafka_west", topics=("cdc.*",),
    exclude_topics=("*.tmp",), groups=("billing-*",), policy="prefix", heartbeat=timedelta(seconds=10),
)  # fmt: skip
SPEC = mirror_sink(MIRROR)


def test_what_the_file_says() -> None:
    assert is_mirror(MIRROR)
    assert mirror_listed(MIRROR) == {
        "flow": "east_to_west", "from": "kafka_east", "to": "kafka_west", "topics": ["cdc.*", "heartbeats"],
        "exclude_topics": ["*.tmp"], "groups": ["billing-*"], "partner": None, "heartbeat_seconds": 10.0,
    }  # fmt: skip
    other = Flow(
        name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.orders",)), sinks=(Kafka(conn_id="k", topic="t"),)
    )
    assert not is_mirror(other)
    with pytest.raises(ConfigError, match="orders is no mirror"):
        mirror_listed(other)


def test_the_oldest_record_that_waits_stands_first() -> None:
    found = [
        PartitionLag("cdc.a", 0, 0, 0.0), PartitionLag("cdc.a", 1, 9, 1.5), PartitionLag("cdc.b", 0, 2, 70.0),
        PartitionLag("cdc.b", 1, 4, None), PartitionLag("cdc.c", 0, 0, 0.0, held_back=3),
    ]  # fmt: skip
    told = lag_of_all(found, SPEC)
    assert {name: told[name] for name in ("partitions", "behind", "records", "held_back", "seconds")} == {
        "partitions": 5, "behind": 4, "records": 15, "held_back": 3, "seconds": 70.0,
    }  # fmt: skip
    worst = [(one["topic"], one["partition"]) for one in told["worst"]]
    assert worst == [("cdc.b", 0), ("cdc.a", 1), ("cdc.b", 1), ("cdc.c", 0)]
    assert told["worst"][0]["target"] == "kafka_east.cdc.b"


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        ([], 0.0),
        ([PartitionLag("t", 0, 0, 0.0)], 0.0),
        ([PartitionLag("t", 0, 0, None, held_back=4)], 0.0),
        ([PartitionLag("t", 0, 4, None)], None),
        ([PartitionLag("t", 0, 4, None), PartitionLag("t", 1, 1, 2.0)], 2.0),
    ],
)
def test_an_age_that_nobody_knows_is_not_told_as_none(found: list[PartitionLag], seconds: float | None) -> None:
    assert lag_of_all(found, SPEC)["seconds"] == seconds


@given(st.lists(st.tuples(st.integers(0, 50), st.none() | st.floats(0, 1e6), st.integers(0, 9)), max_size=40))
def test_sums_are_those_of_all_partitions_whatever_is_named(each: list[tuple[int, float | None, int]]) -> None:
    found = [PartitionLag("t", number, *one) for number, one in enumerate(each)]
    told = lag_of_all(found, SPEC)
    behind = [one for one in found if one.records or one.held_back]
    assert (told["records"], told["behind"]) == (sum(one.records for one in found), len(behind))
    assert len(told["worst"]) == min(10, len(behind))
    named = {one["partition"] for one in told["worst"]}
    ages = {one.partition: one.seconds or 0.0 for one in behind}
    assert all(ages[one] <= min((ages[n] for n in named), default=0.0) for one in ages.keys() - named)


def test_groups_are_those_that_the_patterns_mean() -> None:
    there = ["audit", "billing-a", "billing-b", "billing-c"]
    assert groups_of(there, ["billing-b", "other"], ("billing-*",)) == {
        "followed": 3, "on_target": 1, "missing": ["billing-a", "billing-c"],
    }  # fmt: skip
    many = [f"g{number:02}" for number in range(30)]
    told = groups_of(many, [], ("*",))
    assert (told["followed"], told["on_target"], len(cast("list[str]", told["missing"]))) == (30, 0, 20)
