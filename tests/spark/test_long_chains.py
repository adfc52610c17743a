"""Chains of transforms in Spark's lane: what Spark plans of them grows with their length, and not exponentially."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from databus import AddColumn, Filter, Flow, Lookup, Mask, Mock, Noop
from databus.core.flow_specs import TransformSpec
from databus.rows.frames.changes import FrameChanges
from databus.runtime import check
from databus.testing.table_batches import batch, table

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

COLUMNS = {"id": "int", "status": "varchar(9)", "region": "varchar(9)", "amount": "decimal(12,2)"}
TABLES = tuple(table(f"shop.t{number}", COLUMNS, schema_id=number) for number in range(3))
FLOW = Flow(name="chains", source=Mock(rows=1), transforms=(), sinks=(Noop(),))


def link(number: int) -> list[TransformSpec]:
    """Return a filter, a mask and a lookup over what those before them left."""
    last = f"x{number - 1}" if number else "status"
    return [
        AddColumn({f"x{number}": f"concat({last}, region)"}),
        Filter(f"amount > 3 OR x{number} <> 'new'"),
        Mask(f"x{number}", keep_last=1),
        Lookup(f"x{number}", {"***w": "1"}, into=f"y{number}", missing="hold"),
    ]


def planned(rows: Any) -> int:
    """Return the size of what Spark's optimizer makes of rows: characters of the plan with all of its expressions."""
    return len(rows._jdf.queryExecution().optimizedPlan().toJSON())


def rows_through(changes_of: Build, specs: list[TransformSpec]) -> Any:
    r = random.Random(7)
    batches = []
    for each in TABLES:
        images = [
            {"id": k, "status": r.choice(["new", "old"]), "region": r.choice([None, "north"]), "amount": r.randrange(9)}
            for k in range(4)
        ]
        batches.append(batch(each, [(None, images[0]), (images[1], images[2]), (images[3], None)]))
    changes = changes_of(*batches)
    for spec in specs:
        changes = spec.apply(changes)  # type: ignore[assignment] # the protocol's one implementation
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    return check.check(FLOW, changes, F.lit(True))


def test_each_transform_adds_to_the_plan_what_the_one_before_added(changes_of: Build) -> None:
    """The plan of all rows, and that of the rows that are held back."""
    from pyspark.sql import functions as F  # noqa: N812

    whole, held = [], []
    for links in range(4):
        rows = rows_through(changes_of, [spec for number in range(links) for spec in link(number)])
        whole.append(planned(rows.select("event_id", "before", "after", "state")))
        held.append(planned(check.picked(rows, F.col("state") == "quarantined").select("event_id", "after")))
    for sizes in (whole, held):
        steps = [after - before for before, after in pairwise(sizes)]
        assert steps[2] <= 1.5 * steps[1], sizes
