"""Cursor of a snapshot in a table: values of key columns as SQL literals, and how a column compares with one.

The server writes the values and the server compares them: nothing here knows an order. Tried on MySQL 8.0 and MariaDB
10.11; each form uses an index as a range unless it says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from databus.binlog.schema_history.definition import DeclaredType

Cursor = tuple[str, ...]
"""Mark of the key that it is of, then a literal for each of its columns; () before the first chunk."""

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit")
_FLOATS = ("float", "double")
_BYTES = ("binary", "varbinary")
_TEXTS = ("char", "varchar")
_TEMPORALS = {"date": "DATE", "datetime": "TIMESTAMP", "timestamp": "TIMESTAMP", "time": "TIME"}
_NUMBERED = ("enum", "set")
_WRITTEN = ("uuid", "inet4", "inet6")

ORDERED_TYPES = frozenset({*_INTEGERS, "decimal", *_FLOATS, *_BYTES, *_TEXTS, *_TEMPORALS, *_NUMBERED, *_WRITTEN})
"""Types of which an index over whole values can be walked."""

_LISTED = 600
"""Most values of an ENUM or SET that are written as a list, of which the server makes ranges."""

_OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def quoted(name: str) -> str:
    """Return a name as SQL takes it whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class KeyColumn:
    """Key column of a table that is read in chunks.

    Attributes:
        name: column name.
        type: declared type, one of ORDERED_TYPES.
        collation: the server's name for the collation of a text column; "" for others.
        descending: whether the index has its highest value first.
    """

    name: str
    type: DeclaredType
    collation: str = ""
    descending: bool = False

    @property
    def mark(self) -> str:
        """Text that changes with whatever could change the order of values."""
        facts = (self.name, self.type.name, self.type.unsigned, self.type.values, self.collation, self.descending)
        return repr(facts)

    @property
    def asked(self) -> str:
        """SQL expression whose value `literal` takes, exact.

        For dates the session's time zone is to be +00:00, and its SQL mode one that takes zeros and invalid days.
        """
        name, kind = quoted(self.name), self.type.name
        if kind in _FLOATS:
            return f"{name} + 0e0"  # as a double: CAST to text cuts it to 22 characters
        if kind in (*_BYTES, *_TEXTS):
            return f"HEX({name})"
        if kind in _INTEGERS:
            return f"CAST({name} + 0 AS CHAR)"  # without ZEROFILL, and BIT as a number
        return f"CAST(CAST({name} AS UNSIGNED) AS CHAR)" if kind in _NUMBERED else f"CAST({name} AS CHAR)"

    def literal(self, value: Any) -> str:
        """Return a literal that the server compares equal to a stored value.

        Args:
            value: the value of `asked` as PyMySQL gives it.
        """
        kind = self.type.name
        if kind in _FLOATS:
            text = repr(float(value))  # shortest that reads back the same; FLOAT compares as a double
            return text if "e" in text else f"{text}e0"
        text = value.decode() if isinstance(value, bytes) else str(value)
        if kind in _BYTES:
            return f"X'{text}'"
        if kind in _TEXTS:
            return f"_{self.collation.partition('_')[0]} X'{text}' COLLATE {self.collation}"
        if kind in _TEMPORALS:
            return f"{_TEMPORALS[kind]}'{text}'"
        return f"'{text}'" if kind in _WRITTEN else text

    def behind(self, literal: str, *, or_equal: bool = False) -> str:
        """Return the condition of values that the index has behind one, and with `or_equal` that one itself."""
        return self._compared(">=" if or_equal else ">", literal)

    def before(self, literal: str, *, or_equal: bool = False) -> str:
        """Return the condition of values that the index has before one, and with `or_equal` that one itself."""
        return self._compared("<=" if or_equal else "<", literal)

    @property
    def behind_all(self) -> str:
        """Condition that no row meets and that the server takes for a range, where `behind` has no value left."""
        return f"{quoted(self.name)} IN ({self._highest + 1})" if self.type.name == "enum" else "FALSE"

    def equals(self, literal: str) -> str:
        """Return the condition of values equal to one."""
        return f"{self._number} = {literal}"

    @property
    def ordered(self) -> str:
        """Item of an ORDER BY in the order of the index."""
        return quoted(self.name) + (" DESC" if self.descending else "")

    @property
    def reversed(self) -> str:
        """Item of an ORDER BY against the order of the index."""
        return quoted(self.name) + ("" if self.descending else " DESC")

    @property
    def numbered(self) -> bool:
        """Values are numbers to the index and texts to a reader: ENUM and SET."""
        return self.type.name in _NUMBERED

    @property
    def width(self) -> int:
        """Bytes of a value at most, roughly: to choose between indexes."""
        numbers, kind = self.type.numbers, self.type.name
        most = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "float": 4, "year": 1, "date": 3, "inet4": 4}
        if kind in _TEXTS:
            return 4 * (numbers or (1,))[0]
        if kind in _BYTES:
            return (numbers or (1,))[0]
        if kind in ("uuid", "inet6"):
            return 16
        return numbers[0] // 2 + 1 if kind == "decimal" else 2 if kind == "enum" else most.get(kind, 8)

    def _compared(self, sign: str, literal: str) -> str:
        sign = _OPPOSITE[sign] if self.descending else sign
        if self.numbered and self._highest <= _LISTED:
            # A comparison by order of these is no range for the server, one by equality is.
            number = int(literal)
            first = {"<": 0, "<=": 0, ">": number + 1, ">=": number}[sign]
            last = {"<": number - 1, "<=": number, ">": self._highest, ">=": self._highest}[sign]
            listed = ", ".join(map(str, range(first, last + 1)))
            return f"{quoted(self.name)} IN ({listed})" if listed else "FALSE"
        return f"{self._number} {sign} {literal}"

    @property
    def _number(self) -> str:
        """The column as it compares with a literal; a long SET, which else counts as signed, in no range."""
        if self.type.name == "set" and self._highest > _LISTED:
            return f"CAST({quoted(self.name)} AS UNSIGNED)"
        return quoted(self.name)

    @property
    def _highest(self) -> int:
        """Number of the last value of an ENUM or SET."""
        members = len(self.type.values)
        return members if self.type.name == "enum" else (1 << members) - 1
