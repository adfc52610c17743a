"""`databus trace` over ten million recorded changes: what a person waits, from the command to its answer.

A table is written, moved to a topic and an index by the real path, and asked for in every way that `trace` knows.
Before that, reports of further batches are recorded until the flow has moved the wanted number of changes: a trace
looks up ranges among all of them, and reads records and documents of the few that are really there. Every answer is
compared with the record that a consumer has read.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog
from databus.bench import orders
from databus.bench.log_files import log_writer
from databus.bench.options import TraceOptions
from databus.bench.processes import fresh_servers
from databus.bench.recorded_batches import record_batches
from databus.bench.results import Bar, Result
from databus.core.errors.batch import ReconciliationError
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections

KINDS = ("record", "position", "gtid", "event", "key", "document")
BARS = tuple(Bar(f"{kind}_seconds", at_most=1.0) for kind in KINDS)
NAME = "traced"
_BATCH_ROWS = 1_000
_DAG_FILE = """
from datetime import timedelta

from databus.airflow import flow_dag
from databus.registry import flow_from_json

flow = flow_from_json({flow!r})
dag = flow_dag(flow, every=timedelta(minutes=1))
"""


@dataclass(frozen=True)
class KnownRecord:
    """A record as a consumer has read it: what is asked for, and what the answers must name.

    Attributes:
        place: topic:partition:offset.
        event_id: of its change.
        gtid: of its transaction.
        position: file:pos of the transaction's end.
        key: canonical key JSON.
        document: index/id; "" where there is no index.
    """

    place: str
    event_id: str
    gtid: str
    position: str
    key: str
    document: str

    def words(self, kind: str) -> str:
        """Return what the command is asked for."""
        named = {"record": self.place, "event": self.event_id}
        return named.get(kind) or str(getattr(self, kind))


def run(options: TraceOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, move and record, and ask.

    Raises:
        ReconciliationError: an answer does not name what a consumer has read.
        SandboxError: a server failed.
    """
    from databus.bench.our_path import OurPath

    servers = ("zookeeper", "kafka", "mysql", "spark", *(("opensearch",) if options.documents else ()))
    with fresh_servers(servers, say, ports_from) as sandbox, closing(OurPath(sandbox)) as ours:
        return measure(sandbox, lambda flow: ours.timed(flow).rows, options, say)


