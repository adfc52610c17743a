"""Daemon that Spark's Python workers are forked from, with what tasks import: a worker begins at once.

Spark starts it in place of `pyspark.daemon` where `spark.python.daemon.module` names it, by the name of the workers'
module. Without it each worker imports for two to three CPU seconds as its first task begins, again after a minute
without tasks, and looks at all of these objects for garbage behind each task (0.1 s; `pyspark/daemon.py`, Spark 4.1).
"""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import suppress

NEEDED = (
    "pandas",
    "pyarrow.compute",
    "databus.binlog.segments.store",
    "databus.rows.image_form",
    "databus.runtime.dispatch",
    "databus.runtime.direct.task",
    "databus.runtime.read",
    "databus.sources.mysql.segments.rows",
    "databus.sinks.elasticsearch.direct",
    "databus.sinks.kafka.direct",
    "databus.sinks.kafka.writer",
    "databus.kafka.record_run",
)
"""Modules of tasks."""

_OF_TASKS = "pyspark.worker"
"""Module of the workers that run tasks; those that plan a data source need little, and have a daemon each."""


def load() -> None:
    """Import what tasks need; it is not looked at for garbage any more.

    What cannot be imported, of an extra that is not installed, is left to the task that needs it, which says so.
    """
    for name in NEEDED:
        with suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    if sys.argv[1:] == [_OF_TASKS]:
        load()
    from pyspark.daemon import manager

    manager()
