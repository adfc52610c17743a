"""What a slot's producer holds while its broker answers nothing: its queue and no more, and all of it arrives once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.conftest import World
from tests.integration.kafka_target import make_marker_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

MEGABYTES = int(os.environ.get("DATABUS_MEMORY_MB", "320"))
"""Payload to produce: more than twice what may be held."""

RECORD_BYTES = 16_000
QUEUE_KIB = 131_072
"""queue.buffering.max.kbytes of `sinks/kafka/session.py`."""

ROOM_KIB = 80 * 1024
"""librdkafka's own share, requests in flight, our batch in hand: 69 MiB for 320 MB of payload as for 640."""


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process for the length of the block: its connections stay open, and nothing is answered."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_stopped_broker_does_not_grow_the_producer(world: World) -> None:
    address, topic = world.sandbox.address("kafka"), f"memory-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result(20)
    make_marker_topic(address)
    broker = world.sandbox.status_of("kafka").processes["broker-1"]
    records = MEGABYTES * 1_000_000 // RECORD_BYTES
    module = "tests.integration.producer_memory_probe"
    command = [sys.executable, "-m", module, address, topic, topic, str(records), str(RECORD_BYTES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as probe:
        assert probe.stdin is not None
        assert probe.stdout is not None
        try:
            assert probe.stdout.readline() == "begun\n"
            with stopped(broker):
                probe.stdin.write("go\n")
                probe.stdin.flush()
                assert probe.stdout.readline() == "full\n"
            before, peak, written = map(int, probe.stdout.readline().split())
        finally:
            probe.kill()
    assert written == records
    assert peak - before < QUEUE_KIB + ROOM_KIB < MEGABYTES * 1_000_000 // 1024
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    finally:
        consumer.close()
    assert high - low == records + 1  # and the transaction's commit: nothing was sent twice
    admin.delete_topics([topic])[topic].result(20)
