"""Produces records in one transaction, in a process of its own, and says how much memory that took.

    python -m tests.integration.producer_memory_probe HOST:PORT TOPIC FLOW RECORDS BYTES

Prints "begun", waits for a line on stdin, produces, prints "full" once the producer's queue takes no more, commits, and
prints the resident memory in KiB: before the first record, and at its peak.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from databus.core.connections import Connection
from databus.kafka.client import ClientSettings
from databus.sinks.kafka.markers import Marker, MarkerKey
from databus.sinks.kafka.produce import produce
from databus.sinks.kafka.session import ProducerSettings, Session
from databus.sinks.kafka.tally import MessageTally

_PIECE = 100


class Watched:
    """A session's producer that tells when its queue is full for the first time."""

    def __init__(self, session: Session):
        self.producer: Any = self
        self.produce_failed = session.produce_failed
        self.poll = session.producer.poll
        self._produce = session.producer.produce
        self._told = False

    def produce(self, *arguments: Any, **named: Any) -> None:
        try:
            self._produce(*arguments, **named)
        except BufferError:
            if not self._told:
                say("full")
            self._told = True
            raise


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main(address: str, topic: str, flow: str, records: int, size: int) -> None:
    connection = Connection(conn_id="memory", conn_type="kafka", extra={"bootstrap.servers": address})
    settings = ProducerSettings(ClientSettings.of(connection, 60.0), compression="none")
    session = Session(MarkerKey("memory", flow, "kafka"), 0, settings)
    session.begin()
    tally, watched = MessageTally("kafka", {}), Watched(session)
    say("begun")
    sys.stdin.readline()
    before = kib("VmRSS")
    for first in range(0, records, _PIECE):
        numbers = range(first, min(first + _PIECE, records))
        columns = {
            "database": ["shop"] * len(numbers),
            "table": ["orders"] * len(numbers),
            "topic": [topic] * len(numbers),
            "partition": pa.array([0] * len(numbers), pa.int32()),
            "key": [b"%d" % n for n in numbers],
            "value": [os.urandom(size) for _ in numbers],
            "event_id": [f"event:{n}" for n in numbers],
            "ts_ms": pa.array([1_700_000_000_000] * len(numbers), pa.int64()),
            "tombstone": [False] * len(numbers),
        }
        produce(watched, tally.accept(pa.RecordBatch.from_pydict(columns)), tally)
    session.flush()
    session.commit(Marker(1, "hash", done=tally.done, written=tally.written))
    say(f"{before} {kib('VmHWM')} {tally.written}")
    session.discard()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
