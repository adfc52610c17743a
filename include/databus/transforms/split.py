"""Split: send each row to all routes whose condition it satisfies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.chosen import Choice, image_value, names_in
from databus.rows.frames.expression import Expression
from databus.rows.frames.fields import sql_string
from databus.rows.frames.places import MOST_ROUTES, ROUTES_NOW, ROUTES_WAS, routes_array
from databus.rows.frames.selection import matches
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols


class Split(TableTransform):
    """Send rows to several routes by conditions: `Split({"big": "amount > 1000", "all": "true"})`.

    Each route is a view of the table, as behind a `Filter`: an update that leaves a condition is a delete with the
    before-image in its route, one that enters it an insert with the after-image, whatever it is in the others. A row
    that satisfies none is filtered. TRUNCATE and DDL rows go to each route.

    A row that goes to several routes is one record in each, with event ids that end in `.0`, `.1` and so on; a sink
    that takes several of the routes gets as many records of the change. It is read, counted and held back once.

    A row is held back as "split_lacks(column)" where its images do not hold a column of a condition
    (`binlog_row_image` MINIMAL or NOBLOB), or where it enters a condition and its after-image is not whole, and as
    "split_flagged(column)" where a value is not of its column's type.

    Attributes:
        conditions: route → boolean expression in Spark SQL over the columns of one image, `_database` and `_table`,
            deterministic, e.g. {"big": "amount > 1000"}; at most 16. Their topics or indices are made before the first
            row.
    """

    kind: ClassVar[str] = "split"

    conditions: dict[str, str] = Field(min_length=1, max_length=MOST_ROUTES)

    def __init__(self, conditions: dict[str, str] | None = None, /, **options: Any):
        if conditions is not None:
            options["conditions"] = conditions
        super().__init__(**options)

    @field_validator("conditions")
    @classmethod
    def _are_of_one_image(cls, value: dict[str, str]) -> dict[str, str]:
        for route, condition in value.items():
            if not route:
                raise ValueError("a route has a name")
            image_value(condition)
        return value

    @property
    def most_copies(self) -> int:
        """Most copies of a row behind it: one for each route."""
        return max(2, len(self.conditions))

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Set the routes.

        Raises:
            TransformError: a condition names a column that a matching table does not have.
        """
        return self._choice.applied(changes)

    def compilable(self) -> bool:
        """Return true, but of a subclass: `reshape` may not say all that it does."""
        return type(self) is Split

    def reshape(self, changes: protocols.Changes) -> protocols.Changes:
        """Note the conditions.

        Raises:
            TransformError: a condition names a column that a matching table does not have.
        """
        if not isinstance(changes, FrameChanges):
            return changes
        return self._choice.noted_step(changes, "split", sorted(self.conditions))

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: it changes no column."""
        return changes

    def all_routes(self, table: str, route: str) -> tuple[str, ...]:
        """Return all routes that rows of a table may have, in the order of copies."""
        return tuple(sorted(self.conditions)) if matches(table, self.tables) else (route,)

    def wants(self) -> ColumnsWanted:
        """Return the columns in the conditions, which each table that is meant must have."""
        return ColumnsWanted(names_in(self._choice.expressions), self.tables)

    def judges(self, changes: protocols.Changes, table: TableSchema) -> tuple[str, ...]:
        """Return the columns in the conditions."""
        if not isinstance(changes, FrameChanges) or not matches(table.full_name, self.tables):
            return ()
        return tuple(dict.fromkeys(leaf for field in self._choice.judged(changes, table) for leaf in field.leaves()))

    def label(self) -> str:
        """Return the routes with their conditions."""
        return f"split to {', '.join(f'{route} ({condition})' for route, condition in self.conditions.items())}"

    @property
    def _choice(self) -> _SplitChoice:
        return _SplitChoice(  # sorted: stored flows have their options in another order
            self.label(),
            self.tables,
            {route: image_value(condition) for route, condition in sorted(self.conditions.items())},
        )


class _SplitChoice(Choice):
    """Choice of all routes whose conditions an image satisfies."""

    def __init__(self, what: str, tables: tuple[str, ...], conditions: dict[str, Expression]):
        super().__init__(Split.kind, what, tables, tuple(conditions.values()), (ROUTES_NOW, ROUTES_WAS))
        self._routes = tuple(conditions)

    def value(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:
        """Return SQL of an array of the routes."""
        bound = zip(self._routes, self.bound(changes, schema, image), strict=True)
        each = ", ".join(
            f"CASE WHEN coalesce({condition}, false) THEN {sql_string(route)} END" for route, condition in bound
        )
        return f"filter(array({each}), r -> r IS NOT NULL)"

    def of_held(self) -> str:
        """Return SQL of all routes."""
        return routes_array(self._routes)
