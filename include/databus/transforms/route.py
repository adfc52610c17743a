"""Route: name the route of each table's rows, by which sinks pick what they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.selection import java_regex, matches
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols


class Route(TableTransform):
    """Set rows' route by table: `Route({"shop.order*": "orders", "shop.*": "rest"})`; a sink takes the routes it names.

    The first pattern that matches `database.table` wins. TRUNCATE and DDL rows are routed by the table they name.

    Attributes:
        mapping: fnmatch pattern of `database.table` → route, e.g. {"shop.*": "shop"}.
        default: route of all other tables, e.g. "rest"; default None leaves it as it is, at first `database.table`.
    """

    kind: ClassVar[str] = "route"
    by_table: ClassVar[bool] = True

    mapping: dict[str, str] = Field(min_length=1)
    default: str | None = None

    def __init__(self, mapping: dict[str, str] | None = None, /, **options: Any):
        if mapping is not None:
            options["mapping"] = mapping
        super().__init__(**options)

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Set the routes."""
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        def route_of(schema: TableSchema) -> Any | None:
            if not matches(schema.full_name, self.tables):
                return F.col("route")
            found = [route for pattern, route in self.mapping.items() if matches(schema.full_name, (pattern,))]
            return F.lit(found[0]) if found else self._otherwise()

        return changes.with_route(changes.per_table(route_of, otherwise=self._by_name()))

    def reshape(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: a route changes no column."""
        return changes

    def route(self, table: str, route: str) -> str:
        """Return the same route that `transform` sets on the rows of a table, known before any row is read."""
        if not matches(table, self.tables):
            return route
        found = (target for pattern, target in self.mapping.items() if matches(table, (pattern,)))
        return next(found, route if self.default is None else self.default)

    def wants(self) -> ColumnsWanted:
        """Return the tables that are routed, and no column."""
        return ColumnsWanted((), tuple(dict.fromkeys((*self.mapping, *self.tables))))

    def label(self) -> str:
        """Return the routes."""
        return f"route to {', '.join(dict.fromkeys(self.mapping.values()))}"

    def _otherwise(self) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        return F.col("route") if self.default is None else F.lit(self.default)

    def _by_name(self) -> Any:
        """Return the route of rows without a schema: statements, whose tables may have no rows in the batch."""
        from pyspark.sql import functions as F  # noqa: N812

        table = F.concat_ws(".", "database", "table")
        route = self._otherwise()
        for pattern, target in reversed(self.mapping.items()):
            route = F.when(table.rlike(java_regex(pattern)), F.lit(target)).otherwise(route)
        meant = F.lit(False)
        for pattern in self.tables:
            meant |= table.rlike(java_regex(pattern))
        return F.when(meant, route).otherwise(F.col("route"))
