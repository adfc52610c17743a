"""Chains of transforms in Spark's lane: what Spark plans of them grows with their length, and not exponentially."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from databus import AddColumn, Filter, Flow, Lookup, Mask, Mock, Noop
from databus.core.flow_specs import TransformSpec
from databus.rows.frames.changes import FrameChanges
from databus.testing.table_batches import table

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
