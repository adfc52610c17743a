"""Keys of a sink's rows: of which table they are, and how the source is asked for the rows of some keys."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from databus.core.flow import Flow
from databus.core.protocols.validated_sink import KeyReadingSink, ValidatedSink
from databus.core.tables.schemas import TableSchema
from databus.ops.validation.key_conditions import conditions_for
from databus.ops.validation.result import Difference

Named = TypeVar("Named", str, bytes)

Key = tuple[str, bytes]
"""Output, and key in it."""

MOST_REPAIRED = 10_000
"""Keys of one table that are named for a repair; of more the table is read whole."""

_AT_ONCE = 500
_MOST_BYTES = 50_000
"""Keys, and bytes, of one condition of a repair."""


@dataclass(frozen=True)
class SinkKeys:
    """Keys of one sink.

    Attributes:
        flow: the flow.
        sink: the open sink.
        outputs: output → `database.table` of those of the flow's tables whose rows go there.
        tables: tables that are compared.
        schemas: `database.table` → the table as it was read; filled while the source is read.
    """

    flow: Flow
    sink: ValidatedSink
    outputs: Mapping[str, tuple[str, ...]]
    tables: tuple[str, ...]
    schemas: Mapping[str, TableSchema]

    def conditions(self, keys: Iterable[Key]) -> dict[str, str]:
        """Return `database.table` → condition that all rows of some keys meet; "" for all rows of the table."""
        found: dict[str, str] = {}
        by_output = defaultdict(set)
        for output, key in keys:
            by_output[output].add(key)
        for output, those in by_output.items():
            for table in self.outputs[output]:
                condition = self._condition(table, those) if table in self.tables else None
                if condition is not None:
                    both = [found[table], condition] if table in found else [condition]
                    found[table] = " OR ".join(both) if all(both) else ""
        return found

    def may_be_extra(self, key: Key) -> bool:
        """Tell whether a row that the source does not have would be of the tables that are compared."""
        told = self.told(key)
        return told in self.tables if told is not None else set(self.outputs[key[0]]) <= set(self.tables)

    def table(self, key: Key) -> str:
        """Return the table of a key, or all whose rows go to its output."""
        return self.told(key) or " + ".join(self.outputs[key[0]])

    @property
    def say_table(self) -> bool:
        """Return whether a key says its table."""
        return self.told((next(iter(self.outputs), ""), b"")) is not None

    def shared(self) -> list[str]:
        """Say of which outputs extra rows are not looked for, because rows of other tables are there."""
        return [
            f"{output} has rows of {', '.join(others)} as well: extra rows were not looked for"
            for output, tables in self.outputs.items()
            if (others := sorted(set(tables) - set(self.tables))) and not self.say_table
        ]

    def repairs(self, found: Sequence[Difference], *, whole: bool) -> dict[str, tuple[str, ...]]:
        """Return `database.table` → conditions that together are met by the rows of missing and different keys.

        Args:
            found: what differs.
            whole: whether more differs than was found: then all rows of the tables are named.
        """
        if whole:
            return dict.fromkeys(self.tables, ("",))
        keys: dict[str, list[bytes]] = defaultdict(list)
        for each in found:
            if each.kind != "extra":
                keys[each.table].append(each.key)
        return {
            table: self._pieces(table, those) if len(those) <= MOST_REPAIRED else ("",) for table, those in keys.items()
        }

    def row_key(self, table: str, key: bytes) -> str:
        """Return the JSON of the key of a table's row that a sink's key is made of; "" where it does not say it."""
        schema = self.schemas.get(table)
        if schema is None or not self._condition(table, [key]):
            return ""
        told = self.sink.row_keys(schema, [key]) if isinstance(self.sink, KeyReadingSink) else [key]
        values = json.loads(told[0]) if told else {}
        named = {name: values[name] for name in schema.primary_key if name in values}
        text = json.dumps(named, separators=(",", ":"), ensure_ascii=False)
        exact = isinstance(self.sink, KeyReadingSink) or text.encode() == key
        return text if exact and len(named) == len(schema.primary_key) else ""

    def _pieces(self, table: str, keys: Sequence[bytes]) -> tuple[str, ...]:
        pieces = tuple(
            condition for condition, _ in parts(keys, lambda those: self._condition(table, set(those)) or "")
        )
        return pieces if all(pieces) else ("",)

    def _condition(self, table: str, keys: Collection[bytes]) -> str | None:
        """Return a condition for keys of one table; None where none of them can be of it."""
        schema = self.schemas.get(table)
        if schema is not None and isinstance(self.sink, KeyReadingSink):
            told = self.sink.row_keys(schema, keys)
            if told is None:
                return ""
            if not told:
                return None
            keys = told
        return conditions_for(self.flow, [table], keys, self.schemas)[table]

    def told(self, key: Key) -> str | None:
        """Return the table that a key names; "" of none of the flow's, None where it names none."""
        if not isinstance(self.sink, KeyReadingSink):
            return None
        return self.sink.table_of(key[1], self.outputs.get(key[0], ()))


def parts(keys: Sequence[Named], condition: Callable[[Sequence[Named]], str]) -> list[tuple[str, Sequence[Named]]]:
    """Return conditions with the keys that they name; "" with those that cannot be named."""
    made: list[tuple[str, Sequence[Named]]] = []
    left = [keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE)]
    while left:
        those = left.pop(0)
        where = condition(those)
        if len(where) > _MOST_BYTES and len(those) > 1:
            middle = len(those) // 2
            left[:0] = [those[:middle], those[middle:]]
        else:
            made.append((where, those))
    return made
