"""Tables of every type with values at their ends, and changes of them that Debezium's messages are recorded of."""

from __future__ import annotations

from typing import NamedTuple

DATABASE = "dbz"


class Ends(NamedTuple):
    """Type of a column with values at its ends, as SQL."""

    ddl: str
    values: tuple[str, ...]


TYPES = (
    Ends("TINYINT", ("-128", "127", "0")),
    Ends("TINYINT UNSIGNED", ("255", "0", "1")),
    Ends("TINYINT(1)", ("1", "0", "-1")),
    Ends("SMALLINT", ("-32768", "32767", "0")),
    Ends("SMALLINT UNSIGNED", ("65535", "0", "1")),
    Ends("MEDIUMINT", ("-8388608", "8388607", "0")),
    Ends("MEDIUMINT UNSIGNED", ("16777215", "0", "1")),
    Ends("INT", ("-2147483648", "2147483647", "0")),
    Ends("INT UNSIGNED", ("4294967295", "0", "1")),
    Ends("BIGINT", ("-9223372036854775808", "9223372036854775807", "0")),
    Ends("BIGINT UNSIGNED", ("18446744073709551615", "9223372036854775808", "9223372036854775807")),
    Ends("DECIMAL(12,2)", ("-9999999999.99", "0.00", "1.28")),
    Ends("DECIMAL(10,0)", ("-128", "128", "-129")),
    Ends("DECIMAL(12,2) UNSIGNED", ("9999999999.99", "0", "2.55")),
    Ends("DECIMAL(38,10)", ("-9999999999999999999999999999.9999999999", "0.0000000001", "1e20")),
    Ends(
        "DECIMAL(65,30)",
        (
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "0.000000000000000000000000000001",
            "0",
        ),
    ),
    Ends("FLOAT", ("0.1", "-3.4e38", "1.17549e-38")),
    Ends("DOUBLE", ("-1.7976931348623157e308", "2.2250738585072014e-308", "100")),
    Ends("BIT(1)", ("b'1'", "b'0'", "b'1'")),
    Ends("BIT(10)", ("b'1000000001'", "b'0'", "b'1111111111'")),
    Ends("BIT(64)", ("x'ffffffffffffffff'", "b'1'", "x'8000000000000000'")),
    Ends("YEAR", ("1901", "2155", "0")),
    Ends("DATE", ("'1000-01-01'", "'9999-12-31'", "'1969-12-31'")),
    Ends("DATETIME", ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'1969-12-31 23:59:59'")),
    Ends("DATETIME(3)", ("'1000-01-01 00:00:00.001'", "'9999-12-31 23:59:59.999'", "'1969-12-31 23:59:59.500'")),
    Ends(
        "DATETIME(6)",
        (
            "'1000-01-01 00:00:00.000001'",
            "'9999-12-31 23:59:59.999999'",
            "'1969-12-31 23:59:59.000010'",
        ),
    ),
    Ends("TIMESTAMP NULL", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'2026-05-03 10:20:30'")),
    Ends("TIMESTAMP(3) NULL", ("'1970-01-01 00:00:01.001'", "'2038-01-19 03:14:07.500'", "'2026-05-03 10:20:30.120'")),
    Ends(
        "TIMESTAMP(6) NULL",
        (
            "'1970-01-01 00:00:01.000001'",
            "'2038-01-19 03:14:07.100000'",
            "'2026-05-03 10:20:30'",
        ),
    ),
    Ends("TIME", ("'-838:59:59'", "'838:59:59'", "'00:00:00'")),
    Ends("TIME(3)", ("'-00:00:00.001'", "'23:59:59.999'", "'24:00:00'")),
    Ends("TIME(6)", ("'-838:59:58.999999'", "'838:59:58.000001'", "'10:20:30.000100'")),
    Ends("CHAR(10)", ("'é'", "''", "'a b'")),
    Ends("VARCHAR(40)", (r"'quo\"te \\ back'", "''", "'😀'")),
    Ends("VARCHAR(40) CHARACTER SET latin1", ("'café'", "''", "'x'")),
    Ends("TEXT", (r"'two\nlines\t'", "''", "'null'")),
    Ends("ENUM('small','l,arge','é')", ("'l,arge'", "'é'", "'small'")),
    Ends("SET('a','b','c')", ("'a,c'", "''", "'b'")),
    Ends("BINARY(4)", ("x'0001'", "x'ffffffff'", "x''")),
    Ends("VARBINARY(10)", ("x'00ff80'", "x''", "x'7f'")),
    Ends("BLOB", ("x'cafe'", "x''", "x'000102'")),
    Ends("JSON", ("""'{"b": 1, "a": [1.5, null, true, "é"]}'""", "'[]'", "'\"x\"'")),
    Ends(
        "GEOMETRY",
        (
            "ST_GeomFromText('LINESTRING(0 0,1 1)')",
            "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))', 3857)",
            "ST_GeomFromText('POINT(3 4)')",
        ),
    ),
    Ends(
        "POINT",
        (
            "ST_GeomFromText('POINT(1 2)')",
            "ST_GeomFromText('POINT(-1 0.5)', 3857)",
            "ST_GeomFromText('POINT(0 0)')",
        ),
    ),
)  # fmt: skip

_COLUMNS = ", ".join(f"c{number} {form.ddl}" for number, form in enumerate(TYPES))
_NULLS = ", ".join("NULL" for _ in TYPES)

TABLES = ("every_type", "zero", "keyed", "keyless")

SCRIPT: tuple[str, ...] = (
    f"CREATE TABLE every_type (id INT NOT NULL PRIMARY KEY, {_COLUMNS})",
    *(
        f"INSERT INTO every_type VALUES ({row + 1}, {', '.join(form.values[row] for form in TYPES)})"
        for row in range(3)
    ),
    f"INSERT INTO every_type VALUES (4, {_NULLS})",
    "UPDATE every_type SET c0 = 7, c33 = 'new' WHERE id = 1",
    "UPDATE every_type SET id = 5 WHERE id = 2",
    "DELETE FROM every_type WHERE id = 3",
    (
        "CREATE TABLE zero (id INT NOT NULL PRIMARY KEY, d DATE, dn DATE NOT NULL, t DATETIME, tn DATETIME NOT NULL, "
        "u DATETIME(6), un DATETIME(6) NOT NULL, s TIMESTAMP NULL, sn TIMESTAMP NOT NULL)"
    ),
    (
        "INSERT INTO zero VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', "
        "'0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00')"
    ),
    (
        "INSERT INTO zero VALUES (2, '2026-00-10', '2026-02-00', '2026-00-10 01:02:03', '2026-02-00 01:02:03', "
        "'2026-00-10 01:02:03.4', '2026-02-00 01:02:03.4', NULL, '2026-05-03 10:20:30')"
    ),
    (
        "CREATE TABLE keyed (a DATE NOT NULL, b DECIMAL(10,2) NOT NULL, c VARCHAR(20) NOT NULL, "
        "d BIGINT UNSIGNED NOT NULL, "
        "e DATETIME(6) NOT NULL, f BINARY(4) NOT NULL, g INT, PRIMARY KEY (c, a, b, d, e, f))"
    ),
    (
        "INSERT INTO keyed VALUES ('2026-05-03', -1.28, 'é', 18446744073709551615, '2026-05-03 10:20:30.000123', "
        "x'00010203', 1), ('1969-12-31', 12345.67, 'x', 1, '1969-12-31 23:59:59.9', x'ff000000', NULL)"
    ),
    "UPDATE keyed SET g = 2",
    "DELETE FROM keyed WHERE c = 'x'",
    "CREATE TABLE keyless (a INT, `odd-name é` VARCHAR(10))",
    "INSERT INTO keyless VALUES (1, 'x'), (1, 'x')",
    "DELETE FROM keyless WHERE a = 1 LIMIT 1",
)
"""Statements in their order, in a session whose sql_mode lets zero dates in and whose zone is UTC."""

VARIANTS: dict[str, dict[str, object]] = {
    "default": {"schemas": True},
    "other": {"decimal": "string", "bigint_unsigned": "precise", "binary": "hex"},
    "double": {"schemas": True, "decimal": "double", "binary": "base64"},
}
"""Name → options of the sink beside `types="debezium"`."""


def connector_settings(variant: str) -> dict[str, str]:
    """Return the connector's settings that say what a variant's options say."""
    options = VARIANTS[variant]
    schemas = "true" if options.get("schemas") else "false"
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "key.converter": converter,
        "value.converter": converter,
        "key.converter.schemas.enable": schemas,
        "value.converter.schemas.enable": schemas,
        "decimal.handling.mode": str(options.get("decimal", "precise")),
        "bigint.unsigned.handling.mode": str(options.get("bigint_unsigned", "long")),
        "binary.handling.mode": str(options.get("binary", "bytes")),
    }
