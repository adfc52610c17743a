"""`databus stream` in processes that are killed, over brokers that are: each acknowledged record is there, once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from databus.sandbox import Sandbox, SandboxOptions
from tests.integration.changes_writer import make_topics
from tests.integration.kafka_target import wait_until
from tests.integration.stream_client import Client, Process, free_port, until_written, values
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

_NUMBERS = iter(range(10**6))


class Writers:
    """Writers that send each request until it is answered; `acknowledged` has what was."""

    def __init__(self, url: str, topic: str, count: int, requests: int):
        self.acknowledged: Counter[str] = Counter()
        self.sent = count * requests * 5
        self._lock = threading.Lock()
        self._failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(url, topic, n, requests)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, url: str, topic: str, writer: int, requests: int) -> None:
        client = Client(url)
        try:
            for sequence in range(requests):
                lines = [f"{writer}.{sequence}.{n}" for n in range(5)]
                until_written(client, topic, lines, f"w{writer}", sequence)
                with self._lock:
                    self.acknowledged.update(lines)
        except BaseException as error:  # noqa: BLE001 - raised where they are joined
            self._failed.append(error)
        finally:
            client.http.close()

    def some(self, share: float) -> None:
        """Wait until a share of all records is acknowledged."""
        wait_until(lambda: self.acknowledged.total() >= share * self.sent or bool(self._failed), "the writers")

    def join(self) -> None:
        for thread in self._threads:
            thread.join(400)
        assert self._failed == []
        assert self.acknowledged.total() == self.sent


def check_once(came: list[str], writers: Writers) -> None:
    assert Counter(came) == writers.acknowledged
    last: dict[str, tuple[int, int]] = {}
    for value in came:
        writer, sequence, number = value.split(".")
        place = int(sequence), int(number)
        assert last.get(writer, (-1, 0)) < place
        last[writer] = place


def test_killed_services(servers: str, tmp_path: Path) -> None:
    name = f"killed{os.getpid()}.{next(_NUMBERS)}"
    topic = f"{name}.events"
    make_topics(servers, (topic, 3))
    port = free_port()
    service = Process(servers, name, tmp_path / "log", port=port).wait()
    writers = Writers(f"http://127.0.0.1:{port}", topic, count=4, requests=60)
    for share in (0.2, 0.5):
        writers.some(share)
        service.kill()
        service = Process(servers, name, tmp_path / "log", port=port)
    writers.join()
    check_once(values(servers, topic), writers)
    # The server raises the signal once more when all is answered.
    assert service.kill(signal.SIGTERM) in (0, -signal.SIGTERM)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path / "three", ports_from=ports_from(28_300), options=SandboxOptions())
    try:
        sandbox.up(("kafka-3",))
        yield sandbox
    finally:
        sandbox.destroy()


def test_writers_under_killed_brokers(three: Sandbox, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    servers = three.address("kafka-3")
    name = "under-kills"
    topic = f"{name}.events"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 6, 3)])[topic].result(60)
    port = free_port()
    service = Process(servers, name, tmp_path / "log", port=port).wait()
    writers = Writers(f"http://127.0.0.1:{port}", topic, count=32, requests=200)
    chance = random.Random(7)
    for round_number in range(6):
        writers.some(0.12 * (round_number + 1))
        broker = f"broker-{1 + round_number % 3}"
        three.kill("kafka-3", broker)
        time.sleep(chance.uniform(0, 2))
        if round_number % 2:
            service.kill()
            service = Process(servers, name, tmp_path / "log", port=port)
        three.restart("kafka-3", broker)
    writers.join()
    check_once(values(servers, topic), writers)
    service.kill(signal.SIGTERM)
    state = admin.list_topics(timeout=30).topics[f"databus.stream.{name}.producers"]
    assert [len(partition.replicas) for partition in state.partitions.values()] == [3] * 4
