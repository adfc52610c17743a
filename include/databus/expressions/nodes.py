"""Typed expressions, which give their values for rows.

Values are first made for all rows at once. Where that raises, they are made again as Spark does it, row by row in
meaning: a branch for the rows that reach it, an argument for the rows with no NULL before it. So an error is one only
where Spark has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.functions.registry import Resolved, Value
from databus.expressions.types import arrow_of

Key = tuple[str, str]


@dataclass(frozen=True)
class Rows:
    """Rows that an expression is evaluated for.

    Attributes:
        columns: (name, image) → its values.
        count: number of rows.
        exact: whether branches and arguments see only the rows that reach them.
    """

    columns: Mapping[Key, pa.Array]
    count: int
    exact: bool = False

    def only(self, chosen: np.ndarray) -> Rows:
        """Return the rows of a mask."""
        if chosen.all():
            return self
        places = pa.array(np.flatnonzero(chosen))
        return Rows({key: column.take(places) for key, column in self.columns.items()}, len(places), self.exact)


class TypedNode(Protocol):
    """Typed expression of values.

    Attributes:
        type: Spark type of its values.
    """

    @property
    def type(self) -> str:
        """Return the Spark type of the values."""
        ...

    def values(self, rows: Rows) -> Value:
        """Return a value per row, or a scalar that stands for all.

        Raises:
            ExpressionError: Spark fails for one of the rows (or, unless `rows.exact`, may fail).
        """
        ...


@dataclass(frozen=True)
class ConstantNode:
    """The same value for each row."""

    value: pa.Scalar
    type: str

    def values(self, rows: Rows) -> Value:  # noqa: ARG002
        """Return the constant."""
        return self.value


@dataclass(frozen=True)
class ColumnNode:
    """A column's values."""

    key: Key
    type: str

    def values(self, rows: Rows) -> Value:
        """Return the column."""
        return rows.columns[self.key]


@dataclass(frozen=True)
class CallNode:
    """A function of the values of others."""

    name: str
    resolved: Resolved
    arguments: tuple[TypedNode, ...]

    @property
    def type(self) -> str:
        """Return the type of the function's result."""
        return self.resolved.type

    def values(self, rows: Rows) -> Value:
        """Return the function's values."""
        if rows.exact and self.resolved.reads != "all" and len(self.arguments) > 1:
            return self._exact(rows)
        return self._called([argument.values(rows) for argument in self.arguments])

    def _called(self, arguments: Sequence[Value]) -> Value:
        found = self.resolved.kernel(*arguments)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if isinstance(found, pa.Array) and all(isinstance(argument, pa.Scalar) for argument in arguments):
            return found[0]
        return found

    def _exact(self, rows: Rows) -> Value:
        reached = np.ones(rows.count, np.bool_)
        made: dict[int, tuple[Value, np.ndarray]] = {}
        order = range(len(self.arguments))
        for position in order if self.resolved.reads == "strict" else reversed(order):
            some = rows.only(reached)
            if not some.count:
                return pa.nulls(rows.count, arrow_of(self.type))
            value = self.arguments[position].values(some)
            made[position] = value, reached
            reached = _spread_mask(valid(value, some.count), reached)
        if not reached.any():
            return pa.nulls(rows.count, arrow_of(self.type))
        arguments = [_narrowed(*made[position], reached) for position in order]
        found = self._called(arguments)
        return found if isinstance(found, pa.Scalar) and reached.all() else spread([(found, reached)], self.type)


@dataclass(frozen=True)
class CaseNode:
    """The result of the first condition that is true."""

    branches: tuple[tuple[TypedNode, TypedNode], ...]
    otherwise: TypedNode
    type: str

    def values(self, rows: Rows) -> Value:
        """Return the chosen results."""
        if not rows.exact:
            conditions = [as_array(condition.values(rows), rows.count) for condition, _ in self.branches]
            results = [result.values(rows) for _, result in self.branches]
            chosen = pa.StructArray.from_arrays(conditions, names=[str(k) for k in range(len(conditions))])
            return pc.case_when(chosen, *results, as_array(self.otherwise.values(rows), rows.count))
        left = np.ones(rows.count, np.bool_)
        parts: list[tuple[Value, np.ndarray]] = []
        for condition, result in self.branches:
            some = rows.only(left)
            if not some.count:
                break
            chosen_here = _spread_mask(truth(condition.values(some), some.count), left)
            if chosen_here.any():
                parts.append((result.values(rows.only(chosen_here)), chosen_here))
            left = left & ~chosen_here
        if left.any():
            parts.append((self.otherwise.values(rows.only(left)), left))
        return spread(parts, self.type)


