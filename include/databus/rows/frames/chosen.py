"""Places chosen by value: what a row's images say of route or key, and the rows held back as they do not say it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from databus.core.events import Op
from databus.core.tables.schemas import TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computing import image_expression
from databus.rows.frames.expression import PSEUDO_COLUMNS, Expression
from databus.rows.frames.fields import Field, sql_string
from databus.rows.frames.leaving import CROSSES
from databus.rows.frames.places import KEY_NOW, PLACES, enters, routes_array
from databus.rows.frames.placing import Placing
from databus.rows.frames.selection import matches, named

_PASSED = f"`unjudged` IS NOT NULL OR `filtered` OR `op` = '{Op.FILTERED}'"
"""SQL of the rows that nothing is asked of: held back or left out before."""

OF_TABLE = frozenset({"_database", "_table"})


class Choice(ABC):
    """Choice of a row's routes, or of its key, by the values of each of its images.

    Args:
        kind: of the transform, in the causes of rows that are held back: "route_lacks(region)".
        what: who asks, for errors.
        tables: patterns of the tables whose rows are meant.
        expressions: what is asked of each image.
        places: columns that are set, of `places.PLACES`: as the row is, and as it was.
        follows: whether an update stays one row, in the place of the row as it is.
    """

    def __init__(
        self,
        kind: str,
        what: str,
        tables: tuple[str, ...],
        expressions: Sequence[Expression],
        places: tuple[str, str],
        *,
        follows: bool = False,
    ):
        self.kind, self.what, self.tables, self.follows = kind, what, tables, follows
        self.expressions, self.places = tuple(expressions), places

    @abstractmethod
    def value(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:
        """Return SQL of what an image says.

        Raises:
            TransformError: it names a column that the table does not have.
        """

    def means(self, schema: TableSchema) -> bool:
        """Return whether rows of a schema are meant."""
        return matches(schema.full_name, self.tables)

    def outside(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:  # noqa: ARG002 - most take any
        """Return SQL of the cause for which a row is held back, by what an image says; NULL where none is."""
        return ""

    def of_held(self) -> str:
        """Return SQL of what stands for a row that is held back: it counts for all sinks that might take it."""
        return f"CAST(NULL AS {PLACES[self.places[0]]})"

    def applied(self, changes: FrameChanges) -> FrameChanges:
        """Return the changes with the places of their rows.

        A row is held back whose image lacks a column that is asked for, or has it flagged; one with a value outside;
        and an update that comes to a place without all of its columns, for it would be an insert there.

        Raises:
            TransformError: an expression names a column that a matching table does not have.
        """
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        no_cause, held = F.lit(None).cast("string"), F.expr(self.of_held())
        changes = changes.with_held(changes.per_table(self._of(changes, self._cause), no_cause))
        statement = F.when((F.col("schema_id") < 0) & named(self.tables), held)
        values = {
            column: changes.per_table(self._of(changes, partial(self._place, image=image)), statement)
            for column, image in zip(self.places, ("row", "before"), strict=True)
        }
        chosen = changes.with_places(values)
        return chosen.with_held(chosen.per_table(self._of(chosen, self._partial), no_cause))

    def noted_step(
        self, changes: FrameChanges, of: Literal["route", "split", "key"], choices: Sequence[str]
    ) -> FrameChanges:
        """Note the choice on changes without rows.

        Args:
            changes: columns as they are now.
            of: see `Placing`.
            choices: the routes that may come, or the names of the key's columns.

        Raises:
            TransformError: an expression names a column that a matching table does not have.
        """
        meant = [schema for schema in changes.tables if self.means(schema)]
        for schema in meant:
            self.bound(changes, schema, "row")
        names, routes = (tuple(choices), ()) if self.places[0] == KEY_NOW else ((), tuple(choices))
        return changes.with_step(
            Placing(
                self.kind,
                self.what,
                of,
                self.expressions,
                names,
                routes,
                self.follows,
                {schema.schema_id: changes.fields[schema.schema_id] for schema in meant},
                {schema.schema_id: self.judged(changes, schema) for schema in meant},
            )
        )

    def bound(self, changes: FrameChanges, schema: TableSchema, image: str) -> list[str]:
        """Return SQL of the expressions for an image.

        Raises:
            TransformError: an expression names a column that the table does not have.
        """
        return [changes.bind(each, schema, self.what, image=image) for each in self.expressions]

    def judged(self, changes: FrameChanges, schema: TableSchema) -> tuple[Field, ...]:
        """Return the columns that are asked for, each once."""
        found = [field for each in self.expressions for field in changes.judged(each, schema)]
        return tuple({field.source: field for field in found}.values())

    def _of(
        self, changes: FrameChanges, sql: Callable[[FrameChanges, TableSchema], str]
    ) -> Callable[[TableSchema], Any | None]:
        from pyspark.sql import functions as F  # noqa: N812

        return lambda schema: F.expr(sql(changes, schema)) if self.means(schema) else None

    def _place(self, changes: FrameChanges, schema: TableSchema, *, image: str) -> str:
        """Return SQL of the place of a row."""
        now = self.value(changes, schema, "row")
        if image == "before" and not self.follows:
            now = f"CASE WHEN {CROSSES} THEN {self.value(changes, schema, 'before')} ELSE {now} END"
        return f"CASE WHEN {_PASSED} THEN {self.of_held()} ELSE {now} END"

    def _cause(self, changes: FrameChanges, schema: TableSchema) -> str:
        fields = self.judged(changes, schema)
        images = ("row",) if self.follows else ("row", "before")
        found: list[str] = []
        for image in images:
            meant = f"{CROSSES} AND " if image == "before" else ""
            lacks = {field.column.name: f"{field.raw(image)} IS NULL" for field in fields if field.computed is None}
            lacks |= {f.column.name: f"NOT {_present(f, image)}" for f in fields if f.computed is not None}
            found.append(f"WHEN {meant}{_any(lacks)} THEN {_names(f'{self.kind}_lacks', lacks)}")
            flagged = {f.column.name: _flagged(f, image) for f in fields if _flagged(f, image)}
            if flagged:
                found.append(f"WHEN {meant}{_any(flagged)} THEN {_names(f'{self.kind}_flagged', flagged)}")
        for image in images:
            why, meant = self.outside(changes, schema, image), f"{CROSSES} AND " if image == "before" else ""
            found += [f"WHEN {meant}{why} IS NOT NULL THEN {why}"] if why else []
        return f"CASE WHEN {_PASSED} THEN NULL {' '.join(found)} END"

    def _partial(self, changes: FrameChanges, schema: TableSchema) -> str:
        """Return SQL of the cause that holds an update back which would be an insert without all of its columns."""
        kept = {leaf for field in changes.fields[schema.schema_id] for leaf in field.leaves()}
        missing = f"array_intersect(`absent`, {routes_array(sorted(kept))})"
        return (
            f"CASE WHEN NOT `filtered` AND `absent` IS NOT NULL AND {enters()} AND size({missing}) > 0"
            f" THEN concat('{self.kind}_lacks(', array_join({missing}, ', '), ')') END"
        )


def image_value(text: str) -> Expression:
    """Parse an expression that chooses a route by the columns of one image.

    Raises:
        ValueError: it is none, or names an image, the row's operation or its time, which an image does not have.
    """
    parsed = image_expression(text)
    for found in parsed.identifiers:
        if found.name.lower() in PSEUDO_COLUMNS.keys() - OF_TABLE:
            raise ValueError(f"{text!r}: {found.name} is of the change, and a row has a route by its columns")
    return parsed


def names_in(expressions: Sequence[Expression]) -> tuple[str, ...]:
    """Return the names of the columns in expressions, each once."""
    found = (each.name for expression in expressions for each in expression.identifiers)
    return tuple(dict.fromkeys(name for name in found if name.lower() not in PSEUDO_COLUMNS))


def _present(field: Field, image: str) -> str:
    if image != "row":
        return field.present(image)
    return f"({field.present('after')} OR {field.present('before')})"


def _flagged(field: Field, image: str) -> str:
    """Return SQL that is true where the value that is asked for is flagged; "" where it cannot be."""
    if field.computed is not None:
        return ""  # the row was held back where it was computed
    before = field.flagged("before")
    if image == "before":
        return before
    return f"CASE WHEN {field.present('after')} THEN {field.flagged('after')} ELSE {before} END"


def _any(conditions: Mapping[str, str]) -> str:
    return "(" + (" OR ".join(f"({sql})" for sql in conditions.values()) or "false") + ")"


def _names(kind: str, conditions: Mapping[str, str]) -> str:
    names = ", ".join(f"CASE WHEN {sql} THEN {sql_string(name)} END" for name, sql in conditions.items())
    return f"concat('{kind}(', concat_ws({', '.join(filter(None, [sql_string(', '), names]))}), ')')"
