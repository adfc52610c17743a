"""Table transforms' base: the tables they apply to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from databus.core.errors.batch import TransformError
from databus.core.errors.config import ConfigError
from databus.core.flow_specs import TransformSpec
from databus.core.spec import at_caller
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.held import with_flagged_held
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.intermediate import with_intermediate_columns
from databus.rows.frames.selection import EVERY_TABLE, columns_of, matches, selected

if TYPE_CHECKING:
    from databus.core import protocols


class TableTransform(TransformSpec):
    """Base of the transforms that see the typed view of each table.

    Attributes:
        tables: fnmatch patterns of `database.table` it applies to, e.g. ("shop.orders",); default all.
            Rows of other tables pass unchanged.
    """

    tables: tuple[str, ...] = EVERY_TABLE

    def apply(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changed rows.

        Raises:
            TransformError: the rows of this batch cannot be changed as configured.
        """
        if not isinstance(changes, FrameChanges):
            raise TransformError(f"{self.kind} needs the typed view of rows, got {type(changes).__name__}")
        changes = with_intermediate_columns(changes)  # of values that a transform of another base has left
        changed = with_flagged_held(changes, self.transform(changes), self.kind, self._flags_taken())
        return with_intermediate_columns(changed)

    def applies_to(self, table: str) -> bool:
        """Return whether the table is meant."""
        return matches(table, self.tables)

    def wants(self) -> ColumnsWanted:
        """Return the tables that are meant, and no column."""
        return ColumnsWanted((), self.tables)

    def _flags_taken(self) -> tuple[str, ...]:
        """Return the reasons of flags for which a value that is computed from such a one is NULL, as it is asked."""
        return ()

    @abstractmethod
    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Return the changed rows; lazy, row by row, deterministic."""


class ColumnsTransform(TableTransform):
    """Transform that is written with its columns first: `Hash("email", "phone", tables=("shop.orders",))`.

    Attributes:
        columns: names, e.g. "email"; case does not matter where that is unambiguous.
        former: names that columns had, or that were dropped, as `database.table.column`: taken like the others where
            that table has them, and not missed where it has not. The table may be an fnmatch pattern; a column alone is
            meant in every table, which is watched for a loss of it no more. Default none.
    """

    keeps: ClassVar[bool] = False
    """Flag: the columns are kept, and all others hidden."""

    columns: tuple[str, ...] = Field(min_length=1)
    former: tuple[str, ...] = ()

    def __init__(self, *columns: str, **options: Any):
        if columns:
            options["columns"] = columns
        super().__init__(**options)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON; without `former` where it says nothing, so that earlier hashes stay."""
        return {name: value for name, value in super().to_json().items() if name != "former" or value}

    def wants(self) -> ColumnsWanted:
        """Return the columns: a table that is meant by name or pattern must have them all."""
        former = {name.casefold() for _, name in self._former()}
        names = tuple(name for name in self.columns if name.casefold() not in former)
        return ColumnsWanted(names, self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return kind and columns."""
        return f"{self.kind} {', '.join(self.columns)}"

    def _tables_with_columns(self, changes: FrameChanges) -> Iterator[tuple[TableSchema, list[str]]]:
        """Yield each table that is meant with those of the columns that it has, under their present names.

        Raises:
            TransformError: a table that is meant by name or pattern lacks a column.
        """
        if changes.hidden is not None:
            changes.hidden.looks_for(self.label(), self.tables, self.columns, self._former(), keeps=self.keeps)
            for schema in selected(changes, self.tables):
                self._note(changes, changes.hidden, schema)
        yield from columns_of(changes, self.tables, self.columns, self.label(), self._former_in)

    def _note(self, changes: FrameChanges, hidden: Hidden, schema: TableSchema) -> None:
        former = self._former_in(schema)
        told = {n.casefold() for n in former}
        fields = {n: changes.field(n, schema) for n in (*self.columns, *former)}
        found = [(n, field.source) for n, field in fields.items() if field is not None]
        lacking = [n for n in fields if fields[n] is None]
        missed = self._hidden_else([n for n, _ in found], [n for n in lacking if n.casefold() not in told])
        everywhere = {n.casefold() for n in self.former} if self.tables == EVERY_TABLE else set()
        waived = {n: n.casefold() in everywhere for n in lacking if n.casefold() in told}
        hidden.note(schema, self.label(), found=found, missed=missed, waived=waived, keeps=self.keeps)

    def _former(self) -> list[tuple[str, str]]:
        """Return pattern of tables and column of each former name; "*" for one that names a column alone."""
        split = [name.rpartition(".") for name in self.former]
        of_tables = [(table, column) for table, _, column in split if "." in table]
        return [*((EVERY_TABLE[0], name) for name in self.former), *of_tables]

    def _former_in(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the former names of a table's columns."""
        return tuple(dict.fromkeys(name for pattern, name in self._former() if matches(schema.full_name, (pattern,))))

    def _hidden_else(self, found: list[str], missed: list[str]) -> list[str]:  # noqa: ARG002 - one kind hides the rest
        """Return which of the columns that a table lacks would be hidden if they were there."""
        return missed


def given_by_column(spec: str, given: tuple[Any, ...], options: dict[str, Any], example: str) -> dict[str, Any]:
    """Return options with the one mapping of columns that may stand before them.

    Args:
        spec: the kind's class.
        given: its arguments without a name.
        options: the others.
        example: of one column, e.g. 'amount="double"'.

    Raises:
        ConfigError: there is more than the mapping, or it is none.
    """
    if not given or given == (None,):
        return options
    if len(given) > 1 or not isinstance(given[0], Mapping):
        name, _, value = example.partition("=")
        raise ConfigError(
            at_caller(f"{spec}: {', '.join(map(repr, given))}: columns are named, or given as one mapping"),
            hint=f'Write {spec}({example}) or {spec}({{"{name}": {value}}}).',
        )
    return {**options, "columns": given[0]}


def by_column(options: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Return options with those that are none gathered as `columns`: the arguments that name a column."""
    named = {name: value for name, value in options.items() if name not in known}
    if not named:
        return options
    rest = {name: value for name, value in options.items() if name in known}
    return {**rest, "columns": {**rest.get("columns", {}), **named}}
