"""`databus bench`: the benchmarks, on servers that they start themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from databus.bench.options import (
    AirflowFreshnessOptions,
    CatchupOptions,
    DagFilesOptions,
    DecodeOptions,
    E2EOptions,
    FreshnessOptions,
    IdleOptions,
    MetadataOptions,
    MirrorDelayOptions,
    MirrorLinkOptions,
    MirrorOptions,
    PlaneOptions,
    PlanOptions,
    TraceOptions,
)
from databus.bench.results import Result, results_folder
from databus.cli.exits import ERROR, OK
from databus.cli.options import Output
from databus.cli.output import ERR, OUT, Format, show_one, show_rows

app = typer.Typer(help="Measure speed on real servers, which are started and removed.", no_args_is_help=True)

_DECODE, _E2E = DecodeOptions(), E2EOptions()
_CATCHUP, _FRESH, _MIRROR = CatchupOptions(), FreshnessOptions(), MirrorOptions()
_FILES, _IDLE, _TRACE = DagFilesOptions(), IdleOptions(), TraceOptions()
_LIVE, _LIVE_MIRROR = AirflowFreshnessOptions(), MirrorDelayOptions()
_METADATA, _PLANE = MetadataOptions(), PlaneOptions()
_PLAN, _LINK = PlanOptions(), MirrorLinkOptions()
Results = Annotated[Path | None, typer.Option("--results", help="Folder of the result file.", show_default=False)]
Window = Annotated[
    int, typer.Option(help="With Airflow: seconds from one run to the next, each of which takes over.", min=5)
]
Plugins = Annotated[Path, typer.Option(help="Folder of Airflow's plugins, used where it is there.")]
PortsFrom = Annotated[int, typer.Option("--ports-from", help="Take free ports from this number on.", min=1024)]


@app.command()
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
    from databus.bench.decode import run

    show(run(options, _say, ports_from), results, output)


@app.command()
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

    show(run(options, _say, ports_from), results, output)


@app.command()
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

    show(run(options, _say, ports_from), results, output)


@app.command()
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
    flows: Annotated[int, typer.Option(help="With --airflow: live flows at once; without Debezium beside several.")] = (
        _LIVE.flows
    ),
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
    asked = _seconds(seconds, minutes)
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
            plugins=_folder(plugins),
        )
        from databus.bench import airflow_freshness

        show(airflow_freshness.run(live, _say, ports_from), results, output)
    options = FreshnessOptions(
        rows_per_second, asked or _FRESH.seconds, turns or _FRESH.turns, rows_per_transaction, idle_seconds, debezium
    )
    from databus.bench.freshness import run

    show(run(options, _say, ports_from), results, output)


@app.command()
def mirror(  # noqa: PLR0913, PLR0917 - one parameter per option
    records: Annotated[int, typer.Option(help="Records to mirror.", min=1_000)] = _MIRROR.records,
    warm_up: Annotated[int, typer.Option(help="Records that come before the time is taken.", min=0)] = _MIRROR.warm_up,
    record_bytes: Annotated[int, typer.Option(help="Key and value of a record.", min=32)] = _MIRROR.record_bytes,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.", min=1)] = _MIRROR.partitions,
    slots: Annotated[int, typer.Option(help="Parallel writers of ours.", min=1, max=64)] = _MIRROR.slots,
    batch_rows: Annotated[int, typer.Option(help="Records in a batch of ours.", min=1_000)] = _MIRROR.batch_rows,
    tasks: Annotated[int, typer.Option(help="tasks.max of MirrorMaker 2.", min=1)] = _MIRROR.tasks,
    compression: Annotated[str, typer.Option(help="Of the source's records and both sides' producers.")] = (
        _MIRROR.compression
    ),
    rounds: Annotated[int, typer.Option(help="Runs of each side, in turns.", min=1)] = _MIRROR.rounds,
    mirror_maker: Annotated[bool, typer.Option(help="Run MirrorMaker 2 in turns with our mirror.")] = True,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """One Kafka to another, exactly once, beside MirrorMaker 2; exit code 1 below a bar."""
    peers = _MIRROR.peers if mirror_maker else ()
    options = MirrorOptions(
        records, warm_up, record_bytes, partitions, slots, batch_rows, tasks, compression, rounds, peers
    )
    from databus.bench.mirror import run

    show(run(options, _say, ports_from), results, output)


@app.command("mirror-delay")
def mirror_delay(  # noqa: PLR0913, PLR0917 - one parameter per option
    records_per_second: Annotated[int, typer.Option(help="Records written per second.", min=1)] = (
        _LIVE_MIRROR.records_per_second
    ),
    seconds: Annotated[
        int | None, typer.Option(help="Length of a turn of ours; 1800.", min=1, show_default=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="The same in minutes.", min=0.1, show_default=False)] = None,
    turns: Annotated[int, typer.Option(help="Turns of each side.", min=1)] = _LIVE_MIRROR.turns,
    together: Annotated[int, typer.Option(help="Records written at one time.", min=1)] = _LIVE_MIRROR.together,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.", min=1)] = _LIVE_MIRROR.partitions,
    window: Window = _LIVE_MIRROR.window,
    peer_seconds: Annotated[int, typer.Option(help="Length of a turn of MirrorMaker 2.", min=1)] = (
        _LIVE_MIRROR.peer_seconds
    ),
    mirror_maker: Annotated[bool, typer.Option(help="Run MirrorMaker 2 in turns with our mirror.")] = (
        _LIVE_MIRROR.mirror_maker
    ),
    plugins: Plugins = Path("plugins"),
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Written to one Kafka to readable in another, by a live mirror that a real Airflow runs, beside MirrorMaker 2.

    Exit code 1 beyond a bar.
    """
    options = MirrorDelayOptions(
        records_per_second=records_per_second,
        seconds=_seconds(seconds, minutes) or _LIVE_MIRROR.seconds,
        turns=turns,
        together=together,
        partitions=partitions,
        window=window,
        peer_seconds=peer_seconds,
        mirror_maker=mirror_maker,
        plugins=_folder(plugins),
    )
    from databus.bench.mirror_delay import run

    show(run(options, _say, ports_from), results, output)


