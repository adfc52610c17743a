"""Delay from a commit at MySQL to a read_committed reader through flows that a real Airflow runs, window after window.

Between two turns the flows are paused and their runs have ended; Airflow itself goes on in Debezium's turns, and
Debezium's worker, without a connector at work, in ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from databus import Flow, Kafka, MysqlBinlog
from databus.bench import delays, turns
from databus.bench.airflow.flows import AirflowFlows, airflow_flows, airflow_options
from databus.bench.airflow.handovers import BatchSpan, told
from databus.bench.freshness import NAME, WITHIN_S, Peer, timed
from databus.bench.loads import Load, TableLoad, create_tables, tables_of
from databus.bench.log_files import LogWriter, log_writer
from databus.bench.options import AirflowFreshnessOptions
from databus.bench.peer import DEFAULTS
from databus.bench.processes import fresh_servers, path_servers
from databus.bench.results import Bar, Result
from databus.bench.turns import SideRun
from databus.sandbox import Sandbox
from databus.sandbox.connections import records_url

HANDOVERS = Bar("handovers", at_least=25)
BARS = (*turns.bars("debezium"), HANDOVERS)
_LONG_S = 1_800
"""The number of hand-overs has a bar in runs of this length."""


def run(options: AirflowFreshnessOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and measure.

    Raises:
        ReconciliationError: a flow lost or repeated a row.
        SandboxError: a server, a run of Airflow or the peer failed.
    """
    servers = path_servers(debezium=options.debezium)
    with fresh_servers(
        servers, say, ports_from, lambda home: airflow_options(home, options.flows, options.plugins)
    ) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: AirflowFreshnessOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers, to which Airflow comes."""
    tables = tables_of(options.flows)
    theirs: list[SideRun] = []
    with log_writer(sandbox, "mysql") as writer:
        create_tables(writer.connection, tables)
        flows = live_flows(writer, tables)
        load = TableLoad(writer.connection, tables, options.rows_per_second, options.rows_per_transaction)
        peer = Peer(sandbox, load, tables) if options.debezium else None
        say("starting Airflow")
        with airflow_flows(sandbox, flows, options.window) as running:
            ours = OurTurns(sandbox, running, load, sandbox.address("kafka"), [flow.name for flow in flows])
            for turn in range(options.turns):
                if peer is not None:
                    say(f"Debezium, turn {turn + 1}")
                    theirs.append(peer.turn(options.peer_seconds))
                    say(theirs[-1].told("Debezium"))
                say(f"our path, turn {turn + 1}")
                say(ours.take(options.seconds).told("our path"))
    settings = asdict(options) | {"plugins": options.plugins is not None, "debezium_settings": DEFAULTS}
    return ours.result("freshness_airflow", "debezium", theirs, settings, BARS)


class OurTurns:
    """Turns of flows that Airflow runs, and what the records show of them.

    Args:
        sandbox: the servers.
        running: the flows.
        load: what they move.
        bootstrap: brokers of their topics.
        names: of the flows, and of the topics unless `topics` says otherwise.
        topics: where the rows arrive.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        running: AirflowFlows,
        load: Load,
        bootstrap: str,
        names: Sequence[str],
        topics: Sequence[str] = (),
    ) -> None:
        self._sandbox, self._running, self._load = sandbox, running, load
        self._bootstrap, self._names, self._topics = bootstrap, names, topics or names
        self._turns: list[SideRun] = []
        self._spans: list[tuple[float, float]] = []

    def take(self, seconds: float) -> SideRun:
        """Let Airflow run the flows until they follow, time a turn, and let the runs end.

        Raises:
            SandboxError: a run failed, or the flows do not follow.
        """
        with self._running.going():
            delays.until_followed(self._load, self._bootstrap, self._topics, WITHIN_S, self._running.require_well)
            began = time.time()
            turn = timed(self._load, self._bootstrap, self._topics, seconds, self._running.meters())
            self._spans.append((began, time.time()))
        self._turns.append(turn)
        return turn

    def told(self) -> BatchSpan:
        """Return what the records show of all turns."""
        return told(records_url(self._sandbox.home), self._names, self._spans)

    def result(
        self, name: str, peer: str, theirs: Sequence[SideRun], settings: Mapping[str, Any], bars: Sequence[Bar]
    ) -> Result:
        """Return the result.

        Args:
            name: of the benchmark.
            peer: of the other side.
            theirs: its turns.
            settings: sizes and options.
            bars: that of the hand-overs is left out in short runs.

        Raises:
            ReconciliationError: a row was lost or came twice.
        """
        turns.require_once(self._turns)
        records = self.told()
        figures = turns.compared(peer, self._turns, theirs) | records.figures()
        details = {
            "ours": turns.details(self._turns),
            peer: turns.details(theirs),
            "stages_ms": records.stages(),
            "batches": records.batches,
            "rows_per_batch": records.rows / max(1, records.batches),
            "handover_gaps_s": records.gaps_s,
            "handovers_at": records.at,
        }
        long = sum(end - begin for begin, end in self._spans) >= _LONG_S
        wanted = [bar for bar in bars if long or bar is not HANDOVERS]
        more = {"spark": "Connect", "kafka": "one broker a cluster, acks=all", "airflow": "LocalExecutor, SQLite"}
        return Result(name, turns.rounded(figures), wanted, {**settings, **more}, details, "p50_s")


def live_flows(writer: LogWriter, tables: Sequence[str]) -> list[Flow]:
    """Return a live flow for each table, from the log's present end on."""
    file, position = writer.run("SHOW MASTER STATUS")[0][:2]
    names = [NAME] if len(tables) == 1 else [f"{NAME}_{number}" for number in range(1, len(tables) + 1)]
    return [
        Flow(
            name=name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=(table,), start=f"{file}:{position}"),
            sinks=(Kafka(conn_id="kafka_east", topic=name, tombstones=False),),
            mode="live",
        )
        for name, table in zip(names, tables, strict=True)
    ]
