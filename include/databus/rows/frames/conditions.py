"""Conditions of filters on changes without rows: what the direct lane compiles for decoded columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from databus.rows.frames.expression import PSEUDO_COLUMNS, Expression
from databus.rows.frames.fields import Field, field_named


@dataclass(frozen=True)
class Condition:
    """Condition of one filter; see `databus.rows.frames.leaving` for the fate of a row at it.

    Attributes:
        expression: the condition.
        what: who asks, for errors: "filter 'amount > 5'".
        leaving: whether an update that leaves becomes a delete, and one that enters an insert.
        fields: schema_id → the table's columns as the transforms before left them, of the tables whose rows are judged.
        judged: schema_id → those that it names without a qualifier, each once.
    """

    expression: Expression
    what: str
    leaving: bool
    fields: Mapping[int, tuple[Field, ...]]
    judged: Mapping[int, tuple[Field, ...]]

    def field(self, name: str, schema_id: int) -> Field | None:
        """Return the column that a name in the condition means; None for one of `PSEUDO_COLUMNS`, and for no column."""
        return field_named(self.fields[schema_id], name)

    def pseudo(self, name: str, image: str, schema_id: int) -> str | None:
        """Return the column of the row shape that a name means, None where it means one of the table's."""
        if image != "row" or self.field(name, schema_id) is not None:
            return None
        return PSEUDO_COLUMNS.get(name.lower())
