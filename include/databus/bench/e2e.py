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
from databus.bench.peer import SETTINGS, DebeziumPeer, PeerRun
from databus.bench.processes import fresh_servers, path_servers
from databus.bench.results import Bar, Result
from databus.core.errors.batch import ReconciliationError
from databus.sandbox import Sandbox

BARS = (
    Bar("rows_per_second", at_least=100_000),
    Bar("ratio_to_debezium", at_least=1.5),
    Bar("ratio_to_debezium_rows_per_cpu_second", at_least=2.0),
    Bar("checks_cost_percent", at_most=15),
)
_PEER_WITHIN_S = 1800.0


def run(options: E2EOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, write the log, and move it.

    Raises:
        ReconciliationError: a topic of ours does not hold exactly the row changes that were made.
        SandboxError: a server or the peer failed.
    """
    servers = path_servers(debezium=options.debezium)
    with fresh_servers(servers, say, ports_from) as sandbox, closing(OurPath(sandbox)) as ours:
        return measure(sandbox, ours, options, say)


def measure(sandbox: Sandbox, ours: OurPath, options: E2EOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers, whose MySQL has written nothing else."""
    with log_writer(sandbox, "mysql") as writer:
        orders.create(writer.connection)
        say(f"warming up with {options.warm_up:,} row changes")
        warm = sum(orders.load(writer.connection, options.warm_up).values())
        peer = DebeziumPeer(sandbox) if options.debezium else None
        ours.run("warm_up", "earliest", batch_rows=options.batch_rows)
        if peer is not None:
            peer.catch_up(warm, _PEER_WITHIN_S)
            peer.stop()
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
        say("our path with row checks")
        found = ours.run("checked", start, batch_rows=options.batch_rows, checks=True)
        checked = reconciled(sandbox, "checked", found, rows)
        say(told("our path with row checks", rows, checked))
        details["ours_with_checks"] = asdict(checked)
        figures["with_checks_rows_per_second"] = rows / checked.seconds
        figures["with_checks_rows_per_cpu_second"] = rows / checked.cpu_seconds
        pairs = [(plain, checked)]
        for number in range(2, options.rounds + 1):
            say(f"round {number}")
            runs: dict[str, OurRun] = {}
            for name in ("checked", "plain") if number % 2 == 0 else ("plain", "checked"):
                topic = f"{name}_{number}"
                found = ours.run(topic, start, batch_rows=options.batch_rows, checks=name == "checked")
                runs[name] = reconciled(sandbox, topic, found, rows)
            pairs.append((runs["plain"], runs["checked"]))
        figures["checks_cost_percent"] = cost_percent(pairs)
        details["cpu_seconds_without_and_with_checks"] = [[p.cpu_seconds, c.cpu_seconds] for p, c in pairs]
    if changed := with_transforms(sandbox, ours, start, options, rows, say):
        details["ours_with_transforms"] = asdict(changed)
        figures |= beside_plain(rows, plain, changed)
    if peer is not None:
        say("Debezium")
        theirs = peer.catch_up(warm + rows, _PEER_WITHIN_S, known=warm)
        say(told("Debezium", rows, theirs))
        # At least once: after the restart it may repeat some of the warm-up, so that it is done that much too early.
        details |= {"debezium_repeated_rows": theirs.rows - rows}
        details |= {"debezium": asdict(theirs), "debezium_settings": SETTINGS}
        figures |= compared(rows, plain, checked, theirs)
        figures |= {} if changed is None else {"with_transforms_ratio_to_debezium": theirs.seconds / changed.seconds}
    settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "one broker, one partition, acks=all"}
    rounded = {key: float(f"{value:.4g}") for key, value in figures.items()}
    return Result(
        "e2e", rounded, BARS, settings, details, "ratio_to_debezium" if peer is not None else "rows_per_second"
    )


def with_transforms(
    sandbox: Sandbox, ours: OurPath, start: str, options: E2EOptions, rows: int, say: Callable[[str], None]
) -> OurRun | None:
    """Move the log once more with transforms that look at values, which all rows pass; None where it is not asked."""
    if not options.transforms:
        return None
    say("our path with transforms")
    found = ours.run("changed", start, batch_rows=options.batch_rows, transforms=True)
    changed = reconciled(sandbox, "changed", found, rows)
    say(told("our path with transforms", rows, changed))
    return changed


def beside_plain(rows: int, plain: OurRun, changed: OurRun) -> dict[str, float]:
    """Return the figures of a run with transforms, and its rates over those of the plain one."""
    return {
        "with_transforms_rows_per_second": rows / changed.seconds,
        "with_transforms_rows_per_cpu_second": rows / changed.cpu_seconds,
        "with_transforms_ratio_to_plain": plain.seconds / changed.seconds,
        "with_transforms_cpu_ratio_to_plain": plain.cpu_seconds / changed.cpu_seconds,
    }


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
