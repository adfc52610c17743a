"""Python functions over Arrow arrays: which rows they see, and what of them is refused."""

from __future__ import annotations

import traceback
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from databus import Mask, PythonFunction
from databus.core.errors import ConfigError, TransformError
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.python_function import ArrowCall, function_at
from databus.testing.table_batches import table

ORDERS = table("shop.orders", {"id": "int", "n": "int", "name": "varchar(9)"})
HERE = __name__


def double_of(values: pa.Array) -> pa.Array:
    assert values.null_count == 0
    return pc.multiply(values, 2)


def chunked(values: pa.Array) -> Any:
    return pa.chunked_array([values[:1], values[1:]])


def too_few(values: pa.Array) -> pa.Array:
    return values[:-1]


def listed(values: pa.Array) -> Any:
    return values.to_pylist()


def fails(values: pa.Array) -> pa.Array:
    raise KeyError(len(values))


NO_FUNCTION = 7
MEANT = pa.array([True, False, None, True, False])
VALUES = pa.array([1, None, 3, 4, None], pa.int32())


def left(*specs: Any) -> FrameChanges:
    changes: Any = FrameChanges(None, (ORDERS,), {0: fields_of(ORDERS)}, hidden=Hidden())
    for spec in specs:
        changes = spec.columns_after(changes)
    return changes  # type: ignore[no-any-return]


def test_it_sees_the_rows_that_are_meant_alone() -> None:
    found = ArrowCall(f"{HERE}:double_of", "bigint")(MEANT, VALUES)
    assert found == pa.array([2, None, None, 8, None], pa.int64())
    all_of_them = ArrowCall(f"{HERE}:chunked", "string")(pa.array([True] * 3), pa.array([1, 2, None]))
    assert all_of_them == pa.array(["1", "2", None])
    assert ArrowCall(f"{HERE}:fails", "int")(pa.array([False]), pa.array([1])) == pa.array([None], pa.int32())


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("too_few", "int", "it returned 1 values for 2 rows"),
        ("listed", "int", "it returned list, and a pyarrow.Array is wanted"),
        ("fails", "int", "KeyError at test_python_function.py:"),
        ("double_of", "date", "its result, int64, is not date"),
        ("absent", "int", "cannot be imported: AttributeError"),
        ("NO_FUNCTION", "int", "is no function: int"),
    ],
)
def test_what_is_no_function_of_that_type_is_named(name: str, kind: str, said: str) -> None:
    with pytest.raises(TransformError) as told:
        ArrowCall(f"{HERE}:{name}", kind)(MEANT, VALUES)
    assert said in told.value.message
    assert f"{HERE}:{name}" in told.value.message
    assert told.value.code == "python_function"


def parses(values: pa.Array) -> pa.Array:
    return pc.cast(values, pa.int64())


def same(values: pa.Array) -> pa.Array:
    return values


SECRET = pa.array(["123-45-6789"])


@pytest.mark.parametrize("name", ["parses", "same"])
def test_an_error_shows_no_values(name: str) -> None:
    with pytest.raises(TransformError, match="ArrowInvalid") as told:
        ArrowCall(f"{HERE}:{name}", "int")(pa.array([True]), SECRET)
    assert "6789" not in "".join(traceback.format_exception(told.value))


def test_a_function_is_named_by_its_import_path() -> None:
    spec = PythonFunction(double_of, inputs=("n",), into="twice", type="BIGINT")
    assert spec == PythonFunction(f"{HERE}:double_of", inputs=("n",), into="twice", type="bigint")
    assert spec.to_json()["function"] == f"{HERE}:double_of"
    assert function_at(spec.function) is double_of


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"function": lambda x: x}, "is no import path"),
        ({"function": "double_of"}, "is no import path"),
        ({"function": "__main__:f"}, "is no import path"),
        ({"function": "unusual_prefix_3a_dag:f"}, "is no import path"),
        ({"function": "a.b:c d"}, "is no import path"),
        ({"inputs": ("n", "_op")}, "_op is the row's"),
        ({"inputs": ()}, "inputs"),
        ({"type": "list"}, "is no type of a column"),
    ],
)
def test_options_that_no_worker_could_use_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as told:
        PythonFunction(**{"function": f"{HERE}:double_of", "inputs": ("n",), "into": "x", **options})
    assert said in told.value.message


def test_the_column_and_its_origin_are_known_without_rows() -> None:
    changes = left(Mask("name"), PythonFunction(chunked, inputs=("n", "name"), into="x", type="decimal(9,2)"))
    made = changes.fields[0][-1]
    assert (made.column.name, made.column.spark_type, made.leaves()) == ("x", "decimal(9,2)", ("n", "name"))
    assert made.computed is not None
    assert made.computed.clear == {"n"}
    replaced = left(PythonFunction(chunked, inputs=("N",), into="n")).fields[0]
    assert [(f.column.name, f.column.spark_type, f.source) for f in replaced][1] == ("n", "string", "n")


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (PythonFunction("no.such.module:f", inputs=("n",), into="x"), "python_function"),
        (PythonFunction(double_of, inputs=("m",), into="x"), "column_unknown"),
        (PythonFunction(double_of, inputs=("n",), into="name"), "column_exists"),
    ],
)
def test_it_is_refused_before_rows_are_read(spec: PythonFunction, code: str) -> None:
    with pytest.raises(TransformError) as told:
        left(spec)
    assert told.value.code == code
