"""`databus bench`: the path from a source to its sinks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from databus.bench.options import (
    AirflowFreshnessOptions,
    CatchupOptions,
    DecodeOptions,
    E2EOptions,
    FreshnessOptions,
    TraceOptions,
)
from databus.cli.bench.results import Plugins, PortsFrom, Results, Window, folder_of, say, seconds_of, show
from databus.cli.terminal.options import Output
from databus.cli.terminal.output import Format

_DECODE = DecodeOptions()
_E2E = E2EOptions()
_CATCHUP = CatchupOptions()
_FRESH = FreshnessOptions()
_TRACE = TraceOptions()
_LIVE = AirflowFreshnessOptions()


def decode(  # noqa: PLR0913, PLR0917 - one parameter per option
    changes: Annotated[int, typer.Option(help="Row changes of the main log.", min=5_000)] = _DECODE.changes,
    single_rows: Annotated[int, typer.Option(help="Rows of the log of single-row events.", min=100)] = (
        _DECODE.single_rows
    ),
    library_rows: Annotated[int, typer.Option(help="Rows that python-mysql-replication reads.", min=100)] = (
        _DECODE.library_rows
    ),
    long_rows: Annotated[int, typer.Option(help="Rows of the long transaction.", min=5_000)] = _DECODE.long_rows,
    documents: Annotated[int, typer.Option(help="Small JSON documents.", min=5_000)] = _DECODE.documents,
    repeats: Annotated[int, typer.Option(help="Runs of which the best counts.", min=1)] = _DECODE.repeats,
    mariadb: Annotated[bool, typer.Option(help="Measure MariaDB's log too.")] = _DECODE.mariadb,
    scaling: Annotated[bool, typer.Option(help="Start Spark and measure 1 and 2 cores.")] = _DECODE.scaling,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Rows per CPU-second of decoding, beside python-mysql-replication; exit code 1 below a bar."""
    options = DecodeOptions(changes, single_rows, library_rows, long_rows, documents, repeats, mariadb, scaling)
    from databus.bench.decoding.decode import run

    show(run(options, say, ports_from), results, output)


def e2e(  # noqa: PLR0913, PLR0917 - one parameter per option
    changes: Annotated[int, typer.Option(help="Row changes to move.", min=5_000)] = _E2E.changes,
    warm_up: Annotated[int, typer.Option(help="Row changes moved before, untimed.", min=5_000)] = _E2E.warm_up,
    batch_rows: Annotated[int, typer.Option(help="Row changes in a batch of ours.", min=1_000)] = _E2E.batch_rows,
    checks: Annotated[bool, typer.Option(help="Run our path with row checks too.")] = _E2E.checks,
    debezium: Annotated[bool, typer.Option(help="Run Debezium on the same log.")] = _E2E.debezium,
    rounds: Annotated[int, typer.Option(help="Runs of our path, with and without checks in turn.", min=1)] = (
        _E2E.rounds
    ),
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Binlog to Kafka, exactly once, beside Debezium on the same log; exit code 1 below a bar."""
    options = E2EOptions(changes, warm_up, batch_rows, checks, debezium, rounds)
    from databus.bench.e2e import run

    show(run(options, say, ports_from), results, output)


def catchup(  # noqa: PLR0913, PLR0917 - one parameter per option
    backlog: Annotated[
        int, typer.Option(help="Row changes to clear; an hour at 5,000 rows/s is 18,000,000.", min=5_000)
    ] = _CATCHUP.backlog,
    warm_up: Annotated[int, typer.Option(help="Row changes moved before, untimed.", min=5_000)] = _CATCHUP.warm_up,
    batch_rows: Annotated[int, typer.Option(help="Row changes in a batch of ours.", min=1_000)] = _CATCHUP.batch_rows,
    debezium: Annotated[bool, typer.Option(help="Let Debezium clear the same backlog.")] = _CATCHUP.debezium,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Clear what came while a flow was stopped, beside Debezium on the same backlog; exit code 1 below a bar."""
    options = CatchupOptions(backlog, warm_up, batch_rows, debezium)
    from databus.bench.catchup import run

    show(run(options, say, ports_from), results, output)


def freshness(  # noqa: PLR0913, PLR0917 - one parameter per option
    rows_per_second: Annotated[int, typer.Option(help="Rows committed per second, over all flows.", min=1)] = (
        _FRESH.rows_per_second
    ),
    seconds: Annotated[
        int | None, typer.Option(help="Length of a turn; 60, with --airflow 1800.", min=1, show_default=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="The same in minutes.", min=0.1, show_default=False)] = None,
    turns: Annotated[
        int | None, typer.Option(help="Turns of each side; 2, with --airflow 1.", min=1, show_default=False)
    ] = None,
    rows_per_transaction: Annotated[int, typer.Option(help="Rows of each commit.", min=1)] = (
        _FRESH.rows_per_transaction
    ),
    idle_seconds: Annotated[
        int, typer.Option(help="Time our path is watched while idle; without --airflow.", min=0)
    ] = (_FRESH.idle_seconds),
    debezium: Annotated[bool, typer.Option(help="Run Debezium in turns with our path.")] = _FRESH.debezium,
    airflow: Annotated[bool, typer.Option("--airflow", help="A real Airflow runs the flows, window after window.")] = (
        False
    ),
    flows: Annotated[
        int, typer.Option(help="With --airflow: live flows at once, a table each; Debezium takes all in one connector.")
    ] = _LIVE.flows,
    window: Window = _LIVE.window,
    peer_seconds: Annotated[int, typer.Option(help="With --airflow: length of a turn of Debezium.", min=1)] = (
        _LIVE.peer_seconds
    ),
    plugins: Plugins = Path("plugins"),
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Commit at the source to readable in Kafka, beside Debezium in turns; exit code 1 beyond a bar.

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
            window=window,
            peer_seconds=peer_seconds,
            debezium=debezium,
            plugins=folder_of(plugins),
        )
        from databus.bench.airflow import freshness as airflow_freshness

        show(airflow_freshness.run(live, say, ports_from), results, output)
    options = FreshnessOptions(
        rows_per_second, asked or _FRESH.seconds, turns or _FRESH.turns, rows_per_transaction, idle_seconds, debezium
    )
    from databus.bench.freshness import run

    show(run(options, say, ports_from), results, output)


def trace(  # noqa: PLR0913, PLR0917 - one parameter per option
    recorded: Annotated[int, typer.Option(help="Changes that the records tell of.", min=10_000)] = _TRACE.recorded,
    changes: Annotated[int, typer.Option(help="Row changes really moved.", min=5_000)] = _TRACE.changes,
    records: Annotated[int, typer.Option(help="Records asked for in each way.", min=1)] = _TRACE.records,
    repeats: Annotated[int, typer.Option(help="Times each is asked for.", min=1)] = _TRACE.repeats,
    documents: Annotated[bool, typer.Option(help="Move to an index too, and ask there.")] = _TRACE.documents,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """What a person waits for `databus trace` over millions of recorded changes; exit code 1 beyond a bar."""
    from databus.bench.trace import run

    options = TraceOptions(recorded, changes, records, repeats, documents)
    show(run(options, say, ports_from), results, output)
