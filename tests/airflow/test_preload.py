"""What is imported before an Airflow process forks: what tasks need where they are forked, and nothing that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_TOLD = """
import json, sys, threading
import psutil
sys.argv = ["airflow", sys.argv[1]]
from databus.airflow.preload import on_starting
on_starting(None)
heavy = ("great_expectations", "pyspark.sql.connect.session", "confluent_kafka", "pyarrow", "numba",
         "numba.cpython.charseq", "pymysql", "databus.checkpoints.zookeeper")
me = psutil.Process()
sockets = [c for c in me.net_connections(kind="all") if c.raddr]
docs = sys.modules.get("databus.records.quality.data_docs")
templates = len(docs.page_view().env.cache) if docs else 0
print(json.dumps([[m for m in heavy if m in sys.modules], threading.active_count(), len(sockets), templates]))
"""


def told(role: str, executor: str, home: Path) -> Any:
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__EXECUTOR": executor}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _TOLD, role],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("role", "executor", "engines", "pages"),
    [
        ("scheduler", "LocalExecutor", 8, True),
        ("scheduler", "CeleryExecutor", 0, False),
        ("triggerer", "LocalExecutor", 0, False),
    ],
)
def test_a_scheduler_whose_executor_forks_tasks_has_what_they_need(
    role: str, executor: str, engines: int, *, pages: bool, tmp_path: Path
) -> None:
    modules, threads, sockets, templates = told(role, executor, tmp_path)
    assert (len(modules), threads, sockets, templates > 20) == (engines, 1, 0, pages)
