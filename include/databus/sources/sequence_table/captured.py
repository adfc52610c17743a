"""Captured table: the one whose triggers write row images into a sequence table, and how an image becomes a row."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from databus.core.errors.source import DecodeError, SequenceTableError
from databus.formats.literals import JsonNumber, loads_written, written
from databus.sources.sequence_table.columns import kind_of
from databus.sources.simple import Table

if TYPE_CHECKING:
    from databus.sources.sequence_table.spec import SequenceTable

BEFORE, AFTER = "before", "after"
"""Columns of the log with the images of a row, JSON objects; NULL before an insert and after a delete."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - rows have times without a zone, in UTC


@dataclass(frozen=True)
class CapturedTable:
    """Captured table.

    Attributes:
        log: `schema.table` with the images.
        table: the captured table, as rows know it.
        grows: whether an image of a trigger always has all columns that the table had: one that it lacks was added
            later, and is NULL. Else the trigger may be older than the column.
    """

    log: str
    table: Table
    grows: bool

    def image(self, text: str | None, number: int) -> dict[str, Any] | None:
        """Return a row of the table from its image; None for None.

        Args:
            text: a JSON object, column → value.
            number: of the log's row, which errors name.

        Raises:
            SequenceTableError: the image lacks a column.
            DecodeError: it is no image, or holds a value of another type.
        """
        if text is None:
            return None
        try:
            given = loads_written(text)
        except ValueError as error:
            raise self._unread(number, f"is no JSON: {error}") from None
        if not isinstance(given, dict):
            raise self._unread(number, "is no JSON object")
        if lacking := [name for name in self.table.columns if name not in given]:
            renamed = [name for name in given if name not in self.table.columns]
            if not self.grows or renamed or set(lacking) & set(self.table.key):
                raise self._lacking(number, lacking[0])
        return {name: self._value(name, kind, given.get(name), number) for name, kind in self.table.columns.items()}

    def _value(self, name: str, kind: str, value: Any, number: int) -> Any:
        try:
            return image_value(kind, value)
        except (ValueError, TypeError, InvalidOperation, OverflowError):
            raise self._unread(number, f"has for {name} the value {value!r}, which is no {kind}") from None

    def _unread(self, number: int, what: str) -> DecodeError:
        return DecodeError(
            f"row {number} of {self.log}: an image of {self.table.name} {what}",
            hint=f"Correct the image in {self.log}, or leave the column out by `columns`.",
        )

    def _lacking(self, number: int, column: str) -> SequenceTableError:
        return SequenceTableError(
            f"row {number} of {self.log}: an image of {self.table.name} lacks the column {column}, which is there now",
            hint=f"Run `databus outbox install --table {self.table.name}` again, so that the triggers know the column. "
            f"Add it to the images of rows that are there, with the value it had, or leave it out by `columns`.",
        )


def captured(session: sa.Connection, spec: SequenceTable) -> CapturedTable:
    """Return the captured table of a source as it is on the server.

    Raises:
        SequenceTableError: it is not there, has no primary key, or a column to deliver has a type that rows cannot
            have.
    """
    schema, _, name = spec.changes_of.partition(".")
    inspector = sa.inspect(session)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)  # types that SQLAlchemy does not know are read as text
        try:
            found = {column["name"]: column for column in inspector.get_columns(name, schema)}
        except sa.exc.NoSuchTableError:
            raise SequenceTableError(
                f"{spec.conn_id}: there is no table {spec.changes_of}, or the account may not see it",
                hint=f"Correct `changes_of`, or GRANT SELECT ON {spec.changes_of} to the account: its columns are read "
                "there.",
            ) from None
        key = tuple(inspector.get_pk_constraint(name, schema)["constrained_columns"])
    if not key:
        raise SequenceTableError(
            f"{spec.conn_id}: table {spec.changes_of} has no primary key: which row an update or delete means is not "
            "known",
            hint="Give it one: ALTER TABLE … ADD PRIMARY KEY (…).",
        )
    wanted = spec.columns or tuple(found)
    if absent := [each for each in wanted if each not in found]:
        raise SequenceTableError(
            f"{spec.conn_id}: table {spec.changes_of} has no column {absent[0]}", hint="Correct `columns`."
        )
    if left := [each for each in key if each not in wanted]:
        raise SequenceTableError(
            f"{spec.conn_id}: `columns` leaves out {left[0]}, which is of the key of {spec.changes_of}",
            hint="Add it to `columns`.",
        )
    dialect = session.dialect.name
    kinds = {each: kind_of(spec.conn_id, spec.changes_of, found[each], dialect)[0] for each in wanted}
    return CapturedTable(spec.table, Table(spec.changes_of, kinds, key), grows=dialect == "postgresql")


def image_value(kind: str, value: Any) -> Any:  # noqa: PLR0911 - one for each type
    """Return a value of a JSON image as one of a row's type.

    Raises:
        ValueError, TypeError, InvalidOperation, OverflowError: it is of another type.
    """
    if value is None:
        return None
    if kind == "varchar":
        return str(value) if isinstance(value, str) else written(value)
    if isinstance(value, bool):
        return int(value) if kind in ("int", "bigint") else _refused(value)
    if not isinstance(value, str):
        return _refused(value)
    if kind in ("int", "bigint"):
        return int(value)
    if kind == "double":
        return float(value)
    if kind == "date":
        return date.fromisoformat(value)
    if kind == "datetime(6)":
        return _time(value)
    number = Decimal(value)
    return number if number.is_finite() else _refused(value)


def _time(value: str) -> datetime:
    if isinstance(value, JsonNumber):  # of MySQL's TIMESTAMP: seconds since 1970
        micros = Decimal(value) * 1_000_000
        return _EPOCH + timedelta(microseconds=int(micros)) if micros > 0 else _refused(value)
    found = datetime.fromisoformat(value)
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def _refused(value: Any) -> Any:
    raise ValueError(value)