def measure(sandbox: Sandbox, move: Callable[[Flow], int], options: TraceOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers.

    Args:
        sandbox: the servers; their home keeps the records.
        move: runs a flow until it has caught up; returns rows.
        options: sizes.
        say: called with what is done.
    """
    with log_writer(sandbox, "mysql") as writer:
        orders.create(writer.connection)
        file, position = writer.run("SHOW MASTER STATUS")[0][:2]
        say(f"MySQL writes {options.changes:,} row changes")
        made = sum(orders.load(writer.connection, options.changes).values())
    flow = _flow(f"{file}:{position}", documents=options.documents)
    moved = move(flow)
    if moved != made:
        raise ReconciliationError(f"{made} row changes were made, {moved} were moved")
    url = f"sqlite:///{sandbox.home / 'records.db'}"
    say(f"recording {options.recorded:,} changes")
    began = time.perf_counter()
    batches = record_batches(url, NAME, options.recorded - moved, _BATCH_ROWS)
    took = time.perf_counter() - began
    folder = sandbox.home / "traced_dags"
    folder.mkdir()
    (folder / f"{NAME}.py").write_text(_DAG_FILE.format(flow=flow.to_json()))
    known = list(_sample(sandbox, options))
    figures: dict[str, float] = {}
    waits: dict[str, list[float]] = {}
    for kind in KINDS if options.documents else KINDS[:-1]:
        say(f"trace by {kind}")
        asked = [_ask(sandbox, folder, record, kind) for record in known for _ in range(options.repeats)]
        waits[kind] = [wall for wall, _ in asked]
        figures[f"{kind}_seconds"] = statistics.median(waits[kind])
        figures[f"{kind}_cpu_seconds"] = statistics.median(cpu for _, cpu in asked)
    figures["slowest_kind_seconds"] = max(figures[f"{kind}_seconds"] for kind in waits)
    details = {"waits": waits, "recorded_batches": batches, "recording_seconds": took, "moved": moved}
    rounded = {name: round(value, 3) for name, value in figures.items()}
    bars = (*BARS, Bar("slowest_kind_seconds", at_most=1.0))
    return Result("trace", rounded, bars, asdict(options), details, "slowest_kind_seconds")


def _flow(start: str, *, documents: bool) -> Flow:
    index = (Elasticsearch(conn_id="opensearch_default", index=NAME, name="search"),) if documents else ()
    return Flow(
        name=NAME,
        source=MysqlBinlog(conn_id="mysql_shop", tables=("bench.orders",), start=start),
        sinks=(Kafka(conn_id="kafka_east", topic=NAME, partitions=4, tombstones=False), *index),
        batching=Batching(max_rows=_BATCH_ROWS),
    )


def _sample(sandbox: Sandbox, options: TraceOptions) -> Iterator[KnownRecord]:
    """Yield records, spread over the topic, that are the newest of their keys and no deletes."""
    newest: dict[bytes, tuple[str, dict[str, Any]]] = {}
    for place, key, text in _records(sandbox.address("kafka")):
        newest[key] = (place, json.loads(text))
    kept = [(key, place, value) for key, (place, value) in newest.items() if value["op"] != "d"]
    for key, place, value in kept[:: max(1, len(kept) // options.records)][: options.records]:
        source = value["source"]
        document = f"{NAME}/{json.loads(key)['id']}" if options.documents else ""
        yield KnownRecord(
            place, source["event_id"], source["gtid"], f"{source['file']}:{source['pos']}", key.decode(), document
        )


def _records(bootstrap: str) -> Iterator[tuple[str, bytes, bytes]]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True,
    }  # fmt: skip
    with closing(Consumer(settings)) as consumer:
        left = set(consumer.list_topics(NAME, timeout=30).topics[NAME].partitions)
        consumer.assign([TopicPartition(NAME, partition, OFFSET_BEGINNING) for partition in left])
        while left:
            message = consumer.poll(30)
            if message is None:
                raise TimeoutError(f"no answer from {bootstrap}")
            error = message.error()
            if error is None:
                key, value = message.key(), message.value()
                assert key is not None  # noqa: S101 - the table has a key, and the sink writes no tombstones
                assert value is not None  # noqa: S101
                yield f"{NAME}:{message.partition()}:{message.offset()}", key, value
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                left.discard(message.partition())
            else:
                raise KafkaException(error)


def _ask(sandbox: Sandbox, folder: Path, record: KnownRecord, kind: str) -> tuple[float, float]:
    """Run the command; return seconds of wall and of CPU.

    Raises:
        ReconciliationError: its answer does not name the record.
    """
    environment = {
        **os.environ,
        **airflow_connections(sandbox.status()),
        "DATABUS_RECORDS_URL": f"sqlite:///{sandbox.home / 'records.db'}",
        "DATABUS_SEGMENT_STORE": str(sandbox.home / "segments"),
    }
    program = [
        sys.executable,
        "-m",
        "databus.cli.main",
        "trace",
        record.words(kind),
        "--dags",
        str(folder),
        "-o",
        "json",
    ]
    before, began = _children(), time.perf_counter()
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    wall, cpu = time.perf_counter() - began, _children() - before
    places = [seen["place"] for journey in json.loads(done.stdout or '{"journeys": []}')["journeys"]
              for seen in journey["sinks"]]  # fmt: skip
    if done.returncode or record.place not in places:
        raise ReconciliationError(
            f"trace {record.words(kind)}: {record.place} is not in {places}: {done.stderr[-800:]}"
        )
    return wall, cpu


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
