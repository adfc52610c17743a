"""Python workers of Spark are forked from a daemon that has what tasks import."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from databus.runtime.spark.worker_daemon import NEEDED

pytestmark = pytest.mark.spark


def loaded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say what this worker had before it met rows, and how many objects it looks at for garbage."""
    told = json.dumps([sorted({*NEEDED} & {*sys.modules}), gc.get_freeze_count(), len(gc.get_objects())])
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"told": pa.array([told])})


def test_a_worker_has_what_tasks_need_and_does_not_look_at_it_for_garbage(spark: Any) -> None:
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(loaded, "told string").collect()
    modules, frozen, seen = json.loads(row["told"])
    assert modules == sorted(NEEDED)
    assert seen < frozen / 2
