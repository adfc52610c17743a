"""Row checks in the direct lane: judged on decoded columns, where the rows are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from databus.checks.row_check import RowCheck
from databus.core.batches.receipts import RejectedRow
from databus.core.flow import Flow
from databus.core.state.plan import SourcePlan
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.violation_bits import MARKS, MOST_CHECKS
from databus.runtime.check import row_checks

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.violations import ImageMarks


def without_rows(flow: Flow, planned: SourcePlan) -> FrameChanges:
    """Return the columns of a plan's tables as the flow's transforms, all of them by table, leave them.

    Raises:
        TransformError: what the transform raises in the other lane too.
    """
    fields = {schema.schema_id: fields_of(schema) for schema in planned.tables}
    changes = FrameChanges(None, planned.tables, fields, hidden=Hidden())
    for spec in flow.transforms:
        changes = spec.reshape(changes)  # type: ignore[assignment] # the only implementation
    return changes


def can_mark(flow: Flow, planned: SourcePlan) -> bool:
    """Return whether all row checks of a flow can be judged where a plan's rows are read.

    A check that fails the batch is not among them: it has to see all rows before the first one is dispatched.

    Raises:
        ConfigError: a check names a column that its table does not have.
    """
    checks = row_checks(flow)
    if len(checks) > MOST_CHECKS or not all(isinstance(c, RowCheck) and c.severity != "fail" for c in checks):
        return False
    changes = without_rows(flow, planned)
    for schema in planned.tables:
        columns = {column.name: column for column in schema.columns}
        for check in cast("Sequence[RowCheck]", checks):
            name = check.source_column(changes, schema)
            if name is not None and not check.reads(columns[name]):
                return False
    return True


def image_marks(flow: Flow, planned: SourcePlan) -> ImageMarks | None:
    """Return what marks the images of a plan; None for a flow without row checks. Asked only where `can_mark`.

    Raises:
        ConfigError: a check names a column that its table does not have.
    """
    from databus.rows.violations import ImageMarks

    checks = cast("Sequence[RowCheck]", row_checks(flow))
    if not checks:
        return None
    changes = without_rows(flow, planned)
    found = {}
    for schema in planned.tables:
        named = ((bit, check.source_column(changes, schema), check) for bit, check in enumerate(checks))
        found[schema.schema_id] = tuple((bit, name, check) for bit, name, check in named if name is not None)
    return ImageMarks(found)


def holding(flow: Flow) -> int:
    """Return the bits of the checks that hold a row back."""
    return sum(1 << bit for bit, check in enumerate(row_checks(flow)) if check.severity == "quarantine")


def held_rows(flow: Flow, rows: pa.RecordBatch) -> list[RejectedRow]:
    """Return rows of the direct lane as the quarantine keeps them."""
    from databus.rows.image_form import PLAIN  # loads kernels, which a task with rows has

    names = [check.check_name for check in row_checks(flow)]
    images = PLAIN if PLAIN.keys() <= set(rows.schema.names) else ("before", "after")
    wanted = ("event_id", "database", "table", "key", MARKS, "log", "place", "op", *images)
    return [
        RejectedRow(
            event_id,
            f"{database}.{table}",
            None if key is None else key.decode(),
            ", ".join(name for bit, name in enumerate(names) if marks >> bit & 1),
            "check",
            f"{file}:{position}",
            f'{{"op":{json.dumps(op)},"before":{_json(before)},"after":{_json(after)}}}',
        )
        for event_id, database, table, key, marks, file, position, op, before, after in zip(
            *(rows[name].to_pylist() for name in wanted), strict=True
        )
    ]


def _json(image: bytes | None) -> str:
    return "null" if image is None else image.decode()
