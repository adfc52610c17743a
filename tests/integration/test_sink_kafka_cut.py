"""A kept producer whose connections were cut, as brokers do with idle ones: the next batch is not held up for ever."""

from __future__ import annotations

import time

import pytest

from databus.core.connections import Connection
from databus.core.errors import SinkUnavailableError
from databus.kafka.client import ClientSettings
from databus.sinks.kafka import session
from databus.sinks.kafka.markers import Marker, MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session
from databus.testing.tcp_proxy import TcpProxy
from tests.integration.conftest import World
from tests.integration.kafka_target import make_marker_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_a_producer_cut_off_between_batches_is_given_up_for_a_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_KEPT_TIMEOUT_S", 0.5)
    address = world.sandbox.address("kafka")
    with TcpProxy(address, kafka=True) as proxy:
        connection = Connection(
            conn_id="cut", conn_type="kafka", extra={"bootstrap.servers": f"127.0.0.1:{proxy.port}"}
        )
        settings = ProducerSettings(ClientSettings.of(connection, 20.0))
        key = MarkerKey("cut", f"flow_{time.time_ns()}", "kafka")
        make_marker_topic(address)
        opened = Session(key, 0, settings)
        for batch in range(1, 5):
            try:
                opened.begin(Marker(batch, "hash", chunk=0, last=False))
            except SinkUnavailableError:
                opened.discard()
                opened = Session(key, 0, settings)
                opened.begin()
            opened.commit(Marker(batch, "hash"))
            assert opened.marker() == Marker(batch, "hash")
            for _ in range(3):
                proxy.cut()
                time.sleep(0.05)
        opened.discard()
