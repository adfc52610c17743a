"""Filters of changes: tables, a condition, columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from typing import Any

from databus.consumer.change import WHOLE, Change, Row
from databus.core.errors.consumer import ConsumerError

Condition = Callable[[Change], bool] | Mapping[str, Any]
"""A function, or column → value (or a collection of values) that the row before or after the change has."""


class Filters:
    """Choice of a topic's changes that are delivered.

    Args:
        tables: "database.table" or patterns with `*`; empty for all.
        where: condition; None for all. An update passes where either of its rows does, so that a row which leaves the
            condition is not missed; statements pass always.
        columns: names that rows keep; empty for all.
    """

    def __init__(self, tables: Sequence[str], where: Condition | None, columns: Sequence[str]):
        self._pattern = re.compile("|".join(map(translate, tables))) if tables else None
        self._known: dict[str, bool] = {}
        self._where = _of_mapping(where) if isinstance(where, Mapping) else where
        self._columns = frozenset(columns)

    def wanted(self, change: Change) -> bool:
        """Return whether a change passes; one that does keeps the wanted columns alone.

        Raises:
            ConsumerError: tables are asked for, and the record does not say its table.
        """
        if change.op == WHOLE:
            return True
        if self._pattern is not None:
            known = self._known.get(change.table)
            if known is None:
                known = self._known[change.table] = self._is_of(self._pattern, change)
            if not known:
                return False
        if self._where is not None and change.row is not None and not self._where(change):
            return False
        if self._columns:
            change.before, change.after = self._cut(change.before), self._cut(change.after)
        return True

    @staticmethod
    def _is_of(pattern: re.Pattern[str], change: Change) -> bool:
        if not change.table:
            raise ConsumerError(
                f"records of {change.topic} do not say their table, and tables= asks for it",
                hint='Let the sink write it: headers=("event_id", "ts_ms", "table"); or read one topic for each table.',
            )
        return pattern.match(change.table) is not None

    def _cut(self, row: Row | None) -> Row | None:
        return None if row is None else {name: value for name, value in row.items() if name in self._columns}


def _of_mapping(where: Mapping[str, Any]) -> Callable[[Change], bool]:
    wanted = [
        (name, value if isinstance(value, set | frozenset | tuple | list | range) else (value,))
        for name, value in where.items()
    ]

    def fulfils(row: Row | None) -> bool:
        return row is not None and all(name in row and row[name] in values for name, values in wanted)

    return lambda change: fulfils(change.after) or fulfils(change.before)
