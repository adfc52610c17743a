"""Intermediate columns: values that transforms define, each computed once for the transforms behind to refer to.

A value stands several times in the SQL of what is made of it. Without columns between them, the text would grow
exponentially with the number of transforms, and Spark would plan it for minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import ImageColumns
from databus.rows.frames.fields import Field

_MOST_REWRITES = 1
"""Rewrites of a value that may stand in its text: each may name the text before it more than once."""


def with_intermediate_columns(changes: FrameChanges) -> FrameChanges:
    """Return the changes with columns in their rows for the values that have none yet; without rows as they are."""
    if changes.rows is None:
        return changes
    columns, fields = intermediate_columns(changes)
    if not columns:
        return changes
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    rows = changes.rows.withColumns({name: F.expr(sql) for name, sql in columns.items()})
    return replace(changes, rows=rows, fields=fields, projections=changes.projections + 1)


def intermediate_columns(changes: FrameChanges) -> tuple[dict[str, str], dict[int, tuple[Field, ...]]]:
    """Return the columns of the values that have none yet, and the fields that refer to them.

    Tables share columns of one type: what stands in one of them follows from the row's schema.

    Returns:
        Name → SQL of a column over the rows; schema_id → fields of that table.
    """
    columns = _Columns(changes.projections)
    fields = {
        schema_id: tuple(columns.referring(each, schema_id) for each in present)
        for schema_id, present in changes.fields.items()
    }
    return {name: f"CASE `schema_id`{cases} END" for name, cases in columns.cases.items()}, fields


@dataclass
class _Columns:
    """Columns of one projection.

    Attributes:
        number: of the projection.
        cases: name of a column → its SQL by table.
    """

    number: int
    cases: dict[str, str] = field(default_factory=dict)
    _shared: dict[tuple[str, int], ImageColumns] = field(default_factory=dict)
    _taken: Counter[tuple[int, str]] = field(default_factory=Counter)

    def referring(self, found: Field, schema_id: int) -> Field:
        """Return a field of a table with columns for what has none yet."""
        made = found
        if len(found.rewrites) - found.settled > _MOST_REWRITES:
            texts = self._columns(schema_id, "string", found.typed)
            made = replace(made, texts=texts, settled=len(found.rewrites))
        if found.computed is not None and found.computed.columns is None:
            columns = self._columns(schema_id, found.computed.type, found.computed.value)
            made = replace(made, computed=replace(found.computed, columns=columns))
        return made

    def _columns(self, schema_id: int, spark_type: str, value: Callable[[str], str]) -> ImageColumns:
        stem = f"value_{self.number}_{len(self._shared)}"
        place = spark_type, self._taken[schema_id, spark_type]
        columns = self._shared.setdefault(place, ImageColumns(f"{stem}_before", f"{stem}_after"))
        self._taken[schema_id, spark_type] += 1
        for image, name in (("before", columns.before), ("after", columns.after)):
            self.cases[name] = f"{self.cases.get(name, '')} WHEN {schema_id} THEN {value(image)}"
        return columns