@app.command("mirror-link")
def mirror_link(  # noqa: PLR0913, PLR0917 - one parameter per option
    minutes: Annotated[float, typer.Option(help="How long the link is down.", min=0.05)] = _LINK.down_s / 60,
    records_per_second: Annotated[int, typer.Option(help="Written to the source.", min=10)] = _LINK.records_per_second,
    record_bytes: Annotated[int, typer.Option(help="Key and value of a record.", min=32)] = _LINK.record_bytes,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.", min=1)] = _LINK.partitions,
    slots: Annotated[int, typer.Option(help="Parallel writers.", min=1, max=64)] = _LINK.slots,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """Cut the link of a mirror for minutes, and time how it catches up; exit code 1 beyond a bar."""
    options = MirrorLinkOptions(records_per_second, record_bytes, partitions, _LINK.before_s, minutes * 60, slots)
    from databus.bench.mirror_link import run

    show(run(options, _say, ports_from), results, output)


@app.command()
def plan(
    partitions: Annotated[int, typer.Option(help="Topic-partitions, of five topics.", min=5)] = _PLAN.partitions,
    rounds: Annotated[int, typer.Option(help="Plans that are timed; the dearest counts.", min=1)] = _PLAN.rounds,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """CPU seconds and requests of a mirror's plan over thousands of partitions; exit code 1 beyond a bar."""
    from databus.bench.plan import run

    show(run(PlanOptions(partitions, rounds), _say, ports_from), results, output)


@app.command()
def idle(
    seconds: Annotated[int, typer.Option(help="Time a live run is watched.", min=1)] = _IDLE.seconds,
    runs: Annotated[int, typer.Option(help="Economy runs; the cheapest counts.", min=1)] = _IDLE.runs,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """CPU seconds of a live and of an economy flow while nothing is written."""
    from databus.bench.idle import run

    show(run(IdleOptions(seconds, runs), _say, ports_from), results, output)


@app.command("dag-files")
def dag_files(
    files: Annotated[int, typer.Option(help="DAG files, one flow each.", min=1)] = _FILES.files,
    processes: Annotated[int, typer.Option(help="Files that Airflow parses at a time.", min=1)] = _FILES.processes,
    plugins: Annotated[
        Path, typer.Option("--plugins", help="Folder of Airflow's plugins; databus_plugin.py is one.")
    ] = Path("plugins"),
    bare: Annotated[bool, typer.Option("--bare", help="Without plugins: every file imports all anew.")] = False,
    results: Results = None,
    output: Output = Format.TABLE,
) -> None:
    """Seconds that Airflow's DAG processor takes over the DAG files of many flows; exit code 1 beyond a bar."""
    if not bare and not plugins.is_dir():
        raise typer.BadParameter(f"{plugins} is no folder; --bare measures without plugins", param_hint="--plugins")
    options = DagFilesOptions(files, processes, None if bare else plugins)
    from databus.bench.dag_files import run

    show(run(options, _say), results, output)


@app.command()
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
    show(run(options, _say, ports_from), results, output)


@app.command()
def metadata(  # noqa: PLR0913, PLR0917 - one parameter per option
    flows: Annotated[int, typer.Option(help="Flows whose DAGs are scheduled.", min=1)] = _METADATA.flows,
    every_seconds: Annotated[int, typer.Option(help="Between two runs of a flow.", min=5)] = _METADATA.every_seconds,
    days: Annotated[float, typer.Option(help="Age of the oldest run.", min=0.01)] = _METADATA.days,
    keep_days: Annotated[float, typer.Option(help="What retention leaves.", min=0)] = _METADATA.keep_days,
    seconds: Annotated[int, typer.Option(help="Time the scheduler is watched, three times.", min=5)] = (
        _METADATA.seconds
    ),
    database: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL of an empty database.", show_default="a PostgreSQL of its own")
    ] = None,
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """A loop of Airflow's scheduler on a month of runs, before and after retention; exit code 1 beyond a bar."""
    from databus.bench.metadata import run

    show(
        run(MetadataOptions(flows, every_seconds, days, keep_days, seconds, database), _say, ports_from),
        results,
        output,
    )


@app.command()
def plane(  # noqa: PLR0913, PLR0917 - one parameter per option
    live: Annotated[int, typer.Option(help="Live flows.", min=0)] = _PLANE.live,
    economy: Annotated[int, typer.Option(help="Economy flows.", min=0)] = _PLANE.economy,
    minutes: Annotated[float, typer.Option(help="How long rows are written.", min=0.1)] = _PLANE.minutes,
    live_row_seconds: Annotated[float, typer.Option(help="Between two rows of a live flow.", min=0.01)] = (
        _PLANE.live_row_seconds
    ),
    economy_row_seconds: Annotated[float, typer.Option(help="Between two rows of an economy flow.", min=0.01)] = (
        _PLANE.economy_row_seconds
    ),
    wake_seconds: Annotated[float, typer.Option(help="Between two wakes of an economy flow, at least.", min=0)] = (
        _PLANE.wake_seconds
    ),
    parallelism: Annotated[int, typer.Option(help="Tasks that Airflow runs at a time.", min=1)] = _PLANE.parallelism,
    plugins: Annotated[Path, typer.Option("--plugins", help="Folder of Airflow's plugins.", exists=True)] = Path(
        "plugins"
    ),
    results: Results = None,
    ports_from: PortsFrom = 22_000,
    output: Output = Format.TABLE,
) -> None:
    """How fresh live and economy flows are side by side under a real Airflow, and their CPU and memory."""
    options = PlaneOptions(live, economy, minutes, live_row_seconds, economy_row_seconds, wake_seconds, parallelism)
    from databus.bench.plane import run

    show(run(options, _say, plugins, ports_from), results, output)


def show(result: Result, results: Path | None, output: Format) -> None:
    """Write the result file, print the table and the line that states the figure; exit code 1 below a bar."""
    path = result.write(results or results_folder())
    if output is Format.TABLE:
        show_rows(result.rows(), ("figure", "value", "bar", "state"), output)
        settings = ", ".join(f"{key} {value}" for key, value in result.settings.items())
        ERR.print(f"settings: {settings}", style="dim", markup=False, soft_wrap=True)
        ERR.print(f"written: {path}", style="dim", markup=False, soft_wrap=True)
        OUT.print(result.line(), markup=False, soft_wrap=True)
    else:
        show_one(result.to_json(), output)
    raise typer.Exit(OK if result.passed else ERROR)


def _seconds(seconds: int | None, minutes: float | None) -> int | None:
    if seconds is not None and minutes is not None:
        raise typer.BadParameter("--seconds and --minutes are the same: give one of them")
    return round(60 * minutes) if minutes is not None else seconds


def _folder(plugins: Path) -> Path | None:
    return plugins.absolute() if plugins.is_dir() else None


def _say(what: str) -> None:
    ERR.print(f"{what} …", style="dim", markup=False)
