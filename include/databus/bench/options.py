"""Sizes and parts of a benchmark's run; light to import, so that the command line can show them.

A field with `Option` is an option of `databus bench`: default and lower bound stand there, its text under "Attributes".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option


@dataclass(frozen=True)
class DecodeOptions:
    """Sizes of the run.

    Attributes:
        changes: row changes of the main log, in two files (with and without checksums).
        single_rows: rows of the log of single-row events.
        library_rows: rows that python-mysql-replication reads.
        long_rows: rows of the long transaction.
        documents: small JSON documents.
        repeats: runs of which the best counts, since others use the machine.
        mariadb: measure MariaDB's log too.
        scaling: start Spark, and measure 1 and 2 cores.
    """

    changes: Annotated[int, Option(min=5_000)] = 300_000
    single_rows: Annotated[int, Option(min=100)] = 30_000
    library_rows: Annotated[int, Option(min=100)] = 20_000
    long_rows: Annotated[int, Option(min=5_000)] = 1_000_000
    documents: Annotated[int, Option(min=5_000)] = 100_000
    repeats: Annotated[int, Option(min=1)] = 5
    mariadb: Annotated[bool, Option()] = True
    scaling: Annotated[bool, Option()] = False


@dataclass(frozen=True)
class E2EOptions:
    """Sizes and parts of the run.

    Attributes:
        changes: row changes to move.
        warm_up: row changes that each side moves before, untimed.
        batch_rows: row changes in a batch of ours.
        checks: run our path a second time, with six row checks.
        transforms: run both once more, ours with a Filter that all rows pass, a Mask, a Hash and an AddColumn.
        avro: run both once more in Avro, with a schema registry.
        spark_lane: run our path with these transforms through Spark's DataFrames.
        debezium: run Debezium on the same log.
        rounds: runs of our path, with and without checks in turn; their cost is taken over all.
    """

    changes: Annotated[int, Option(min=5_000)] = 500_000
    warm_up: Annotated[int, Option(min=5_000)] = 50_000
    batch_rows: Annotated[int, Option(min=1_000)] = 500_000
    checks: Annotated[bool, Option()] = True
    transforms: Annotated[bool, Option()] = True
    avro: Annotated[bool, Option()] = True
    spark_lane: Annotated[bool, Option()] = True
    debezium: Annotated[bool, Option()] = True
    rounds: Annotated[int, Option(min=1)] = 1


@dataclass(frozen=True)
class CatchupOptions:
    """Sizes and parts of the run.

    Attributes:
        backlog: row changes written while the flow is stopped; an hour at 5,000 rows/s is 18,000,000.
        warm_up: row changes that each side moves before, untimed.
        batch_rows: row changes in a batch of ours at most.
        debezium: let Debezium clear the same backlog.
    """

    backlog: Annotated[int, Option(min=5_000)] = 1_000_000
    warm_up: Annotated[int, Option(min=5_000)] = 50_000
    batch_rows: Annotated[int, Option(min=1_000)] = 500_000
    debezium: Annotated[bool, Option()] = True


@dataclass(frozen=True)
class SnapshotBenchOptions:
    """Sizes and parts of the run.

    Attributes:
        rows: rows of the table that is there before.
        warm_up: rows of another one that each side reads before, untimed.
        batch_rows: rows in a batch of ours at most; without --lag.
        rounds: rounds of each side, in turns; medians count; without --lag.
        writes_per_second: with --lag, inserts and updates meanwhile, half each.
        rows_per_transaction: with --lag, writes of each commit.
        before_s: with --lag, how long the stream is timed without a snapshot.
        debezium: let Debezium read the same table.
        peer_fetch: rows that Debezium's initial snapshot fetches at a time (snapshot.fetch.size).
        peer_threads: threads of Debezium's initial snapshot (snapshot.max.threads).
        peer_chunk: rows of a chunk of Debezium's incremental snapshot (incremental.snapshot.chunk.size).
    """

    rows: Annotated[int, Option(min=1_000)] = 5_000_000
    warm_up: Annotated[int, Option(min=1_000)] = 50_000
    batch_rows: Annotated[int, Option(min=1_000)] = 200_000
    rounds: Annotated[int, Option(min=1)] = 1
    writes_per_second: Annotated[int, Option(min=2)] = 1_000
    rows_per_transaction: Annotated[int, Option(min=2)] = 10
    before_s: Annotated[float, Option(min=1)] = 15.0
    debezium: Annotated[bool, Option()] = True
    peer_fetch: Annotated[int, Option(min=1)] = 10_000
    peer_threads: Annotated[int, Option(min=1)] = 1
    peer_chunk: Annotated[int, Option(min=1)] = 10_000


@dataclass(frozen=True)
class ValidateBenchOptions:
    """Sizes of the run.

    Attributes:
        rows: rows of the table that is compared.
        batch_rows: rows in a batch of the flow at most, and of what is compared at once.
        minutes: validate again and again for so long while others write; 0 leaves it out.
        writes_per_second: rows that others insert, update and delete then.
    """

    rows: Annotated[int, Option(min=3_000)] = 10_000_000
    batch_rows: Annotated[int, Option(min=1_000)] = 200_000
    minutes: Annotated[float, Option(min=0)] = 30.0
    writes_per_second: Annotated[int, Option(min=10)] = 1_000


@dataclass(frozen=True)
class FreshnessOptions:
    """Sizes and parts of the run.

    Attributes:
        rows_per_second: rate at which rows are committed.
        seconds: length of a turn.
        turns: turns of each side, ours and Debezium's one after the other.
        rows_per_transaction: rows of each commit.
        idle_seconds: how long our path is watched while nothing is written.
        debezium: whether Debezium runs too.
    """

    rows_per_second: int = 1_000
    seconds: int = 60
    turns: int = 2
    rows_per_transaction: int = 10
    idle_seconds: int = 20
    debezium: bool = True


@dataclass(frozen=True)
class AirflowFreshnessOptions:
    """Sizes and parts of the run in which a real Airflow runs the flows.

    Attributes:
        rows_per_second: rate at which rows are committed, over all flows together.
        seconds: length of a turn of ours.
        turns: turns of each side, Debezium's and ours one after the other.
        rows_per_transaction: rows of each commit.
        flows: live flows at once, each with a table and a topic of its own.
        window: seconds from one run of a flow to the next: it hands over as often.
        peer_seconds: length of a turn of Debezium.
        debezium: whether Debezium runs too; only beside one flow.
        plugins: folder of further Airflow plugins; Databus's own registers by its entry point.
    """

    rows_per_second: int = 1_000
    seconds: int = 1_800
    turns: int = 1
    rows_per_transaction: int = 10
    flows: int = 1
    window: int = 65
    peer_seconds: int = 300
    debezium: bool = True
    plugins: Path | None = None


@dataclass(frozen=True)
class MirrorDelayOptions:
    """Sizes and parts of the run in which a real Airflow runs a mirror.

    Attributes:
        records_per_second: rate at which records are written.
        seconds: length of a turn of ours.
        turns: turns of each side, MirrorMaker's and ours one after the other.
        together: records written at one time.
        partitions: of the topic.
        window: seconds from one run to the next: it hands over as often.
        peer_seconds: length of a turn of MirrorMaker.
        mirror_maker: whether MirrorMaker 2 runs too.
        plugins: folder of further Airflow plugins; Databus's own registers by its entry point.
    """

    records_per_second: int = 1_000
    seconds: int = 1_800
    turns: int = 1
    together: int = 10
    partitions: int = 4
    window: int = 65
    peer_seconds: int = 300
    mirror_maker: bool = True
    plugins: Path | None = None


@dataclass(frozen=True)
class MirrorOptions:
    """Sizes and parts of the run.

    Attributes:
        records: records to mirror.
        warm_up: records that each side mirrors before its time is taken.
        record_bytes: size of a record, key and value, in bytes.
        partitions: partitions of the topic.
        slots: parallel writers of ours.
        batch_rows: records in a batch of ours.
        tasks: tasks.max of MirrorMaker 2.
        compression: codec of the source's records and of both sides' producers, e.g. lz4.
        rounds: runs of each side, in turns.
        peers: which MirrorMaker 2 runs too: "exactly_once" and "at_least_once".
    """

    records: Annotated[int, Option(min=1_000)] = 2_000_000
    warm_up: Annotated[int, Option(min=0)] = 200_000
    record_bytes: Annotated[int, Option(min=32)] = 1_000
    partitions: Annotated[int, Option(min=1)] = 12
    slots: Annotated[int, Option(min=1, max=64)] = 2
    batch_rows: Annotated[int, Option(min=1_000)] = 500_000
    tasks: Annotated[int, Option(min=1)] = 4
    compression: Annotated[str, Option()] = "none"
    rounds: Annotated[int, Option(min=1)] = 1
    peers: tuple[str, ...] = ("exactly_once", "at_least_once")


@dataclass(frozen=True)
class DagFilesOptions:
    """Sizes and parts of the run.

    Attributes:
        files: DAG files, one flow each.
        processes: files that Airflow parses at a time; two per core keep its processor busy (ADR 31).
        database: SQLAlchemy URL of an empty database for Airflow; None for SQLite.
    """

    files: Annotated[int, Option(min=1)] = 200
    processes: Annotated[int, Option(min=1)] = 4
    database: str | None = None


@dataclass(frozen=True)
class IdleOptions:
    """Sizes of the run.

    Attributes:
        seconds: how long a live run is watched.
        runs: economy runs; the cheapest counts.
    """

    seconds: int = 60
    runs: int = 3


@dataclass(frozen=True)
class AirflowIdleOptions:
    """Sizes of the run in which a real Airflow runs the flows.

    Attributes:
        seconds: how long Airflow is watched without flows, with a live and with an economy flow.
        every_seconds: between two runs of a flow.
        plugins: folder of further Airflow plugins; Databus's own registers by its entry point.
    """

    seconds: int = 300
    every_seconds: int = 60
    plugins: Path | None = None


@dataclass(frozen=True)
class TraceOptions:
    """Sizes of the run.

    Attributes:
        recorded: changes that the records have, in batches of a thousand.
        changes: row changes among them that are really moved.
        records: records asked for in each way.
        repeats: times each is asked for; the median counts.
        documents: move them to an index too, and ask for them there.
    """

    recorded: Annotated[int, Option(min=10_000)] = 10_000_000
    changes: Annotated[int, Option(min=5_000)] = 20_000
    records: Annotated[int, Option(min=1)] = 3
    repeats: Annotated[int, Option(min=1)] = 3
    documents: Annotated[bool, Option()] = True


@dataclass(frozen=True)
class MetadataOptions:
    """Sizes and parts of the run.

    Attributes:
        flows: flows whose DAGs are scheduled.
        every_seconds: seconds between two runs of a flow, now and in the past.
        days: age of the oldest run of each flow, in days.
        keep_days: days of runs that retention leaves.
        seconds: time the scheduler is watched, in seconds, three times.
        database: SQLAlchemy URL of an empty database for Airflow; None for a PostgreSQL that the bench starts.
    """

    flows: Annotated[int, Option(min=1)] = 5
    every_seconds: Annotated[int, Option(min=5)] = 60
    days: Annotated[float, Option(min=0.01)] = 30.0
    keep_days: Annotated[float, Option(min=0)] = 7.0
    seconds: Annotated[int, Option(min=5)] = 60
    database: Annotated[str | None, Option(show_default="a PostgreSQL of its own")] = None


@dataclass(frozen=True)
class PlanOptions:
    """Sizes of the run.

    Attributes:
        partitions: topic-partitions, a multiple of 5: there are five topics.
        rounds: plans that are timed; the dearest counts.
    """

    partitions: Annotated[int, Option(min=5)] = 5_000
    rounds: Annotated[int, Option(min=1)] = 3


@dataclass(frozen=True)
class MirrorLinkOptions:
    """Sizes of the run.

    Attributes:
        records_per_second: records written to the source per second, all the time.
        record_bytes: size of a record, key and value, in bytes.
        partitions: partitions of the topic.
        before_s: how long the mirror runs before the link is cut.
        down_s: how long the link is down.
        slots: parallel writers.
        behind_s: caught up is who has moved all but what is written in so many seconds.
    """

    records_per_second: Annotated[int, Option(min=10)] = 5_000
    record_bytes: Annotated[int, Option(min=32)] = 1_000
    partitions: Annotated[int, Option(min=1)] = 12
    before_s: float = 20.0
    down_s: float = 600.0
    slots: Annotated[int, Option(min=1, max=64)] = 2
    behind_s: float = 2.0


@dataclass(frozen=True)
class PlaneOptions:
    """Sizes and parts of the run.

    Attributes:
        live: live flows, each of which gets a row every `live_row_seconds`.
        economy: economy flows, each of which gets a row every `economy_row_seconds`.
        minutes: time that rows are written, in minutes.
        live_row_seconds: seconds between two rows of a live flow.
        economy_row_seconds: seconds between two rows of an economy flow.
        wake_seconds: least seconds between two runs of an economy flow that changes began.
        parallelism: tasks that Airflow runs at a time.
    """

    live: Annotated[int, Option(min=0)] = 5
    economy: Annotated[int, Option(min=0)] = 195
    minutes: Annotated[float, Option(min=0.1)] = 30.0
    live_row_seconds: Annotated[float, Option(min=0.01)] = 0.2
    economy_row_seconds: Annotated[float, Option(min=0.01)] = 600.0
    wake_seconds: Annotated[float, Option(min=0)] = 60.0
    parallelism: Annotated[int, Option(min=1)] = 16
