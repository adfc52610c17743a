"""A mirror between two clusters, run by a real Airflow from a DAG file of twelve lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from databus import Mirror
from tests.e2e.airflow_world import AirflowWorld, until
from tests.e2e.browser import Page, look
from tests.e2e.test_pages import links, texts
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_target import consume
from tests.integration.kafka_world import facts, records

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(600)]

FLOW, WAITS = "e2e_mirror", "e2e_mirror_waits"
PRIVATE = f"{FLOW}.private"
HEADERS = [("h", b"1"), ("h", None)]
MIRROR = f'''
"""Mirror: what the east writes, in the west."""
from datetime import timedelta

from databus import Mirror
from databus.airflow import mirror_dag

mirror = Mirror(
    name="{FLOW}", source_conn_id="kafka_east", target_conn_id="kafka_west", topics=("{FLOW}.*",),
    exclude_topics=("*.private",),
)
dag = mirror_dag(mirror, every=timedelta(seconds=10), is_paused_upon_creation=True)
'''
WAITING = """
from datetime import timedelta

from airflow.sdk import DAG
from databus.airflow.sensors import ChangesSensor, LagSensor
from databus.registry import flow_from_json

told = flow_from_json({flow!r})
with DAG({name!r}, schedule=None, default_args={{"retries": 3, "retry_delay": 1}}):
    changes = ChangesSensor(task_id="changes", flow=told, poll=timedelta(seconds=0.5))
    changes >> LagSensor(task_id="lag", flow=told, max_bytes=0, poll=timedelta(seconds=0.5))