@dataclass(frozen=True)
class CoalesceNode:
    """The first value that is not NULL."""

    arguments: tuple[TypedNode, ...]
    type: str

    def values(self, rows: Rows) -> Value:
        """Return the chosen values."""
        if not rows.exact:
            return pc.coalesce(*(argument.values(rows) for argument in self.arguments))
        left = np.ones(rows.count, np.bool_)
        parts: list[tuple[Value, np.ndarray]] = []
        for argument in self.arguments:
            some = rows.only(left)
            if not some.count:
                break
            value = argument.values(some)
            found = valid(value, some.count)
            here = _spread_mask(found, left)
            parts.append((_narrowed(value, left, here), here))
            left = left & ~here
        return spread([*parts, (pa.scalar(None, arrow_of(self.type)), left)], self.type)


@dataclass(frozen=True)
class LogicNode:
    """AND or OR: the right side counts where the left one does not decide.

    Attributes:
        decides: the value of the left side that decides: False of AND, True of OR.
    """

    decides: bool
    left: TypedNode
    right: TypedNode
    type: str = "boolean"

    def values(self, rows: Rows) -> Value:
        """Return true, false or NULL by three-valued logic."""
        join: Callable[[Value, Value], Value] = pc.or_kleene if self.decides else pc.and_kleene
        if not rows.exact:
            return join(self.left.values(rows), self.right.values(rows))
        left = self.left.values(rows)
        decided = truth(left if self.decides else pc.invert(left), rows.count)
        if decided.all():
            return left
        some = rows.only(~decided)
        right = self.right.values(some)
        open_left = _narrowed(left, np.ones(rows.count, np.bool_), ~decided)
        return spread([(pa.scalar(self.decides), decided), (join(open_left, right), ~decided)], "boolean")


def as_array(value: Value, count: int) -> pa.Array:
    """Return a value as an array of `count` rows."""
    if isinstance(value, pa.Array):
        return value
    return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)


def valid(value: Value, count: int) -> np.ndarray:
    """Return the mask of rows that are not NULL."""
    if isinstance(value, pa.Scalar):
        return np.full(count, value.is_valid)
    return np.asarray(value.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def truth(value: Value, count: int) -> np.ndarray:
    """Return the mask of rows that are true, of a boolean value."""
    if isinstance(value, pa.Scalar):
        return np.full(count, value.as_py() is True)
    return np.asarray(pc.fill_null(value, False).to_numpy(zero_copy_only=False), np.bool_)


def _spread_mask(found: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """Return a mask over all rows of one over the reached ones."""
    whole = np.zeros(len(reached), np.bool_)
    whole[reached] = found
    return whole


def _narrowed(value: Value, had: np.ndarray, wanted: np.ndarray) -> Value:
    """Return the values of the wanted rows, from those of the rows that `had` names."""
    if isinstance(value, pa.Scalar):
        return value
    return value.filter(pa.array(wanted[had]))


def spread(parts: Sequence[tuple[Value, np.ndarray]], kind: str) -> pa.Array:
    """Return one array of the values of disjoint sets of rows; rows of none are NULL.

    Args:
        parts: (values, mask of their rows).
        kind: their Spark type.
    """
    count = len(parts[0][1])
    places = np.full(count, -1, np.int64)
    arrays: list[pa.Array] = []
    done = 0
    for value, mask in parts:
        size = int(mask.sum())
        places[mask] = np.arange(done, done + size)
        arrays.append(as_array(value, size))
        done += size
    whole = pa.concat_arrays([array.cast(arrow_of(kind)) for array in arrays])
    return whole.take(pa.array(places, mask=places < 0))
