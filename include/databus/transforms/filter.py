"""Filter: keep the rows for which a SQL condition is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator

from databus.core.errors.batch import TransformError
from databus.core.events import Op
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.expression import PSEUDO_COLUMNS, parse_expression
from databus.rows.frames.expression_type import expression_type
from databus.rows.frames.leaving import CROSSES, Crossing, fate, lacking, lacking_names
from databus.rows.frames.selection import matches, selected
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols


class Filter(TableTransform):
    """Keep the rows for which `condition` is true; false or NULL filters a row, which is still counted.

    The condition sees one row: its columns by name with their types (the after-image's value, else the
    before-image's, so deletes too), `before.x` and `after.x` for one image, and `_op`, `_database`, `_table`,
    `_ts_ms`. TRUNCATE and DDL rows pass.

    An update for which it is not true, but was with the columns of the before-image, leaves: it goes on as a delete
    with that image, if the condition keeps such a delete. One for which it is true and was not enters: it goes on as
    an insert, if the condition keeps such an insert. `before.x`, `after.x` and `_op` mean the same in both looks, so
    that a condition on the change alone (`before.x <> after.x`) makes no delete. Place, ordinal and event id stay.

    A row whose images lack a column that the condition names without a qualifier (`binlog_row_image` MINIMAL or NOBLOB)
    is held back as "filter_lacks(column)". So is an update that the condition does not keep whose before-image lacks
    one: whether it leaves is not known. One that it keeps goes on as an update.

    Attributes:
        condition: boolean expression in Spark SQL, deterministic, e.g. "amount > 100 AND status <> 'new'".
        leaving: "delete" (default): what holds rows by key downstream (a search index, a compacted topic, a table)
            holds those that satisfy the condition and no others; "ignore": an update that leaves is filtered, one that
            enters goes on as an update. E.g. leaving="ignore" for a topic of events that nobody keeps by key.
    """

    kind: ClassVar[str] = "filter"

    condition: str
    leaving: Literal["delete", "ignore"] = "delete"

    def __init__(self, condition: str | None = None, /, **options: Any):
        if condition is not None:
            options["condition"] = condition
        super().__init__(**options)

    @field_validator("condition")
    @classmethod
    def _is_one_deterministic_expression(cls, value: str) -> str:
        parse_expression(value)
        return value

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Mark the other rows as filtered, and make deletes and inserts of updates that leave and enter.

        Raises:
            TransformError: the condition names a column that a matching table does not have.
        """
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        def fate_of(schema: TableSchema) -> Any | None:
            return F.expr(self._fate(changes, schema)) if matches(schema.full_name, self.tables) else None

        def cause_of(schema: TableSchema) -> Any | None:
            if not matches(schema.full_name, self.tables):
                return None
            image = "before" if self.leaving == "delete" else "row"
            judged = changes.judged(parse_expression(self.condition), schema)
            return F.expr(
                f"CASE WHEN {CROSSES} THEN {lacking_names(judged, image)} ELSE {lacking_names(judged, 'row')} END"
            )

        unchanged = F.lit(None).cast("string")
        return changes.with_fates(changes.per_table(fate_of, unchanged), changes.per_table(cause_of, unchanged))

    def compilable(self) -> bool:
        """Return true, but of a subclass: `reshape` may not say all that it does."""
        return type(self) is Filter

    def reshape(self, changes: protocols.Changes) -> protocols.Changes:
        """Note the condition.

        Raises:
            TransformError: the condition names a column that a matching table does not have.
        """
        if not isinstance(changes, FrameChanges):
            raise TransformError(f"{self.kind} needs the typed view of rows, got {type(changes).__name__}")
        for schema in selected(changes, self.tables):
            self._require_boolean(changes, schema)
        parsed = parse_expression(self.condition)
        return changes.with_condition(
            parsed, self._what(), selected(changes, self.tables), leaving=self.leaving == "delete"
        )

    def _require_boolean(self, changes: FrameChanges, schema: TableSchema) -> None:
        """Refuse a condition that is of another type.

        Raises:
            TransformError: names the condition, the table and the type.
        """

        def type_of(name: str) -> str:
            field = changes.field(name, schema)
            return "" if field is None else field.column.spark_type

        kind = expression_type(self.condition, type_of)
        if kind not in ("", "boolean", "void", "string"):
            raise TransformError(
                f"{self._what()}: the condition is a {kind} in {schema.full_name}, and true or false is wanted",
                hint=f'Compare it with something, e.g. Filter("{self.condition} <> 0") or "IS NOT NULL".',
                code="filter_not_boolean",
            )

    def _what(self) -> str:
        return f"filter {self.condition!r}"

    def _fate(self, changes: FrameChanges, schema: TableSchema) -> str:
        """Return SQL of the fate of a table's rows."""
        self._require_boolean(changes, schema)
        parsed, what = parse_expression(self.condition), self._what()
        judged = changes.judged(parsed, schema)
        crossing = Crossing(
            was=changes.bind(parsed, schema, what, image="before"),
            as_delete=changes.bind(parsed, schema, what, image="before", as_op=Op.DELETE),
            as_insert=changes.bind(parsed, schema, what, as_op=Op.CREATE),
            lacked=lacking(judged, "before"),
        )
        kept, lacks = changes.bind(parsed, schema, what), lacking(judged, "row")
        named = (changes.field(found.name, schema) for found in parsed.identifiers)
        if any(field is not None and field.computed is not None for field in named):
            lacks = f"({lacks} OR `unjudged` IS NOT NULL)"  # such a value may be NULL for what the row is held for
        return fate(kept, lacks, crossing if self.leaving == "delete" else None)

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: a filter changes no column.

        Raises:
            TransformError: the condition is no boolean.
        """
        if isinstance(changes, FrameChanges):
            for schema in selected(changes, self.tables):
                self._require_boolean(changes, schema)
        return changes

    def wants(self) -> ColumnsWanted:
        """Return the columns in the condition, which each table that is judged must have."""
        named = (
            found.name
            for found in parse_expression(self.condition).identifiers
            if found.image != "row" or found.name.lower() not in PSEUDO_COLUMNS
        )
        return ColumnsWanted(tuple(dict.fromkeys(named)), self.tables)

    def judges(self, changes: protocols.Changes, table: TableSchema) -> tuple[str, ...]:
        """Return the columns in the condition."""
        if not isinstance(changes, FrameChanges) or not matches(table.full_name, self.tables):
            return ()
        names = (found.name for found in parse_expression(self.condition).identifiers)
        fields = (changes.field(name, table) for name in names)
        return tuple(dict.fromkeys(leaf for field in fields if field is not None for leaf in field.leaves()))

    def label(self) -> str:
        """Return the condition, and what is not done of rows that leave it."""
        return f"filter {self.condition}" + (" (rows that leave it are ignored)" if self.leaving == "ignore" else "")
