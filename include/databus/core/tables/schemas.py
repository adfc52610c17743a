"""Table schemas as they stood at a position of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

NO_SCHEMA = -1
"""`schema_id` of rows that are statements."""


@dataclass(frozen=True)
class ColumnSchema:
    """Column schema of a captured table.

    Attributes:
        name: column name.
        type: type in the source's words, lower case, e.g. "decimal(12,2) unsigned", "enum", "datetime(6)".
        spark_type: Spark SQL type of the typed view, e.g. "decimal(12,2)", "bigint", "timestamp_ntz".
        nullable: whether NULL is allowed, as far as the log says.
    """

    name: str
    type: str
    spark_type: str
    nullable: bool = True


@dataclass(frozen=True)
class RenamedTable:
    """A table that got another name.

    Attributes:
        old: `database.table` before.
        new: `database.table` after.
        behind: number of schemas of the plan whose first rows come before it: those of lower `schema_id`.
    """

    old: str
    new: str
    behind: int = 0


@dataclass(frozen=True)
class TableChange:
    """Change of one table's name, or of names of its columns, by a statement; it may be none of the flow's.

    Attributes:
        table: `database.table` before it.
        becomes: `database.table` behind it; "" where a table of that name is gone, or made anew.
        captured: whether what it becomes is one of the flow's tables.
        columns: names of columns before and after, all of them names from before it.
    """

    table: str
    becomes: str
    captured: bool = False
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MovedColumns:
    """A statement behind which names of a table's columns stand for other columns than before it.

    Attributes:
        table: `database.table` behind it. Of a table that takes another one's name, as after an online schema change,
            what became of its columns in the range.
        columns: names before and behind, all of one moment; "" behind for a column that is dropped.
        file: log file of the statement.
        pos: file position behind it.
        rows: how many rows of the plan lie before it.
        first: (`schema_id`, rows before its first one) of each schema with rows behind it.
    """

    table: str
    columns: tuple[tuple[str, str], ...]
    file: str = ""
    pos: int = 0
    rows: int = 0
    first: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class TableSchema:
    """The columns of one table, valid for the rows that carry `schema_id`.

    Attributes:
        schema_id: number of this schema inside one plan, from 0.
        database: database (MySQL schema) name.
        table: table name.
        columns: columns in table order.
        primary_key: names of the key columns in key order; empty when the table has none.
    """

    schema_id: int
    database: str
    table: str
    columns: tuple[ColumnSchema, ...]
    primary_key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableSchema:
        """Read what `to_json` wrote."""
        columns = tuple(ColumnSchema(**c) for c in data["columns"])
        return cls(data["schema_id"], data["database"], data["table"], columns, tuple(data["primary_key"]))


@dataclass(frozen=True)
class ChosenKey:
    """Chosen key of a table's records.

    Attributes:
        columns: names, as the transforms before left them.
        unique: whether no two rows of the table share a key.
    """

    columns: tuple[str, ...]
    unique: bool = False
