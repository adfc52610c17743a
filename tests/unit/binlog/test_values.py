"""Every column type: random values, encoded by the manual, come back exactly."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from tests.unit.binlog import value_encoder as enc
from tests.unit.binlog.log_encoder import Col, Log, int_col, text_col


@dataclass(frozen=True)
class Case:
    """A column, its values, how they are stored and what must come back."""

    column: Col
    values: st.SearchStrategy[Any]
    store: Callable[[Any], bytes]
    expect: Callable[[Any], Any] = lambda value: value
    source_type: str = ""
    spark_type: str = ""


def whole(name: str, kind: int, size: int, *, unsigned: bool, spark: str) -> Case:
    bits = 8 * size
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    text = name + (" unsigned" if unsigned else "")
    return Case(
        Col("v", kind, unsigned=unsigned),
        st.integers(low, high),
        lambda v: enc.integer(v, size),
        source_type=text,
        spark_type=spark,
    )


def decimals(precision: int, scale: int) -> Case:
    values = st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-scale, context=WIDE))
    expect: Callable[[Any], Any] = (lambda v: v) if precision <= 38 else lambda v: f"{v:f}"
    spark = f"decimal({precision},{scale})" if precision <= 38 else "string"
    store = lambda v: enc.decimal(v, precision, scale)  # noqa: E731
    return Case(Col("v", 246, bytes([precision, scale])), values, store, expect, f"decimal({precision},{scale})", spark)


import decimal as _decimal  # noqa: E402

WIDE = _decimal.Context(prec=80)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001 - DATETIME has no zone


def cut(us: int, digits: int) -> int:
    return us - us % 10 ** (6 - digits)


def datetimes(digits: int) -> Case:
    values = MOMENTS.map(lambda m: m.replace(microsecond=cut(m.microsecond, digits)))
    store = lambda m: enc.datetime2(m.year, m.month, m.day, m.hour, m.minute, m.second, m.microsecond, digits)  # noqa: E731
    return Case(
        Col("v", 18, bytes([digits])),
        values,
        store,
        source_type=f"datetime({digits})" if digits else "datetime",
        spark_type="timestamp_ntz",
    )


def timestamps(digits: int) -> Case:
    values = st.tuples(st.integers(1, 2**32 - 1), st.integers(0, 999_999).map(lambda us: cut(us, digits)))
    expect = lambda v: EPOCH + dt.timedelta(seconds=v[0], microseconds=v[1])  # noqa: E731
    return Case(
        Col("v", 17, bytes([digits])), values, lambda v: enc.timestamp2(*v, digits), expect, spark_type="timestamp"
    )


def times(digits: int) -> Case:
    most = 838 * 3600 + 59 * 60 + 59
    values = st.tuples(st.sampled_from((-1, 1)), st.integers(0, most), st.integers(0, 999_999)).map(
        lambda v: v[0] * (v[1] * 1_000_000 + cut(v[2], digits))
    )
    return Case(
        Col("v", 19, bytes([digits])),
        values,
        lambda v: enc.time2(v, digits),
        lambda v: dt.timedelta(microseconds=v),
        spark_type="string",
    )


def old_number(value: dt.datetime) -> int:
    return (
        int(value.strftime("%Y%m%d%H%M%S"))
        if value.year > 999
        else int(f"{value.year:04d}" + value.strftime("%m%d%H%M%S"))
    )


def set_text(mask: int) -> str:
    return ",".join(v for bit, v in enumerate(SET_VALUES) if mask >> bit & 1)


ENUM_VALUES = ("new", "paid", "è, ü", "заказ")
SET_VALUES = tuple(f"s{n}" for n in range(20))
MAX_FLOAT32 = 3.4028234663852886e38

CASES: dict[str, Case] = {
    "tinyint": whole("tinyint", 1, 1, unsigned=False, spark="tinyint"),
    "tinyint unsigned": whole("tinyint", 1, 1, unsigned=True, spark="smallint"),
    "smallint": whole("smallint", 2, 2, unsigned=False, spark="smallint"),
    "smallint unsigned": whole("smallint", 2, 2, unsigned=True, spark="int"),
    "mediumint": whole("mediumint", 9, 3, unsigned=False, spark="int"),
    "mediumint unsigned": whole("mediumint", 9, 3, unsigned=True, spark="int"),
    "int": whole("int", 3, 4, unsigned=False, spark="int"),
    "int unsigned": whole("int", 3, 4, unsigned=True, spark="bigint"),
    "bigint": whole("bigint", 8, 8, unsigned=False, spark="bigint"),
    "bigint unsigned": whole("bigint", 8, 8, unsigned=True, spark="decimal(20,0)"),
    "float": Case(
        Col("v", 4, b"\x04"),
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        enc.float32,
        spark_type="float",
    ),
    "double": Case(
        Col("v", 5, b"\x08"), st.floats(allow_nan=False, allow_infinity=False), enc.float64, spark_type="double"
    ),
    **{
        f"decimal({p},{s})": decimals(p, s)
        for p, s in ((1, 0), (5, 5), (12, 2), (18, 9), (19, 10), (38, 0), (38, 38), (39, 2), (65, 30), (65, 0))
    },
    **{f"datetime({n})": datetimes(n) for n in range(7)},
    **{f"timestamp({n})": timestamps(n) for n in range(7)},
    **{f"time({n})": times(n) for n in range(7)},
    "date": Case(
        Col("v", 10),
        MOMENTS.map(lambda m: m.date()),
        lambda d: enc.date(d.year, d.month, d.day),
        source_type="date",
        spark_type="date",
    ),
    "year": Case(
        Col("v", 13),
        st.sampled_from([0, *range(1901, 2156)]),
        lambda y: bytes([y - 1900 if y else 0]),
        spark_type="int",
    ),
    "old datetime": Case(
        Col("v", 12),
        MOMENTS.map(lambda m: m.replace(microsecond=0)),
        lambda m: enc.integer(old_number(m), 8),
        spark_type="timestamp_ntz",
    ),
    "old timestamp": Case(
        Col("v", 7),
        st.integers(1, 2**32 - 1),
        lambda s: enc.integer(s, 4),
        lambda s: EPOCH + dt.timedelta(seconds=s),
        spark_type="timestamp",
    ),
    "old time": Case(
        Col("v", 11),
        st.tuples(st.sampled_from((-1, 1)), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59)),
        lambda v: enc.integer(v[0] * (v[1] * 10_000 + v[2] * 100 + v[3]), 3),
        lambda v: v[0] * dt.timedelta(hours=v[1], minutes=v[2], seconds=v[3]),
        spark_type="string",
    ),
    "varchar(25)": Case(
        text_col("v", 100),
        st.text(max_size=25),
        lambda t: enc.prefixed(t.encode(), 1),
        source_type="varchar(25)",
        spark_type="string",
    ),
    "varchar(200)": Case(
        text_col("v", 800), st.text(max_size=99), lambda t: enc.prefixed(t.encode(), 2), source_type="varchar(200)"
    ),
    "char(30) latin1": Case(
        Col("v", 254, b"\xfe\x1e", collation=8),
        st.text(st.characters(codec="cp1252"), max_size=30),
        lambda t: enc.prefixed(t.encode("cp1252"), 1),
        source_type="char(30)",
    ),
    "varchar(20) ucs2": Case(
        text_col("v", 40, 35),
        st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF, exclude_categories=("Cs",)), max_size=20),
        lambda t: enc.prefixed(t.encode("utf-16-be"), 1),
        source_type="varchar(20)",
    ),
    "varchar(20) gb18030": Case(
        text_col("v", 80, 248),
        st.text(st.characters(codec="gb18030"), max_size=20),
        lambda t: enc.prefixed(t.encode("gb18030"), 1),
    ),
    "varbinary(90)": Case(
        text_col("v", 90, 63),
        st.binary(max_size=90),
        lambda b: enc.prefixed(b, 1),
        source_type="varbinary(90)",
        spark_type="binary",
    ),
    "binary(16)": Case(
        Col("v", 254, b"\xfe\x10", collation=63),
        st.binary(min_size=16, max_size=16),
        lambda b: enc.prefixed(b.rstrip(b"\0"), 1),
        source_type="binary(16)",
    ),
    "char(255) utf8mb4": Case(  # 1020 bytes: two bits of the length stand inverted in the type
        Col("v", 254, bytes([0xFE ^ ((1020 >> 8) << 4), 1020 & 0xFF])),
        st.text(max_size=80).map(lambda t: t.rstrip(" ")),
        lambda t: enc.prefixed(t.encode(), 2),
        source_type="char(255)",
    ),
    **{
        f"{size}blob": Case(
            Col("v", 252, bytes([n]), collation=63),
            st.binary(max_size=200),
            lambda b, n=n: enc.prefixed(b, n),
            source_type=f"{size}blob",
        )
        for n, size in ((1, "tiny"), (2, ""), (3, "medium"), (4, "long"))
    },
    "mediumtext": Case(
        Col("v", 252, b"\x03"),
        st.text(),
        lambda t: enc.prefixed(t.encode(), 3),
        source_type="mediumtext",
        spark_type="string",
    ),
    "geometry": Case(
        Col("v", 255, b"\x04"),
        st.binary(max_size=50),
        lambda b: enc.prefixed(b, 4),
        source_type="geometry",
        spark_type="binary",
    ),
    "enum": Case(
        Col("v", 254, b"\xf7\x01", values=ENUM_VALUES, real=247),
        st.integers(0, len(ENUM_VALUES)),
        lambda n: bytes([n]),
        lambda n: ("", *ENUM_VALUES)[n],
        "enum",
        "string",
    ),
    "set": Case(
        Col("v", 254, b"\xf8\x03", values=SET_VALUES, real=248),
        st.integers(0, (1 << 20) - 1),
        lambda n: enc.integer(n, 3),
        set_text,
        "set",
        "string",
    ),
    **{
        f"bit({n})": Case(
            Col("v", 16, bytes([n % 8, n // 8])),
            st.integers(0, (1 << n) - 1),
            lambda v, n=n: enc.bits(v, n),
            source_type=f"bit({n})",
            spark_type="decimal(20,0)" if n > 63 else "bigint",
        )
        for n in (1, 7, 8, 33, 63, 64)
    },
}


def decode(log: Log) -> list[TableBatch]:
    return [b for b in decode_events(bytes(log.data), file="mysql-bin.000001") if isinstance(b, TableBatch)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("examples", [12, 80])
def test_random_values_come_back(name: str, examples: int) -> None:
    case = CASES[name]

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.one_of(st.none(), case.values), min_size=1, max_size=12))
    def check(values: list[Any]) -> None:
        log = Log()
        images = [[enc.integer(n, 4), None if v is None else case.store(v)] for n, v in enumerate(values)]
        log.transaction(1, "t", [int_col(), case.column], images)
        (batch,) = decode(log)
        expected = [None if v is None else case.expect(v) for v in values]
        assert batch.images.column("v").to_pylist() == expected
        batch.images.validate(full=True)
        assert not batch.exceptions

    check()


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.source_type or c.spark_type])
def test_types_are_named(name: str) -> None:
    case = CASES[name]
    log = Log()
    log.transaction(1, "t", [int_col(), case.column], [[enc.integer(1, 4), None]])
    column = decode(log)[0].schema.columns[1]
    assert column.type == (case.source_type or column.type)
    assert column.spark_type == (case.spark_type or column.spark_type)
    assert column.nullable


def test_negative_zero_and_float_extremes_keep_their_bits() -> None:
    log = Log()
    columns = [int_col(), Col("f", 4, b"\x04"), Col("d", 5, b"\x08")]
    values = [(-0.0, -0.0), (MAX_FLOAT32, 1.7976931348623157e308), (1e-45, 5e-324)]
    log.transaction(1, "t", columns, [[enc.integer(1, 4), enc.float32(f), enc.float64(d)] for f, d in values])
    (batch,) = decode(log)
    assert batch.images.column("d").to_pylist() == [d for _, d in values]
    assert math.copysign(1, batch.images.column("f").to_pylist()[0]) == -1


def test_dates_that_no_calendar_has_are_kept_as_text() -> None:
    columns = [
        int_col(),
        Col("d", 10),
        Col("t3", 18, b"\x03"),
        Col("ts6", 17, b"\x06"),
        Col("ts0", 17, b"\0"),
        Col("old", 12),
        Col("old_ts", 7),
    ]
    rows = [
        [
            enc.date(0, 0, 0),
            enc.datetime2(0, 0, 0, 0, 0, 0, 0, 3),
            enc.timestamp2(0, 0, 6),
            enc.timestamp2(0, 0, 0),
            bytes(8),
            bytes(4),
        ],
        [
            enc.date(2023, 2, 29),
            enc.datetime2(2024, 0, 10, 23, 59, 58, 123_000, 3),
            enc.timestamp2(5, 1, 6),
            enc.timestamp2(5, 0, 0),
            enc.integer(20240431101112, 8),
            enc.integer(9, 4),
        ],
        [enc.date(2024, 2, 29), enc.datetime2(2024, 2, 29, 0, 0, 0, 0, 3), None, None, None, None],
    ]
    log = Log()
    log.transaction(1, "t", columns, [[enc.integer(n, 4), *row] for n, row in enumerate(rows)])
    (batch,) = decode(log)
    assert batch.exceptions == {
        1: {0: "0000-00-00", 1: "2023-02-29"},
        2: {0: "0000-00-00T00:00:00.000", 1: "2024-00-10T23:59:58.123"},
        3: {0: "0000-00-00T00:00:00.000000Z"},
        4: {0: "0000-00-00T00:00:00Z"},
        5: {0: "0000-00-00T00:00:00", 1: "2024-04-31T10:11:12"},
        6: {0: "0000-00-00T00:00:00Z"},
    }
    assert batch.images.column("d").to_pylist() == [None, None, dt.date(2024, 2, 29)]
    assert batch.images.column("ts6").null_count == 2


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (Col("v", 10), enc.date(2024, 13, 1)),
        (Col("v", 18, b"\0"), enc.datetime2(2024, 1, 1, 24, 0, 0, 0, 0)),
        (Col("v", 18, b"\x06"), enc.datetime2(2024, 1, 1, 1, 0, 0, 0, 0) + b"\xff\xff\xff"),
        (Col("v", 19, b"\0"), (0x800000 + (61 << 6)).to_bytes(3, "big")),
        (Col("v", 246, b"\x09\0"), b"\xff\xff\xff\xff"),
        (Col("v", 246, b"\x41\0"), b"\x82\xff" + bytes(27)),
        (Col("v", 254, b"\xf7\x01", values=ENUM_VALUES, real=247), b"\x05"),
        (Col("v", 254, b"\xf8\x01", values=SET_VALUES[:3], real=248), b"\x08"),
    ],
)
def test_bits_that_no_server_writes_are_refused(column: Col, stored: bytes) -> None:
    log = Log()
    log.transaction(1, "t", [int_col(), column], [[enc.integer(1, 4), stored]])
    with pytest.raises(DecodeError, match=r"shop\.t\.v holds a"):
        decode(log)
