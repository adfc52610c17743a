"""Debezium's two snapshots: the initial one, and the incremental one that a row in its signal table begins."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from databus.bench.delays import topic_ends
from databus.bench.log_files import LogWriter
from databus.bench.options import SnapshotBenchOptions
from databus.bench.peer import DEFAULTS, SETTINGS, DebeziumPeer
from databus.bench.snapshots.tables import ORDERS, SIGNALS, WARM
from databus.core.errors.config import SandboxError
from databus.sandbox import Sandbox

_NOTES = "debezium-notes"
_STREAMS_WITHIN_S = 120.0
_ROWS_HELD = 100_000
"""Rows of a chunk of an initial snapshot by several threads, each of which holds one in memory."""

_COMPRESSED = {"producer.override.compression.type": "lz4"}
"""As ours by default; the worker's producers send with acks=all."""


def initial_settings(options: SnapshotBenchOptions) -> dict[str, str]:
    """Return the settings of a connector that reads its tables and stops.

    One thread streams rows, and is both the fastest and the cheapest: several read chunks whole into memory.
    """
    chunks = -(-options.rows // (options.peer_threads * _ROWS_HELD))
    several = {"snapshot.max.threads.multiplier": str(chunks)} if options.peer_threads > 1 else {}
    return {
        **SETTINGS,
        **_COMPRESSED,
        "snapshot.mode": "initial_only",
        "snapshot.fetch.size": str(options.peer_fetch),
        "snapshot.max.threads": str(options.peer_threads),
        **several,
    }


def incremental_settings(options: SnapshotBenchOptions, *, live: bool = False) -> dict[str, str]:
    """Return the settings of a connector that streams from now on, and reads tables by chunks when it is told to.

    Args:
        options: sizes.
        live: a producer that does not wait for full batches.
    """
    return {
        **SETTINGS,
        **(DEFAULTS if live else {}),
        **_COMPRESSED,
        "snapshot.mode": "no_data",
        "signal.data.collection": SIGNALS,
        "incremental.snapshot.chunk.size": str(options.peer_chunk),
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": _NOTES,
    }


class IncrementalSnapshots:
    """Incremental snapshots of a connector that streams.

    Args:
        sandbox: with its worker.
        writer: connection to the server, with the right to write signals.
        peer: the connector.
    """

    def __init__(self, sandbox: Sandbox, writer: LogWriter, peer: DebeziumPeer) -> None:
        self._kafka, self._writer, self._peer = sandbox.address("kafka"), writer, peer
        self._begun = 0

    def until_it_streams(self) -> int:
        """Change a row of the warm-up table until it arrives; return the messages that the topics hold then.

        Raises:
            SandboxError: none arrives.
        """
        deadline = time.monotonic() + _STREAMS_WITHIN_S
        with topic_ends(self._kafka, self._peer.topics) as ends:
            while not sum(ends()):
                if time.monotonic() > deadline:
                    raise SandboxError(f"Debezium streams nothing after {_STREAMS_WITHIN_S:.0f} s")
                self._writer.run(f"UPDATE {WARM} SET flag = 1 - flag WHERE id = 1")  # noqa: S608 - our own name
                time.sleep(1.0)
            return _settled(lambda: sum(ends()))

    def begin(self, table: str = ORDERS) -> None:
        """Write the signal that begins the snapshot of a table."""
        self._begun += 1
        data = json.dumps({"data-collections": [table], "type": "incremental"})
        self._writer.run(
            f"INSERT INTO {SIGNALS} VALUES (%s, 'execute-snapshot', %s)",  # noqa: S608 - our own name
            f"bench-{self._begun}",
            data,
        )

    def finished(self) -> bool:
        """Return whether as many snapshots were completed as begun."""
        from databus.demo.consumers import topic_records

        with topic_ends(self._kafka, (_NOTES,)) as ends:
            if not sum(ends()):
                return False
        return completed([value for _, value in topic_records(self._kafka, _NOTES) if value]) >= self._begun


def completed(notes: Sequence[bytes]) -> int:
    """Return how many incremental snapshots a connector's notifications call completed."""
    read = [json.loads(note) for note in notes]
    return sum(
        note.get("aggregate_type") == "Incremental Snapshot" and note.get("type") == "COMPLETED" for note in read
    )


def _settled(count: Callable[[], int]) -> int:
    last = -1
    while (now := count()) != last:
        last = now
        time.sleep(2.0)
    return now
