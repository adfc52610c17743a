"""Declared columns of mock tables: their types in MySQL's words, and what ALTER TABLE statements make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from databus.binlog.log.statements.column_renames import columns_moved, columns_renamed
from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.schema_history.actions import AlterTable, action_of, renamed_to
from databus.binlog.schema_history.alter import alter
from databus.binlog.schema_history.declared_columns import read_column
from databus.binlog.schema_history.definition import ColumnDefinition, DeclaredType, TableDefinition
from databus.binlog.schema_history.sql_tokens import UndecidedError, tokens_of

KEY = "id"
MOST_DIGITS = 38
TYPES = (
    "tinyint, smallint, mediumint, int and bigint (each also unsigned), float, double, decimal(p,s), bit(n), year, "
    "date, datetime(f), timestamp(f), time(f), char(n), varchar(n), binary(n), varbinary(n), text and blob of all "
    "sizes, enum(…), set(…), json"
)
"""Types of columns, in words."""

_FLAVOR, _CHARSET = "mysql", "utf8mb4"
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_BYTES = ("tiny", "", "medium", "long")
_TEXTS, _BLOBS = tuple(f"{size}text" for size in _BYTES), tuple(f"{size}blob" for size in _BYTES)
_LARGEST = dict(zip(_TEXTS + _BLOBS, (255, 65_535, (1 << 24) - 1, (1 << 32) - 1) * 2, strict=True))
_UNITED = {
    *_INTEGERS, *_TEXTS, *_BLOBS, "float", "double", "decimal", "bit", "year", "date", "datetime", "timestamp", "time",
    "char", "varchar", "binary", "varbinary", "enum", "set", "json",
}  # fmt: skip
SIZED = frozenset({*_TEXTS, *_BLOBS, "char", "varchar", "binary", "varbinary", "json"})
"""Types whose values have a length."""

JSON_FRAME = len('{"n": 12345678, "s": ""}')
"""Characters of a document around its text."""


@dataclass(frozen=True)
class StatedChange:
    """ALTER TABLE statement of a script.

    Attributes:
        at_row: row changes of all tables before it.
        table: `database.table`.
        statement: its text.
        before: the table before it.
        after: the table behind it.
        renamed: names of columns before and after.
        moved: the same, and with "" behind those that are dropped.
    """

    at_row: int
    table: str
    statement: str
    before: TableDefinition
    after: TableDefinition
    renamed: tuple[tuple[str, str], ...]
    moved: tuple[tuple[str, str], ...]

    def came_from(self, name: str) -> str:
        """Return what a column behind the statement was called before it; "" for one that it adds."""
        known = {column.name.casefold(): column.name for column in self.before.columns}
        for old, new in self.renamed:
            if new == name:
                return known[old.casefold()]
        gone = {old.casefold() for old, _ in self.moved}
        return "" if name.casefold() in gone else known.get(name.casefold(), "")


def read_columns(columns: Mapping[str, str]) -> tuple[ColumnDefinition, ...]:
    """Return the columns of a table, the key first.

    Args:
        columns: name → type.

    Raises:
        ValueError: a type is none of `TYPES`; names the column.
    """
    found = [ColumnDefinition(KEY, DeclaredType("bigint"), nullable=False)]
    for name, kind in columns.items():
        quoted = name.replace("`", "``")
        try:
            column = read_column(tokens_of(f"`{quoted}` {kind}", _FLAVOR), _CHARSET, _FLAVOR).column
        except (UndecidedError, ValueError) as error:
            raise ValueError(f"column {name}: unknown type {kind!r} ({error}); known: {TYPES}") from None
        _check_type(column, kind)
        found.append(column)
    return tuple(found)


def read_statements(
    tables: tuple[str, ...], columns: Mapping[str, str], statements: tuple[tuple[int, str], ...]
) -> tuple[StatedChange, ...]:
    """Return the statements in the order of their rows, each with its table before and behind it.

    Args:
        tables: `database.table` names.
        columns: name → type, of each table.
        statements: row changes before it, and its text.

    Raises:
        ValueError: a statement is no ALTER TABLE of one of the tables, or one that mock rows cannot follow.
    """
    layout = read_columns(columns)
    now = {}
    for name in tables:
        database, _, table = name.partition(".")
        now[name] = TableDefinition(database, table, layout, (KEY,), _CHARSET)
    found = []
    for at_row, statement in sorted(statements, key=lambda each: each[0]):
        try:
            change = _altered(now, at_row, statement)
        except UndecidedError as error:
            raise ValueError(f"statement {statement!r} at row {at_row} is not understood: {error}") from None
        except ValueError as error:
            raise ValueError(f"statement {statement!r} at row {at_row}: {error}") from None
        now[change.table] = change.after
        found.append(change)
    return tuple(found)


def longest(kind: DeclaredType) -> int:
    """Return the most characters or bytes of a value of a type of `SIZED`."""
    if kind.name in _LARGEST:
        return _LARGEST[kind.name]
    return kind.numbers[0] if kind.numbers else _LARGEST["text"]


def _altered(now: Mapping[str, TableDefinition], at_row: int, statement: str) -> StatedChange:
    action = action_of(QueryEvent("", statement), _FLAVOR)
    if not isinstance(action, AlterTable):
        raise ValueError("a script takes ALTER TABLE statements alone")
    before = now.get(str(action.name))
    if before is None:
        raise ValueError(f"it names no table of the source: {', '.join(now)}")
    if renamed_to(action):
        raise ValueError("a mock table keeps its name")
    words = {token.word for token in tokens_of(statement, _FLAVOR)}
    if told := sorted(words & {"DEFAULT", "GENERATED", "AUTO_INCREMENT"}):
        raise ValueError(f"{told[0]} is not followed: rows from before it have NULL in a new column")
    after = alter(before, action.changes, _FLAVOR)
    found = StatedChange(
        at_row, str(action.name), statement, before, after, columns_renamed(action), columns_moved(action)
    )
    _check_change(found)
    return found


def _check_change(change: StatedChange) -> None:
    known = {column.name: column for column in change.before.columns}
    if change.after.primary_key != (KEY,) or change.came_from(KEY) != KEY:
        raise ValueError(f"the key {KEY} stays as it is")
    for column in change.after.columns:
        old = known.get(change.came_from(column.name))
        if old is not None and old.type == column.type and old.nullable == column.nullable:
            continue
        if column.name == KEY:
            raise ValueError(f"the key {KEY} stays as it is")
        _check_type(column, str(column.type))
        if old is not None and not widens(old.type, column.type):
            raise ValueError(f"column {column.name} of type {column.type} does not hold every value of {old.type}")


def _check_type(column: ColumnDefinition, written: str) -> None:
    kind = column.type
    if kind.name not in _UNITED or kind.compressed or column.charset not in ("", _CHARSET):
        raise ValueError(f"column {column.name}: unknown type {written!r}; known: {TYPES}")
    if column.nullable is False or column.generated or not column.visible:
        raise ValueError(
            f"column {column.name}: {written!r} is more than a type: mock columns are visible and take NULL"
        )
    if kind.name == "decimal" and not (1 <= kind.numbers[0] <= MOST_DIGITS and kind.numbers[1] <= kind.numbers[0]):
        raise ValueError(f"column {column.name}: decimals have 1 to {MOST_DIGITS} digits, not {written!r}")
    if kind.name in ("datetime", "timestamp", "time") and (kind.numbers or (0,))[0] > 6:
        raise ValueError(f"column {column.name}: {written!r} has more than 6 fractional digits")
    if kind.name == "bit" and not 1 <= kind.numbers[0] <= 64:
        raise ValueError(f"column {column.name}: {written!r} has not 1 to 64 bits")
    if kind.name in ("varbinary", "char", "binary") and not kind.numbers:
        raise ValueError(f"column {column.name}: {written!r} needs a length")
    if kind.unsigned and kind.name not in _INTEGERS:
        raise ValueError(f"column {column.name}: only integers are unsigned, not {written!r}")


def widens(old: DeclaredType, new: DeclaredType) -> bool:  # noqa: PLR0911 - one return per family
    """Return whether a type holds every value of another one."""
    if old == new:
        return True
    if old.name in _INTEGERS and new.name in _INTEGERS:
        further = _INTEGERS.index(new.name) - _INTEGERS.index(old.name)
        return further > (0 if not new.unsigned and old.unsigned else -1) and (old.unsigned or not new.unsigned)
    if old.name == new.name == "decimal":
        (precision, scale), (wider, finer) = old.numbers, new.numbers
        return finer >= scale and wider - finer >= precision - scale
    if old.name == new.name and old.name in ("datetime", "timestamp", "time"):
        return (new.numbers or (0,)) >= (old.numbers or (0,))
    for texts in (("char", "varchar", *_TEXTS), ("varbinary", *_BLOBS)):
        if old.name in texts and new.name in texts:
            return longest(new) >= longest(old)
    if old.name == new.name == "enum":
        return new.values[: len(old.values)] == old.values
    return (old.name, new.name) == ("float", "double")


def check_sizes(
    sizes: Mapping[str, int], columns: Mapping[str, str], changes: tuple[StatedChange, ...], most: int
) -> None:
    """Look that each size is of a column whose values have a length, and that its type holds it.

    Raises:
        ValueError: it is not; names the column.
    """
    every = {column.name: column.type for each in changes for column in each.after.columns}
    every |= {column.name: column.type for column in read_columns(columns)}
    for name, size in sizes.items():
        if name not in every:
            raise ValueError(f"sizes: there is no column {name!r}; known: {', '.join(every)}")
        kind = every[name]
        if kind.name not in SIZED:
            raise ValueError(f"sizes: values of column {name} ({kind}) have no length")
        json = kind.name == "json"
        least, largest = (JSON_FRAME, most) if json else (1, min(most, longest(kind)))
        if not least <= size <= largest:
            raise ValueError(f"sizes: column {name} ({kind}) has values of {least} to {largest:,}, not {size:,}")
