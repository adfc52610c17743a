"""Marks of cleaning: a table beside the sequence table that says up to where rows were deleted, and by which flow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from databus.core.errors.source import SequenceTableError
from databus.core.findings import Finding
from databus.core.positions.offsets import Offset, Ordering, offset_from_json

MARKS = "databus_cleaned"


class Marks:
    """Mark of one sequence table.

    Args:
        schema: schema or database of both tables.
        table: `schema.table` of the sequence table.
        reader: installation and flow that cleans.
    """

    def __init__(self, schema: str, table: str, reader: str):
        self._schema, self._table, self._reader = schema, table, reader
        self._marks = sa.table(
            MARKS, sa.column("log_table"), sa.column("cleaned_by"), sa.column("place"), schema=schema
        )

    @property
    def creates(self) -> str:
        """Statement that makes the table of marks."""
        return (
            f"CREATE TABLE {self._schema}.{MARKS} (log_table varchar(200) PRIMARY KEY, cleaned_by varchar(200) "
            "NOT NULL, place varchar(4000) NOT NULL)"
        )

    def read(self, session: sa.Connection) -> Offset | None:
        """Return up to where rows were deleted; None where none were."""
        if not sa.inspect(session).has_table(MARKS, schema=self._schema):
            return None
        found = session.execute(self._of_table(self._marks.c.place)).scalar()
        return None if found is None else offset_from_json(json.loads(found))

    def advance(self, session: sa.Connection, place: Offset) -> bool:
        """Write down a place inside the transaction that deletes; return False where the mark is there already.

        Raises:
            SequenceTableError: another flow cleans the table.
        """
        found = session.execute(self._of_table(self._marks.c.cleaned_by, self._marks.c.place).with_for_update()).first()
        text = json.dumps(place.to_json())
        if found is None:
            session.execute(sa.insert(self._marks).values(log_table=self._table, cleaned_by=self._reader, place=text))
            return True
        if found[0] != self._reader:
            raise self._of_another(found[0])
        if place.compare(offset_from_json(json.loads(found[1]))) is not Ordering.AFTER:
            return False
        session.execute(sa.update(self._marks).where(self._marks.c.log_table == self._table).values(place=text))
        return True

    def findings(self, session: sa.Connection, subject: str) -> Iterator[Finding]:
        """Yield why rows cannot be cleaned."""
        if not sa.inspect(session).has_table(MARKS, schema=self._schema):
            lacking = f"rows of {self._table} are to be cleaned, and the table {self._schema}.{MARKS} is not there"
            yield Finding.of(subject, SequenceTableError(lacking, hint=self.creates))
            return
        by = session.execute(self._of_table(self._marks.c.cleaned_by)).scalar()
        if by is not None and by != self._reader:
            yield Finding.of(subject, self._of_another(by))

    def _of_table(self, *columns: sa.ColumnElement[str]) -> sa.Select[Any]:
        found: sa.Select[Any] = sa.select(*list[Any](columns))
        return found.where(self._marks.c.log_table == self._table)

    def _of_another(self, by: str) -> SequenceTableError:
        return SequenceTableError(
            f"rows of {self._table} are cleaned by {by}: one flow alone can do it",
            hint=f"Leave `clean` out, or, where that flow is gone, delete the row of {self._table} in "
            f"{self._schema}.{MARKS}.",
        )
