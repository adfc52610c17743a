"""Consumers of one topic side by side: confluent-kafka's loop with `json`, and `databus.consumer` in its ways.

`python -m databus.bench.consumer --changes 300000`; it starts its own broker. Changes are updates of 12 columns in
databus's form, some 1 KB each. Each way reads them all in a process of its own kind of loop; CPU seconds are those of
this process. `--delay` measures how long a change is on its way from the producer's commit into the loop.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from databus.bench.processes import fresh_servers

TOPIC = "bench.consumer"
_GTID = "f7ceba1a-e55e-11f1-96ca-02fc00000001"
_PARTITIONS = 4


@dataclass
class Order:
    """Row of the topic, for the way that makes classes of rows."""

    id: int
    customer_id: int
    status: str
    total: Decimal
    created_at: datetime


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a line of JSON for each way and round."""
    parser = argparse.ArgumentParser(prog="python -m databus.bench.consumer")
    parser.add_argument("--changes", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=int, default=0, metavar="N", help="changes whose delay is measured")
    parser.add_argument("--ports-from", type=int, default=22_000)
    options = parser.parse_args(arguments)
    with fresh_servers(("kafka",), _say, options.ports_from) as sandbox:
        servers = sandbox.address("kafka")
        _write(servers, range(options.changes))
        for _ in range(options.rounds):
            for name, way in WAYS.items():
                _tell(name, *_timed(way, servers, options.changes))
        if options.delay:
            print(json.dumps(_delays(servers, options.delay)))  # noqa: T201 - a measurement's output
    return 0


def value_of(number: int, sent_ns: int = 0) -> bytes:
    """Return the value of a change as the sink writes it."""
    after = {
        "id": number, "customer_id": number % 1000, "status": "paid", "total": 1,
        "created_at": "2026-05-03T10:20:30.120",
        "title": f"order {number} of the bench", "street": "Long street 17", "city": "Springfield", "note": None,
        "weight": 2, "lines": 3, "sent_ns": sent_ns,
    }  # fmt: skip
    source = {
        "version": "0.1.0", "connector": "mysql", "name": "orders", "ts_ms": 1777803630120, "snapshot": "false",
        "db": "bench", "table": "orders", "server_id": 7, "gtid": f"{_GTID}:{number}", "file": "mysql-bin.000002",
        "pos": number, "row": 0, "query": None, "event_id": f"{_GTID}:{number}:0:0",
    }  # fmt: skip
    value = {
        "before": {**after, "status": "new"}, "after": after, "source": source, "op": "u", "ts_ms": 1777803631000,
        "transaction": {"id": f"{_GTID}:{number}", "total_order": 1},
    }  # fmt: skip
    return json.dumps(value, separators=(",", ":")).replace('"total":1', '"total":10.50').encode()


def _write(servers: str, numbers: range) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})  # it is to live until the topic is made
    admin.create_topics([NewTopic(TOPIC, _PARTITIONS, 1)])[TOPIC].result(30)
    _say(f"writing {len(numbers):,} changes")
    producer = _producer(servers)
    for number in numbers:
        producer.produce(TOPIC, value_of(number), f'{{"id":{number}}}', number % _PARTITIONS)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(60)


def _producer(servers: str) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": servers,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 0,
            "compression.type": "lz4",
        }
    )


def bare(servers: str, count: int) -> None:
    """Read with confluent-kafka and `json`: a dictionary for each record."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bare", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(_PARTITIONS)])
    came = 0
    while came < count:
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                json.loads(message.value() or b"")["after"]["id"]
                came += 1
    consumer.close()


def iterated(servers: str, count: int) -> None:
    """Iterate over changes."""
    from databus.consumer import Changes

    with Changes(servers, TOPIC) as changes:
        for number, change in enumerate(changes, 1):
            change.after["id"]  # type: ignore[index]  # each has one
            if number == count:
                break


def called(servers: str, count: int) -> None:
    """Call a function for each change of a table."""
    from databus.consumer import Changes, Handlers

    handlers = Handlers()
    with Changes(servers, TOPIC) as changes:

        @handlers.on("bench.orders")
        def taken(change: Any) -> None:
            change.after["id"]
            if handlers.handled + 1 >= count:
                changes.stop()

        changes.run(handlers)


def typed(servers: str, count: int) -> None:
    """Iterate, and make a dataclass of each row."""
    from databus.consumer import Changes

    with Changes(servers, TOPIC) as changes:
        for number, change in enumerate(changes, 1):
            change.as_row(Order)
            if number == count:
                break


WAYS: dict[str, Callable[[str, int], None]] = {"bare": bare, "iterated": iterated, "called": called, "typed": typed}


def _timed(way: Callable[[str, int], None], servers: str, count: int) -> tuple[int, float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    way(servers, count)
    return count, time.perf_counter() - began, time.process_time() - cpu


def _delays(servers: str, count: int) -> dict[str, float]:
    """Return how long changes take from `produce` into the loop, at 200 a second; the bare loop's for comparison."""
    from confluent_kafka import Consumer

    from databus.consumer import Changes

    def write() -> None:
        producer = _producer(servers)
        time.sleep(2)
        for number in range(count):
            producer.produce(TOPIC, value_of(number, time.monotonic_ns()), None, 0)
            producer.poll(0)
            time.sleep(0.005)
        producer.flush(30)

    found: dict[str, list[float]] = {"changes": [], "bare": []}
    thread = threading.Thread(target=write)
    thread.start()
    with Changes(servers, TOPIC, start="latest") as changes:
        for change in changes:
            found["changes"].append((time.monotonic_ns() - change.after["sent_ns"]) / 1e6)  # type: ignore[index]
            if len(found["changes"]) == count:
                break
    thread.join()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "late", "auto.offset.reset": "latest"})
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + 30
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.2)
    thread = threading.Thread(target=write)
    thread.start()
    while len(found["bare"]) < count:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            sent = json.loads(message.value() or b"")["after"]["sent_ns"]
            found["bare"].append((time.monotonic_ns() - sent) / 1e6)
    thread.join()
    consumer.close()
    return {f"{name}_{kind}_ms": round(of(ms), 2) for name, ms in found.items() for kind, of in _QUANTILES.items()}


_QUANTILES: dict[str, Callable[[list[float]], float]] = {
    "p50": statistics.median,
    "p99": lambda ms: statistics.quantiles(ms, n=100)[98],
}


def _tell(name: str, count: int, seconds: float, cpu: float) -> None:
    figures = {
        "way": name, "changes": count, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2),
        "changes_per_second": round(count / seconds), "changes_per_cpu_second": round(count / cpu),
    }  # fmt: skip
    print(json.dumps(figures), flush=True)  # noqa: T201 - a measurement's output


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
