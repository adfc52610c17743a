"""Writers of `databus stream` in requests of 100 records: records a second, with and without producer ids.

`python -m databus.bench.stream --seconds 10`; it starts its own broker and the service as a process of its own. Writers
are connections of this process, each of which sends a request when the one before is answered. What is counted is
compared with what the topic holds at the end. CPU seconds are those of the service's process. At the end connections
that have had one request are held open: what each of them takes of the service's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from http.client import HTTPConnection

import psutil

from databus.bench.processes import fresh_servers

_PARTITIONS = 4
_RECORD = b"x" * 199 + b"\n"
WAYS = {"acks=all": ("all", False), "acks=leader": ("leader", False), "with producer ids": ("all", True)}
"""Way → its acks, and whether each writer has an id."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a line of JSON for each way and round."""
    parser = argparse.ArgumentParser(prog="python -m databus.bench.stream")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--batch", type=int, default=100, metavar="RECORDS")
    parser.add_argument("--held", type=int, default=500, metavar="CONNECTIONS", help="held open for their memory")
    parser.add_argument("--ports-from", type=int, default=22_000)
    options = parser.parse_args(arguments)
    with fresh_servers(("kafka",), _say, options.ports_from) as sandbox:
        servers = sandbox.address("kafka")
        port = _free_port()
        service = subprocess.Popen(
            [sys.executable, "-m", "databus.cli.main", "stream", servers, "--listen", f"127.0.0.1:{port}"]
        )
        try:
            _wait(port)
            for number in range(options.rounds):
                for way in WAYS:
                    _round(servers, port, service.pid, way, number, options)
            asyncio.run(_hold(port, service.pid, options.held))
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(60)
    return 0


def _round(servers: str, port: int, pid: int, way: str, number: int, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    acks, with_ids = WAYS[way]
    topic = f"bench.{number}.{list(WAYS).index(way)}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result(30)
    _wait_for_topic(port, topic)
    body = _RECORD * options.batch
    process = psutil.Process(pid)
    cpu = sum(process.cpu_times()[:2])
    times, seconds = asyncio.run(_all(port, f"/v1/topics/{topic}?acks={acks}", body, with_ids, options))
    cpu = sum(process.cpu_times()[:2]) - cpu
    records = len(times) * options.batch
    held = _held(servers, topic)
    # A transaction's end takes an offset of its own in each partition.
    if held < records or (not with_ids and held != records):
        raise RuntimeError(f"{records} records were acknowledged, and {topic} has {held}")
    times.sort()
    figures = {
        "way": way, "records_per_s": round(records / seconds), "requests_per_s": round(len(times) / seconds),
        "p50_ms": round(statistics.median(times) * 1e3, 1), "p99_ms": round(times[int(len(times) * 0.99)] * 1e3, 1),
        "service_cpu_s": round(cpu, 1), "seconds": round(seconds, 1),
        "service_rss_mib": round(process.memory_info().rss / 2**20),
    }  # fmt: skip
    print(json.dumps(figures))  # noqa: T201 - a measurement's output


async def _all(
    port: int, path: str, body: bytes, with_ids: bool, options: argparse.Namespace
) -> tuple[list[float], float]:
    times: list[float] = []
    begun = time.monotonic()
    until = begun + options.seconds
    await asyncio.gather(
        *(_writer(port, path, body, f"w{n}" if with_ids else "", until, times) for n in range(options.connections))
    )
    return times, time.monotonic() - begun


async def _hold(port: int, pid: int, count: int) -> None:
    memory = psutil.Process(pid).memory_info
    before, opened = memory().rss, []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        writer.write(b"GET /health HTTP/1.1\r\nHost: bench\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
    each = (memory().rss - before) / count / 1024
    print(json.dumps({"way": "held open", "connections": count, "kib_each": round(each, 1)}))  # noqa: T201
    for writer in opened:
        writer.close()


async def _writer(port: int, path: str, body: bytes, producer: str, until: float, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sequence = 0
    while (begun := time.monotonic()) < until:
        own = f"Databus-Producer: {producer}\r\nDatabus-Sequence: {sequence}\r\n" if producer else ""
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n{own}\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        text = await reader.readexactly(int(length.partition(b":")[2]))
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(text.decode())
        times.append(time.monotonic() - begun)
        sequence += 1
    writer.close()
    await writer.wait_closed()


def _held(servers: str, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "isolation.level": "read_committed"})
    edges = [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30) for number in range(_PARTITIONS)]
    consumer.close()
    return sum(high - low for low, high in edges)


def _wait(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as tried:
            if not tried.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.1)
    raise RuntimeError("the service did not begin")


def _wait_for_topic(port: int, topic: str) -> None:
    """Wait until all brokers know a topic that was just made: the service tells what it is told."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", f"/v1/topics/{topic}/records?partition={_PARTITIONS - 1}")
        status = connection.getresponse().status
        connection.close()
        if status == 200:
            return
        time.sleep(0.1)
    raise RuntimeError(f"the service does not see {topic}")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - progress


if __name__ == "__main__":
    sys.exit(main())
