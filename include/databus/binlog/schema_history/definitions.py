"""Table definitions for a walk over the log where TABLE_MAP events leave gaps, and those that a plan pinned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.log.tablemap import TableMap
from databus.binlog.schema_history.attach import MismatchError, attach, lacks
from databus.binlog.schema_history.definition import TableDefinition, TableName, place_of
from databus.core.errors.source import SchemaUnknownError


class Definitions(Protocol):
    """Read and updated by a walk in log order."""

    def complete(self, table: TableMap, flavor: str, file: str, pos: int) -> TableMap:
        """Return a table that was met at file:pos with all that is known of it; as it is when the log says it all.

        Raises:
            SchemaUnknownError: what the log leaves open cannot be determined.
        """
        ...

    def follow(self, query: QueryEvent, file: str, end_pos: int) -> None:
        """Take note of a definition statement that ends at file:end_pos."""
        ...


class RecordingDefinitions(Definitions, Protocol):
    """Definitions that remember which of them were used."""

    @property
    def recorded(self) -> tuple[PinnedDefinition, ...]:
        """Definitions used so far, in the order in which they were asked for."""
        ...


@dataclass(frozen=True)
class PinnedDefinition:
    """A definition that a plan used.

    Attributes:
        file: log file.
        pos: position of the TABLE_MAP event from which on it holds.
        definition: the definition.
    """

    file: str
    pos: int
    definition: TableDefinition

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"file": self.file, "pos": self.pos, "definition": self.definition.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PinnedDefinition:
        """Read what `to_json` wrote."""
        return cls(data["file"], data["pos"], TableDefinition.from_json(data["definition"]))


class KeptDefinitions:
    """Answers the walk of a prepared transaction that was kept; of tables captured since, those of its place answer."""

    def __init__(self, kept: Iterable[PinnedDefinition], others: Definitions):
        """Put both together.

        Args:
            kept: what was kept with the transaction.
            others: asked about tables of which nothing was kept.
        """
        self._lines = tuple(kept)
        self._names = {line.definition.name for line in self._lines}
        self._kept, self._others = PinnedDefinitions(self._lines), others

    def complete(self, table: TableMap, flavor: str, file: str, pos: int) -> TableMap:
        """Complete a table by what was kept with the transaction, else by the others."""
        known = self._kept if TableName(table.database, table.table) in self._names else self._others
        return known.complete(table, flavor, file, pos)

    def follow(self, query: QueryEvent, file: str, end_pos: int) -> None:
        """Learn nothing: a transaction that can be prepared defines no tables."""


class NoDefinitions:
    """Refuses tables that leave something open, where nothing can show what they were."""

    def __init__(self, captured: Callable[[str, str], bool], why: str, hint: str):
        """Prepare.

        Args:
            captured: returns whether a table (database, name) is captured; others are left as they are.
            why: why nothing can show.
            hint: what to do.
        """
        self._captured, self._why, self._hint = captured, why, hint

    def complete(self, table: TableMap, flavor: str, file: str, pos: int) -> TableMap:
        """Return a table that says it all, or is not captured.

        Raises:
            SchemaUnknownError: it is captured, and the log leaves open what its columns are.
        """
        if not self._captured(table.database, table.table) or not lacks(table, flavor):
            return table
        raise SchemaUnknownError(
            f"{file}:{pos}: rows of {table.full_name} leave open what its columns are, and {self._why}",
            hint=self._hint,
        )

    def follow(self, query: QueryEvent, file: str, end_pos: int) -> None:
        """Learn nothing from a statement."""


class PinnedDefinitions:
    """Answers a walk with a plan's definitions: the same at every replay, whatever the server says by now."""

    def __init__(self, pinned: Iterable[PinnedDefinition]):
        self._of: dict[TableName, list[PinnedDefinition]] = {}
        for line in pinned:
            self._of.setdefault(line.definition.name, []).append(line)

    def complete(self, table: TableMap, flavor: str, file: str, pos: int) -> TableMap:
        """Complete a table by the last definition pinned at or before a place."""
        lines = self._of.get(TableName(table.database, table.table))
        if lines is None or not lacks(table, flavor):
            return table
        here = place_of(file, pos)
        held = [line for line in lines if place_of(line.file, line.pos) <= here]
        if not held:
            return table
        try:
            return attach(table, held[-1].definition)
        except MismatchError as error:
            raise SchemaUnknownError(
                f"{file}:{pos}: {table.full_name} is not the table that was planned: {error}"
            ) from None

    def follow(self, query: QueryEvent, file: str, end_pos: int) -> None:
        """Learn nothing: the plan has been through these statements."""
