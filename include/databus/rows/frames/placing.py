"""Places chosen by value as a step on changes without rows: what the direct lane compiles for decoded columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from databus.rows.frames.expression import PSEUDO_COLUMNS, Expression
from databus.rows.frames.fields import Field, field_named


@dataclass(frozen=True)
class Placing:
    """Choice of a transform of the routes or of the key of rows by their values; `chosen.Choice` says it in Spark SQL.

    Attributes:
        kind: of the transform, in the causes of rows that are held back: "route_lacks(region)".
        what: who asks, for errors.
        of: "route", the one that an expression names; "split", those whose conditions are true; "key", of columns.
        expressions: what is asked of each image: one, one for each route, one for each column of the key.
        names: of the key's columns as they were asked for, in its order; none of routes.
        routes: those that may come, in the order of copies; none of a key.
        follows: whether an update stays one row, in the place of the row as it is.
        fields: schema_id → the table's columns as the transforms before left them, of the tables that are meant.
        judged: schema_id → those that are asked for, each once.
    """

    kind: str
    what: str
    of: Literal["route", "split", "key"]
    expressions: tuple[Expression, ...]
    names: tuple[str, ...]
    routes: tuple[str, ...]
    follows: bool
    fields: Mapping[int, tuple[Field, ...]]
    judged: Mapping[int, tuple[Field, ...]]

    def field(self, name: str, schema_id: int) -> Field | None:
        """Return the column that a name in an expression means; None for one of `PSEUDO_COLUMNS`, and for no column."""
        return field_named(self.fields[schema_id], name)

    def pseudo(self, name: str, schema_id: int) -> str | None:
        """Return the column of the row shape that a name means, None where it means one of the table's."""
        return None if self.field(name, schema_id) is not None else PSEUDO_COLUMNS.get(name.lower())

    def kept(self, schema_id: int) -> frozenset[str]:
        """Return the stored names of the columns that an insert of a table has to have."""
        return frozenset(leaf for field in self.fields[schema_id] for leaf in field.leaves())


@dataclass(frozen=True)
class Unplacing:
    """Route by table behind a choice by value: rows have that one.

    Attributes:
        tables: schema_ids of the tables that it routes.
    """

    tables: frozenset[int]
