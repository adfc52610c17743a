"""Python functions over the columns of one image, called with Arrow arrays where rows are read."""

from __future__ import annotations

import hashlib
import importlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from databus.core.errors.batch import TransformError
from databus.rows.frames.computed import Computed, computed_column
from databus.rows.typed import arrow_type

CODE = "python_function"


def function_at(path: str) -> Callable[..., Any]:
    """Return the function at "module:name".

    Raises:
        TransformError: it cannot be imported here, or is none.
    """
    module, _, name = path.partition(":")
    hint = "Its module has to be importable where flows are planned (Airflow's workers) and on Spark's workers."
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # of any user's module
        message = f"function {path} cannot be imported: {type(error).__name__}: {error}"
        raise TransformError(message, hint=hint, code=CODE) from error
    if not callable(found):
        raise TransformError(f"{path} is no function: {type(found).__name__}", hint=hint, code=CODE)
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ArrowCall:
    """Arrow call of a function: it sees the rows that it is meant for, and no others.

    Attributes:
        path: "module:name".
        type: Spark type of its result.
    """

    path: str
    type: str

    @property
    def name(self) -> str:
        """Name of the function in SQL: the same for the same call."""
        return "databus_" + hashlib.sha256(f"{self.path} {self.type}".encode()).hexdigest()[:16]

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        """Call the function.

        Args:
            arrays: bool[n], for which rows it is called; then an array of n values for each of its inputs.

        Returns:
            Array[n] of the type; null where it was not called.

        Raises:
            TransformError: it fails, or its result has not a value of the type for each row.
        """
        meant, *inputs = arrays
        meant = pc.fill_null(meant, False)
        taken = [column.filter(meant) for column in inputs]
        wanted, count = arrow_type(computed_column("", self.type)), meant.true_count
        if not count:
            return pa.nulls(len(meant), wanted)
        result = self._result(taken, count, wanted)
        if count == len(meant):
            return result
        place = pc.if_else(meant, pc.subtract(pc.cumulative_sum(meant.cast(pa.int64())), 1), None)
        return result.take(place)

    def _result(self, taken: list[pa.Array], count: int, wanted: pa.DataType) -> pa.Array:
        function = function_at(self.path)
        try:
            result = function(*taken)
            result = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
        except Exception as error:  # noqa: BLE001 - of any user's function; its text may show values of rows
            raise self._failed(f"{type(error).__name__} at {_place(error)}") from None
        if not isinstance(result, pa.Array):
            raise self._failed(f"it returned {type(result).__name__}, and a pyarrow.Array is wanted")
        if len(result) != count:
            raise self._failed(f"it returned {len(result)} values for {count} rows")
        try:
            return result.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise self._failed(f"its result, {result.type}, is not {self.type}: {type(error).__name__}") from None

    def _failed(self, why: str) -> TransformError:
        hint = "It has to return an array of its type with a value, or null, for each row that it is given."
        return TransformError(f"function {self.path}: {why}", hint=hint, code=CODE)


def _place(error: Exception) -> str:
    """Return file, without its folder, and line of the function in which an error came up."""
    frame = traceback.extract_tb(error.__traceback__)[:2][-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


@dataclass(frozen=True)
class Called(Computed):
    """Value that a Python function computes.

    Attributes:
        call: the function.
        arguments: the columns, in the order of its arguments, by their names in `inputs`.
        schema_id: of the table's rows: no others are given to it.
    """

    call: ArrowCall = ArrowCall("", "string")
    arguments: tuple[str, ...] = ()
    schema_id: int = -1

    def definition(self, image: str) -> str:
        """Return SQL that calls the function; it is to be registered in the session (`register`)."""
        meant = f"`schema_id` = {self.schema_id} AND {self.meant(image)}"
        arguments = ", ".join([f"({meant})", *(f"({self.inputs[name].typed(image)})" for name in self.arguments)])
        return f"CASE WHEN {meant} THEN CAST({self.call.name}({arguments}) AS {self.type}) END"


def register(rows: Any, call: ArrowCall) -> None:
    """Register a function under its name in the session of a DataFrame; again is harmless."""
    from pyspark.sql.functions import arrow_udf

    # A function and not an object with `__call__`: Spark reads its type from the annotations.
    def called(*arrays: pa.Array) -> pa.Array:
        return call(*arrays)

    called.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    rows.sparkSession.udf.register(call.name, arrow_udf(called, call.type))
