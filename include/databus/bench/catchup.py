"""A backlog cleared after an outage: a flow that was stopped takes up its checkpoint, and Debezium its offset."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from typing import Any

from databus.bench import orders
from databus.bench.e2e import compared, head, reconciled, told
from databus.bench.log_files import log_writer
from databus.bench.options import CatchupOptions
from databus.bench.our_path import OurPath
from databus.bench.peer import SETTINGS, DebeziumPeer
from databus.bench.processes import fresh_servers, path_servers
from databus.bench.results import Bar, Result
from databus.core.errors.batch import ReconciliationError
from databus.sandbox import Sandbox

HOUR_ROWS = 3600 * 5_000
"""An hour at 5,000 rows/s."""

BARS = (Bar("hour_at_5000_rows_per_s_cleared_in_s", at_most=300), Bar("ratio_to_debezium", at_least=1.5))
_PEER_WITHIN_S = 7200.0


def run(options: CatchupOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers, make a backlog, and clear it.

    Raises:
        ReconciliationError: the topic does not hold exactly the row changes that were made.
        SandboxError: a server or the peer failed.
    """
    servers = path_servers(debezium=options.debezium)
    with fresh_servers(servers, say, ports_from) as sandbox, closing(OurPath(sandbox)) as ours:
        return measure(sandbox, ours, options, say)


def measure(sandbox: Sandbox, ours: OurPath, options: CatchupOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers without a flow `backlog`; for the peer their MySQL must have written nothing else."""
    with log_writer(sandbox, "mysql") as writer:
        start = head(writer)
        orders.create(writer.connection)
        say(f"both move {options.warm_up:,} row changes, then stop")
        warm = sum(orders.load(writer.connection, options.warm_up).values())
        peer = DebeziumPeer(sandbox) if options.debezium else None
        ours.run("backlog", start, batch_rows=options.batch_rows)
        if peer is not None:
            peer.catch_up(warm, _PEER_WITHIN_S)
            peer.stop()
        say(f"MySQL writes a backlog of {options.backlog:,} row changes")
        rows = sum(orders.load(writer.connection, options.backlog).values())
    say("our flow resumes")
    found = ours.run("backlog", start, batch_rows=options.batch_rows)
    if found.rows != rows:
        raise ReconciliationError(f"the backlog has {rows} row changes, the flow that resumed read {found.rows}")
    # The first run read the tables' DDL too, which is no message here.
    reconciled(sandbox, "backlog", found, rows, known=warm)
    say(told("our flow", rows, found))
    figures: dict[str, float] = {
        "cleared_in_s": found.seconds,
        "rows_per_second": rows / found.seconds,
        "hour_at_5000_rows_per_s_cleared_in_s": HOUR_ROWS * found.seconds / rows,
    }
    details: dict[str, Any] = {"rows": rows, "warm_up_rows": warm, "ours": asdict(found)}
    if peer is not None:
        say("Debezium resumes")
        theirs = peer.catch_up(warm + rows, _PEER_WITHIN_S, known=warm)
        say(told("Debezium", rows, theirs))
        details |= {"debezium_repeated_rows": theirs.rows - rows}
        details |= {"debezium": asdict(theirs), "debezium_settings": SETTINGS}
        figures |= {"debezium_cleared_in_s": theirs.seconds, **compared(rows, found, None, theirs)}
    settings = asdict(options) | {"spark": "Connect, local[2]", "kafka": "one broker, one partition, acks=all"}
    rounded = {key: float(f"{value:.4g}") for key, value in figures.items()}
    return Result("catchup", rounded, BARS, settings, details, "hour_at_5000_rows_per_s_cleared_in_s")
