"""Columns that transforms hide in each table: looked for, and found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from databus.core.errors import TransformError
from databus.core.hidden_columns import HiddenByTable
from databus.core.tables import TableSchema

GONE = "hidden_column_gone"
"""Code of the error."""


@dataclass
class Hidden:
    """What the transforms of a flow looked for in the tables of a batch so as to hide it.

    Attributes:
        missed: schema_id → column that was not found, in lower case → the transform and the name as it has it.
        found: schema_id → columns that were found, in lower case.
    """

    missed: dict[int, dict[str, tuple[str, str]]] = field(default_factory=dict)
    found: dict[int, set[str]] = field(default_factory=dict)

    def note(self, schema: TableSchema, what: str, *, found: Iterable[str], missed: Iterable[str]) -> None:
        """Note what a transform found and missed in a table.

        Args:
            schema: the table.
            what: the transform.
            found: columns that it hides.
            missed: columns that it would hide.
        """
        self.found.setdefault(schema.schema_id, set()).update(name.casefold() for name in found)
        lacking = self.missed.setdefault(schema.schema_id, {})
        for name in missed:
            lacking.setdefault(name.casefold(), (what, name))

    def by_table(self, tables: Sequence[TableSchema]) -> dict[str, set[str]]:
        """Return `database.table` → columns that are hidden in any of its definitions."""
        hidden: dict[str, set[str]] = {}
        for schema in tables:
            if names := self.found.get(schema.schema_id):
                hidden.setdefault(schema.full_name, set()).update(names)
        return hidden

    def require(self, tables: Sequence[TableSchema], before: HiddenByTable) -> None:
        """Refuse a definition of a table that lacks what was hidden in an earlier one.

        Args:
            tables: definitions in the order of the log, as `schema_id` numbers them.
            before: what was hidden in earlier batches.

        Raises:
            TransformError: the values may stand under another name, in clear.
        """
        known = {table: set(names) for table, names in before.items()}
        for schema in sorted(tables, key=lambda each: each.schema_id):
            lost = sorted(self._lost(schema, known.get(schema.full_name, set())))
            if lost:
                raise _gone(schema, lost)
            known.setdefault(schema.full_name, set()).update(self.found.get(schema.schema_id, ()))

    def _lost(self, schema: TableSchema, known: set[str]) -> Iterator[tuple[str, str]]:
        found = self.found.get(schema.schema_id, set())
        for name, told in self.missed.get(schema.schema_id, {}).items():
            if name in known and name not in found:
                yield told


def _gone(schema: TableSchema, lost: Sequence[tuple[str, str]]) -> TransformError:
    names = ", ".join(dict.fromkeys(name for _, name in lost))
    labels, first = "; ".join(dict.fromkeys(what for what, _ in lost)), lost[0][1]
    now = ", ".join(column.name for column in schema.columns)
    return TransformError(
        f"{labels}: {schema.full_name} has no column {names} any more, which was hidden in its earlier rows: the "
        "values may stand under another name; the batch is refused before any of it is written",
        hint=f"Columns of {schema.full_name} now: {now}. Name the new column, and add "
        f'former=("{first}",): it is hidden in rows that still have it, and not missed in others. Where {first} was '
        "dropped, former alone is enough.",
        code=GONE,
    )
