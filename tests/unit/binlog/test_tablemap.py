"""TABLE_MAP bodies: metadata forms of MySQL and MariaDB, keys, damage."""

from __future__ import annotations

import pytest

from databus.binlog.log.tablemap import parse_table_map
from databus.core.errors import DecodeError
from tests.unit.binlog.log_encoder import Col, bitmap, int_col, table_map_body, text_col
from tests.unit.binlog.value_encoder import length_encoded


def test_names_key_signs_and_nullability() -> None:
    columns = [
        int_col("é", unsigned=True),
        text_col("b"),
        Col("c", 8, unsigned=True),
        Col("y", 13),
        Col("d", 246, b"\x05\x02", unsigned=True),
    ]
    table = parse_table_map(table_map_body(0x123456789ABC, "shöp", "tbl", columns, key=(2, 0)))
    assert (table.table_id, table.full_name, table.primary_key) == (0x123456789ABC, "shöp.tbl", ("c", "é"))
    assert [c.unsigned for c in table.columns] == [True, False, True, False, True]  # YEAR has a bit of its own
    assert [c.nullable for c in table.columns] == [False, True, True, True, True]
    schema = table.to_schema(4)
    assert (schema.schema_id, schema.columns[4].type) == (4, "decimal(5,2) unsigned")


def bare(columns: list[Col], *fields: tuple[int, bytes]) -> bytes:
    body = bytes(8) + b"\x01d\0\x01t\0" + bytes([len(columns)]) + bytes(c.type for c in columns)
    meta = b"".join(c.meta for c in columns)
    body += length_encoded(len(meta)) + meta + bitmap([True] * len(columns))
    for number, value in fields:
        body += bytes([number]) + length_encoded(len(value)) + value
    return body


def test_default_charset_with_exceptions() -> None:
    columns = [text_col("a"), int_col("n"), text_col("b"), text_col("c")]
    names = b"\x01a\x01n\x01b\x01c"
    table = parse_table_map(bare(columns, (2, b"\xfc\xff\x00\x01\x08\x02\x3f"), (4, names)))
    assert [c.charset.name if c.charset else None for c in table.columns] == ["utf8mb4", None, "latin1", "binary"]
    assert [c.source_type for c in table.columns] == ["varchar(25)", "int", "varchar(100)", "varbinary(100)"]


def test_enum_values_come_in_their_own_charset() -> None:
    column = Col("e", 254, b"\xf7\x01")
    table = parse_table_map(bare([column], (4, b"\x01e"), (6, b"\x02\x01\xe9\x02ab"), (10, b"\x08")))
    assert table.columns[0].values == ("é", "ab")


def test_prefix_keys_and_visibility() -> None:
    columns = [text_col("a"), int_col("n")]
    table = parse_table_map(bare(columns, (2, b"\x08"), (4, b"\x01a\x01n"), (9, b"\x00\x05\x01\x00"), (12, b"\x40")))
    assert table.primary_key == ("a", "n")
    assert [c.visible for c in table.columns] == [False, True]


def test_a_table_without_key_has_none() -> None:
    assert parse_table_map(table_map_body(1, "d", "t", [int_col()], key=())).primary_key == ()


def test_metadata_fields_that_are_not_known_are_passed_over() -> None:
    table = parse_table_map(bare([int_col()], (4, b"\x02id"), (7, b"\x01"), (77, b"\x05"), (99, b"new")))
    assert table.columns[0].name == "id"


def test_every_cut_is_refused_or_leaves_only_metadata_out() -> None:
    body = table_map_body(
        1, "shop", "t", [int_col(), text_col("x"), Col("e", 254, b"\xf7\x01", values=("a", "b"), real=247)]
    )
    whole = parse_table_map(body)
    for size in range(len(body)):
        try:
            table = parse_table_map(body[:size], "f.000001:9")
        except DecodeError as error:
            assert error.message.startswith("f.000001:9: TABLE_MAP")  # noqa: PT017 - either outcome is right
        else:
            assert table != whole


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (((4, b"\x02id"), (4, b"\x02id")), "occurs twice"),
        (((4, b"\x02id\x01x"),), "cannot be read"),
        (((1, b"\x00\x00"),), "signedness"),
        (((4, b"\x02id"), (8, b"\x05")), "primary key"),
    ],
)
def test_metadata_that_contradicts_the_columns(fields: tuple[tuple[int, bytes], ...], words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        parse_table_map(bare([int_col()], *fields))


@pytest.mark.parametrize(
    "column", [Col("v", 16, b"\x01\x08"), Col("v", 246, b"\x42\x00"), Col("v", 18, b"\x07"), Col("v", 252, b"\x05")]
)
def test_impossible_metadata(column: Col) -> None:
    with pytest.raises(DecodeError, match="impossible"):
        parse_table_map(bare([column], (4, b"\x01v")))


def test_mysql_9_lists_charsets_of_vectors_too() -> None:
    columns = [text_col("a"), Col("v", 242, b"\x04"), text_col("b"), Col("w", 242, b"\x04"), text_col("c")]
    names = b"\x01a\x01v\x01b\x01w\x01c"
    # Default utf8mb4; of the columns that are listed the second and fourth are binary, the fifth is latin1.
    for fields in ((2, b"\x2d\x01\x3f\x03\x3f\x04\x08"), (3, b"\x2d\x3f\x2d\x3f\x08")):
        table = parse_table_map(bare(columns, fields, (4, names), (13, b"\x03\x05")))
        assert [c.source_type for c in table.columns] == [
            "varchar(25)", "vector(3)", "varchar(25)", "vector(5)", "varchar(100)",
        ]  # fmt: skip
        assert [c.charset.name for c in table.columns if c.text and c.charset] == ["utf8mb4", "utf8mb4", "latin1"]
        assert table.refusal() is None


def test_mariadb_lists_charsets_of_geometry_and_compressed_columns_too() -> None:
    columns = [Col("p", 255, b"\x04"), text_col("a"), Col("z", 140, b"\x02"), text_col("b")]
    names = b"\x01p\x01a\x01z\x01b"
    for fields in ((3, b"\x3f\x08\x2d\x23"), (2, b"\x3f\x01\x08\x02\x2d\x03\x23")):
        table = parse_table_map(bare(columns, fields, (4, names)), flavor="mariadb")
        assert [c.charset.name for c in table.columns if c.charset] == ["binary", "latin1", "utf8mb4", "ucs2"]
    mysql = parse_table_map(bare([columns[0], columns[1], columns[3]], (3, b"\x08\x23"), (4, b"\x01p\x01a\x01b")))
    assert [c.charset.name if c.charset else "" for c in mysql.columns] == ["", "latin1", "ucs2"]
