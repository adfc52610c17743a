"""Route: name the route of each table's rows, or of each row, by which sinks pick what they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.chosen import Choice, image_value, names_in
from databus.rows.frames.computing import clear_of
from databus.rows.frames.expression import Expression
from databus.rows.frames.fields import sql_string
from databus.rows.frames.places import MOST_ROUTES, ROUTE_TOLD, ROUTES_NOW, ROUTES_WAS, routes_array
from databus.rows.frames.placing import Placing, Unplacing
from databus.rows.frames.selection import java_regex, matches, named
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols

_SHOWN = 100


class Route(TableTransform):
    """Set rows' route by table or by value: `Route({"shop.order*": "orders"})`; a sink takes the routes it names.

    By table, the first pattern that matches `database.table` wins. TRUNCATE and DDL rows are routed by the table they
    name.

    By value, `Route(by="CASE WHEN region = 'eu' THEN 'eu' ELSE 'us' END", routes=("eu", "us"))`: each route is a view
    of the table. An update that moves a row to another route is a delete with the before-image at the old one and an
    insert with the after-image at the new one, with event ids that end in `.0` and `.1`. A TRUNCATE or DDL row goes to
    each route.

    A row is held back as "route(value)" where the value is none of the routes ("route(***)" where a transform behind
    hides a column of the expression), as "route_lacks(column)" where its images do not say it (`binlog_row_image`
    MINIMAL or NOBLOB), or where it moves and its after-image is not whole, and as "route_flagged(column)" where a value
    is not of its column's type.

    Attributes:
        mapping: fnmatch pattern of `database.table` → route, e.g. {"shop.*": "shop"}; default none, and
            then `by` is required.
        default: route of all other tables, e.g. "rest"; default None leaves it as it is, at first `database.table`.
        by: expression in Spark SQL whose text is the row's route, over the columns of one image, `_database` and
            `_table`, deterministic, e.g. "region"; default None routes by table.
        routes: with `by` the routes that may come, at most 16, e.g. ("eu", "us"): their topics or indices are made
            before the first row. Default none; required with `by`.
        moving: with `by` what an update to another route is: "delete" (default), so that each route holds the rows that
            are of it; "follow": one update at the new route, for topics of events that nobody keeps by key.
    """

    kind: ClassVar[str] = "route"

    mapping: dict[str, str] = Field(default_factory=dict)
    default: str | None = None
    by: str | None = None
    routes: tuple[str, ...] = Field((), max_length=MOST_ROUTES)
    moving: Literal["delete", "follow"] = "delete"

    def __init__(self, mapping: dict[str, str] | None = None, /, **options: Any):
        if mapping is not None:
            options["mapping"] = mapping
        super().__init__(**options)

    @field_validator("by")
    @classmethod
    def _is_of_one_image(cls, value: str | None) -> str | None:
        if value is not None:
            image_value(value)
        return value

    @model_validator(mode="after")
    def _is_by_table_or_by_value(self) -> Route:
        if self.by is None:
            if not self.mapping or self.routes or self.moving != "delete":
                raise ValueError("give a mapping of tables, or by= with routes=; moving= is of routes by value")
        elif self.mapping or self.default is not None or not self.routes:
            raise ValueError("by= wants routes=, the routes that may come, and no mapping or default")
        if len(set(self.routes)) < len(self.routes) or not all(self.routes):
            raise ValueError("routes= names each route once, none empty")
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON, with the options of its form alone, so that earlier hashes stay."""
        other = ("by", "routes", "moving") if self.by is None else ("mapping", "default")
        return {name: value for name, value in super().to_json().items() if name not in other}

    @property
    def by_table(self) -> bool:  # type: ignore[override] # decided by an option of this kind
        """True of a route by table: it looks at no value."""
        return self.by is None

    @property
    def most_copies(self) -> int:
        """Most copies of a row behind it: of a statement one for each route."""
        return 1 if self.by is None else max(2, len(self.routes))

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Set the routes.

        Raises:
            TransformError: the expression names a column that a matching table does not have.
        """
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        if self.by is not None:
            return self._choice.applied(changes)

        def route_of(schema: TableSchema) -> Any | None:
            return F.lit(self._target(schema.full_name)).cast("string")

        return changes.with_route(changes.per_table(route_of, otherwise=self._by_name()))

    def compilable(self) -> bool:
        """Return true, but of a subclass by value: `reshape` may not say all that it does."""
        return self.by is None or type(self) is Route

    def reshape(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: a route changes no column. One by value is noted, and one by table behind it.

        Raises:
            TransformError: the expression names a column that a matching table does not have.
        """
        if not isinstance(changes, FrameChanges):
            return changes
        if self.by is not None:
            return self._choice.noted(self._choice.noted_step(changes, "route", self.routes))
        if not any(isinstance(step, Placing) for step in changes.steps):
            return changes
        routed = (schema.schema_id for schema in changes.tables if self._target(schema.full_name) is not None)
        return changes.with_step(Unplacing(frozenset(routed)))

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes, with the columns noted whose values a route by value shows: it changes none."""
        if self.by is None or not isinstance(changes, FrameChanges):
            return changes
        return self._choice.noted(changes)

    def route(self, table: str, route: str) -> str:
        """Return the same route that `transform` sets on the rows of a table by its name, before any row is read."""
        target = self._target(table) if self.by is None else None
        return route if target is None else target

    def all_routes(self, table: str, route: str) -> tuple[str, ...]:
        """Return all routes that rows of a table may have."""
        if self.by is not None and matches(table, self.tables):
            return self.routes
        return (self.route(table, route),)

    def wants(self) -> ColumnsWanted:
        """Return the tables that are routed; by value with the columns of the expression."""
        if self.by is not None:
            return ColumnsWanted(names_in(self._choice.expressions), self.tables)
        return ColumnsWanted((), tuple(dict.fromkeys((*self.mapping, *self.tables))))

    def judges(self, changes: protocols.Changes, table: TableSchema) -> tuple[str, ...]:
        """Return the columns of the expression."""
        if self.by is None or not isinstance(changes, FrameChanges) or not matches(table.full_name, self.tables):
            return ()
        return tuple(dict.fromkeys(leaf for f in self._choice.judged(changes, table) for leaf in f.leaves()))

    def label(self) -> str:
        """Return the routes, and by which expression."""
        if self.by is None:
            return f"route to {', '.join(dict.fromkeys(self.mapping.values()))}"
        return f"route by {self.by} to {', '.join(self.routes)}"

    def _target(self, table: str) -> str | None:
        """Return the route that is set for a table, None where it stays."""
        if not matches(table, self.tables):
            return None
        found = (target for pattern, target in self.mapping.items() if matches(table, (pattern,)))
        return next(found, self.default)

    @property
    def _choice(self) -> _RouteChoice:
        follows = self.moving == "follow"
        return _RouteChoice(self.label(), self.tables, image_value(self.by or ""), self.routes, follows=follows)

    def _by_name(self) -> Any:
        """Return the route of rows without a schema: statements, whose tables may have no rows in the batch."""
        from pyspark.sql import functions as F  # noqa: N812

        table = F.concat_ws(".", "database", "table")
        route = F.lit(self.default).cast("string")
        for pattern, target in reversed(self.mapping.items()):
            route = F.when(table.rlike(java_regex(pattern)), F.lit(target)).otherwise(route)
        return F.when(named(self.tables), route)


class _RouteChoice(Choice):
    """Choice of the one route that an expression names."""

    def __init__(self, what: str, tables: tuple[str, ...], by: Expression, routes: tuple[str, ...], *, follows: bool):
        super().__init__(Route.kind, what, tables, (by,), (ROUTES_NOW, ROUTES_WAS), follows=follows)
        self._routes = routes

    def applied(self, changes: FrameChanges) -> FrameChanges:
        """Return the changes with the places of their rows; see `Choice`."""
        return self.noted(super().applied(changes))

    def noted(self, changes: FrameChanges) -> FrameChanges:
        """Return the changes with the columns noted whose values the route shows."""
        for schema in changes.tables:
            if self.means(schema):
                changes = changes.with_told(schema, clear_of(changes, schema, self.judged(changes, schema)))
        return changes

    def value(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:
        """Return SQL of an array of the route."""
        return f"array({self._text(changes, schema, image)})"

    def outside(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:
        """Return SQL of "route(value)" where an image names none of the routes."""
        text, known = self._text(changes, schema, image), ", ".join(map(sql_string, self._routes))
        said = f"concat({sql_string(ROUTE_TOLD)}, coalesce(substr({text}, 1, {_SHOWN}), 'NULL'), ')')"
        return f"(CASE WHEN {text} IN ({known}) THEN NULL ELSE {said} END)"

    def of_held(self) -> str:
        """Return SQL of all routes."""
        return routes_array(self._routes)

    def _text(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:
        (found,) = self.bound(changes, schema, image)
        return f"CAST({found} AS STRING)"
