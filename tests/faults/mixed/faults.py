"""Every kind of fault by name; `member_*` befalls one of three, others the whole server or all connections to it."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.mixed.cluster import KAFKA, SEARCH, SOURCE, ZOOKEEPER
from tests.faults.mixed.run_faults import (
    clock_step,
    connect_server_killed,
    disk_full,
    executor_killed,
    executor_stopped,
    executors_killed,
    run_killed,
    run_stopped,
)
from tests.faults.mixed.scene import Scene
from tests.faults.mixed.server_faults import (
    any_broker,
    any_member,
    coordinator,
    cut,
    delayed,
    leader,
    majority_lost,
    member_killed,
    member_paused,
    member_restarted,
    partitioned,
    server_killed,
    server_paused,
    server_restarted,
)

FAULTS: dict[str, Callable[[Scene], float]] = {
    "run killed": run_killed,
    "run stopped": run_stopped,
    "executor killed": executor_killed,
    "executor stopped": executor_stopped,
    "executors killed": executors_killed,
    "clock step": clock_step,
    "disk full": disk_full,
    "broker killed": member_killed(KAFKA, any_broker),
    "broker restarted": member_restarted(KAFKA, any_broker),
    "broker paused": member_paused(KAFKA, any_broker, 12.0),
    "coordinator killed": member_killed(KAFKA, coordinator),
    "Kafka cut": cut(KAFKA),
    "Kafka delayed": delayed(KAFKA),
    "Kafka partitioned": partitioned(KAFKA),
    "ZooKeeper member killed": member_killed(ZOOKEEPER, any_member),
    "ZooKeeper member restarted": member_restarted(ZOOKEEPER, any_member),
    "ZooKeeper leader paused": member_paused(ZOOKEEPER, leader, 8.0),
    "ZooKeeper majority lost": majority_lost,
    "ZooKeeper cut": cut(ZOOKEEPER),
    "ZooKeeper delayed": delayed(ZOOKEEPER),
    "ZooKeeper partitioned": partitioned(ZOOKEEPER),
    "OpenSearch killed": server_killed(SEARCH),
    "OpenSearch restarted": server_restarted(SEARCH),
    "OpenSearch paused": server_paused(SEARCH),
    "OpenSearch cut": cut(SEARCH),
    "OpenSearch delayed": delayed(SEARCH),
    "OpenSearch partitioned": partitioned(SEARCH),
    "MySQL killed": server_killed(SOURCE),
    "MySQL restarted": server_restarted(SOURCE),
    "MySQL cut": cut(SOURCE),
    "MySQL delayed": delayed(SOURCE),
    "MySQL partitioned": partitioned(SOURCE),
}
"""Kinds of the mixed loop."""

ON_SPARK: dict[str, Callable[[Scene], float]] = {
    **{kind: FAULTS[kind] for kind in ("run killed", "run stopped", "executor killed", "executor stopped")},
    "Connect server killed": connect_server_killed,
}
"""Kinds of the slow loop, whose tasks run in a real Spark Connect server."""

EVERY = FAULTS | ON_SPARK
