"""Binlog to Kafka: our path, exactly once, and Debezium on the same log, one after the other on the same servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from databus.bench import orders
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.options import E2EOptions
from databus.bench.our_path import OurPath, OurRun
from databus.bench.peer import PeerRun
from databus.bench.processes import fresh_servers, path_servers
from databus.bench.results import Bar, Result
from databus.bench.variants import PLAIN, Peers, figures_of, variants_of
from databus.core.errors.batch import ReconciliationError
from databus.sandbox import Sandbox

BARS = (
    Bar("rows_per_second", at_least=100_000),
    Bar("ratio_to_debezium", at_least=1.5),
    Bar("ratio_to_debezium_rows_per_cpu_second", at_least=2.0),
    Bar("checks_cost_percent", at_most=15),
)


def run(options: E2EOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, write the log, and move it.

    Raises:
        ReconciliationError: a topic of ours does not hold exactly the row changes that were made.
        SandboxError: a server or the peer failed.
    """
    servers = path_servers(debezium=options.debezium, registry=options.avro)
    with fresh_servers(servers, say, ports_from) as sandbox, closing(OurPath(sandbox)) as ours:
        return measure(sandbox, ours, options, say)


def measure(sandbox: Sandbox, ours: OurPath, options: E2EOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers, whose MySQL has written nothing else."""
    variants = variants_of(options)
    with log_writer(sandbox, "mysql") as writer:
        orders.create(writer.connection)
        say(f"warming up with {options.warm_up:,} row changes")
        warm = sum(orders.load(writer.connection, options.warm_up).values())
        peers = Peers(sandbox, [PLAIN, *(variant.peer for variant in variants)]) if options.debezium else None
        ours.run("warm_up", "earliest", batch_rows=options.batch_rows)
        for variant in variants:
            ours.run(f"warm_up_{variant.name}", "earliest", batch_rows=options.batch_rows, form=variant.ours)
        if peers is not None:
            peers.warm_up(warm)
        start = head(writer)
        say(f"MySQL writes {options.changes:,} row changes")
        rows = sum(orders.load(writer.connection, options.changes).values())
    say("our path")
    plain = reconciled(sandbox, "plain", ours.run("plain", start, batch_rows=options.batch_rows), rows)
    figures: dict[str, float] = {
        "rows_per_second": rows / plain.seconds,
        "rows_per_cpu_second": rows / plain.cpu_seconds,
    }
    say(told("our path", rows, plain))
    details: dict[str, Any] = {"rows": rows, "warm_up_rows": warm, "ours": asdict(plain)}
    checked: OurRun | None = None
    if options.checks:
        checked, cost = with_checks(sandbox, ours, start, options, plain, say)
        details["ours_with_checks"] = asdict(checked)
        details["cpu_seconds_without_and_with_checks"] = [[p.cpu_seconds, c.cpu_seconds] for p, c in cost]
        figures["with_checks_rows_per_second"] = rows / checked.seconds
        figures["with_checks_rows_per_cpu_second"] = rows / checked.cpu_seconds
        figures["checks_cost_percent"] = cost_percent(cost)
    done: dict[str, OurRun] = {}
    for variant in variants:
        say(f"our path {variant.said}")
        found = ours.run(variant.name, start, batch_rows=options.batch_rows, form=variant.ours)
        done[variant.name] = reconciled(sandbox, variant.name, found, rows)
        say(told(f"our path {variant.said}", rows, found))
        details[f"ours_{variant.name}"] = asdict(found)
    theirs: dict[str, PeerRun] = {} if peers is None else beside(peers, rows, say)
    if peers is not None:
        # At least once: after the restart it may repeat some of the warm-up, so that it is done that much too early.
        details["debezium_repeated_rows"] = {name: run.rows - rows for name, run in theirs.items()}
        details["debezium"] = {name: asdict(run) for name, run in theirs.items()}
        details["debezium_settings"] = peers.settings
        figures |= compared(rows, plain, checked, theirs[PLAIN])
    for variant in variants:
        figures |= figures_of(variant, rows, done[variant.name], plain, theirs.get(variant.peer))
    settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "one broker, one partition, acks=all"}
    rounded = {key: float(f"{value:.4g}") for key, value in figures.items()}
    return Result(
        "e2e", rounded, BARS, settings, details, "ratio_to_debezium" if peers is not None else "rows_per_second"
    )


def with_checks(
    sandbox: Sandbox, ours: OurPath, start: str, options: E2EOptions, plain: OurRun, say: Callable[[str], None]
) -> tuple[OurRun, list[tuple[OurRun, OurRun]]]:
    """Return the first run with row checks, and the runs (without, with them) of all rounds."""
    rows = plain.rows
    say("our path with row checks")
    found = ours.run("checked", start, batch_rows=options.batch_rows, checks=True)
    checked = reconciled(sandbox, "checked", found, rows)
    say(told("our path with row checks", rows, checked))
    pairs = [(plain, checked)]
    for number in range(2, options.rounds + 1):
        say(f"round {number}")
        runs: dict[str, OurRun] = {}
        for name in ("checked", "plain") if number % 2 == 0 else ("plain", "checked"):
            topic = f"{name}_{number}"
            found = ours.run(topic, start, batch_rows=options.batch_rows, checks=name == "checked")
            runs[name] = reconciled(sandbox, topic, found, rows)
        pairs.append((runs["plain"], runs["checked"]))
    return checked, pairs


def beside(peers: Peers, rows: int, say: Callable[[str], None]) -> dict[str, PeerRun]:
    """Return how each of the peers moved the log."""
    found: dict[str, PeerRun] = {}
    for name in peers.settings:
        say(f"Debezium ({name})")
        found[name] = peers.run(name, rows)
        say(told(f"Debezium ({name})", rows, found[name]))
    return found


def cost_percent(pairs: Sequence[tuple[OurRun, OurRun]]) -> float:
    """Return what checks add to the CPU seconds of our path, over pairs of runs without and with them, in percent."""
    return 100 * (sum(c.cpu_seconds for _, c in pairs) / sum(p.cpu_seconds for p, _ in pairs) - 1)


def compared(rows: int, plain: OurRun, checked: OurRun | None, theirs: PeerRun) -> dict[str, float]:
    """Return the peer's figures, and ours over them: in wall time and in rows per CPU-second."""
    found = {
        "debezium_rows_per_second": rows / theirs.seconds,
        "debezium_rows_per_cpu_second": rows / theirs.cpu_seconds,
        "ratio_to_debezium": theirs.seconds / plain.seconds,
        "ratio_to_debezium_rows_per_cpu_second": theirs.cpu_seconds / plain.cpu_seconds,
    }
    if checked is not None:
        found["with_checks_ratio_to_debezium"] = theirs.seconds / checked.seconds
        found["with_checks_ratio_to_debezium_rows_per_cpu_second"] = theirs.cpu_seconds / checked.cpu_seconds
    return found


def told(who: str, rows: int, found: OurRun | PeerRun) -> str:
    """Say a run's rates in a line."""
    return f"{who}: {rows / found.seconds:,.0f} rows/s, {rows / found.cpu_seconds:,.0f} rows per CPU-second"


def head(writer: LogWriter) -> str:
    """Return where a server's log ends, as a flow's start."""
    file, position = writer.run("SHOW MASTER STATUS")[0][:2]
    return f"{file}:{position}"


def reconciled(sandbox: Sandbox, topic: str, run_: OurRun, rows: int, known: int = 0) -> OurRun:
    """Return the run, if the topic holds exactly the rows for a consumer that reads what was committed.

    Args:
        sandbox: the servers.
        topic: where they were sent.
        run_: what was done.
        rows: row changes that were made.
        known: messages that were in the topic before.
    """
    from databus.demo.consumers import topic_records

    messages = sum(1 for _ in topic_records(sandbox.address("kafka"), topic)) - known
    if not messages == run_.rows == rows:
        raise ReconciliationError(
            f"{rows} row changes were made, {run_.rows} read, {messages} are in the topic {topic}"
        )
    return run_
