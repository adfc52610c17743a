"""Types of columns with a value each, the form that Debezium gives it, and the changes of which messages are shown."""

from __future__ import annotations

from typing import NamedTuple


class TypeForm(NamedTuple):
    """Type of a column.

    Attributes:
        ddl: as CREATE TABLE has it.
        literal: a value in SQL.
        debezium: how Debezium's JSON shows it by default (documentation of its MySQL connector 3.5, "Data type
            mappings").
    """

    ddl: str
    literal: str
    debezium: str


_NUMBER = "the same"
_TEXT = "the same"
_BYTES = "the same (binary.handling.mode=bytes is base64 in JSON)"

MYSQL = (
    TypeForm("TINYINT", "-8", _NUMBER),
    TypeForm("TINYINT(1)", "1", "number; Boolean with its TinyIntOneToBooleanConverter"),
    TypeForm("SMALLINT UNSIGNED", "65535", _NUMBER),
    TypeForm("MEDIUMINT", "-8388608", _NUMBER),
    TypeForm("INT UNSIGNED", "4294967295", _NUMBER),
    TypeForm("BIGINT", "-9223372036854775808", _NUMBER),
    TypeForm(
        "BIGINT UNSIGNED", "18446744073709551615",
        "negative above 2⁶³ − 1 (bigint.unsigned.handling.mode=long); precise: base64 of bytes",
    ),
    TypeForm("DECIMAL(12,2)", "10.50", "base64 of the unscaled integer's bytes (decimal.handling.mode=precise)"),
    TypeForm(
        "DECIMAL(65,30)", "12345678901234567890123456789012345.000000000000000000000000000001",
        "base64 of the unscaled integer's bytes",
    ),
    TypeForm("FLOAT", "0.1", _NUMBER),
    TypeForm("DOUBLE", "-2.5e-7", _NUMBER),
    TypeForm("BIT(1)", "b'1'", "`true` or `false`"),
    TypeForm("BIT(10)", "b'1000000001'", "base64 of the bytes, the lowest first"),
    TypeForm("YEAR", "2026", _NUMBER),
    TypeForm("DATE", "'2026-05-03'", "days since 1970-01-01, a number"),
    TypeForm("DATETIME", "'2026-05-03 10:20:30'", "ms since 1970 as if in UTC, a number"),
    TypeForm("DATETIME(6)", "'2026-05-03 10:20:30.000123'", "µs since 1970 as if in UTC, a number"),
    TypeForm("TIMESTAMP", "'2026-05-03 10:20:30'", "the same: ISO text in UTC"),
    TypeForm("TIMESTAMP(3)", "'2026-05-03 10:20:30.120'", "the same: ISO text in UTC"),
    TypeForm("TIME", "'10:20:30'", "µs since midnight, a number"),
    TypeForm("TIME(6)", "'-838:59:58.000120'", "µs, a number"),
    TypeForm("CHAR(10)", "'é'", _TEXT),
    TypeForm("VARCHAR(20)", "'paid'", _TEXT),
    TypeForm("TEXT", r"'two\nlines'", _TEXT),
    TypeForm("ENUM('small','large')", "'large'", _TEXT),
    TypeForm("SET('a','b','c')", "'a,c'", _TEXT),
    TypeForm("BINARY(4)", "x'0001'", _BYTES),
    TypeForm("VARBINARY(10)", "x'00ff80'", _BYTES),
    TypeForm("BLOB", "x'cafe'", _BYTES),
    TypeForm("JSON", """'{"b": 1}'""", "the same: the document as text"),
    TypeForm("POINT", "ST_GeomFromText('POINT(1 2)')", '`{"x": …, "y": …, "wkb": …, "srid": …}`'),
)  # fmt: skip

CHANGES = (
    "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, status VARCHAR(20), amount DECIMAL(10,2), at DATETIME(3))",
    "INSERT INTO shop.orders VALUES (1, 'new', 10.50, '2026-05-03 10:20:30.120')",
    "UPDATE shop.orders SET status = 'paid' WHERE id = 1",
    "UPDATE shop.orders SET id = 2 WHERE id = 1",
    "DELETE FROM shop.orders WHERE id = 2",
    "TRUNCATE TABLE shop.orders",
    "ALTER TABLE shop.orders ADD COLUMN note TEXT",
)

INVALID = "INSERT INTO shop.odd (id, born) VALUES (1, '0000-00-00')"
"""Statement of a row with a value that its type cannot hold, which is delivered with a flag."""
