"""Row checks in the direct lane: judged on decoded columns, where the rows are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from databus.checks.row_check import RowCheck
from databus.core.batches.receipts import CHECK, RejectedRow
from databus.core.flow import Flow
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.violation_bits import HELD_FOR_SINK, MARKS, MOST_CHECKS, UNJUDGED
from databus.runtime.check import row_checks

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.violations import ImageMarks


def without_rows(flow: Flow, tables: Sequence[TableSchema]) -> FrameChanges:
    """Return columns and steps of tables as the flow's transforms leave them.

    Of those for Spark alone too, which concern tables of Spark's lane and say what they make of columns.

    Raises:
        TransformError: what the transform raises in the other lane too.
    """
    fields = {schema.schema_id: fields_of(schema) for schema in tables}
    changes = FrameChanges(None, tuple(tables), fields, hidden=Hidden())
    for spec in flow.transforms:
        after = spec.reshape if spec.compilable() else spec.columns_after
        changes = after(changes)  # type: ignore[assignment] # the only implementation
    return changes


def unmarked(flow: Flow, *tables: TableSchema) -> str:
    """Say why some row check of a flow cannot be judged where rows of tables are read, "" where all can.

    A check that fails the batch is not among those that can: it has to see all rows before the first one is dispatched.

    Raises:
        ConfigError: a check names a column that its table does not have.
    """
    checks = row_checks(flow)
    if len(checks) > MOST_CHECKS:
        return f"it has more than {MOST_CHECKS} row checks"
    for each in checks:
        if not isinstance(each, RowCheck) or each.severity == "fail":
            fails = 'its severity is "fail"' if each.severity == "fail" else "its kind is judged by Spark alone"
            return f"check {each.check_name} sees rows in Spark: {fails}"
    changes = without_rows(flow, tables)
    for schema in tables:
        columns = {column.name: column for column in schema.columns}
        for check in cast("Sequence[RowCheck]", checks):
            field = check.field(changes, schema)
            if field is not None and not check.reads(columns[field.source] if field.stored else field.column):
                return f"check {check.check_name} compares a {field.column.type} in a way that Spark alone can"
    return ""


def image_marks(flow: Flow, planned: SourcePlan) -> ImageMarks | None:
    """Return what marks the images of a plan; None for a flow without row checks. Asked only where none is `unmarked`.

    Raises:
        ConfigError: a check names a column that its table does not have.
    """
    from databus.rows.violations import ImageMarks

    checks = cast("Sequence[RowCheck]", row_checks(flow))
    if not checks:
        return None
    changes = without_rows(flow, planned.tables)
    found: dict[int, tuple[tuple[int, str, RowCheck], ...]] = {}
    at_source: dict[int, frozenset[int]] = {}
    for schema in planned.tables:
        fields = [(bit, check.field(changes, schema), check) for bit, check in enumerate(checks)]
        seen = [(bit, field, check) for bit, field, check in fields if field is not None]
        found[schema.schema_id] = tuple((bit, field.source, check) for bit, field, check in seen)
        at_source[schema.schema_id] = frozenset(bit for bit, field, _ in seen if field.stored)
    return ImageMarks(found, at_source)


def holding(flow: Flow) -> int:
    """Return the bits of the checks that hold a row back."""
    return sum(1 << bit for bit, check in enumerate(row_checks(flow)) if check.severity == "quarantine")


def held_rows(flow: Flow, rows: pa.RecordBatch, sink: str = "") -> list[RejectedRow]:
    """Return rows of the direct lane as the quarantine keeps them.

    Args:
        flow: the flow.
        rows: the rows.
        sink: name of the sink whose own transforms hold them back; "" where checks or the flow's transforms do.
    """
    from databus.rows.image_form import PLAIN  # loads kernels, which a task with rows has

    names = [check.check_name for check in row_checks(flow)]
    images = PLAIN if PLAIN.keys() <= set(rows.schema.names) else ("before", "after")
    wanted = ("event_id", "database", "table", "key", "log", "place", "op", *images)
    causes = rows[HELD_FOR_SINK].to_pylist() if sink else _causes(names, rows)
    return [
        RejectedRow(
            event_id,
            f"{database}.{table}",
            None if key is None else key.decode(),
            cause,
            sink or CHECK,
            f"{file}:{position}",
            f'{{"op":{json.dumps(op)},"before":{_json(before)},"after":{_json(after)}}}',
        )
        for cause, event_id, database, table, key, file, position, op, before, after in zip(
            causes, *(rows[name].to_pylist() for name in wanted), strict=True
        )
    ]


def _causes(names: Sequence[str], rows: pa.RecordBatch) -> list[str]:
    """Return the violated checks of each row, then why a filter could not judge it."""
    n = rows.num_rows
    marks = rows[MARKS].to_pylist() if MARKS in rows.schema.names else [0] * n
    unjudged = rows[UNJUDGED].to_pylist() if UNJUDGED in rows.schema.names else [None] * n
    return [
        ", ".join([*(name for bit, name in enumerate(names) if mark >> bit & 1), *((why,) if why else ())])
        for mark, why in zip(marks, unjudged, strict=True)
    ]


def _json(image: bytes | None) -> str:
    return "null" if image is None else image.decode()
