"""Harness of differential tests: compiled expressions beside Spark, value by value and bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.compiled import Compiled, compile_expression
from databus.expressions.errors import ExpressionError, NotCompiledError
from databus.expressions.types import arrow_of

CHUNK = 60
"""Expressions of one select."""

_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


@dataclass
class Comparison:
    """What a comparison found.

    Attributes:
        compared: expression → its type, of those that were compiled.
        refused: expression → reason, of those that were not.
        failed: expression → (row, error class) of the first row for which it fails here.
        differences: lines that each say expression, row, ours and Spark's; none should be there.
        values: number of values that were compared.
    """

    compared: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, tuple[int, str]] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    values: int = 0


def session(spark: Any, *, codegen: bool = True) -> Any:
    """Return a session of the same Spark with the settings of the product's sessions.

    Args:
        spark: any session.
        codegen: whether expressions are compiled to Java, as in a batch; without it hundreds take seconds.
    """
    from databus.runtime.spark.session import SESSION_CONF

    ours = spark.newSession()
    for name, value in SESSION_CONF.items():
        ours.conf.set(name, value)
    ours.conf.set("spark.sql.ansi.enabled", "true")
    # Expressions of one select would be evaluated together, also where AND or OR decide before.
    ours.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    if not codegen:
        ours.conf.set("spark.sql.codegen.wholeStage", "false")
        ours.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return ours


def spark_type(kind: pa.DataType) -> str:
    """Return the Spark type of a column."""
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _TYPES[kind]


def compiled(text: str, table: pa.Table) -> Compiled:
    """Return an expression over a table's columns."""
    types = {name: spark_type(table.schema.field(name).type) for name in table.column_names}
    return compile_expression(text, lambda name, _image: types.get(name))


def columns(table: pa.Table) -> dict[tuple[str, str], pa.Array]:
    """Return a table's columns as an expression takes them."""
    return {(name, "row"): table[name].combine_chunks() for name in table.column_names}


def differ(spark: Any, expressions: Sequence[str], table: pa.Table, *, errors: bool = False) -> Comparison:
    """Evaluate expressions here and in Spark, and compare types and values.

    Rows for which an expression fails here are kept from Spark's.

    Args:
        spark: session, see `session`.
        expressions: Spark SQL over the table's columns.
        table: rows; must have no column `id`.
        errors: whether Spark is asked too that the first such row of each expression fails, with the same error class.
    """
    found = Comparison()
    numbered = table.append_column("id", pa.array(range(table.num_rows), pa.int32()))
    typed = ", ".join(
        f"{name} {spark_type(kind)}" for name, kind in zip(numbered.column_names, numbered.schema.types, strict=True)
    )
    frame = spark.createDataFrame(numbered, schema=typed)  # a timestamp without zone would get one otherwise
    frame = frame.localCheckpoint()  # rows of an RDD: Spark generates code, as for a batch
    ours: dict[str, tuple[str, pa.Array, list[int]]] = {}
    for text in dict.fromkeys(expressions):
        try:
            expression = compiled(text, table)
        except NotCompiledError as refused:
            found.refused[text] = refused.reason
            continue
        values, bad = _evaluated(expression, table)
        found.compared[text] = expression.type
        ours[text] = expression.type, values, sorted(bad)
        if bad:
            row = min(bad)
            found.failed[text] = row, bad[row]
            if errors:
                _fails(frame, text, row, bad[row], found)
    texts = list(ours)
    for start in range(0, len(texts), CHUNK):
        _compare(frame, {text: ours[text] for text in texts[start : start + CHUNK]}, found)
    return found


def _evaluated(expression: Compiled, table: pa.Table) -> tuple[pa.Array, dict[int, str]]:
    """Return the values, NULL where a row fails; and row → error class of these rows."""
    given = columns(table)
    bad: dict[int, str] = {}
    parts: list[pa.Array] = []

    def part(start: int, size: int) -> None:
        try:
            slices = {key: column.slice(start, size) for key, column in given.items()}
            parts.append(expression.evaluate(slices, size))
        except ExpressionError as error:
            if size == 1:
                bad[start] = error.error_class
                parts.append(pa.nulls(1, arrow_of(expression.type)))
                return
            part(start, size // 2)
            part(start + size // 2, size - size // 2)

    part(0, table.num_rows)
    return pa.concat_arrays(parts), bad


def _fails(frame: Any, text: str, row: int, error_class: str, found: Comparison) -> None:
    try:
        value = frame.where(f"id = {row}").selectExpr(f"({text}\n) AS c").collect()[0][0]
        found.differences.append(f"{text} | row {row}: {error_class} here, {value!r} in Spark")
    except Exception as error:  # noqa: BLE001 - whatever Spark raises
        if error_class not in str(error):
            found.differences.append(f"{text} | row {row}: {error_class} here, in Spark {str(error)[:200]}")


def _compare(frame: Any, ours: Mapping[str, tuple[str, pa.Array, list[int]]], found: Comparison) -> None:
    shown = []
    for number, (text, (_, values, bad)) in enumerate(ours.items()):
        guarded = (
            f"CASE WHEN id IN ({', '.join(map(str, bad))}) THEN NULL ELSE ({text}\n) END" if bad else f"({text}\n)"
        )
        shown.append(f"{guarded} AS c{number}" if len(bad) < len(values) else f"NULL AS c{number}")
    try:
        theirs = frame.selectExpr("id", *shown).toArrow().sort_by("id")
    except Exception as error:  # noqa: BLE001 - an expression that only Spark refuses
        if len(ours) == 1:
            found.differences.append(f"{next(iter(ours))} | in Spark {str(error)[:300]}")
            return
        items, half = list(ours.items()), len(ours) // 2
        _compare(frame, dict(items[:half]), found)
        _compare(frame, dict(items[half:]), found)
        return
    for number, (text, (kind, values, bad)) in enumerate(ours.items()):
        if len(bad) == len(values):
            continue
        column = theirs[f"c{number}"].combine_chunks()
        found.values += len(values)
        if spark_type(column.type) != kind:
            found.differences.append(f"{text} | type {kind} here, {spark_type(column.type)} in Spark")
            continue
        for row in _unequal(values, column):
            found.differences.append(f"{text} | row {row}: {_shown(values[row])} here, {_shown(column[row])} in Spark")


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value)
    except (OverflowError, ValueError):  # a time beyond Python's
        return str(value.cast(pa.int32() if pa.types.is_date(value.type) else pa.int64()))


def _unequal(ours: pa.Array, theirs: pa.Array) -> list[int]:
    """Return the rows whose values differ; NaN equals NaN, -0.0 differs from 0.0."""
    if ours.equals(theirs) and not pa.types.is_floating(ours.type):
        return []
    if pa.types.is_floating(ours.type):
        ours, theirs = _bits(ours), _bits(theirs)
    same = pc.fill_null(pc.equal(ours, theirs.cast(ours.type)), False)
    same = pc.or_(same, pc.and_(pc.is_null(ours), pc.is_null(theirs)))
    return [int(row) for row in np.flatnonzero(~np.asarray(same.to_numpy(zero_copy_only=False), np.bool_))]


def _bits(values: pa.Array) -> pa.Array:
    """Return floats as integers of the same bits, every NaN as one."""
    one = pc.if_else(pc.fill_null(pc.is_nan(values), False), pa.scalar(float("nan"), values.type), values)
    kind = np.int64 if values.type == pa.float64() else np.int32
    numbers = pc.fill_null(one, 0.0).to_numpy().view(kind)
    return pa.array(numbers, mask=np.asarray(values.is_null().to_numpy(zero_copy_only=False), np.bool_))
