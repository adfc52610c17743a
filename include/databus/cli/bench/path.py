"""`databus bench`: the path from a source to its sinks."""

from __future__ import annotations

from typing import Annotated

import typer

from databus.bench.options import (
    AirflowFreshnessOptions,
    CatchupOptions,
    DecodeOptions,
    E2EOptions,
    FreshnessOptions,
    SnapshotBenchOptions,
    TraceOptions,
    ValidateBenchOptions,
)
from databus.cli.bench.results import AirflowOptions, Minutes, Report, Servers, folder_of, say, seconds_of
from databus.cli.terminal.option_groups import grouped

_FRESH = FreshnessOptions()
_LIVE = AirflowFreshnessOptions()


@grouped
def decode(sizes: DecodeOptions, report: Report, servers: Servers) -> None:
    """Rows per CPU-second of the decoder.

    Beside python-mysql-replication; exit code 1 below a bar.
    """
    from databus.bench.decoding.decode import run

    report.show(run(sizes, say, servers.ports_from))


@grouped
def e2e(sizes: E2EOptions, report: Report, servers: Servers) -> None:
    """Binlog to Kafka, exactly once, beside Debezium.

    Both read the same log; exit code 1 below a bar.
    """
    from databus.bench.e2e import run

    report.show(run(sizes, say, servers.ports_from))


@grouped
def catchup(sizes: CatchupOptions, report: Report, servers: Servers) -> None:
    """Time to clear a backlog, beside Debezium.

    The backlog is written while the flow is stopped; exit code 1 below a bar.
    """
    from databus.bench.catchup import run

    report.show(run(sizes, say, servers.ports_from))


@grouped
def snapshot(
    sizes: SnapshotBenchOptions,
    report: Report,
    servers: Servers,
    lag: Annotated[
        bool, typer.Option("--lag", help="Measure the delay of the stream while a snapshot of a table goes on.")
    ] = False,
) -> None:
    """Rows of a table that is there, into Kafka, beside Debezium.

    Exactly once, beside Debezium's initial and incremental snapshots; exit code 1 below a bar.

    --lag: delay of the stream under a snapshot, beside Debezium's incremental one.
    """
    if lag:
        from databus.bench.snapshots import stream_lag

        report.show(stream_lag.run(sizes, say, servers.ports_from))
    from databus.bench.snapshots.throughput import run

    report.show(run(sizes, say, servers.ports_from))


@grouped
def validate(sizes: ValidateBenchOptions, report: Report, servers: Servers) -> None:
    """Time of `databus validate` over a large table.

    One row is altered in the topic, and must be found; under writes nothing else may. Exit code 1 beyond a bar.
    """
    from databus.bench.snapshots.validation import run

    report.show(run(sizes, say, servers.ports_from))


@grouped
def freshness(  # noqa: PLR0913, PLR0917 - one parameter per option
    report: Report,
    servers: Servers,
    under: AirflowOptions,
    rows_per_second: Annotated[int, typer.Option(help="Rows committed per second, over all flows.", min=1)] = (
        _FRESH.rows_per_second
    ),
    seconds: Annotated[
        int | None,
        typer.Option(help="Length of a turn, in seconds; 60, with --airflow 1800.", min=1, show_default=False),
    ] = None,
    minutes: Minutes = None,
    turns: Annotated[
        int | None, typer.Option(help="Turns of each side; 2, with --airflow 1.", min=1, show_default=False)
    ] = None,
    rows_per_transaction: Annotated[int, typer.Option(help="Rows of each commit.", min=1)] = (
        _FRESH.rows_per_transaction
    ),
    idle_seconds: Annotated[
        int, typer.Option(help="Time our path is watched while idle, in seconds; without --airflow.", min=0)
    ] = (_FRESH.idle_seconds),
    debezium: Annotated[bool, typer.Option(help="Run Debezium in turns with our path.")] = _FRESH.debezium,
    airflow: Annotated[bool, typer.Option("--airflow", help="A real Airflow runs the flows, window after window.")] = (
        False
    ),
    flows: Annotated[
        int, typer.Option(help="With --airflow: live flows at once, a table each; Debezium takes all in one connector.")
    ] = _LIVE.flows,
    peer_seconds: Annotated[
        int, typer.Option(help="With --airflow: length of a turn of Debezium, in seconds.", min=1)
    ] = _LIVE.peer_seconds,
) -> None:
    """Delay from commit to Kafka, beside Debezium.

    From the commit at the source to readable in Kafka, in turns with Debezium; exit code 1 beyond a bar.

    The bar's form, 30 minutes with at least 25 hand-overs: --airflow; the same of 5 flows: --airflow --flows 5.
    """
    asked = seconds_of(seconds, minutes)
    if airflow:
        live = AirflowFreshnessOptions(
            rows_per_second=rows_per_second,
            seconds=asked or _LIVE.seconds,
            turns=turns or _LIVE.turns,
            rows_per_transaction=rows_per_transaction,
            flows=flows,
            window=under.window,
            peer_seconds=peer_seconds,
            debezium=debezium,
            plugins=folder_of(under.plugins),
        )
        from databus.bench.airflow import freshness as airflow_freshness

        report.show(airflow_freshness.run(live, say, servers.ports_from))
    options = FreshnessOptions(
        rows_per_second, asked or _FRESH.seconds, turns or _FRESH.turns, rows_per_transaction, idle_seconds, debezium
    )
    from databus.bench.freshness import run

    report.show(run(options, say, servers.ports_from))


@grouped
def trace(sizes: TraceOptions, report: Report, servers: Servers) -> None:
    """Time of `databus trace` over millions of changes.

    Exit code 1 beyond a bar.
    """
    from databus.bench.trace import run

    report.show(run(sizes, say, servers.ports_from))
