"""The schema history: for each table the definitions it had, by place of the log."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from databus.binlog.schema_history.definition import LogPosition, TableDefinition, TableName
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.positions.offsets import BinlogOffset, offset_from_json
from databus.core.stored_form import Form

SCHEMA_HISTORY = Form("schema history", "seed covered tables")

KEPT_ENTRIES = 1000
"""Entries of one table that are kept before the place up to which the log was followed."""


@dataclass(frozen=True)
class Entry:
    """History entry: a table's definition from a place on, until its next entry.

    Attributes:
        place: the end of the statement that made it so, or where the history begins.
        definition: the definition; None where there is no such table, or it cannot be determined.
        unknown: why it cannot be determined, naming the statement and its file:pos; "" when it is known.
    """

    place: LogPosition
    definition: TableDefinition | None = None
    unknown: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        definition = self.definition.to_json() if self.definition else None
        return {"at": list(self.place), "definition": definition, "unknown": self.unknown}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Entry:
        """Read what `to_json` wrote."""
        definition = TableDefinition.from_json(data["definition"]) if data["definition"] else None
        return cls(LogPosition(*data["at"]), definition, data["unknown"])


@dataclass
class SchemaHistory:
    """Definitions of one server's tables over a stretch of its log.

    Attributes:
        seed: where it begins; the GTIDs there show a log that was reset since.
        covered: every definition statement between the seed and here has been followed.
        tables: entries of each table in log order.
    """

    seed: BinlogOffset
    covered: LogPosition
    tables: dict[TableName, list[Entry]] = field(default_factory=dict)

    @property
    def seed_place(self) -> LogPosition:
        """Seed place: where the history begins."""
        return LogPosition(self.seed.file_number, self.seed.pos)

    def at(self, name: TableName, place: LogPosition) -> Entry | None:
        """Return what holds for a table at a place; None when the history has never seen it."""
        entries = self.tables.get(name, [])
        after = bisect.bisect_right(entries, place, key=lambda e: e.place)
        return entries[after - 1] if after else None

    def add(self, name: TableName, entry: Entry, *, proven: bool = False) -> None:
        """Take an entry; a known one at the same place stays, unless the new one is known by proof."""
        entries = self.tables.setdefault(name, [])
        after = bisect.bisect_right(entries, entry.place, key=lambda e: e.place)
        if after and entries[after - 1].place == entry.place:
            if entries[after - 1].unknown or (proven and not entry.unknown):
                entries[after - 1] = entry
        else:
            entries.insert(after, entry)

    def add_proven(self, found: Mapping[TableName, Iterable[Entry]]) -> None:
        """Take entries that were read from the server; what they leave unknown does not hide what is known."""
        for name, entries in found.items():
            for entry in entries:
                if not entry.unknown or self.at(name, entry.place) is None:
                    self.add(name, entry, proven=True)

    def prune(self, keep: int = KEPT_ENTRIES) -> None:
        """Forget the oldest entries of tables that changed very often; a place before them is unknown, not guessed."""
        for name, entries in self.tables.items():
            covered = bisect.bisect_right(entries, self.covered, key=lambda e: e.place)
            if covered > keep:
                self.tables[name] = entries[covered - keep :]

    def names(self, database: str, place: LogPosition) -> list[TableName]:
        """Return the tables of a database that may exist at a place."""
        return [
            name
            for name in self.tables
            if name.database == database and name.table and self._may_exist(self.at(name, place))
        ]

    @staticmethod
    def _may_exist(entry: Entry | None) -> bool:
        return entry is not None and (entry.definition is not None or bool(entry.unknown))

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return SCHEMA_HISTORY.write(
            {
                "seed": self.seed.to_json(),
                "covered": list(self.covered),
                "tables": [
                    {"name": list(name), "entries": [e.to_json() for e in entries]}
                    for name, entries in self.tables.items()
                ],
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SchemaHistory:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version.
        """
        data = SCHEMA_HISTORY.read(data)
        seed = offset_from_json(data["seed"])
        if not isinstance(seed, BinlogOffset):
            raise CheckpointFormatError(f"a schema history begins at {seed}, which is no place of a binlog")
        tables = {TableName(*t["name"]): [Entry.from_json(e) for e in t["entries"]] for t in data["tables"]}
        return cls(seed, LogPosition(*data["covered"]), tables)
