"""Groups of tests that one process takes together, which process takes which, and their order: the longest first."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.ports import PROCESSES
from tests.suite.tiers import FULL

_AIRFLOW = "tests/e2e/"
"""Waits for Airflow half of its time."""

_PACKAGES = (_AIRFLOW, "tests/spark/", "tests/integration/checkpoints/")
"""Tests in these share what is costly to start: an Airflow, a Spark session, a ZooKeeper of their own."""

_SERVERS = ("tests/integration/", _AIRFLOW)
"""Tests in these start servers, which stay for the tests that follow."""

LIGHT = ("tests/unit/", "tests/airflow/", "tests/dags/")
"""Tests in these start no servers."""

_FIRST = "gw0"

_THIRD = "gw2"

_FOURTH = f"gw{PROCESSES}"
"""Has no ports: takes tests without servers, while the other three wait for theirs."""

_LOWER_PRIORITY = 5
"""Of the fourth process, where the kernel weighs it against processes of other sessions, as servers are."""

TOGETHER = (
    (
        "tests/integration/test_security.py",
        "tests/integration/test_secrets.py",
        "tests/integration/test_mirror_secured.py",
    ),
    (
        "tests/integration/test_kafka_spark.py",
        "tests/integration/test_kafka_registry.py",
        "tests/integration/test_kafka_registry_secured.py",
        "tests/integration/test_kafka_avro.py",
        "tests/integration/test_kafka_registered.py",
    ),
    (
        "tests/integration/test_sink_search.py",
        "tests/integration/test_sink_search_truncate.py",
        "tests/integration/test_sink_search_types.py",
        "tests/integration/test_search_conflicts.py",
        "tests/integration/test_sink_search_evidence.py",
        "tests/integration/test_sink_search_faults.py",
        "tests/integration/test_sink_search_key.py",
        "tests/integration/test_sink_search_partial.py",
        "tests/integration/test_sink_search_zombies.py",
        "tests/integration/test_search_from_binlog.py",
        "tests/integration/test_search_from_kafka.py",
        "tests/integration/test_search_held.py",
        "tests/integration/test_trace_search.py",
        "tests/integration/test_validate_search.py",
        "tests/integration/test_log_replaced.py",
    ),
    (
        "tests/integration/test_mirror.py",
        "tests/integration/test_mirror_faults.py",
        "tests/integration/test_mirror_groups.py",
        "tests/integration/test_mirror_heartbeats.py",
        "tests/integration/test_mirror_lag.py",
        "tests/integration/test_mirror_limits.py",
        "tests/integration/test_mirror_link.py",
        "tests/integration/test_mirror_map.py",
        "tests/integration/test_mirror_sites.py",
        "tests/integration/test_mirror_topics.py",
        "tests/integration/test_trace_mirror.py",
        "tests/integration/test_bench_mirror.py",
        "tests/integration/test_bench_mirror_link.py",
        "tests/integration/test_kafka_backfill.py",
        "tests/integration/test_kafka_flows.py",
        "tests/integration/test_kafka_many_partitions.py",
        "tests/integration/test_kafka_planned_gaps.py",
        "tests/integration/test_kafka_shrunk.py",
    ),
    (
        "tests/integration/test_failover_path.py",
        "tests/integration/test_failover.py",
        "tests/integration/test_backfill_failover.py",
        "tests/integration/test_snapshot_failover.py",
        "tests/integration/test_snapshot_options.py",
        "tests/integration/test_snapshot_replica.py",
    ),
)
"""Files whose tests share servers that few others ask for: TLS, a registry, search, two Kafka clusters, replicas."""

ROOM_GIB = 4.0
"""Memory that must be available for a third set of servers: the other two still grow. A set comes to 5 to 8 GiB."""

SCARCE_GIB = 2.0
"""Memory below which the third process ends, and its set of servers with it."""

_LEFT_TO_THE_FIRST = 2
"""Groups that ask for all servers, Spark among them, which no other process starts a set of them for."""

_ASKS_FOR_ALL = re.compile(r"\bworld: World\b")
_HAS_ITS_OWN = "def world("

_ROOT = Path(__file__).parents[2]

_SECONDS = Path(__file__).with_name("seconds.json")
"""Seconds of each group in the last run that was measured (`python -m tests.suite.profile FOLDER --store`)."""

_UNMEASURED_SERVER_TEST_S = 20.0


class ByFile(LoadScopeScheduling):
    """A file's tests are taken together, and those of some packages.

    The first takes those that ask for all servers, Spark among them, so that the others need not start a set of these.
    Of three processes the third takes the tests that wait for Airflow, and then whatever is next: the other two keep
    the cores busy meanwhile. There are never more than three sets of servers: Airflow's goes with the last test of its.
    A fourth takes tests without servers, from the first moment on; the others take these last.
    A process that takes nothing now rests: it is asked again whenever a test of another one has ended. Pytest-xdist
    lets it keep back the last test that it has, until it gets a further one or the run ends.
    Where memory gets short, the third takes no more tests of servers; where it gets scarce, it ends.
    `xdist_group` marks do not reach the scheduler (pytest-xdist 3.8 writes them into a name that pytest 9.2 computes).
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._resting: list[WorkerController] = []

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Hand the next group of this process over; a process that takes none of what is left rests, or ends."""
        at_work = [other for other in self.nodes if other is not node and other not in self._resting]
        beside = {other.gateway.id for other in at_work if not other.shutting_down}
        available = psutil.virtual_memory().available / 2**30
        group = next_group(node.gateway.id, self.workqueue, beside, roomy=available >= ROOM_GIB)
        if group is not None:
            self._resting = [other for other in self._resting if other is not node]
            self.workqueue.move_to_end(group, last=False)
            super()._assign_work_unit(node)
        elif not beside or not waits(node.gateway.id, self.workqueue) or available < SCARCE_GIB:
            node.shutdown()
        elif node not in self._resting:
            self._resting.append(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note that a test has ended; ask the processes that rest again."""
        super().mark_test_complete(node, item_index, duration)
        self._ask_again()

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a process off that has ended; ask those that rest again: it is at work no more."""
        crashed = super().remove_node(node)
        self._ask_again()
        return crashed

    def _ask_again(self) -> None:
        for node in [node for node in self._resting if node in self.nodes]:
            self._reschedule(node)


def next_group(process: str, waiting: Collection[str], beside: Collection[str], *, roomy: bool = True) -> str | None:
    """Return which group of those that wait, in their order, a process takes next; those without servers last.

    Args:
        process: its name, gw0 and so on.
        waiting: groups that no process has taken.
        beside: the processes that are at work beside it.
        roomy: whether there is memory for a third set of servers.
    """
    light = next((group for group in waiting if group.startswith(LIGHT)), None)
    others = [group for group in waiting if not group.startswith(LIGHT)]
    if process == _FOURTH:
        return light
    if process == _THIRD and _AIRFLOW in others:
        return _AIRFLOW
    if process == _THIRD:
        others = [group for group in others if roomy or not beside or not group.startswith(_SERVERS)]
    else:
        others = [group for group in others if group != _AIRFLOW or _THIRD not in beside]
    of_all = [group for group in others if asks_for_all(group)]
    apart = [group for group in others if group not in of_all]
    if process != _FIRST and _FIRST not in beside:
        return next(iter(others), light)
    if process == _FIRST:
        return next(iter((*of_all, *apart)), light)
    return next(iter(apart), light or next(iter(of_all[:-_LEFT_TO_THE_FIRST]), None))


@cache
def asks_for_all(group: str) -> bool:
    """Tell whether a group's tests ask for the set of all servers (`world`), of which Spark takes longest to start."""
    files = next((files for files in TOGETHER if files[0] == group), (group,))
    whole = {f"tests/{entry.file}" for entry in FULL if not entry.test and not entry.case}
    texts = [(_ROOT / file).read_text(encoding="utf-8") for file in files if _is_read(file, whole)]
    return any(_ASKS_FOR_ALL.search(text) is not None and _HAS_ITS_OWN not in text for text in texts)


