"""Columns of computed values: defined over a table's columns as they are, and put beside them or in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from databus.core.errors.batch import TransformError
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.frames.changes import FrameChanges, RowKey
from databus.rows.frames.computed import ADDED, Computed, computed_column
from databus.rows.frames.expression import PSEUDO_COLUMNS, Expression, parse_expression
from databus.rows.frames.expression_type import expression_type
from databus.rows.frames.fields import Field, variant_path
from databus.rows.frames.hidden import Hidden


def image_expression(text: str) -> Expression:
    """Parse an expression over the columns of one image.

    Raises:
        ValueError: it is none, names an image or the row's operation, or is a cast to what no column can be.
    """
    parsed = parse_expression(text)
    for found in parsed.identifiers:
        if found.image != "row":
            raise ValueError(
                f"{text!r}: {found.image}.{found.name}: it is computed in each image from that image; name {found.name}"
            )
        if found.name.lower() == "_op":
            raise ValueError(f"{text!r}: _op is the row's: an image has none")
    expression_type(text, lambda _: "")
    return parsed


def require_name(name: str) -> str:
    """Return the name of a column to add.

    Raises:
        ValueError: no column can have it.
    """
    try:
        variant_path(name)
    except TransformError as error:
        raise ValueError(error.message) from None
    if not name.strip() or "\0" in name:
        raise ValueError(f"{name!r} is no name of a column")
    return name


def quoted(name: str) -> str:
    """Return a column's name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def inputs_of(expressions: Iterable[Expression]) -> tuple[str, ...]:
    """Return the names of the columns in expressions, each once."""
    found = (each.name for expression in expressions for each in expression.identifiers)
    return tuple(dict.fromkeys(name for name in found if name.lower() not in PSEUDO_COLUMNS))


def computed(
    changes: FrameChanges, schema: TableSchema, expression: Expression, what: str, spark_type: str = ""
) -> Computed:
    """Return a computed value over the columns of one table as they are now.

    Args:
        changes: rows, and what is known of their columns.
        schema: one of their tables.
        expression: without qualifiers.
        what: who asks, for the error.
        spark_type: of the value; "" where the expression says it.

    Raises:
        TransformError: it names a column that the table does not have, or its type is not known.
    """
    inputs: dict[str, Field] = {}
    for found in expression.identifiers:
        field = changes.field(found.name, schema)
        if field is not None or found.name.lower() not in PSEUDO_COLUMNS:
            inputs[found.name] = field or changes.require(found.name, schema, what)

    def type_of(name: str) -> str:
        field = inputs.get(name)
        return _PSEUDO_TYPES.get(name.lower(), "string") if field is None else field.column.spark_type

    spark_type = spark_type or expression_type(expression.text, type_of)
    if not spark_type:
        raise TransformError(
            f"{what}: the type of {expression.text} is not known before rows of {schema.full_name} are read",
            hint=f"Say it: CAST({expression.text} AS …), e.g. decimal(12,2), bigint, double, string, timestamp.",
            code="column_type_unknown",
        )
    return Computed(expression, inputs, spark_type, clear_of(changes, schema, inputs.values()))


_PSEUDO_TYPES = {"_ts_ms": "bigint"}


def with_added(changes: FrameChanges, schema: TableSchema, name: str, value: Computed, what: str) -> FrameChanges:
    """Return the changes with a column of a computed value behind the others of one table.

    Raises:
        TransformError: the table has a column of that name.
    """
    fields = changes.fields[schema.schema_id]
    clash = next((f.column.name for f in fields if f.column.name.casefold() == name.casefold()), None)
    if clash is not None:
        raise TransformError(
            f"{what}: {schema.full_name} has a column {clash!r} already",
            hint="Give the added column another name, or put RenameColumns or DropColumns for the present one before "
            "it.",
            code="column_exists",
        )
    column = computed_column(name, value.type)
    return changes.with_fields(schema, [*fields, Field.of_computed(column, _stored_name(name, fields), value)])


def with_computed(
    changes: FrameChanges, schema: TableSchema, name: str, value: Computed, *, column: ColumnSchema | None = None
) -> FrameChanges:
    """Return the changes with a computed value in the place of a column's own.

    Args:
        changes: rows, and what is known of their columns.
        schema: one of their tables.
        name: the column's present name.
        value: the value.
        column: what the column is then; None where the value's type says it.
    """
    fields = (
        Field.of_computed(column or computed_column(name, value.type), f.source, value) if f.column.name == name else f
        for f in changes.fields[schema.schema_id]
    )
    return changes.with_fields(schema, list(fields))


def key_of(changes: FrameChanges, schema: TableSchema, fields: Sequence[Field]) -> RowKey:
    """Return a key of columns of one table, as they are now."""
    return RowKey(tuple(fields), clear_of(changes, schema, fields))


def computed_in_clear(changes: FrameChanges, hidden: Hidden) -> Iterator[tuple[TableSchema, str, str]]:
    """Yield (table, what, input) of what is computed in clear from a column that is hidden only behind it.

    What is a column, the key that was chosen for the table's records, or their route.
    """
    for table in changes.tables:
        sources = hidden.concealed.get(table.schema_id, set())
        for each in changes.fields[table.schema_id]:
            if each.computed is not None and each.source not in sources:
                yield from (
                    (table, f"column {each.column.name}", leaf) for leaf in sorted(each.computed.clear & sources)
                )
        if (key := changes.keys.get(table.schema_id)) is not None:
            yield from ((table, "the records' key", leaf) for leaf in sorted(key.clear & sources))
        told = changes.told.get(table.schema_id, frozenset())
        yield from ((table, "the records' route", leaf) for leaf in sorted(told & sources))


def _stored_name(name: str, fields: Iterable[Field]) -> str:
    """Return a name that no other column has; one that was added before may have been renamed since."""
    taken = {field.source for field in fields}
    found = f"{ADDED}{name}"
    while found in taken:
        found = f"{ADDED}{found}"
    return found


def clear_of(changes: FrameChanges, schema: TableSchema, inputs: Iterable[Field]) -> frozenset[str]:
    """Return the stored names of inputs that no transform hides so far."""
    hidden = changes.hidden.concealed.get(schema.schema_id, ()) if changes.hidden is not None else ()
    own = (each for each in inputs if each.source not in hidden)
    return frozenset[str]().union(*({e.source} if e.computed is None else e.computed.clear for e in own))
