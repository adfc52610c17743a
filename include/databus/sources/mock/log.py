"""Log of a mock source: its transactions by number, those of statements among them, and the rows of each."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.schema_history.definition import TableDefinition
from databus.core.tables.schemas import MovedColumns, TableChange, TableSchema
from databus.sources.mock.changes import Changes, FixedKeys, GrowingTable
from databus.sources.mock.clock import RowClock
from databus.sources.mock.declared import StatedChange, read_columns, read_statements
from databus.sources.mock.draws import Draw
from databus.sources.mock.rows import MockTable
from databus.sources.mock.spec import LOG_FILE, Mock
from databus.sources.mock.versions import TableVersion, table_versions

_TABLES_PATTERN = 1_024
_ENDLESS = 2**62
_KEPT = 8


@dataclass(frozen=True)
class PlannedVersion:
    """Version of a table as a plan lists it.

    Attributes:
        table: number of the table.
        version: number of its version.
        schema: its schema under its number of the plan.
        rows_before: rows of the range before the transaction boundary from which on it holds.
        rows_until: rows of the range up to where it ends to hold.
    """

    table: int
    version: int
    schema: TableSchema
    rows_before: int
    rows_until: int


@dataclass(frozen=True, eq=False)
class MockLog:
    """Log of a mock source; a statement is a transaction of its own.

    Attributes:
        spec: the source.
        clock: when it grows.
        statements: statements in their order.
        tables: its tables.
        draw: which table each row change is of.
    """

    spec: Mock
    clock: RowClock
    statements: tuple[StatedChange, ...]
    tables: tuple[MockTable, ...]
    draw: Draw

    @cached_property
    def stated(self) -> tuple[int, ...]:
        """Numbers of the transactions of statements; a statement inside a transaction comes behind it."""
        per = self.spec.rows_per_transaction
        return tuple(-(-each.at_row // per) + n for n, each in enumerate(self.statements, 1))

    @cached_property
    def last(self) -> int:
        """Number of the last transaction that there will ever be."""
        if self.spec.rows is None:
            return _ENDLESS
        return -(-self.spec.rows // self.spec.rows_per_transaction) + len(self.statements)

    def transactions_before(self, number: int) -> int:
        """Return how many transactions with rows come up to a number, itself among them."""
        return number - sum(stated <= number for stated in self.stated)

    def rows_until(self, number: int) -> int:
        """Return how many row changes come up to a transaction, its own among them."""
        found = self.transactions_before(number) * self.spec.rows_per_transaction
        return found if self.spec.rows is None else min(found, self.spec.rows)

    def place_of(self, made: int) -> int:
        """Return the number of the transaction that is the last of so many with rows, or of the last one of all."""
        before = sum(stated - n < made for n, stated in enumerate(self.stated, 1))
        return min(made + before, self.last)

    def number_behind(self, place: int) -> int:
        """Return the number of the first transaction with rows behind another one."""
        number = place + 1
        while number in self.stated:
            number += 1
        return number

    def commit_ms(self, number: int) -> int:
        """Return when a transaction was committed, ms since the epoch; a statement with the transaction before it."""
        return int(self.clock.commit_ms(np.array([self.transactions_before(number)], np.int64))[0])

    def committed_before(self, when_ms: float) -> int:
        """Return the number of the last transaction that was committed before a time; 0 for none."""
        return bisect_left(_CommitTimes(self), when_ms)

    def transactions(self, first: int, last: int) -> Transactions:
        """Return transactions first … last, both inclusive, none or all of them statements."""
        number = np.arange(first, last + 1, dtype=np.int64)
        made = np.arange(self.transactions_before(first), self.transactions_before(last) + 1, dtype=np.int64)
        return Transactions(
            LOG_FILE,
            number - 1,
            number,
            pa.array([""] * len(number), pa.string()),
            self.clock.commit_ms(made),
            np.ones(len(number), np.int64),
        )

    def stretches(self, first: int, last: int) -> list[tuple[int, int]]:
        """Cut a range at its statements; return first and last transaction of each piece."""
        found: list[tuple[int, int]] = []
        start = first
        for stated in self.stated:
            if first <= stated <= last:
                found += [(start, stated - 1)] if stated > start else []
                found.append((stated, stated))
                start = stated + 1
        return found + ([(start, last)] if start <= last else [])

    def statement_at(self, number: int) -> StatedChange | None:
        """Return the statement of a transaction; None of one with rows."""
        return self.statements[self.stated.index(number)] if number in self.stated else None

    def version_at(self, table: int, number: int) -> int:
        """Return the number of a table's version under which rows of a transaction are logged."""
        name = self.spec.tables[table]
        pairs = zip(self.statements, self.stated, strict=True)
        return sum(each.table == name and stated <= number for each, stated in pairs)

    def planned(self, first: int, last: int) -> tuple[PlannedVersion, ...]:
        """Return the versions of tables with rows in a range, in the order in which they begin.

        A table without rows there stands with the version at its beginning.
        """
        begun, end = self.rows_until(first - 1), self.rows_until(last)
        found: list[tuple[int, int, int, int]] = []
        for table, name in enumerate(self.spec.tables):
            now = self.version_at(table, first - 1)
            starts = [begun]
            for each, stated in zip(self.statements, self.stated, strict=True):
                if each.table == name and first <= stated <= last:
                    starts.append(self.rows_until(stated))
            mine = []
            for n, (start, stop) in enumerate(zip(starts, [*starts[1:], end], strict=True)):
                if self.draw.before(table, stop) > self.draw.before(table, start):
                    mine.append((start - begun, table, now + n, stop - begun))
            found += mine or [(0, table, now, 0)]
        return tuple(
            PlannedVersion(
                table, version, replace(self.tables[table].versions[version].schema, schema_id=n), start, stop
            )
            for n, (start, table, version, stop) in enumerate(sorted(found))
        )

    def stated_between(self, first: int, last: int) -> list[tuple[int, StatedChange]]:
        """Return the statements of a range, each with the number of its transaction."""
        return [pair for pair in zip(self.stated, self.statements, strict=True) if first <= pair[0] <= last]

    def moved_columns(self, first: int, last: int) -> tuple[MovedColumns, ...]:
        """Return what statements of a range make of names of columns."""
        versions = self.planned(first, last)
        begun = self.rows_until(first - 1)
        found = []
        for number, each in self.stated_between(first, last):
            if not each.moved:
                continue
            rows = self.rows_until(number) - begun
            behind = []
            for planned in versions:
                start, stop = max(rows, planned.rows_before), planned.rows_until
                count = self.draw.before
                if stop > start and count(planned.table, begun + stop) > count(planned.table, begun + start):
                    behind.append((planned.schema.schema_id, start))
            behind.sort(key=lambda pair: pair[1])
            found.append(MovedColumns(each.table, each.moved, LOG_FILE, number, rows, tuple(behind)))
        return tuple(found)

    def table_changes(self, first: int, last: int) -> tuple[TableChange, ...]:
        """Return the names of columns that statements of a range change."""
        told = (each for _, each in self.stated_between(first, last) if each.renamed)
        return tuple(TableChange(each.table, each.table, captured=True, columns=each.renamed) for each in told)


