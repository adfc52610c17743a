"""Benchmark of Airflow's DAG processor over the DAG files of many flows: it reads them and stores their DAGs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from databus.bench.options import DagFilesOptions
from databus.bench.results import Bar, Result
from databus.core.errors.batch import ReconciliationError

BARS = (Bar("first_pass_seconds", at_most=10.0), Bar("second_pass_seconds", at_most=10.0))

QUIET = " ".join(
    f"{name}=WARNING"
    for name in ("airflow.dag_processing.dagbag", "airflow.models.dag", "airflow.serialization.definitions.dag")
)
"""Airflow's processor wakes for each line that a fork logs, and asks its database three times then; and it writes five
lines of its own for each file (ADR 31)."""

_FILE = '''"""Flow {number} of many."""

from datetime import timedelta

from databus import DropColumns, Flow, Kafka, MysqlBinlog, NotNull
from databus.airflow import flow_dag

flow = Flow(
    name="flow_{number:03}",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders_{number:03}",), start="earliest"),
    transforms=(DropColumns("card_number"),),
    checks=(NotNull("customer_id"),),
    sinks=(Kafka(conn_id="kafka_east", topic="cdc.orders_{number:03}"),),
    mode="{mode}",
)
dag = flow_dag(flow, every=timedelta(seconds={every_s}))
'''
_LIVE = 5
"""So many flows are live; the rest are economy flows."""


def write_files(folder: Path, files: int, every_s: float = 60) -> None:
    """Write the DAG files of so many flows, with a run each `every_s` seconds."""
    for number in range(1, files + 1):
        text = _FILE.format(number=number, mode="live" if number <= _LIVE else "economy", every_s=every_s)
        (folder / f"flow_{number:03}.py").write_text(text, encoding="utf-8")


def run(options: DagFilesOptions, say: Callable[[str], None]) -> Result:
    """Let a DAG processor of this Airflow go over the files twice: once it stores the DAGs, once it finds them.

    Raises:
        ReconciliationError: Airflow failed, or has not all DAGs afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        home, dags = Path(folder) / "airflow", Path(folder) / "dags"
        home.mkdir()
        dags.mkdir()
        write_files(dags, options.files)
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "none"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": options.database or f"sqlite:///{home / 'airflow.db'}",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": str(options.processes),
            "AIRFLOW__LOGGING__NAMESPACE_LEVELS": QUIET,
        }
        say("making Airflow's database")
        _ended([sys.executable, "-m", "airflow", "db", "migrate"], environment)
        say(f"two passes over {options.files} DAG files")
        found = json.loads(
            _ended([sys.executable, "-m", "databus.bench.airflow.dag_processor"], environment).splitlines()[-1]
        )
    # Each file makes a flow's DAG and its backfill DAG.
    if found["dags"] != 2 * options.files or found["import_errors"]:
        raise ReconciliationError(f"Airflow has {found['dags']} DAGs of {options.files} files: {found}")
    return result(options, found)


def result(options: DagFilesOptions, found: dict[str, Any]) -> Result:
    """Return the figures of two passes."""
    first, second = found["passes"]
    figures = {
        "first_pass_seconds": first["seconds"],
        "second_pass_seconds": second["seconds"],
        "parse_cpu_ms_per_file": 1000 * second["parse_cpu_seconds"] / options.files,
        "store_cpu_ms_per_file": 1000 * second["own_cpu_seconds"] / options.files,
    }
    settings = {
        "files": options.files,
        "processes": options.processes,
        "namespace_levels": QUIET,
    }
    details = {"passes": found["passes"], "dags": found["dags"], "database": found["database"]}
    return Result("dag_files", figures, BARS, settings, details, "first_pass_seconds")


def _ended(argv: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReconciliationError(f"{' '.join(argv[2:])} failed: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
