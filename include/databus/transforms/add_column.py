"""AddColumn: columns whose values are computed by SQL expressions, in each image from that image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computing import computed, image_expression, inputs_of, require_name, with_added
from databus.rows.frames.selection import selected
from databus.transforms.table_transform import TableTransform, by_column, given_by_column

if TYPE_CHECKING:
    from databus.core import protocols


class AddColumn(TableTransform):
    """Add columns by SQL expression: `AddColumn(total="CAST(price * quantity AS decimal(14,2))")`.

    The value is computed in `before` and in `after`, from the columns of that image with their types, and from
    `_database`, `_table` and `_ts_ms`. An image that lacks an input (`binlog_row_image` MINIMAL or NOBLOB) lacks the
    added column. Each table that is meant must have the inputs, and no column of the new name.

    Its type is the expression's: that of a cast, of a column, a comparison, a text function, whole numbers. Where the
    type does not follow from the text (decimal arithmetic, most functions) it is said by a cast. Temporals are ISO text
    with six digits of a second. An error while it is computed stops the batch: `try_divide`, `try_cast` give NULL.

    Transforms act in their order: behind a `Mask` of an input it sees the masked value, before it the plain one.

    Attributes:
        columns: name → expression in Spark SQL, deterministic, as arguments or as one mapping, e.g.
            AddColumn(name_upper="upper(name)") or AddColumn({"name_upper": "upper(name)"}). Those of one transform do
            not see each other.
    """

    kind: ClassVar[str] = "add_column"

    columns: dict[str, str] = Field(min_length=1)

    def __init__(self, *columns: dict[str, str], **options: Any):
        options = given_by_column(type(self).__name__, columns, options, 'total="price * quantity"')
        super().__init__(**by_column(options, type(self).option_names()))

    @field_validator("columns")
    @classmethod
    def _are_expressions_over_one_image(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            require_name(name)
            image_expression(text)
        return value

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Add the columns.

        Raises:
            TransformError: a table lacks an input, has a column of the new name, or the type of a value is not known.
        """
        for schema in selected(changes, self.tables):
            values = {n: computed(changes, schema, image_expression(t), self._what(n)) for n, t in self.columns.items()}
            for name, value in values.items():
                changes = with_added(changes, changes.schema(schema.schema_id), name, value, self._what(name))
        return changes

    def compilable(self) -> bool:
        """Return true, since its columns say all that it does; but of a subclass, which may do more."""
        return type(self) is AddColumn

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes with the columns: each value comes from the columns in its expression."""
        return self.apply(changes)

    def wants(self) -> ColumnsWanted:
        """Return the columns in the expressions, which each table that is meant must have."""
        return ColumnsWanted(inputs_of(map(image_expression, self.columns.values())), self.tables)

    def label(self) -> str:
        """Return names and expressions."""
        return "add " + ", ".join(f"{name} = {text}" for name, text in self.columns.items())

    def _what(self, name: str) -> str:
        return f"add {name}"
