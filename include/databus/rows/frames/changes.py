"""Rows on their way through transforms and checks: one DataFrame for all tables, with a typed view of each.

Works over classic and Spark Connect DataFrames: nothing here needs more than `pyspark.sql.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from databus.core.errors.batch import TransformError
from databus.core.events import Op
from databus.core.tables.schemas import TableSchema
from databus.rows.frames.expression import PSEUDO_COLUMNS, Expression
from databus.rows.frames.fields import Field, Rewrite, field_named, fields_of, sql_string
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.holding import Holding
from databus.rows.frames.leaving import LEFT_OUT, UNJUDGED, Condition
from databus.rows.frames.places import PLACES, ROUTE_TOLD, ROUTES_NOW, ROUTES_WAS
from databus.rows.frames.placing import Placing, Unplacing

IMAGES = ("before", "after", "row")
"""Image that a column is read from; "row" is the after-image where it holds the column, else the before-image."""

_FATE = "fate"


@dataclass(frozen=True)
class RowKey:
    """Chosen key of a table's records.

    Attributes:
        fields: its columns, as they were when it was chosen.
        clear: stored names of the columns whose values no transform had hidden by then.
    """

    fields: tuple[Field, ...]
    clear: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FrameChanges:
    """Rows plus what is known of their columns. Make one with `of`.

    Attributes:
        rows: DataFrame of `ROW_COLUMNS`, `route` (string, `database.table` at first), `filtered` (boolean) and
            `unjudged` (string, why a transform holds the row back; NULL where none does).
        tables: schemas as the transforms so far left them: renamed, dropped, rewritten columns.
        fields: schema_id → its columns and where each is stored.
        edited: schema_ids whose stored images no longer match their fields.
        steps: on changes without rows, what filters and other transforms let rows meet, and where they place them, in
            order; with rows, these have met it.
        compared: whether who made it says itself which columns no table has.
        hidden: where transforms note which columns they hide; None where nobody asks.
        told: schema_id → stored names of columns in clear whose values a cause shows for which a row is held back.
        keys: schema_id → the key that a transform chose for the table's records; others have the source's.
        by_value: whether rows have the columns of `places.PLACES`: a transform chose routes or keys by value.
        projections: number of times that rows have got intermediate columns (`intermediate`), which names them.
    """

    rows: Any
    tables: tuple[TableSchema, ...]
    fields: Mapping[int, tuple[Field, ...]]
    edited: frozenset[int] = frozenset()
    steps: tuple[Condition | Holding | Placing | Unplacing, ...] = ()
    compared: bool = False
    hidden: Hidden | None = field(default=None, compare=False, repr=False)
    by_value: bool = False
    projections: int = 0
    keys: Mapping[int, RowKey] = field(default_factory=dict)
    told: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Any, tables: Sequence[TableSchema]) -> FrameChanges:
        """Start with the rows of a source; `tables` are the schemas that `schema_id` points to."""
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        rows = rows.withColumn("route", F.concat_ws(".", "database", "table")).withColumn("filtered", F.lit(False))
        rows = rows.withColumn("unjudged", F.lit(None).cast("string"))
        fields = {schema.schema_id: fields_of(schema) for schema in tables}
        return cls(rows, tuple(tables), fields, hidden=Hidden())

    def schema(self, schema_id: int) -> TableSchema:
        """Return the present schema of a schema_id."""
        return next(schema for schema in self.tables if schema.schema_id == schema_id)

    def field(self, name: str, schema: TableSchema) -> Field | None:
        """Return a column by name, None when the table has no such column.

        The exact name wins; else, as in MySQL, case does not matter.
        """
        return field_named(self.fields[schema.schema_id], name)

    def require(self, name: str, schema: TableSchema, what: str) -> Field:
        """Return a column by name; `what` names who asks, for the error.

        Raises:
            TransformError: the table has no such column.
        """
        field = self.field(name, schema)
        if field is None:
            known = ", ".join(f.column.name for f in self.fields[schema.schema_id])
            raise TransformError(
                f"{what}: {schema.full_name} has no column {name!r}",
                hint=f"Its columns are: {known}. Narrow `tables` to the tables that have it.",
                code="column_unknown",
            )
        return field

    def column(self, name: str, schema: TableSchema, image: str = "row") -> Any:
        """Return a Column: the typed value of column `name`, for rows of `schema`.

        Args:
            name: column name as the transforms so far left it.
            schema: one of `tables`.
            image: "before", "after" or "row".

        Raises:
            TransformError: the table has no such column.
        """
        from pyspark.sql import functions as F  # noqa: N812

        return F.expr(self.require(name, schema, "column").typed(image))

    def bind(
        self, expression: Expression, schema: TableSchema, what: str, *, image: str = "row", as_op: Op | None = None
    ) -> str:
        """Return the Spark SQL of a user's expression for rows of `schema`.

        Args:
            expression: the parsed expression.
            schema: one of `tables`.
            what: who asks, for the error.
            image: image that columns without a qualifier are read from.
            as_op: judge the row as the insert or the delete that it would become: `_op` is that, and the image that
                such a row does not have holds nothing.

        Raises:
            TransformError: it names a column the table does not have.
        """
        without = {Op.CREATE: "before", Op.DELETE: "after"}.get(as_op) if as_op else None

        def access(name: str, qualifier: str) -> str:
            field = self.field(name, schema)
            if field is None and qualifier == "row" and name.lower() in PSEUDO_COLUMNS:
                column = PSEUDO_COLUMNS[name.lower()]
                return sql_string(as_op.value) if as_op and column == "op" else f"`{column}`"
            field = field or self.require(name, schema, what)
            if qualifier == without:
                return f"CAST(NULL AS {field.column.spark_type})"
            return f"({field.typed(image if qualifier == 'row' else qualifier)})"

        return expression.bind(access)

    def judged(self, expression: Expression, schema: TableSchema) -> tuple[Field, ...]:
        """Return the columns of a table that an expression names without a qualifier, each once."""
        named = [self.field(found.name, schema) for found in expression.identifiers if found.image == "row"]
        return tuple({field.source: field for field in named if field is not None}.values())

    def per_table(self, column: Callable[[TableSchema], Any | None], otherwise: Any) -> Any:
        """Return a Column: `column(schema)` for its rows, `otherwise` where that is None and for statements."""
        from pyspark.sql import functions as F  # noqa: N812

        chosen: Any = None
        for schema in self.tables:
            value = column(schema)
            if value is None:
                continue
            condition = F.col("schema_id") == schema.schema_id
            chosen = F.when(condition, value) if chosen is None else chosen.when(condition, value)
        fallback = F.lit(otherwise)
        return fallback if chosen is None else chosen.otherwise(fallback)

    def with_fates(self, fate: Any, cause: Any) -> FrameChanges:
        """Let each row meet its fate (see `databus.rows.frames.leaving`); no row is taken out.

        An update that becomes a delete or an insert keeps its place, its part and its event id, and loses the image
        that such a row does not have, with what is said of that.

        Args:
            fate: string Column, the op that the row goes on with, `LEFT_OUT` or `UNJUDGED`; NULL leaves it as it is.
            cause: string Column, why a row of fate `UNJUDGED` cannot be judged.
        """
        from pyspark.sql import functions as F  # noqa: N812

        rows = self.rows.withColumn(_FATE, F.coalesce(fate, F.col("op")))
        crossed = f"`{_FATE}` <> `op` AND `{_FATE}` ="
        inserted, deleted = f"({crossed} '{Op.CREATE}')", f"({crossed} '{Op.DELETE}')"
        flags = (
            f"CASE WHEN {inserted} THEN filter(flags, f -> startswith(f, 'after.'))"
            f" WHEN {deleted} THEN filter(flags, f -> startswith(f, 'before.')) ELSE flags END"
        )
        changed = {
            "op": f"CASE WHEN {inserted} OR {deleted} THEN `{_FATE}` ELSE `op` END",
            "before": f"CASE WHEN NOT {inserted} THEN `before` END",
            "after": f"CASE WHEN NOT {deleted} THEN `after` END",
            "flags": f"nullif({flags}, array())",
            "absent": f"CASE WHEN NOT {deleted} THEN `absent` END",
            "filtered": f"`filtered` OR `{_FATE}` = '{LEFT_OUT}'",
        }
        unjudged = F.when(F.col(_FATE) == UNJUDGED, F.coalesce("unjudged", cause)).otherwise(F.col("unjudged"))
        columns = {name: F.expr(sql) for name, sql in changed.items()} | {"unjudged": unjudged}
        return replace(self, rows=rows.withColumns(columns).drop(_FATE))

    def with_condition(
        self, expression: Expression, what: str, tables: Iterable[TableSchema], *, leaving: bool
    ) -> FrameChanges:
        """Note a filter's condition on changes without rows, with the columns as they are now.

        Args:
            expression: the parsed condition.
            what: who asks, for errors.
            tables: those of `tables` whose rows are judged.
            leaving: whether an update that leaves becomes a delete, and one that enters an insert.

        Raises:
            TransformError: it names a column that a table does not have.
        """
        fields: dict[int, tuple[Field, ...]] = {}
        judged: dict[int, tuple[Field, ...]] = {}
        for schema in tables:
            self.bind(expression, schema, what)
            fields[schema.schema_id] = self.fields[schema.schema_id]
            judged[schema.schema_id] = self.judged(expression, schema)
        condition = Condition(expression, what, leaving, fields, judged)
        return replace(self, steps=(*self.steps, condition))

    def with_route(self, route: Any) -> FrameChanges:
        """Set the route of rows to a string Column; NULL leaves it as it is."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = {"route": F.coalesce(route, "route")}
        if self.by_value:
            columns |= {name: F.when(route.isNull(), F.col(name)) for name in (ROUTES_NOW, ROUTES_WAS)}
        return replace(self, rows=self.rows.withColumns(columns))

    def with_places(self, values: Mapping[str, Any]) -> FrameChanges:
        """Give rows the places that they have by value: columns of `databus.rows.frames.places.PLACES`.

        Args:
            values: column → Column of its type, of a row as it is and as it was; NULL leaves it as it is.
        """
        from pyspark.sql import functions as F  # noqa: N812

        columns = {}
        for name, kind in PLACES.items():
            former = F.col(name) if self.by_value else F.lit(None).cast(kind)
            columns[name] = F.coalesce(values[name], former) if name in values else former
        return replace(self, rows=self.rows.withColumns(columns), by_value=True)

    def with_step(self, step: Placing | Unplacing) -> FrameChanges:
        """Note on changes without rows that a transform places them."""
        return replace(self, steps=(*self.steps, step))

    def with_key(self, schema: TableSchema, key: RowKey) -> FrameChanges:
        """Note the key that is chosen for records of one table."""
        return replace(self, keys={**self.keys, schema.schema_id: key})

    def with_told(self, schema: TableSchema, columns: frozenset[str]) -> FrameChanges:
        """Note columns of one table in clear, by their stored names, whose values causes of held rows show."""
        return replace(self, told={**self.told, schema.schema_id: self.told.get(schema.schema_id, columns) | columns})

    def with_columns_dropped(self, schema: TableSchema, names: Iterable[str]) -> FrameChanges:
        """Leave columns of one table out of both images."""
        gone = set(names)
        return self.with_fields(schema, [f for f in self.fields[schema.schema_id] if f.column.name not in gone])

    def with_columns_kept(self, schema: TableSchema, names: Iterable[str]) -> FrameChanges:
        """Keep but these columns of one table in both images; the record's key does not change."""
        kept = set(names)
        return self.with_fields(schema, [f for f in self.fields[schema.schema_id] if f.column.name in kept])

    def with_columns_renamed(self, schema: TableSchema, names: Mapping[str, str]) -> FrameChanges:
        """Rename columns of one table, present name → new name, in both images; the record's key stays the source's.

        Raises:
            TransformError: two columns would have one name.
        """
        fields = [f.renamed(names.get(f.column.name, f.column.name)) for f in self.fields[schema.schema_id]]
        all_names = [f.column.name for f in fields]
        twice = sorted({name for name in all_names if all_names.count(name) > 1})
        if twice:
            raise TransformError(
                f"renaming gives {schema.full_name} two columns named {', '.join(twice)}",
                hint="Drop or rename the column that has the name already.",
            )
        key = tuple(names.get(name, name) for name in schema.primary_key)
        return self.with_fields(replace(schema, primary_key=key), fields)

    def with_columns_replaced(self, schema: TableSchema, names: Iterable[str], rewrite: Rewrite) -> FrameChanges:
        """Replace the values of columns of one table by text, in both images; NULL stays NULL, absent stays absent."""
        changed = set(names)
        fields = [f.rewritten(rewrite) if f.column.name in changed else f for f in self.fields[schema.schema_id]]
        return self.with_fields(schema, fields)

    def with_fields(self, schema: TableSchema, fields: Sequence[Field]) -> FrameChanges:
        """Give one table other columns, in this order."""
        present = replace(schema, columns=tuple(f.column for f in fields))
        tables = tuple(present if t.schema_id == schema.schema_id else t for t in self.tables)
        return replace(
            self,
            tables=tables,
            fields={**self.fields, schema.schema_id: tuple(fields)},
            edited=self.edited | {schema.schema_id},
        )

    def with_holding(self, holding: Holding) -> FrameChanges:
        """Hold rows back that a transform cannot change as asked; those that are held already keep their cause."""
        if not any(holding.columns.values()):
            return self
        if self.rows is None:
            return replace(self, steps=(*self.steps, holding))
        from pyspark.sql import functions as F  # noqa: N812

        def cause_of(schema: TableSchema) -> Any | None:
            cause = holding.cause(schema.schema_id)
            return None if cause is None else F.expr(cause)

        return self.with_held(self.per_table(cause_of, F.lit(None).cast("string")))

    def with_held(self, cause: Any) -> FrameChanges:
        """Hold rows back for what a Column of causes says, NULL for none; those held already keep their cause."""
        from pyspark.sql import functions as F  # noqa: N812

        return replace(self, rows=self.rows.withColumn("unjudged", F.coalesce("unjudged", cause)))

    def materialize(self) -> Any:
        """Return the DataFrame, images rebuilt where a transform changed them; types are kept, absent stays absent."""
        return self.materialized().rows

    def materialized(self) -> FrameChanges:
        """Return the changes with nothing pending: `rows` hold the images that `tables` describe."""
        from pyspark.sql import functions as F  # noqa: N812

        if not self.edited:
            return self
        changed = {image: self._rebuilt(image) for image in ("before", "after")} | {"unjudged": self._untold()}
        rows = self.rows.withColumns({name: F.expr(sql) for name, sql in changed.items()})
        fields = {schema.schema_id: fields_of(schema) for schema in self.tables}
        return replace(self, rows=rows, fields=fields, edited=frozenset())

    def hides_told(self, schema_id: int) -> bool:
        """Return whether a transform hides a column of a table whose value a cause shows."""
        shown = {f.source for f in self.fields[schema_id] if f.computed is None and not f.rewrites}
        return bool(self.told.get(schema_id, frozenset()) - shown)

    def _untold(self) -> str:
        """Return SQL of the causes, without a value of a column that is not shown: a transform behind hides it."""
        of_hidden = [str(schema_id) for schema_id in self.told if self.hides_told(schema_id)]
        if not of_hidden:
            return "`unjudged`"
        told = f"`schema_id` IN ({', '.join(of_hidden)}) AND startswith(`unjudged`, {sql_string(ROUTE_TOLD)})"
        return f"CASE WHEN {told} THEN {sql_string(f'{ROUTE_TOLD}***)')} ELSE `unjudged` END"

    def _rebuilt(self, image: str) -> str:
        cases = "".join(
            f" WHEN `schema_id` = {schema_id} THEN {_object(self.fields[schema_id], image)}"
            for schema_id in sorted(self.edited)
        )
        return f"CASE WHEN `{image}` IS NULL THEN NULL{cases} ELSE `{image}` END"


def _object(fields: Sequence[Field], image: str) -> str:
    # Through a map: unlike a struct it can leave out what the image does not hold, and its values stay VARIANT as
    # they are.
    entries = ", ".join(f"struct({sql_string(f.column.name)} AS k, {f.variant(image)} AS v)" for f in fields)
    return f"to_variant_object(map_from_entries(filter(array({entries}), e -> e.v IS NOT NULL)))"
