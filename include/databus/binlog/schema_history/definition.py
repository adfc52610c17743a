"""Table definitions: names, declared types, character sets and keys, as information_schema and DDL give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class LogPosition(NamedTuple):
    """A place of one server's log; places compare in log order.

    Attributes:
        number: number of the log file.
        pos: position in it.
    """

    number: int
    pos: int


def place_of(file: str, pos: int) -> LogPosition:
    """Return the place that a file name and position stand for."""
    return LogPosition(int(file.rpartition(".")[2]), pos)


class TableName(NamedTuple):
    """A table's full name.

    Attributes:
        database: database name.
        table: table name; "" stands for the database itself.
    """

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True)
class DeclaredType:
    """A column's type in its canonical words.

    Attributes:
        name: e.g. "int", "varchar", "enum"; aliases are resolved.
        numbers: length, precision and scale, or fractional digits; () where none is given.
        unsigned: UNSIGNED (ZEROFILL implies it).
        values: members of an ENUM or SET.
        compressed: MariaDB's COMPRESSED.
    """

    name: str
    numbers: tuple[int, ...] = ()
    unsigned: bool = False
    values: tuple[str, ...] = ()
    compressed: bool = False

    def __str__(self) -> str:
        inside = ",".join(map(str, self.numbers)) or ",".join(f"'{v}'" for v in self.values)
        return self.name + (f"({inside})" if inside else "") + (" unsigned" if self.unsigned else "")


@dataclass(frozen=True)
class ColumnDefinition:
    """Column definition as it was declared.

    Attributes:
        name: column name.
        type: declared type.
        charset: character set of a text, ENUM or SET column; "" for others and where it cannot be determined.
        nullable: whether NULL is allowed; None where it cannot be determined.
        visible: False for an INVISIBLE column.
        generated: "", "stored", "virtual", "row start" or "row end".
    """

    name: str
    type: DeclaredType
    charset: str = ""
    nullable: bool | None = None
    visible: bool = True
    generated: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class TableDefinition:
    """A table as it was declared.

    Attributes:
        database: database name.
        table: table name.
        columns: columns in table order, without the hidden ones of WITH SYSTEM VERSIONING.
        primary_key: names of the key columns in key order, without a ROW END column.
        charset: default character set of columns added later; "" where it cannot be determined.
        versioned: MariaDB's WITH SYSTEM VERSIONING.
    """

    database: str
    table: str
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[str, ...] = ()
    charset: str = ""
    versioned: bool = False

    @property
    def name(self) -> TableName:
        """Full name."""
        return TableName(self.database, self.table)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.columns))})"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableDefinition:
        """Read what `to_json` wrote."""
        columns = []
        for column in data["columns"]:
            kind = column["type"]
            declared = DeclaredType(
                kind["name"], tuple(kind["numbers"]), kind["unsigned"], tuple(kind["values"]), kind["compressed"]
            )
            columns.append(ColumnDefinition(**{**column, "type": declared}))
        return cls(**{**data, "columns": tuple(columns), "primary_key": tuple(data["primary_key"])})
