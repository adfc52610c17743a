"""`python -m tests.bench`: binlog to Kafka through the whole path on Spark, exactly once, on servers of its own."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pymysql

from databus import Batching, Flow, Kafka, MysqlBinlog, NotNull, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.demo.consumers import topic_records
from databus.ops.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.engine import connect_session
from databus.runtime.window import WindowControl, WindowLimits
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.accounts import ROOT
from databus.sandbox.connections import airflow_connections
from tests.bench import orders
from tests.bench.cpu import cpu_seconds, difference

BAR_ROWS_PER_S = 20_000
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run the benchmark, write its result file, and return 1 below the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1_000_000, help="row changes to move")
    parser.add_argument("--batch-rows", type=int, default=500_000, help="row changes in a batch")
    parser.add_argument("--checks", action="store_true", help="with two row checks")
    parser.add_argument("--lane", choices=("auto", "spark"), default="auto", help="the flow's lane")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        sandbox = Sandbox(home, ports_from=22_000, options=SandboxOptions())
        try:
            sandbox.up(("zookeeper", "kafka", "mysql", "spark"))
            figures = measure(sandbox, home, options)
        finally:
            sandbox.destroy()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "binlog_to_kafka.json").write_text(json.dumps(figures, indent=2) + "\n")
    rate = figures["rows_per_second"]
    passed = rate >= BAR_ROWS_PER_S and figures["messages"] == figures["rows"]
    sys.stdout.write(
        f"binlog → Kafka, exactly once: {rate:,.0f} rows/s over {figures['rows']:,} rows"
        f" ({figures['seconds']} s; bar {BAR_ROWS_PER_S:,}): {'passed' if passed else 'FAILED'}\n"
    )
    return 0 if passed else 1


def measure(sandbox: Sandbox, home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Load the table, warm the engine with a small flow, then time a flow from first byte to last commit."""
    host, port = sandbox.address("mysql").split(":")
    connection = pymysql.connect(host=host, port=int(port), user=ROOT.user, password="", autocommit=True)
    orders.create(connection)
    warm_up = sum(orders.load(connection, 5_000).values())
    with connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
    connections = EnvironmentConnections(airflow_connections(sandbox.status()))
    settings = Settings("bench", str(home / "segments"), f"sqlite:///{home / 'records.db'}")
    spark = connect_session(f"sc://{sandbox.address('spark')}", f"bench/{os.getpid()}")

    def run(name: str, start: str) -> tuple[float, Any, list[dict[str, float]]]:
        flow = Flow(
            name=name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=("bench.orders",), start=start),
            checks=(NotNull("customer_id"), NotNull("amount", severity="warn")) if options.checks else (),
            sinks=(Kafka(conn_id="kafka_east", topic=name, tombstones=False),),
            batching=Batching(max_rows=options.batch_rows, max_bytes=1 << 30),
            lane=options.lane,
        )
        stages: list[dict[str, float]] = []
        limits = WindowLimits(max_seconds=600, until_caught_up=True, lease_wait_s=0)
        control = WindowControl(limits, on_batch=lambda report: stages.append(dict(report.durations_ms)))
        with open_services(flow, connections, settings) as services:
            began = time.perf_counter()
            result = run_flow(flow, services, spark, RunIdentity("bench", "", __version__), control)
            return time.perf_counter() - began, result, stages

    run("warm_up", "earliest")
    counts = orders.load(connection, options.changes)
    before = cpu_seconds(sandbox)
    seconds, result, stages = run("timed", f"{file}:{position}")
    spent = difference(before, cpu_seconds(sandbox))
    idle_s = flow_idle_s(stages, seconds)
    messages = sum(1 for _ in topic_records(sandbox.address("kafka"), "timed"))
    moved = sum(counts.values())
    return {
        "rows": moved,
        "messages": messages,
        "log_bytes": result.bytes,
        "batches": result.batches,
        "seconds": round(seconds - idle_s, 2),
        "rows_per_second": round(moved / (seconds - idle_s)),
        "cpu_seconds": spent,
        "rows_per_cpu_second": round(moved / sum(spent.values())),
        "stages_ms": {name: round(sum(s[name] for s in stages)) for name in stages[0]},
        "warm_up_rows": warm_up,
        "driver_peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "settings": {
            "batch_rows": options.batch_rows,
            "checks": options.checks,
            "lane": options.lane,
            "spark": "Connect, local[2]",
        },
        "hardware": {"cores": os.cpu_count(), "machine": platform.machine(), "system": platform.platform()},
        "versions": {name: version(name) for name in ("pyspark", "confluent-kafka", "pyarrow", "numba")},
    }


def flow_idle_s(stages: list[dict[str, float]], seconds: float) -> float:
    """Return the time after the last batch in which the window only found out that the log had ended."""
    return max(0.0, seconds - sum(sum(s.values()) for s in stages) / 1000)


if __name__ == "__main__":
    sys.exit(main())
