"""Sizes and parts of a benchmark's run; light to import, so that the command line can show them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DecodeOptions:
    """Sizes of the run.

    Attributes:
        changes: row changes of the main log, in two files (with and without checksums).
        single_rows: rows of the log of single-row events.
        library_rows: rows that python-mysql-replication reads.
        long_rows: rows of the long transaction.
        documents: small JSON documents.
        repeats: how often each figure is taken; the best counts, since others use the machine.
        mariadb: whether MariaDB is measured too.
        scaling: whether Spark is started to measure how decoding scales.
    """

    changes: int = 300_000
    single_rows: int = 30_000
    library_rows: int = 20_000
    long_rows: int = 1_000_000
    documents: int = 100_000
    repeats: int = 5
    mariadb: bool = True
    scaling: bool = False


@dataclass(frozen=True)
class E2EOptions:
    """Sizes and parts of the run.

    Attributes:
        changes: row changes to move.
        warm_up: row changes that each side moves before, untimed.
        batch_rows: row changes in a batch of ours.
        checks: whether our path runs a second time with six row checks.
        debezium: whether Debezium runs too.
        rounds: how often our path runs, with and without checks in turn; their cost is taken over all rounds.
    """

    changes: int = 500_000
    warm_up: int = 50_000
    batch_rows: int = 500_000
    checks: bool = True
    debezium: bool = True
    rounds: int = 1


@dataclass(frozen=True)
class CatchupOptions:
    """Sizes and parts of the run.

    Attributes:
        backlog: row changes that the source writes while the flow is stopped; an hour at 5,000 rows/s is 18,000,000.
        warm_up: row changes that each side moves before, untimed.
        batch_rows: row changes in a batch of ours at most.
        debezium: whether Debezium clears the same backlog.
    """

    backlog: int = 1_000_000
    warm_up: int = 50_000
    batch_rows: int = 500_000
    debezium: bool = True


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
        record_bytes: key and value of a record.
        partitions: of the topic.
        slots: parallel writers of ours.
        batch_rows: records in a batch of ours.
        tasks: tasks.max of MirrorMaker 2.
        compression: of the source's records and of both sides' producers.
        rounds: how often each side runs, in turns.
        peers: which MirrorMaker 2 runs too: "exactly_once" and "at_least_once".
    """

    records: int = 2_000_000
    warm_up: int = 200_000
    record_bytes: int = 1_000
    partitions: int = 12
    slots: int = 2
    batch_rows: int = 500_000
    tasks: int = 4
    compression: str = "none"
    rounds: int = 1
    peers: tuple[str, ...] = ("exactly_once", "at_least_once")


@dataclass(frozen=True)
class DagFilesOptions:
    """Sizes and parts of the run.

    Attributes:
        files: DAG files, one flow each.
        processes: how many files Airflow parses at a time; two per core keep its processor busy (ADR 31).
        database: SQLAlchemy URL of an empty database for Airflow; None for SQLite.
    """

    files: int = 200
    processes: int = 4
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
        recorded: changes that the records tell of, in batches of a thousand.
        changes: row changes among them that are really moved.
        records: records that are asked for in each way.
        repeats: how often each is asked for; the median counts.
        documents: whether they are moved to an index too, and asked for there.
    """

    recorded: int = 10_000_000
    changes: int = 20_000
    records: int = 3
    repeats: int = 3
    documents: bool = True


@dataclass(frozen=True)
class MetadataOptions:
    """Sizes and parts of the run.

    Attributes:
        flows: flows whose DAGs are scheduled.
        every_seconds: between two runs of a flow, now and in the past.
        days: age of the oldest run of each flow.
        keep_days: what retention leaves.
        seconds: how long the scheduler is watched each time.
        database: SQLAlchemy URL of an empty database for Airflow; None for a PostgreSQL that the bench starts.
    """

    flows: int = 5
    every_seconds: int = 60
    days: float = 30.0
    keep_days: float = 7.0
    seconds: int = 60
    database: str | None = None


@dataclass(frozen=True)
class PlanOptions:
    """Sizes of the run.

    Attributes:
        partitions: topic-partitions, a multiple of 5: there are five topics.
        rounds: plans that are timed; the dearest counts.
    """

    partitions: int = 5_000
    rounds: int = 3


@dataclass(frozen=True)
class MirrorLinkOptions:
    """Sizes of the run.

    Attributes:
        records_per_second: written to the source all the time.
        record_bytes: key and value of a record.
        partitions: of the topic.
        before_s: how long the mirror runs before the link is cut.
        down_s: how long the link is down.
        slots: parallel writers.
        behind_s: caught up is who has moved all but what is written in so many seconds.
    """

    records_per_second: int = 5_000
    record_bytes: int = 1_000
    partitions: int = 12
    before_s: float = 20.0
    down_s: float = 600.0
    slots: int = 2
    behind_s: float = 2.0


@dataclass(frozen=True)
class PlaneOptions:
    """Sizes and parts of the run.

    Attributes:
        live: live flows, each of which gets a row every `live_row_seconds`.
        economy: economy flows, each of which gets a row every `economy_row_seconds`.
        minutes: how long rows are written.
        live_row_seconds: see `live`.
        economy_row_seconds: see `economy`.
        wake_seconds: time between two runs of an economy flow that changes began, at least.
        parallelism: tasks that Airflow runs at a time.
    """

    live: int = 5
    economy: int = 195
    minutes: float = 30.0
    live_row_seconds: float = 0.2
    economy_row_seconds: float = 600.0
    wake_seconds: float = 60.0
    parallelism: int = 16
