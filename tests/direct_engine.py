"""What stands where the Spark session does, for flows of the direct lane: there Spark calls one function per slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Task = Callable[[Iterable[Any]], Iterable[Any]]
"""A mapInArrow function: Arrow batches with the column `id` in, Arrow batches out."""


class DirectEngine:
    """As much of a Spark session as the direct lane asks for."""

    def run(self, task: Task, numbers: range) -> list[dict[str, Any]]:
        """Run a task over each number; return all rows in the order of the numbers."""
        raise NotImplementedError

    def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Jobs have no tags here: an orphan is never interrupted, which is the harder case."""

    def interruptTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """See addTag."""

    def range(self, start: int, end: int, step: int, partitions: int) -> _Numbers:
        """Return numbers, one to a task."""
        assert (step, partitions) == (1, end - start)
        return _Numbers(self, range(start, end))


class _Numbers:
    def __init__(self, engine: DirectEngine, numbers: range):
        self._engine, self._numbers = engine, numbers
        self._task: Task | None = None

    def mapInArrow(self, task: Task, _schema: str) -> _Numbers:  # noqa: N802 - Spark's name
        self._task = task
        return self

    def collect(self) -> list[dict[str, Any]]:
        assert self._task is not None
        return self._engine.run(self._task, self._numbers)
