"""Tables as the rows of a mock source make them, row by row and statement by statement, and what does not add up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from databus.core.batching import Batching
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.contract.source import EVERYTHING


def images(spec: Mock, limit: Batching = EVERYTHING) -> Iterator[tuple[SourcePlan, dict[str, Any]]]:
    """Yield the rows of a source that ends, with their plans; images as dictionaries."""
    source, after = MockSource(spec), SequenceOffset(0)
    while (plan := source.plan(after, limit)) is not None:
        for split in source.splits(plan, 3):
            for batch in split.read_text({}):
                for row in batch.to_pylist():
                    for side in ("before", "after"):
                        row[side] = row[side] and json.loads(row[side], parse_float=Decimal)
                    yield plan, row
        assert isinstance(plan.range.end, SequenceOffset)
        after = plan.range.end


class Tables:
    """Tables as rows and statements leave them; an image that is not the row's state fails."""

    def __init__(self, spec: Mock, limit: Batching = EVERYTHING):
        self.rows: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in spec.tables}
        self.ops: Counter[str] = Counter()
        self.touched: Counter[tuple[str, int]] = Counter()
        self.columns: dict[str, list[list[str]]] = {name: [["id", *spec.columns]] for name in spec.tables}
        self._statements = dict(spec.statements)
        for plan, row in images(spec, limit):
            table = f"{row['database']}.{row['table']}"
            if row["op"] == "m":
                assert row["schema_id"] == -1
                self._state(table, row["statement"])
            else:
                assert plan.tables[row["schema_id"]].full_name == table
                assert [c.name for c in plan.tables[row["schema_id"]].columns] == self.columns[table][-1]
                self._change(table, row)

    def _change(self, table: str, row: dict[str, Any]) -> None:
        here, image = self.rows[table], row["after"] or row["before"]
        key = image["id"]
        assert json.loads(row["key"]) == [key] or json.loads(row["key"]) == {"id": key}
        assert list(image) == self.columns[table][-1]
        self.ops[row["op"]] += 1
        self.touched[table, key] += 1
        if row["op"] == "c":
            assert key not in here
        else:
            assert row["before"] == here[key]
        if row["op"] == "d":
            del here[key]
        else:
            here[key] = row["after"]

    def _state(self, table: str, statement: str) -> None:
        """Do what statements of the tests do: ADD COLUMN, DROP COLUMN, RENAME COLUMN, MODIFY COLUMN; one each."""
        verb, _, name, *more = statement.removeprefix(f"ALTER TABLE {table} ").split()
        columns = [*self.columns[table][-1]]
        if verb == "ADD":
            columns.append(name)
        elif verb == "DROP":
            columns.remove(name)
        elif verb == "RENAME":
            columns[columns.index(name)] = more[1]
        self.columns[table].append(columns)
        for row in self.rows[table].values():
            known = {more[1] if verb == "RENAME" and n == name else n: value for n, value in row.items()}
            known = {n: known.get(n) for n in columns}
            row.clear()
            row.update(known)
