"""Our path from the binlog to Kafka, timed: the whole run on Spark Connect, exactly once."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Literal

from databus import (
    AcceptedValues,
    AddColumn,
    Batching,
    Filter,
    Flow,
    Hash,
    InRange,
    Kafka,
    Mask,
    MysqlBinlog,
    NotNull,
    __version__,
)
from databus.bench.processes import CpuMeter
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.report import BatchReport
from databus.core.settings import Settings
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.spark.session import connect_session
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections

_CHECKS = (
    NotNull(column="customer_id"),
    NotNull(column="title", severity="warn"),
    InRange(column="amount", minimum=0, maximum="9999999.99"),
    InRange(column="score", minimum=0, maximum=1e12),
    InRange(column="created_at", minimum="2024-01-01", severity="warn"),
    AcceptedValues(column="status", values=("new", "paid", "shipped", "done", "cancelled")),
)
"""Six expectations over a number, a decimal, a double, a moment and two texts; one of them warns of every 23rd row."""

_TRANSFORMS = (
    Filter("amount >= 0 AND status <> 'lost' OR customer_id IS NULL"),
    Mask(columns=("title",)),
    Hash(columns=("code",)),
    AddColumn(gross="CAST(amount * 1.19 AS decimal(14,2))"),
)
"""A filter, two ways to hide a value and a computed column; all rows pass, so that their messages can be counted."""


@dataclass(frozen=True)
class PathForm:
    """Form of our path, beside the plain one.

    Attributes:
        transforms: with a Filter that all rows pass, a Mask and a Hash.
        avro: messages in Avro, with the sandbox's registry.
        lane: "spark" for DataFrames.
    """

    transforms: bool = False
    avro: bool = False
    lane: Literal["auto", "spark"] = "auto"


@dataclass(frozen=True)
class OurRun:
    """Result of one run of our flow.

    Attributes:
        rows: row changes read.
        bytes: log bytes of them.
        batches: committed batches.
        seconds: from the call to the last commit, without the time in which the source had nothing new.
        cpu_seconds: of the Spark server with its Python workers, and of the driver.
        stages_ms: time per stage of the path, over all batches.
        rss_mb: memory of Spark and its workers at the end.
    """

    rows: int
    bytes: int
    batches: int
    seconds: float
    cpu_seconds: float
    stages_ms: dict[str, int]
    rss_mb: float


class OurPath:
    """Runs flows from bench.orders on the servers of a sandbox (zookeeper, kafka, mysql, spark)."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._connections = EnvironmentConnections(airflow_connections(sandbox.status()))
        self._settings = settings_of(sandbox)
        self._spark = connect_session(f"sc://{sandbox.address('spark')}", f"bench/{os.getpid()}")
        self._server = next(s.pid for s in sandbox.status() if s.name == "spark")

    def close(self) -> None:
        """End the Spark session while its server is there."""
        self._spark.stop()

    def run(
        self, name: str, start: str, *, batch_rows: int, checks: bool = False, form: PathForm | None = None
    ) -> OurRun:
        """Move the log from a place to its head into the topic `name`, one message per row change."""
        form = form or PathForm()
        registry: dict[str, Any] = {"format": "avro", "registry_conn_id": "schema_registry_default"}
        flow = Flow(
            name=name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=("bench.orders",), start=start),
            transforms=_TRANSFORMS if form.transforms else (),
            checks=_CHECKS if checks else (),
            sinks=(Kafka(conn_id="kafka_east", topic=name, tombstones=False, **(registry if form.avro else {})),),
            lane=form.lane,
            batching=Batching(max_rows=batch_rows, max_bytes=1 << 30),
        )
        return self.timed(flow)

    def timed(self, flow: Flow, *, snapshot: bool = False) -> OurRun:
        """Run a flow until it has caught up.

        Args:
            flow: the flow.
            snapshot: take the time until the last chunk of its snapshot was committed, with all that a start takes.
        """
        stages: list[dict[str, float]] = []
        chunks_until = float("nan")

        def note(report: BatchReport) -> None:
            nonlocal chunks_until
            stages.append(dict(report.durations_ms))
            if report.plan.chunks is not None:
                chunks_until = time.perf_counter()

        control = WindowControl(WindowLimits(max_seconds=3600, until_caught_up=True, lease_wait_s=0), on_batch=note)
        with open_services(flow, self._connections, self._settings) as services:
            meter, began = CpuMeter([self._server or 0], own=True), time.perf_counter()
            result = run_flow(flow, services, self._spark, RunIdentity("bench", "", __version__), control)
            seconds, cpu = time.perf_counter() - began, meter.seconds()
        summary = {key: round(sum(s.get(key, 0) for s in stages)) for key in {k: 0 for s in stages for k in s}}
        return OurRun(
            result.rows,
            result.bytes,
            result.batches,
            chunks_until - began if snapshot else seconds - _idle_s(stages, seconds),
            cpu,
            summary,
            round(meter.peak_rss_mb()),
        )


def settings_of(sandbox: Sandbox) -> Settings:
    """Return the settings of an installation whose stores are in the sandbox's home."""
    home = sandbox.home
    return Settings("bench", str(home / "segments"), f"sqlite:///{home / 'records.db'}")


def _idle_s(stages: list[dict[str, Any]], seconds: float) -> float:
    """Return the time after the last batch in which the window only found out that the log had ended."""
    return max(0.0, seconds - sum(sum(s.values()) for s in stages) / 1000)
