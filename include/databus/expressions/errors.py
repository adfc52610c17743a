"""Errors of compiled expressions: no proven meaning, a row for which Spark would fail, a value that is left to Spark.

The first never reaches a user as an error: the expression is left to Spark, and the reason is shown beside the lane.
"""

from __future__ import annotations

from databus.core.errors.root import DatabusError


class NotCompiledError(Exception):
    """An expression's meaning is not known to be Spark's: it stays in Spark's lane.

    Attributes:
        reason: the function, type, operator or option that is not compiled, as users are shown it.
    """

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


class ExpressionError(DatabusError):
    """An expression fails for a row, as it does in Spark with ANSI mode on.

    Attributes:
        error_class: Spark's error class, e.g. "DIVIDE_BY_ZERO".
    """

    code = "expression_failed"
    default_hint = "Use a try_ function (try_divide, try_cast, …) or a condition that keeps such rows away from it."

    def __init__(self, error_class: str, message: str):
        self.error_class = error_class
        super().__init__(f"[{error_class}] {message}")


class SparkNeededError(DatabusError):
    """A value of the batch is read by Spark's lane alone: its table takes that lane.

    Attributes:
        table: `database.table` of the value; "" where nothing says it, and the whole batch takes that lane.
    """

    code = "spark_needed"
    table = ""


def overflow(what: str, *, small: bool = False) -> ExpressionError:
    """Return the error of an integer that its type cannot hold; Spark names that of tinyint and smallint otherwise."""
    return ExpressionError(f"{'BINARY_' if small else ''}ARITHMETIC_OVERFLOW", f"{what} overflows its type")


def out_of_range(what: str, to: str) -> ExpressionError:
    """Return the error of a number that a decimal's digits cannot hold; it does not show the row's value."""
    return ExpressionError("NUMERIC_VALUE_OUT_OF_RANGE", f"{what} cannot be held by {to}")


def zero_divisor(what: str, error_class: str = "DIVIDE_BY_ZERO") -> ExpressionError:
    """Return the error of a division by zero."""
    return ExpressionError(error_class, f"{what} by zero")
