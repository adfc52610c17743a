"""Columns of a sequence table: their types in rows, and what the table lacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import SET

from databus.core.errors.source import SequenceTableError
from databus.sources.simple import Table

if TYPE_CHECKING:
    from databus.sources.sequence_table.spec import SequenceTable

_MOST_DIGITS = 38
_OF_TRANSACTIONS = ("pg_current_xact_id", "txid_current")


@dataclass(frozen=True)
class Columns:
    """Columns of the table.

    Attributes:
        table: the table as rows know it.
        as_text: columns that the server turns into text.
        types: column → SQLAlchemy's type, of all others.
    """

    table: Table
    as_text: frozenset[str]
    types: Mapping[str, Any]

    def selected(self, name: str, text: Any) -> Any:
        """Return a column as a query names it; `text` is the server's type for text."""
        if name in self.as_text:
            return sa.cast(sa.column(name), text).label(name)
        return sa.column(name, self.types.get(name))

    def row(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the image of a row."""
        return {name: _value(kind, values[name]) for name, kind in self.table.columns.items()}


def reflected(session: sa.Connection, spec: SequenceTable) -> tuple[Columns, list[SequenceTableError]]:
    """Return the columns as they are on the server, and what the table lacks, with the statement that adds it.

    Raises:
        SequenceTableError: the table is not there, or a column to deliver has a type that rows cannot have.
    """
    schema, _, name = spec.table.partition(".")
    inspector = sa.inspect(session)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)  # types that SQLAlchemy does not know are read as text
        try:
            found = {column["name"]: column for column in inspector.get_columns(name, schema)}
        except sa.exc.NoSuchTableError:
            raise SequenceTableError(
                f"{spec.conn_id}: there is no table {spec.table}, or the account may not see it",
                hint=f"Create the table, or GRANT SELECT ON {spec.table} to the account.",
            ) from None
        key = tuple(inspector.get_pk_constraint(name, schema)["constrained_columns"])
        listed: list[tuple[tuple[str | None, ...], bool]] = [
            (tuple(each["column_names"]), bool(each["unique"])) for each in inspector.get_indexes(name, schema)
        ]
        listed += [(tuple(each["column_names"]), True) for each in inspector.get_unique_constraints(name, schema)]
    indexes = [(tuple(columns), bool(unique)) for columns, unique in [(key, True), *listed]]
    wanted = spec.columns or tuple(each for each in found if each != spec.transaction)
    lacking = list(_lacking(spec, found, key, indexes, session.dialect.name))
    if absent := [each for each in wanted if each not in found]:
        of_trigger = f"Make the log of {spec.changes_of} by `databus outbox install`, or leave `changes_of` out."
        lacking.append(
            _unfit(spec, f"has no column {absent[0]}", of_trigger if spec.changes_of else "Correct `columns`.")
        )
    kinds: dict[str, str] = {}
    as_text = set()
    for each in wanted:
        if each in found:
            kind, textual = kind_of(spec.conn_id, spec.table, found[each], session.dialect.name)
            kinds[each] = kind
            if textual:
                as_text.add(each)
    key = key if key and set(key) <= kinds.keys() else (spec.number,) if spec.number in kinds else ()
    types = {each: column["type"] for each, column in found.items() if each not in as_text}
    types |= {each: sa.Float() for each, kind in types.items() if isinstance(kind, sa.Float)}  # never as Decimal
    return Columns(Table(spec.table, kinds, key), frozenset(as_text), types), lacking


def _lacking(
    spec: SequenceTable,
    found: Mapping[str, Any],
    key: tuple[str, ...],
    indexes: Sequence[tuple[tuple[str | None, ...], bool]],
    dialect: str,
) -> Iterator[SequenceTableError]:
    table, number, txid = spec.table, spec.number, spec.transaction
    if number not in found:
        yield _unfit(spec, f"has no column {number}", "Correct `number`.")
    else:
        if not isinstance(found[number]["type"], sa.Integer):
            yield _unfit(spec, f"has a column {number} that is no whole number", "Correct `number`.")
        if found[number]["nullable"] and key != (number,):
            yield _unfit(
                spec, f"allows NULL in {number}: such rows have no place", f"Make it NOT NULL: ALTER TABLE {table} …"
            )
        if not any(columns == (number,) and unique for columns, unique in indexes):
            what = "not known to be unique" if any(c[:1] == (number,) for c, _ in indexes) else "without an index"
            yield _unfit(spec, f"has a column {number} {what}", f"CREATE UNIQUE INDEX … ON {table} ({number})")
    if spec.time not in found:
        yield _unfit(
            spec, f"has no column {spec.time}",
            f"Correct `time`, or ALTER TABLE {table} ADD {spec.time} timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP",
        )  # fmt: skip
    elif found[spec.time]["nullable"] or not isinstance(found[spec.time]["type"], sa.DateTime):
        yield _unfit(spec, f"has a column {spec.time} that is no time, or may be NULL", "Correct `time`.")
    if dialect != "postgresql" or spec.lag_window is not None:
        return
    adds = (
        f"ALTER TABLE {table} ADD COLUMN {txid} xid8 NOT NULL DEFAULT pg_current_xact_id(); "
        f"CREATE INDEX ON {table} ({txid})"
    )
    if txid not in found:
        yield _unfit(spec, f"has no column {txid} with the id of a row's transaction", adds)
        return
    default = str(found[txid].get("default") or "")
    if found[txid]["nullable"] or not any(name in default for name in _OF_TRANSACTIONS):
        yield _unfit(
            spec, f"has a column {txid} that may be NULL, or is not filled with the transaction's id",
            f"ALTER TABLE {table} ALTER {txid} SET DEFAULT pg_current_xact_id(), ALTER {txid} SET NOT NULL",
        )  # fmt: skip
    if not any(columns[:1] == (txid,) for columns, _ in indexes):
        yield _unfit(spec, f"has a column {txid} without an index", f"CREATE INDEX ON {table} ({txid})")


def _unfit(spec: SequenceTable, what: str, hint: str) -> SequenceTableError:
    return SequenceTableError(f"{spec.conn_id}: table {spec.table} {what}", hint=hint)


def kind_of(conn_id: str, table: str, column: Mapping[str, Any], dialect: str) -> tuple[str, bool]:  # noqa: PLR0911
    """Return a column's type in rows, and whether the server is to turn it into text.

    Raises:
        SequenceTableError: rows cannot have the type.
    """
    of = column["type"]
    unsigned = bool(getattr(of, "unsigned", False))
    if isinstance(of, sa.Boolean):
        return "int", False
    if isinstance(of, sa.BigInteger):
        return ("decimal(20,0)" if unsigned else "bigint"), False
    if isinstance(of, sa.Integer):
        return ("bigint" if unsigned else "int"), False
    if isinstance(of, sa.Float):
        return "double", False
    if isinstance(of, sa.Numeric):
        bounded = of.precision is not None and of.precision <= _MOST_DIGITS
        return (f"decimal({of.precision},{of.scale or 0})", False) if bounded else ("varchar", True)
    if isinstance(of, sa.DateTime):
        return "datetime(6)", False
    if isinstance(of, sa.Date):
        return "date", False
    if isinstance(of, (sa.Enum, SET)):  # the driver's SET has no order, and an ENUM may have a value that is not listed
        return "varchar", True
    if isinstance(of, sa.String) and not isinstance(of, sa.LargeBinary):
        return "varchar", dialect == "postgresql"
    binary = isinstance(of, (sa.LargeBinary, sa.types._Binary))  # noqa: SLF001 - the base of BINARY and BLOB
    if not binary and (dialect == "postgresql" or isinstance(of, (sa.JSON, sa.Time, sa.Uuid))):
        return "varchar", True
    raise SequenceTableError(
        f"{conn_id}: column {column['name']} of {table} has the type {of!r}, which rows cannot have",
        hint="Leave it out by `columns`, or add a generated column with its text.",
    )


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "varchar":
        return value if isinstance(value, str) else str(value)
    if kind == "int":
        return int(value) if isinstance(value, bool) else value
    if kind == "datetime(6)" and isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value.date() if kind == "date" and isinstance(value, datetime) else value


def utc(value: datetime | date) -> datetime:
    """Return a time of the table as an aware one; without a zone it is UTC.

    Raises:
        SequenceTableError: it is no time that a calendar has.
    """
    if not isinstance(value, datetime):
        raise SequenceTableError(f"a row has the time {value!r}", hint="Correct the row's time.")
    return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
