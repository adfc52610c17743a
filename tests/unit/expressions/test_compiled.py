"""Compiled expressions: values by Spark's rules, and refusals. Beside Spark itself: tests/spark/test_expressions.py."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from databus.expressions.compiled import Compiled, compile_expression
from databus.expressions.errors import ExpressionError, NotCompiledError

_NAN = float("nan")

_COLUMNS: dict[str, tuple[str, pa.Array]] = {
    "i": ("int", pa.array([1, None, -3, 0], pa.int32())),
    "t": ("tinyint", pa.array([127, None, -128, 1], pa.int8())),
    "l": ("bigint", pa.array([2**63 - 1, 1, None, 2], pa.int64())),
    "n": ("decimal(10,2)", pa.array(["1.25", None, "-3.50", "0.00"]).cast(pa.decimal128(10, 2))),
    "d": ("double", pa.array([1.5, _NAN, -0.0, None])),
    "s": ("string", pa.array(["abc", "é_%", None, "a\nb"])),
    "o": ("boolean", pa.array([True, False, None, True])),
    "date": ("date", pa.array([0, None, 1, 18321], pa.int32()).cast(pa.date32())),
    "j": ("variant", pa.array([None] * 4, pa.string())),
}


def _compiled(text: str) -> Compiled:
    return compile_expression(text, lambda name, image: _COLUMNS[name][0] if (name, image) != ("i", "after") else None)


def _values(text: str) -> tuple[str, list[Any]]:
    compiled = _compiled(text)
    columns = {key: _COLUMNS[key[0]][1] for key in compiled.inputs}
    return compiled.type, compiled.evaluate(columns, 4).to_pylist()


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("i + 1", "int", [2, None, -2, 1]),
        ("i + 1L", "bigint", [2, None, -2, 1]),
        ("i / 2", "double", [0.5, None, -1.5, 0.0]),
        ("i % 2", "int", [1, None, -1, 0]),
        ("2 + 3 * i - -1", "int", [6, None, -6, 3]),
        ("n / 3", "decimal(14,6)", [Decimal("0.416667"), None, Decimal("-1.166667"), Decimal("0.000000")]),
        ("n + 1.5", "decimal(11,2)", [Decimal("2.75"), None, Decimal("-2.00"), Decimal("1.50")]),
        ("n * i", "decimal(21,2)", [Decimal("1.25"), None, Decimal("10.50"), Decimal("0.00")]),
        ("n DIV 2", "bigint", [0, None, -1, 0]),
        ("d = d", "boolean", [True, True, True, None]),
        ("d > 1e300", "boolean", [False, True, False, None]),
        ("d IN (0D, 2D)", "boolean", [False, False, True, None]),
        ("s LIKE 'a%'", "boolean", [True, False, None, True]),
        (r"s LIKE '_!_!%' ESCAPE '!'", "boolean", [False, True, None, False]),
        ("s LIKE 'a_b'", "boolean", [False, False, None, True]),
        ("i IN (1, 2, 3, 4, NULL)", "boolean", [True, None, None, None]),
        ("i NOT IN (1, 2)", "boolean", [False, None, True, True]),
        ("CASE WHEN i = 0 THEN -1 ELSE 6 DIV i END", "bigint", [6, None, -2, -1]),
        ("CASE i WHEN 1 THEN 'one' WHEN 0 THEN 'no' END", "string", ["one", None, None, "no"]),
        ("i <> 0 AND 6 DIV i > 1", "boolean", [True, None, False, False]),
        ("i = 0 OR 6 DIV i > 1", "boolean", [True, None, False, True]),
        ("coalesce(i, l)", "bigint", [1, 1, -3, 0]),
        ("coalesce(i, 7 DIV i, 2)", "bigint", [1, 2, -3, 0]),
        ("if(o, i, n)", "decimal(12,2)", [Decimal("1.00"), None, Decimal("-3.50"), Decimal("0.00")]),
        ("nullif(i, 1)", "int", [None, None, -3, 0]),
        ("i BETWEEN 0 AND 5", "boolean", [True, None, False, True]),
        ("NOT o IS TRUE", "boolean", [False, True, True, False]),
        ("s <=> NULL", "boolean", [False, False, True, False]),
        ("s IS DISTINCT FROM 'abc'", "boolean", [False, True, True, True]),
        ("s || '-' || i", "string", ["abc-1", None, None, "a\nb-0"]),
        ("date < DATE'1970-01-02'", "boolean", [True, None, False, False]),
        ("i = 1 = true", "boolean", [True, None, False, False]),
        ("CAST(i AS decimal(5, 1))", "decimal(5,1)", [Decimal("1.0"), None, Decimal("-3.0"), Decimal("0.0")]),
        ("TRY_CAST(l AS int)", "int", [None, 1, None, 2]),
        ("i::string", "string", ["1", None, "-3", "0"]),
        ("before.i + i", "int", [2, None, -6, 0]),
        ("`i` -- the number\n + 1", "int", [2, None, -2, 1]),
    ],
)
def test_values(text: str, kind: str, values: list[Any]) -> None:
    assert _values(text) == (kind, values)


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ("l + 1", "ARITHMETIC_OVERFLOW"),
        ("t + 1Y", "BINARY_ARITHMETIC_OVERFLOW"),
        ("1 / i", "DIVIDE_BY_ZERO"),
        ("1 % i", "REMAINDER_BY_ZERO"),
        ("CAST(l AS int)", "CAST_OVERFLOW"),
        ("CAST(t AS decimal(2, 0))", "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("o OR 1 / i > 0", ""),
        ("o AND 1 / i > 0", "DIVIDE_BY_ZERO"),
    ],
)
def test_a_row_for_which_spark_fails(text: str, error_class: str) -> None:
    if not error_class:
        assert _values(text)[1] == [True, None, None, True]
        return
    with pytest.raises(ExpressionError) as raised:
        _values(text)
    assert raised.value.error_class == error_class


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("frobnicate(i)", "the function frobnicate"),
        ("j = 1", "type variant"),
        ("after.i = 1", "no column i"),
        ("o = 1", r"=\(boolean, int\)"),
        ("s + s", r"\+\(string, string\)"),
        ("s LIKE 'a!b' ESCAPE '!'", "an escape before another character"),
        ("s LIKE '\U0001f600_'", "beyond the basic plane"),
        ("-CAST(i AS decimal(38, 2))", "rounds it to 34 digits"),
        ("s LIKE s", "argument 2 is not constant"),
        ("i > 1 / 0", "a constant that fails"),
        ("i < 99999999999999999999", "beyond bigint"),
        ("DATE'2020-02-30' = date", "the literal DATE"),
        ("INTERVAL 1 DAY + date", "INTERVAL in this place"),
        ("s COLLATE UNICODE = 'a'", "COLLATE in this place"),
        ("NULL", "always NULL"),
        ("CASE WHEN o THEN 1 ELSE true END", "case of int, boolean"),
        (r"s = '\200'", "the escape"),
        ("i IN (SELECT 1)", "SELECT in this place"),
        ("(" * 70 + "i" + ")" * 70, "this deep"),
        ("abs(" * 31 + "i" + ")" * 31, "this deep"),
        (" OR ".join(f"i = {n}" for n in range(500)), "this deep"),
        (" || ".join(["s"] * 200) + " = 'x'", "this deep"),
        ("1.5L = i", "the number 1.5L"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(NotCompiledError, match=reason):
        _compiled(text)


def test_ansi_mode_off_is_refused() -> None:
    with pytest.raises(NotCompiledError, match="ANSI"):
        compile_expression("i", lambda *_: "int", ansi=False)


def test_no_rows_have_no_values() -> None:
    compiled = _compiled("1 / i")
    assert compiled.evaluate({("i", "row"): pa.array([], pa.int32())}, 0).type == pa.float64()
