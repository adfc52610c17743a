"""Benchmark of an idle flow: a live one that goes on, an economy one that looks once and ends.

Without Airflow: what each run's preflight, successor and audit cost is measured by `airflow_idle`.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from databus.bench.freshness import flow_folder, run_command, running
from databus.bench.loads import create_tables
from databus.bench.log_files import log_writer
from databus.bench.options import IdleOptions
from databus.bench.processes import CpuMeter, fresh_servers
from databus.bench.results import Result
from databus.core.errors.config import SandboxError
from databus.sandbox import Sandbox

_SERVERS = ("zookeeper", "kafka", "mysql", "spark")
_FIRST_S = 10.0
"""Until a run has connected, claimed the lease and found nothing."""


def run(options: IdleOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Start the servers and measure; nothing is written meanwhile.

    Raises:
        SandboxError: a server or a run failed.
    """
    with fresh_servers(_SERVERS, say, ports_from) as sandbox:
        return measure(sandbox, options, say)


def measure(sandbox: Sandbox, options: IdleOptions, say: Callable[[str], None]) -> Result:
    """Measure on running servers."""
    spark = next(server.pid or 0 for server in sandbox.status() if server.name == "spark")
    with log_writer(sandbox, "mysql") as writer:
        create_tables(writer.connection)
        folder = flow_folder(sandbox.home, writer)
    looks, servers = [], []
    for number in range(options.runs):
        say(f"an economy run, {number + 1} of {options.runs}")
        meter, before = CpuMeter([spark]), _children()
        _one_look(sandbox, folder)
        looks.append(_children() - before)
        servers.append(meter.seconds())
    say(f"a live run, watched for {options.seconds} s")
    with running(sandbox, folder) as process:
        time.sleep(_FIRST_S)
        meter, server, began = CpuMeter([process.pid]), CpuMeter([spark]), time.monotonic()
        time.sleep(options.seconds)
        minutes = (time.monotonic() - began) / 60
        live, at_server = meter.seconds() / minutes, server.seconds() / minutes
    figures = {
        "live_cpu_seconds_per_minute": live,
        "live_spark_cpu_seconds_per_minute": at_server,
        # The first look makes the flow's nodes.
        "economy_cpu_seconds_per_run": min(looks),
        "economy_spark_cpu_seconds_per_run": min(servers),
    }
    settings = {"runs": options.runs, "seconds": options.seconds, "spark": "Connect, local[2]"}
    rounded = {key: round(value, 3) for key, value in figures.items()}
    return Result("idle", rounded, (), settings, {"looks": looks}, "live_cpu_seconds_per_minute")


def _one_look(sandbox: Sandbox, folder: Path) -> None:
    command, environment = run_command(sandbox, folder)
    done = subprocess.run([*command, "--until-caught-up"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(f"a run ended with {done.returncode}: {done.stderr[-1500:]}")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