def _is_read(file: str, whole: Collection[str]) -> bool:
    return file.startswith(_SERVERS[0]) and file not in whole and (_ROOT / file).is_file()


def waits(process: str, waiting: Collection[str]) -> bool:
    """Tell whether there is anything among what waits that a process would take at another time."""
    return process != _FOURTH or any(group.startswith(LIGHT) for group in waiting)


def group_of(nodeid: str) -> str:
    """Return the group of a test: its file, or the package or first of the files that share what is costly."""
    file = nodeid.partition("::")[0]
    together = next((files[0] for files in TOGETHER if file in files), file)
    return next((package for package in _PACKAGES if nodeid.startswith(package)), together)


def seconds_of(group: str) -> float:
    """Return how long a group took when it was measured; server tests that never were are taken for long."""
    measured = _measured().get(group)
    if measured is not None:
        return measured
    return 0.0 if group.startswith(LIGHT) else _UNMEASURED_SERVER_TEST_S


@cache
def _measured() -> dict[str, float]:
    found: dict[str, float] = json.loads(_SECONDS.read_text(encoding="utf-8")) if _SECONDS.exists() else {}
    return found


def store_seconds(seconds: dict[str, float]) -> None:
    """Keep the groups' seconds for the order of later runs."""
    rounded = {group: round(took, 1) for group, took in sorted(seconds.items()) if took >= 1}
    _SECONDS.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse more processes than there are ports for, beside one that needs none.

    Raises:
        pytest.UsageError: a run is asked for with more.
    """
    processes, most = len(config.getoption("tx", None) or ()), PROCESSES + 1
    if processes > most:
        why = f"servers have ports for {PROCESSES}, one more takes tests without servers"
        raise pytest.UsageError(f"{processes} processes: {why} (PROCESSES={most})")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Let groups be taken whole by a process; asked by pytest-xdist where a run has several."""
    return ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest groups first, so that the processes end together; within a group the order stays."""
    items.sort(key=lambda item: -seconds_of(group_of(item.nodeid)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the fourth process give way to the others, once it has collected what these wait for."""
    if getattr(session.config, "workerinput", {}).get("workerid") == _FOURTH:
        os.nice(_LOWER_PRIORITY)
