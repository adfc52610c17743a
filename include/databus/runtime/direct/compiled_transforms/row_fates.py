"""Fates of decoded rows at a compiled condition: the same that `databus.rows.frames.leaving` spells in Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import DELETE, INSERT, READ, UPDATE
from databus.core.events import Op
from databus.rows.row_program import FILTERED, FatedRows, RowPlaces
from databus.runtime.direct.compiled_transforms.batch_images import FAILURES, BatchImages, Mask, picked_values
from databus.runtime.direct.compiled_transforms.column_programs import ColumnProgram
from databus.runtime.direct.compiled_transforms.row_holding import TableHolding
from databus.runtime.direct.compiled_transforms.row_places import TablePlacing

if TYPE_CHECKING:
    from databus.runtime.direct.compiled_transforms.compiled_sql import CompiledSql

Rows = npt.NDArray[np.int64]

_OPS = {INSERT: Op.CREATE, UPDATE: Op.UPDATE, DELETE: Op.DELETE, READ: Op.READ, FILTERED: Op.FILTERED}
_LETTERS = pa.array([_OPS[number].value for number in range(len(_OPS))])
_LOST = {Op.CREATE: "before", Op.DELETE: "after"}
"""Image that a row of an operation does not have."""


@dataclass(frozen=True)
class TableCondition:
    """Condition of a filter on one table, compiled.

    Attributes:
        compiled: the condition.
        columns: what its inputs are: a column, or the name of a column of the row shape ("op", "ts_ms", …).
        judged: the columns that it names without a qualifier, with their present names.
        leaving: whether an update that leaves becomes a delete, and one that enters an insert.
        computed: whether it names a computed column: such a value may be NULL for what its row is held back for.
    """

    compiled: CompiledSql
    columns: Mapping[tuple[str, str], ColumnProgram | str]
    judged: tuple[tuple[ColumnProgram, str], ...]
    leaving: bool
    computed: bool = False

    @property
    def of_one_image(self) -> bool:
        """Flag of a condition that one image alone decides."""
        return all(
            image == "row" and (isinstance(column, ColumnProgram) or column in ("database", "table"))
            for (_, image), column in self.columns.items()
        )


@dataclass(frozen=True)
class TableUnplacing:
    """Route by table behind a choice by value: rows have the one that it names."""


TableStep = TableCondition | TableHolding | TablePlacing | TableUnplacing


def judged(steps: Sequence[TableStep], images: BatchImages, rows: FatedRows) -> FatedRows:
    """Return the rows after a table's filters, what else holds rows back, and what places them.

    What a filter leaves out is still seen by the next one, as in Spark's lane.
    """
    op, before, after = rows.op.copy(), rows.before.copy(), rows.after.copy()
    left_out = np.zeros(len(op), np.bool_)
    causes: dict[int, str] = {}
    places: RowPlaces | None = None
    for each in steps:
        if isinstance(each, TableUnplacing):
            if places is not None:
                first = np.ones(len(op), np.int32)
                places = replace(places, routes_now=first, routes_was=first)
            continue
        if isinstance(each, TablePlacing):
            passed = left_out | (op == FILTERED)
            passed[list(causes)] = True
            state = FatedRows(rows.change, op, before, after, places=places)
            places, found = each.placed(images, state, passed, left_out)
            causes = found | causes
            continue
        if isinstance(each, TableHolding):
            here = (np.where(left_out, np.int32(-1), side) for side in (before, after))
            causes = each.causes(images, *here) | causes
            continue
        held = np.zeros(len(op), np.bool_)
        if each.computed:
            held[list(causes)] = True
        step = _RowsAtCondition(each, images, FatedRows(rows.change, op, before, after), held)
        left, unjudged, deleted, inserted = step.fates()
        for row in np.flatnonzero(unjudged & ~held).tolist():
            causes.setdefault(row, step.cause(row))
        left_out |= left
        op = np.where(deleted, np.int8(DELETE), np.where(inserted, np.int8(INSERT), op))
        after = np.where(deleted, np.int32(-1), after)
        before = np.where(inserted, np.int32(-1), before)
    op = np.where(left_out, np.int8(FILTERED), op)
    before, after = (np.where(left_out, np.int32(-1), side) for side in (before, after))
    told = None
    if causes:
        told = pa.array([causes.get(row) for row in range(len(op))], pa.string())
    return FatedRows(rows.change, op, before, after, told, places)


@dataclass
class _RowsAtCondition:
    condition: TableCondition
    images: BatchImages
    rows: FatedRows
    held: Mask
    _of_images: Mask | None = None

    def fates(self) -> tuple[Mask, Mask, Mask, Mask]:
        """Return which rows are left out, cannot be judged, become deletes, become inserts."""
        op, before, after = self.rows.op, self.rows.before, self.rows.after
        n = len(op)
        alive = op != FILTERED
        lacks = np.zeros(n, np.bool_)
        for column, _ in self.condition.judged:
            carried = self.images.carried(column)
            lacks |= ~carried[after] & ~carried[before]
        lacks = (lacks | self.held) & alive
        reached = alive & ~lacks
        self._look_at_images(reached)
        kept = self._true(reached, "row", None)
        deleted, inserted, unsure = (np.zeros(n, np.bool_) for _ in range(3))
        if self.condition.leaving:
            crosses = reached & (op == UPDATE) & (before >= 0) & (after >= 0)
            lacked = np.zeros(n, np.bool_)
            for column, _ in self.condition.judged:
                lacked |= ~self.images.carried(column)[before]
            # A kept update whose before-image lacks a column stays an update: the row that it leaves behind is right.
            told = crosses & ~lacked
            was = self._true(told, "before", None)
            inserted = self._true(told & kept & ~was, "row", Op.CREATE)
            deleted = self._true(told & ~kept & was, "before", Op.DELETE)
            unsure = crosses & ~kept & lacked
        left = ~alive | (reached & ~kept & ~unsure & ~deleted)
        return left, lacks | unsure, deleted, inserted

    def cause(self, row: int) -> str:
        """Return why a row cannot be judged: "filter_lacks(amount, status)"."""
        op, before, after = int(self.rows.op[row]), int(self.rows.before[row]), int(self.rows.after[row])
        both = self.condition.leaving and op == UPDATE and before >= 0 and after >= 0
        lacking = []
        for column, name in self.condition.judged:
            carried = self.images.carried(column)
            if not carried[before] and (both or not carried[after]):
                lacking.append(name)
        return f"filter_lacks({', '.join(lacking)})"

    def _look_at_images(self, reached: Mask) -> None:
        """Judge each image once, where that says all; what fails for an image is left to the rows that reach it."""
        batch = self.images.batch
        whole = all(self.images.carried(column)[:-1].all() for column, _ in self.condition.judged)
        if not (self.condition.of_one_image and whole and reached.any()):
            return
        count = batch.images.num_rows
        try:
            columns = {
                at: self.images.values(column) if isinstance(column, ColumnProgram) else self._constant(column, count)
                for at, column in self.condition.columns.items()
            }
            self._of_images = np.append(_mask(self.condition.compiled.evaluate(columns, count)), False)
        except FAILURES:
            self._of_images = None

    def _true(self, rows: Mask, image: str, as_op: Op | None) -> Mask:
        """Return where the condition is true, of these rows.

        Args:
            rows: those that are judged; an error of the others is none.
            image: image that columns without a qualifier are read from.
            as_op: operation as which the rows are judged.
        """
        at = np.flatnonzero(rows)
        found = np.zeros(len(rows), np.bool_)
        if not len(at):
            return found
        if self._of_images is not None:
            before, after = self.rows.before[at], self.rows.after[at]
            found[at] = self._of_images[before if image == "before" else np.where(after >= 0, after, before)]
            return found
        lost = _LOST[as_op] if as_op else None
        columns = {}
        for (name, qualifier), column in self.condition.columns.items():
            read = image if qualifier == "row" else qualifier
            columns[name, qualifier] = (
                self._shape(column, at, as_op)
                if isinstance(column, str)
                else self._column(column, at, None if qualifier == lost else read)
            )
        found[at] = _mask(self.condition.compiled.evaluate(columns, len(at)))
        return found

    def _column(self, column: ColumnProgram, at: Rows, image: str | None) -> pa.Array:
        if image is None:
            return pa.nulls(len(at), self.images.type_of(column))
        return picked_values(self.images, column, self.rows.before[at], self.rows.after[at], image)

    def _shape(self, name: str, at: Rows, as_op: Op | None) -> pa.Array:
        if name == "op":
            return pa.repeat(pa.scalar(as_op.value), len(at)) if as_op else _LETTERS.take(pa.array(self.rows.op[at]))
        if name == "ts_ms":
            transactions = self.images.transactions
            if transactions is None:
                raise AssertionError("rows are judged without their transactions")
            return pa.array(transactions.ts_ms[self.images.batch.transaction[self.rows.change[at]]])
        return self._constant(name, len(at))

    def _constant(self, name: str, rows: int) -> pa.Array:
        schema = self.images.batch.schema
        return pa.repeat(pa.scalar({"database": schema.database, "table": schema.table}[name]), rows)


def _mask(found: pa.Array) -> Mask:
    if pa.types.is_null(found.type):
        return np.zeros(len(found), np.bool_)
    return np.asarray(pc.fill_null(found, False)).astype(np.bool_, copy=False)