"""


@pytest.fixture(scope="module")
def sides(airflow: AirflowWorld) -> Iterator[tuple[Logs, Logs]]:
    (airflow.dags / f"{FLOW}.py").write_text(MIRROR)
    same = Mirror(
        name=FLOW,
        source_conn_id="kafka_east",
        target_conn_id="kafka_west",
        topics=(f"{FLOW}.*",),
        exclude_topics=("*.private",),
    )
    (airflow.dags / f"{WAITS}.py").write_text(WAITING.format(name=WAITS, flow=same.to_json()))
    airflow.knows({FLOW, WAITS})
    yield Logs(airflow.sandbox.address("kafka")), Logs(airflow.sandbox.address("kafka-b"))
    airflow.api.pause(FLOW, paused=True)


@pytest.fixture(scope="module")
def topic(airflow: AirflowWorld, sides: tuple[Logs, Logs]) -> str:
    """A topic of the east whose five records the flow has mirrored, beside one that is left out."""
    east, west = sides
    topic, private = east.create(f"{FLOW}.orders", 2), east.create(PRIVATE)
    east.write(private, [{"value": b"not meant for the west"}])
    east.write(
        topic,
        [
            {"key": b"k", "value": b"\x00v", "partition": 0, "timestamp": 1_700_000_000_000, "headers": HEADERS},
            {"key": b"k", "value": None, "partition": 0},
            {"key": None, "value": b"", "partition": 1},
        ],
    )
    east.transaction(topic, [{"value": b"aborted", "partition": p} for p in (0, 1)], commit=False)
    east.transaction(topic, [{"value": b"committed", "partition": p} for p in (0, 1)], commit=True)
    airflow.api.pause(FLOW, paused=False)
    until(
        "a run has mirrored",
        lambda: topic in west.admin.list_topics(timeout=30).topics and len(records(west, topic)) == 5,
    )
    return topic


def test_a_dag_file_of_twelve_lines_mirrors_byte_for_byte(sides: tuple[Logs, Logs], topic: str) -> None:
    assert len(MIRROR.strip().splitlines()) <= 12
    east, west = sides
    assert records(west, topic) == records(east, topic)
    assert PRIVATE not in west.admin.list_topics(timeout=30).topics


def test_the_page_of_mirrors_shows_the_pair_and_translates(
    airflow: AirflowWorld, sides: tuple[Logs, Logs], page: Page, axe: str, tmp_path: Path
) -> None:
    east, topic, group = sides[0], f"{FLOW}.orders", f"{FLOW}_readers"
    (here, there) = (
        {m.value(): m.offset() for m in consume(side.servers, topic) if m.partition() == 0} for side in sides
    )
    assert here[b"committed"] != 0
    commit(east, group, (topic, 0), here[b"committed"])
    page.listen()
    page.open(f"{airflow.api.root}/plugin/databus-mirrors?mirror={FLOW}")
    cell = f'[data-testid="mirror {FLOW}"]'
    page.text(cell)
    page.waits_for(f"document.querySelector('{cell} .state').innerText.endsWith('OK')", 120)
    assert "up to date" in page.text(cell)
    heads = texts(page, "[data-testid=matrix] thead th")
    row = next(row for row in rows_of(page) if row[0] == "kafka_east")
    assert FLOW in row[1 + heads.index("kafka_west")]
    assert row[1 + heads.index("kafka_east")] == "the same cluster"
    root = f"{airflow.api.root}/dags/{FLOW}"
    assert links(page, f"{cell} a") == [f"{root}/plugin/databus-flow", root]
    answers = {
        f"{topic}:0:{here[b'committed']}": f"goes on at {topic}:0:{there[b'committed']} of kafka_west.",
        f"{topic}:7:0": "was mirrored yet",
        group: f"{topic}:0:{here[b'committed']}\t{topic}:0:{there[b'committed']}",
    }
    for asked, expected in answers.items():
        page.value(
            "document.querySelector('[data-testid=offset]').select(); "
            "document.querySelector('[data-testid=offset]').focus()"
        )
        page.send("Input.insertText", text=asked)
        page.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13)
        shown = "document.querySelector('[data-testid=translate]').innerText"
        page.waits_for(f"{shown}.includes({json.dumps(expected)})")
    for dark in (False, True):
        page.dark(on=dark)
        assert page.violations(axe) == []
        look(page, f"mirrors-{'dark' if dark else 'light'}", tmp_path)
    assert [c for c in page.complaints if "409" not in c] == []  # what was not mirrored is a refusal


def test_while_it_is_paused_sensors_wait_and_once_resumed_they_go_on(
    airflow: AirflowWorld, sides: tuple[Logs, Logs], topic: str
) -> None:
    east, west = sides
    had = len(records(west, topic))
    with airflow.store() as store:
        store.pause(FLOW, "test", "to look at the sensors")
        skipped = len(_transfers(airflow, "skipped"))
        until("a run is skipped", lambda: len(_transfers(airflow, "skipped")) > skipped)
        waits = airflow.trigger(WAITS)
        waits.reaches("changes", "deferred")  # nothing is new
        east.write(topic, [{"value": f"{n}", "partition": n % 2} for n in range(50)])
        waits.reaches("changes", "success")  # it was woken by the lag
        waits.reaches("lag", "deferred")
        assert len(records(west, topic)) == had
        store.resume(FLOW, "test", "seen")
        waits.reaches("lag", "success")
    assert records(west, topic) == records(east, topic)
    assert len(records(west, topic)) == had + 50


def test_a_range_is_backfilled_beside_what_was_mirrored(
    airflow: AirflowWorld, sides: tuple[Logs, Logs], topic: str
) -> None:
    east, west = sides
    east.write(topic, [{"value": f"{n}", "partition": n % 2} for n in range(50)])
    with airflow.store() as store:
        until(
            "all is mirrored and committed",
            lambda: records(west, topic) == records(east, topic) and not store.pending_plan(FLOW),
        )
        stands = store.load(FLOW)
    airflow.api.pause(f"{FLOW}_backfill", paused=False)
    try:
        conf = {"from": "earliest", "to": f"offsets:{topic}:0:20,{topic}:1:10", "mode": "replay"}
        assert "is done" in airflow.trigger(f"{FLOW}_backfill", conf).succeeds().log("backfill")
    finally:
        airflow.api.pause(f"{FLOW}_backfill", paused=True)
    # Each partition as it was up to its own place, which counts what was aborted and the ends of transactions.
    offsets = {0: 20, 1: 10}
    wanted = [facts(m) for m in consume(east.servers, topic) if (m.offset() or 0) < offsets[m.partition() or 0]]
    assert records(west, f"{topic}.replay") == wanted
    assert len(wanted) < len(records(east, topic))
    with airflow.store() as store:
        assert store.load(FLOW) == stands


def rows_of(page: Page) -> list[list[str]]:
    """Return the cells of the matrix as they are read."""
    found: list[list[str]] = page.value(
        "[...document.querySelectorAll('[data-testid=matrix] tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    return found


def commit(logs: Logs, group: str, place: tuple[str, int], offset: int) -> None:
    """Set an offset of a group; the coordinator of a cluster's first group comes up by and by."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*place, offset)])

    def done() -> bool:
        (future,) = logs.admin.alter_consumer_group_offsets([wanted]).values()
        return not any(found.error for found in future.result().topic_partitions)

    logs.until(done, f"offsets of {group}")


def _transfers(airflow: AirflowWorld, state: str) -> list[dict[str, Any]]:
    return [task for task in airflow.tasks(FLOW, "transfer") if task["state"] == state]