class _CommitTimes:
    """Commit times of all transactions that there will ever be, behind that of none; for `bisect`."""

    def __init__(self, log: MockLog):
        self._log = log

    def __len__(self) -> int:
        return self._log.last

    def __getitem__(self, index: int) -> float:
        return self._log.commit_ms(index + 1)


def log_of(spec: Mock) -> MockLog:
    """Return the log of a source; kept for the next one who asks."""
    return _log(json.dumps(spec.to_json()))


def log_of_options(options: dict[str, Any]) -> MockLog:
    """Return the log of a source whose stored options these are."""
    return _log(json.dumps(options))


@lru_cache(maxsize=_KEPT)
def _log(stored: str) -> MockLog:
    options = {name: value for name, value in json.loads(stored).items() if name != "kind"}
    spec = Mock.from_stored(options)
    statements = read_statements(spec.tables, spec.columns, spec.statements)
    draw = _draw(spec)
    columns = read_columns(spec.columns)
    changes = _changes(spec)
    tables = []
    for place, name in enumerate(spec.tables):
        database, _, table = name.partition(".")
        first = TableDefinition(database, table, columns, ("id",), "utf8mb4")
        mine = [(each, draw.before(place, _boundary(spec, each))) for each in statements if each.table == name]
        versions: tuple[TableVersion, ...] = table_versions(first, mine, spec.seed, spec.sizes)
        tables.append(MockTable(versions, changes, spec.null_ratio))
    return MockLog(spec, RowClock.of(spec), statements, tuple(tables), draw)


def _boundary(spec: Mock, statement: StatedChange) -> int:
    """Return how many row changes come before a statement, which waits for the end of its transaction."""
    per = spec.rows_per_transaction
    found = -(-statement.at_row // per) * per
    return found if spec.rows is None else min(found, spec.rows)


def _draw(spec: Mock) -> Draw:
    if not spec.table_skew:
        return Draw.in_turn(len(spec.tables))
    length = max(_TABLES_PATTERN, 4 * len(spec.tables))
    return Draw.skewed(len(spec.tables), spec.table_skew, length, spec.seed + 1)


def _changes(spec: Mock) -> Changes:
    if spec.keys is None:
        return GrowingTable(*spec.operations)
    return FixedKeys.drawn(spec.operations, spec.keys, spec.skew, spec.seed + 2)
