"""A bad link between two data centres: slow, losing connections, cut and back; nothing lost, nothing twice, in order.

The link is a TCP proxy in front of one of the two clusters. Connections that are reset at random stand in for lost
packets: what TCP loses it sends again, and what is seen above it is delay and, at worst, the end of a connection.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, TopicPartition

from databus import Batching, Flow
from databus.core.errors import DatabusError
from databus.testing.tcp_proxy import TcpProxy
from tests.integration import kafka_world as given
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_world import KafkaWorld, records
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

ROUND_TRIP_S = 0.08
RECORDS, BATCH = 900, 300
world = given.world


@contextmanager
def link(world: KafkaWorld, side: str) -> Iterator[tuple[TcpProxy, dict[str, str]]]:
    """Put the link before one side; yield it, and the mirror's two connections."""
    conn_ids = {"source_conn_id": "kafka_east", "target_conn_id": "kafka_west"}
    far = world.east if side == "source" else world.west
    with TcpProxy(far.servers, kafka=True) as proxy:
        proxy.delay_s = ROUND_TRIP_S / 2
        extra = {"bootstrap.servers": f"127.0.0.1:{proxy.port}", "reconnect.backoff.max.ms": 500}
        option = f"{side}_conn_id"
        yield proxy, {**conn_ids, option: world.override(conn_ids[option], extra=extra)}


class Trouble(threading.Thread):
    """Cuts the link for a while once the first batch is over, then resets connections at random."""

    def __init__(self, proxy: TcpProxy, west: Logs, topic: str):
        super().__init__(name="trouble", daemon=True)
        self._proxy, self._west, self._place = proxy, west, TopicPartition(topic, 0)
        self.end_at_the_cut = 0
        self.over = threading.Event()

    def run(self) -> None:
        self._await_the_first_batch()
        self._proxy.go_down()
        self.over.wait(1.0)
        self._proxy.heal()
        self._proxy.delay_s = ROUND_TRIP_S / 2
        chance = random.Random(11)
        for _ in range(6):
            self.over.wait(chance.uniform(0.05, 0.5))
            self._proxy.cut()

    def _await_the_first_batch(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._west.servers, "group.id": "trouble"})
        try:
            while not self.end_at_the_cut and not self.over.wait(0.05):
                self.end_at_the_cut = consumer.get_watermark_offsets(self._place, timeout=20)[1]
        finally:
            consumer.close()


def run_until_there(world: KafkaWorld, mirror: Flow) -> int:
    """Run again after each error that says that a retry may help; return how many there were."""
    deadline, failed = time.monotonic() + 240, 0
    while True:
        try:
            if not world.run(mirror).lag_bytes:
                return failed
        except DatabusError as error:
            if not error.retryable:
                raise
            failed += 1
        assert time.monotonic() < deadline


@pytest.mark.parametrize("side", ["source", "target"])
def test_over_a_slow_link_that_is_cut_and_resets_each_record_comes_once_in_order(world: KafkaWorld, side: str) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("k"), 3)
    west.create(topic, 3)
    east.write(topic, [{"key": f"{n}", "value": f"{n}" * 50, "partition": n % 3} for n in range(RECORDS)])
    with link(world, side) as (proxy, conn_ids):
        mirror = mirror_of(
            world,
            topic,
            slots=2,
            timeout=timedelta(seconds=10.0),
            batching=Batching(max_rows=BATCH, max_wait=timedelta(seconds=0.3)),
            **conn_ids,
        )
        trouble = Trouble(proxy, west, topic)
        trouble.start()
        try:
            run_until_there(world, mirror)
        finally:
            trouble.over.set()
            trouble.join()
    assert 0 < trouble.end_at_the_cut < RECORDS // 3  # it was cut in the middle
    found = records(west, topic)
    assert found == records(east, topic)
    assert len(found) == RECORDS
