"""Benchmark of Airflow's scheduler loop on a database with a month of runs, a run a minute, and after retention.

Scheduler, database, migrations and `airflow db clean` are the real ones. Runs of the past are copies of one that this
scheduler has made and ended; tasks are over as soon as they are begun (`metadata_executor`), so that what is measured
is the scheduler with its database, not the machine's room for tasks.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from databus.bench.airflow.dag_files import write_files
from databus.bench.options import MetadataOptions
from databus.bench.processes import fresh_servers
from databus.bench.results import Bar, Result
from databus.core.errors.batch import ReconciliationError
from databus.sandbox.connections import postgres_url

CLEANED = "dag_run,task_instance,task_instance_history,xcom,job,log,asset_event"
"""As docs/retention.md says."""
TASKS = ("preflight", "transfer", "audit")
PHASES = ("new", "full", "kept")
BARS = tuple(
    Bar(f"{phase}_{loops}_p95_seconds", at_most=1.0) for phase in PHASES[1:] for loops in ("loop", "busy_loop")
)


@dataclass(frozen=True)
class Loops:
    """Loops of a scheduler: seconds, and tasks that were handed out in them."""

    all: Sequence[tuple[float, int]]

    @property
    def busy(self) -> list[float]:
        """Seconds of the loops in which a task was handed out."""
        return sorted(seconds for seconds, tasks in self.all if tasks)

    def figures(self, phase: str) -> dict[str, float]:
        """Return percentiles of all loops, and of the busy ones.

        Raises:
            ReconciliationError: no loop handed out a task: the scheduler had nothing to do.
        """
        every = sorted(seconds for seconds, _ in self.all)
        if not self.busy:
            raise ReconciliationError(f"none of {len(every)} loops of the scheduler handed out a task")
        found = {f"{phase}_loops": float(len(every)), f"{phase}_busy_loops": float(len(self.busy))}
        for loops, values in (("loop", every), ("busy_loop", self.busy)):
            for name, share in (("p50", 0.5), ("p95", 0.95)):
                found[f"{phase}_{loops}_{name}_seconds"] = percentile(values, share)
            found[f"{phase}_{loops}_max_seconds"] = values[-1]
        return found


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the sorted values that this share of them does not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def run(options: MetadataOptions, say: Callable[[str], None], ports_from: int = 22_000) -> Result:
    """Make the database, fill it, watch the scheduler on it, apply retention and watch again.

    Raises:
        ReconciliationError: Airflow failed, or a table has not the rows that it must have.
        SandboxError: PostgreSQL did not start.
    """
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="databus-bench-")))
        url = options.database
        if url is None:
            sandbox = stack.enter_context(fresh_servers(("postgres",), say, ports_from))
            url = postgres_url(sandbox.status_of("postgres"))
        return _MetadataBench(options, say, _environment(home, url)).measure(home / "dags")


@dataclass(frozen=True)
class _MetadataBench:
    options: MetadataOptions
    say: Callable[[str], None]
    environment: dict[str, str]

    def measure(self, dags: Path) -> Result:
        """Fill and watch."""
        options, runs = self.options, round(self.options.days * 24 * 3600 / self.options.every_seconds)
        write_files(dags, options.flows, options.every_seconds)
        self.say("making Airflow's database")
        self._ended("airflow", "db", "migrate")
        self._ended("databus.bench.airflow.dag_processor")
        figures = self._watched("new", "an empty database").figures("new")
        self.say(f"filling it with {options.flows} × {runs:,} runs")
        began = time.monotonic()
        before, filled = self._rows(runs)
        fill_s = time.monotonic() - began
        _require(filled, before, options.flows * runs)
        figures |= self._watched("full", f"{filled['dag_run']:,} runs").figures("full")
        self.say(f"airflow db clean, keeping {options.keep_days:g} days")
        began = time.monotonic()
        limit = datetime.now(UTC) - timedelta(days=options.keep_days)
        clean = ("db", "clean", "--yes", "--skip-archive", "--clean-before-timestamp", limit.isoformat())
        self._ended("airflow", *clean, "--tables", CLEANED)
        figures["clean_seconds"] = time.monotonic() - began
        _, kept = self._rows(0)
        if kept["dag_run"] >= filled["dag_run"]:
            raise ReconciliationError(f"airflow db clean left all {kept['dag_run']} runs")
        figures |= self._watched("kept", f"{kept['dag_run']:,} runs").figures("kept")
        figures |= {f"full_{table}_rows": float(rows) for table, rows in filled.items()}
        figures |= {f"kept_{table}_rows": float(rows) for table, rows in kept.items()}
        settings = {
            **{name: getattr(options, name) for name in ("flows", "every_seconds", "days", "keep_days", "seconds")},
            "database": self.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].partition(":")[0],
        }
        return Result("metadata", figures, BARS, settings, {"fill_seconds": fill_s}, "full_busy_loop_p95_seconds")

    def _watched(self, phase: str, what: str) -> Loops:
        self.say(f"{phase}: a scheduler on {what} for {self.options.seconds} s")
        tasks = str(len(TASKS) * self.options.flows)  # each flow has a run due
        said = self._ended("databus.bench.airflow.metadata_scheduler", str(self.options.seconds), tasks)
        return Loops([(seconds, tasks) for seconds, tasks in json.loads(said.splitlines()[-1])])

    def _rows(self, runs: int) -> tuple[dict[str, int], dict[str, int]]:
        said = self._ended("databus.bench.airflow.metadata_history", str(runs), str(self.options.every_seconds))
        before, after = json.loads(said.splitlines()[-1])
        return before, after

    def _ended(self, module: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise ReconciliationError(f"{module} {' '.join(arguments)} failed: {(done.stdout + done.stderr)[-3000:]}")
        return done.stdout


def _require(found: dict[str, int], before: dict[str, int], runs: int) -> None:
    """Compare: each task of a run has two lines of log at least, and one of them a result."""
    tasks = len(TASKS) * runs
    wanted = {"dag_run": runs, "task_instance": tasks, "xcom": runs}
    added: dict[str, Any] = {table: found[table] - before[table] for table in found}
    if any(added[table] != rows for table, rows in wanted.items()) or added["log"] < 2 * tasks:
        raise ReconciliationError(f"the database was to get {wanted}, it got {added}")


def _environment(home: Path, url: str) -> dict[str, str]:
    dags, airflow = home / "dags", home / "airflow"
    dags.mkdir()
    airflow.mkdir()
    settings = {
        "CORE__DAGS_FOLDER": str(dags),
        "CORE__PLUGINS_FOLDER": str(home / "none"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__EXECUTOR": "databus.bench.airflow.metadata_executor.InstantExecutor",
        "API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
        "DATABASE__SQL_ALCHEMY_CONN": url,
        "LOGGING__BASE_LOG_FOLDER": str(airflow / "logs"),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
        "OPENLINEAGE__DISABLED": "True",
    }
    if not url.startswith("sqlite"):
        settings["DATABASE__SQL_ALCHEMY_CONN_ASYNC"] = url  # psycopg speaks both
    return {
        **os.environ, "AIRFLOW_HOME": str(airflow), **{f"AIRFLOW__{key}": value for key, value in settings.items()}
    }  # fmt: skip
