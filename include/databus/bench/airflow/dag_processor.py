"""Two passes of Airflow's DAG processor, as `airflow dag-processor --num-runs 1` makes one; prints what they took."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any


def _passed(job: Any) -> dict[str, float]:
    from airflow.dag_processing.manager import DagFileProcessorManager
    from airflow.jobs.dag_processor_job_runner import DagProcessorJobRunner

    runner = DagProcessorJobRunner(job=job, processor=DagFileProcessorManager(max_runs=1))
    began, own, parsing = time.perf_counter(), time.process_time(), _children()
    runner.processor.run()
    ended = {
        "seconds": time.perf_counter() - began,
        "own_cpu_seconds": time.process_time() - own,
        "parse_cpu_seconds": _children() - parsing,
    }
    runner.processor.terminate()
    runner.processor.end()
    return ended


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the passes, and what Airflow's database has afterwards, as one line of JSON."""
    from airflow.jobs.job import Job
    from airflow.models.dag import DagModel
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    job = Job()
    passes = [_passed(job), _passed(job)]
    with create_session() as session:
        found = {
            "passes": passes,
            "dags": session.scalar(select(func.count()).select_from(DagModel).where(~DagModel.is_stale)),
            "import_errors": session.scalar(select(func.count()).select_from(ParseImportError)),
            "database": session.get_bind().dialect.name,
        }
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
