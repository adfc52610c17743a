"""Python workers of Spark are forked from a daemon that has what tasks import."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from databus.runtime.spark.worker_daemon import NEEDED

pytestmark = pytest.mark.spark


def loaded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say what this worker has of what tasks need, and how many objects it does not look at for garbage."""
    told = json.dumps([sorted({*NEEDED} & {*sys.modules}), gc.get_freeze_count()])
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"told": pa.array([told])})


def test_a_worker_comes_from_a_daemon_that_has_what_tasks_need(spark: Any) -> None:
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(loaded, "told string").collect()
    modules, frozen = json.loads(row["told"])
    assert modules == sorted(NEEDED)
    assert frozen


def test_a_worker_that_begins_looks_at_few_objects_for_garbage() -> None:
    """A worker that has run tasks looks at theirs, too: this is asked of one that has run none."""
    script = (
        "import gc; from databus.runtime.spark.worker_daemon import load; load(); "
        "print(gc.get_freeze_count(), len(gc.get_objects()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    frozen, seen = map(int, done.stdout.split())
    assert seen < frozen / 2
