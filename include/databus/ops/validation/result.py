"""Result of a comparison: what each sink lacks, has too much, or has otherwise than the source's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from databus.core.protocols.validated_sink import RowOrigin
from databus.sinks.row_state import shown

Kind = Literal["missing", "extra", "different"]

FIGURES = ("rows", "missing", "extra", "different", "moving", "held_back", "without_key")


@dataclass(frozen=True)
class Difference:
    """Difference of one key between source and sink.

    Attributes:
        kind: "missing" from the sink, "extra" in it, or "different".
        table: `database.table`; several, joined by " + ", where an output has rows of several and nothing tells whose.
        output: topic or index.
        key: the key as the output has it.
        source: what the source's row becomes, canonical bytes (`sinks.row_state`); None for an extra one, or
            one that is not shown.
        sink: what the sink holds, canonical bytes; None for a missing one, or one that is not shown.
        origin: where the sink's record says that its row comes from; None where it does not, or was not asked.
    """

    kind: Kind
    table: str
    output: str
    key: bytes
    source: bytes | None
    sink: bytes | None
    origin: RowOrigin | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with the columns that differ where both sides have the row."""
        mine, theirs = shown(self.source), shown(self.sink)
        columns: list[str] = []
        if isinstance(mine, dict) and isinstance(theirs, dict):
            names = sorted(mine.keys() | theirs.keys())
            columns = [n for n in names if (n in mine, mine.get(n)) != (n in theirs, theirs.get(n))]
        key = self.key.decode(errors="replace")
        facts = {"kind": self.kind, "table": self.table, "output": self.output, "key": key}
        return {**facts, "columns": columns, "source": mine, "sink": theirs}


@dataclass(frozen=True)
class ExtraKey:
    """Extra key of which its row says the table.

    Attributes:
        output: topic or index.
        key: the key as the output has it.
        row_key: JSON of the row's key.
    """

    output: str
    key: bytes
    row_key: str


@dataclass(frozen=True)
class DeletedKeys:
    """Keys of a table that a repair deletes where the source has no such row.

    Attributes:
        where: condition in SQL that the rows of these keys meet.
        keys: JSON of each key.
    """

    where: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class SinkComparison:
    """Comparison of one sink.

    Attributes:
        sink: sink name.
        tables: `database.table` → figure of `FIGURES` → rows. rows: rows that the source expects there, compared by
            key; moving: keys that changed in every round, which were not judged; held_back: rows that checks hold back,
            which are not expected; without_key: rows that no key identifies, which were not judged.
        differences: all keys that differ, in the order in which they were found.
        beyond: keys that differ and were not looked at one by one, because there are too many.
        notes: what was left out, in words.
        repairs: `database.table` → conditions in SQL that together are met by the rows of missing and different keys;
            "" for all rows of the table.
        deletes: `database.table` → those of its extra keys that may be deleted, as far as this sink tells.
        kept: why extra keys are never deleted, in words → how many.
        others: `database.table` and JSON of a row's key, of keys that are here what may be another's: a delete of such
            a row would delete them.
    """

    sink: str
    tables: Mapping[str, Mapping[str, int]]
    differences: Sequence[Difference]
    beyond: int = 0
    notes: Sequence[str] = ()
    repairs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    deletes: Mapping[str, Sequence[ExtraKey]] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    others: frozenset[tuple[str, str]] = frozenset()

    @property
    def equal(self) -> bool:
        """Return whether no key was found to differ."""
        return not self.differences and not self.beyond

    def to_json(self, most: int) -> dict[str, Any]:
        """Return plain JSON with the first `most` differences."""
        return {
            "sink": self.sink,
            "equal": self.equal,
            "tables": {name: dict(figures) for name, figures in self.tables.items()},
            "not_looked_at": self.beyond,
            "notes": list(self.notes),
            "differences": [each.to_json() for each in self.differences[:most]],
        }


@dataclass(frozen=True)
class Validation:
    """Validation of a flow.

    Attributes:
        flow: flow name.
        sinks: what was found, sink by sink.
        rows_read: rows read from the source, all reads together.
        seconds_read: seconds in which the source was read.
        deletes: `database.table` → extra keys that may be deleted, each once, in parts of a condition each.
        deleted: those keys as the sinks have them.
        kept: why the other extra keys are never deleted, in words → how many.
    """

    flow: str
    sinks: Sequence[SinkComparison]
    rows_read: int
    seconds_read: float
    deletes: Mapping[str, Sequence[DeletedKeys]] = field(default_factory=dict)
    deleted: Sequence[ExtraKey] = ()
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Return whether all sinks hold what the source says, as far as keys were judged."""
        return all(sink.equal for sink in self.sinks)

    def to_json(self, most: int = 20) -> dict[str, Any]:
        """Return plain JSON with the first `most` differences of each sink."""
        return {
            "flow": self.flow,
            "equal": self.equal,
            "rows_read": self.rows_read,
            "seconds_read": round(self.seconds_read, 1),
            "sinks": [sink.to_json(most) for sink in self.sinks],
        }
