"""Fate of a row at a condition: kept as it is, left out, or made a delete or an insert where an update crosses it.

A sink that filters sees a part of a table. An update moves a row inside that part, into it or out of it, and who reads
the sink needs an update, an insert or a delete: as a primary-key update gives, and a row filter of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from databus.core.events import Op
from databus.rows.frames.expression import PSEUDO_COLUMNS, Expression
from databus.rows.frames.fields import Field, field_named, sql_string

LEFT_OUT = Op.FILTERED.value
"""Fate of a row that the condition does not keep; any other fate but `UNJUDGED` is the op that the row goes on with."""

UNJUDGED = "?"
"""Fate of a row that cannot be judged: its images lack a column of the condition."""

CROSSES = f"`op` = '{Op.UPDATE}' AND `before` IS NOT NULL AND `after` IS NOT NULL"
"""SQL of the rows that can enter or leave: updates with both images."""


@dataclass(frozen=True)
class Crossing:
    """Crossing of a filter: what is asked of an update beside the condition itself, as Spark SQL over the row shape.

    Attributes:
        was: the condition, with the columns of the before-image.
        as_delete: the condition of the delete that an update which leaves becomes.
        as_insert: the condition of the insert that an update which enters becomes.
        lacked: whether the before-image lacks a column of the condition.
    """

    was: str
    as_delete: str
    as_insert: str
    lacked: str


def fate(kept: str, lacks: str, crossing: Crossing | None) -> str:
    """Return SQL of a row's fate.

    Args:
        kept: the condition of the row as it is.
        lacks: whether no image of the row has some column of the condition.
        crossing: what is asked of updates; None where one that leaves is left out.
    """
    if crossing is None:
        kept_as, if_not = "`op`", ""
    else:
        # A kept update whose before-image lacks a column stays an update: the row that it leaves behind is right.
        enters = f"NOT {crossing.lacked} AND NOT {_true(crossing.was)} AND {_true(crossing.as_insert)}"
        kept_as = f"CASE WHEN {CROSSES} AND {enters} THEN '{Op.CREATE}' ELSE `op` END"
        if_not = (
            f" WHEN {CROSSES} AND {crossing.lacked} THEN '{UNJUDGED}'"
            f" WHEN {CROSSES} AND {_true(crossing.was)} AND {_true(crossing.as_delete)} THEN '{Op.DELETE}'"
        )
    return (
        f"CASE WHEN `op` = '{LEFT_OUT}' THEN '{LEFT_OUT}' WHEN {lacks} THEN '{UNJUDGED}' "
        f"WHEN {_true(kept)} THEN {kept_as}{if_not} ELSE '{LEFT_OUT}' END"
    )


def lacking(fields: Iterable[Field], image: str) -> str:
    """Return SQL that is true where an image has not all of these columns."""
    return "(" + (" OR ".join(f"{field.raw(image)} IS NULL" for field in fields) or "false") + ")"


def lacking_names(fields: Iterable[Field], image: str) -> str:
    """Return SQL of the cause that the quarantine shows: "filter_lacks(amount, status)"."""
    names = [f"CASE WHEN {field.raw(image)} IS NULL THEN {sql_string(field.column.name)} END" for field in fields]
    return f"concat('filter_lacks(', concat_ws({', '.join([sql_string(', '), *names])}), ')')"


def _true(condition: str) -> str:
    # Also gives a condition that is NULL and no more ("NULL") the type that CASE asks for.
    return f"coalesce({condition}, false)"


@dataclass(frozen=True)
class Condition:
    """Condition of one filter on changes without rows: what the direct lane compiles for decoded columns.

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
