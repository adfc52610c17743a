"""Table definitions for the log of one server: seeded from information_schema, followed through DDL.

A definition read from information_schema is taken for a place of the log only where that is proven: no statement of the
log between that place and the moment of reading touches the table. The place is the flow's offset, or the end of the
last statement that touched the table; what was before that statement stays unknown, and rows of it are refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from databus.binlog.log.capture import REGEX_PREFIX, SYSTEM_DATABASES, TableCapture
from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.log.tablemap import TableMap
from databus.binlog.schema_history.actions import EVERY_TABLE, action_of, touched
from databus.binlog.schema_history.attach import MismatchError, attach, lacks
from databus.binlog.schema_history.definition import LogPosition, TableDefinition, TableName, place_of
from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.schema_history.interpret import interpret
from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.segments.kept_log import KeptLog
from databus.binlog.server.dump import Dump
from databus.binlog.server.log_walk import LogWalk
from databus.core.errors.source import OffsetInvalidError, OffsetPurgedError, SchemaUnknownError, SourceUnavailableError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset, PreparedTransaction
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.tables.information_schema import MysqlColumns

log = logging.getLogger(__name__)

_TRIES = 20
_FULL_S = 1.0
"""A server that gave full metadata is asked again after so long: `learn` makes up for a change in between."""

_NO_TABLES = TableCapture(("re:",))
_WAY_OUT = (
    "Start the flow after the last statement that changed the table: from there information_schema shows what it is. "
    "SET GLOBAL binlog_row_metadata=FULL on the server, and rows written from then on describe themselves."
)


class DefinitionMissingError(Exception):
    """A table was met whose definition is not known; the walk must be begun again once it is."""

    def __init__(self, table: TableMap, file: str, pos: int, why: str, prepared: PreparedTransaction | None = None):
        super().__init__(f"{file}:{pos}: {table.full_name}: {why}")
        self.table, self.file, self.pos, self.why, self.prepared = table, file, pos, why, prepared


class FollowedDefinitions:
    """Table definitions along a walk from a flow's offset; one per walk, and one per prepared transaction."""

    def __init__(
        self,
        capture: TableCapture,
        flavor: str,
        history: SchemaHistory | None,
        *,
        fold: bool = False,
        prepared: PreparedTransaction | None = None,
    ):
        self._capture, self._flavor, self._history, self._fold = capture, flavor, history, fold
        self._prepared = prepared
        self._used: list[PinnedDefinition] = []

    def of_prepare(self, prepared: PreparedTransaction) -> FollowedDefinitions:
        """Begin to record what one prepared transaction uses, which may lie far before the walk's place."""
        return FollowedDefinitions(self._capture, self._flavor, self._history, prepared=prepared)

    def complete(self, table: TableMap, flavor: str, file: str, pos: int) -> TableMap:
        """Complete a captured table from the history.

        Raises:
            DefinitionMissingError: the history does not know it, or knows another one.
        """
        if not self._capture(table.database, table.table) or not lacks(table, flavor):
            return table
        name = TableName(table.database, table.table)
        entry = self._history.at(name, place_of(file, pos)) if self._history else None
        try:
            found, definition = _attached(table, entry)
        except MismatchError as error:
            raise DefinitionMissingError(table, file, pos, str(error), self._prepared) from None
        last = next((u for u in reversed(self._used) if u.definition.name == name), None)
        if last is None or last.definition != definition:
            self._used.append(PinnedDefinition(file, pos, definition))
        return found

    def follow(self, query: QueryEvent, file: str, end_pos: int) -> None:
        """Enter what a statement makes of the tables it touches."""
        if self._history is None:
            return
        place = place_of(file, end_pos)
        before = LogPosition(place.number, place.pos - 1)
        found = interpret(query, self._history, before, f"{file}:{end_pos}", self._flavor, fold=self._fold)
        for name, entry in found.items():
            self._history.add(name, replace(entry, place=place))

    @property
    def recorded(self) -> tuple[PinnedDefinition, ...]:
        """Definitions used so far."""
        return tuple(self._used)

    def used(self, end: BinlogOffset) -> tuple[PinnedDefinition, ...]:
        """Return the definitions used up to an offset."""
        last = LogPosition(end.file_number, end.pos)
        return tuple(u for u in self._used if place_of(u.file, u.pos) < last)


@dataclass
class _Statements:
    """Collects the tables that statements touch, with their places."""

    flavor: str
    fold: bool
    found: list[tuple[LogPosition, str, frozenset[TableName]]]

    def complete(self, table: TableMap, flavor: str, file: str, pos: int) -> TableMap:  # noqa: ARG002
        """Complete nothing: no rows are read."""
        return table

    def follow(self, query: QueryEvent, file: str, end_pos: int) -> None:
        """Take note of a statement."""
        names = touched(action_of(query, self.flavor, fold=self.fold))
        if names:
            text = " ".join(query.statement.split())[:300]
            self.found.append((place_of(file, end_pos), f"{text} (at {file}:{end_pos})", names))


class MysqlDefinitions:
    """The schema history of one flow's source."""

    def __init__(
        self,
        server: MysqlServer,
        capture: TableCapture,
        stores: Callable[[], Sequence[HistoryStore]],
        logs_after: Callable[[BinlogOffset], Iterator[Dump | KeptLog]],
    ):
        """Prepare; nothing is read yet.

        Args:
            server: the server.
            capture: captured tables.
            stores: opens where histories last; what it seeds is kept in the last one.
            logs_after: yields what must be read, one after the other, for the log from an offset to its head.
        """
        self._server, self._capture, self._open_stores, self._logs_after = server, capture, stores, logs_after
        self._columns = MysqlColumns(server)
        self._known_stores: Sequence[HistoryStore] = ()
        self._kept_in: HistoryStore | None = None
        self._full: tuple[str, float] | None = None
        self._history: SchemaHistory | None = None
        self._tried: set[tuple[TableName, str, int]] = set()

    def begin(self, start: BinlogOffset) -> FollowedDefinitions:
        """Return what a walk from an offset asks.

        A server whose TABLE_MAP events say all needs no history, and none is made.
        """
        opens = self._needed() if self._history is None else not _covers(self._history, start)
        if opens:
            self._history = self._opened(start)
        fold = self._history is not None and self._server.folds_names
        return FollowedDefinitions(self._capture, self._server.flavor, self._history, fold=fold)

    def learn(self, missing: DefinitionMissingError, start: BinlogOffset) -> None:
        """Find the definition of a table that a walk from an offset did not have.

        Raises:
            SchemaUnknownError: it cannot be determined.
        """
        name = TableName(missing.table.database, missing.table.table)
        attempt = (name, missing.file, missing.pos)
        if self._history is None:
            self._history = self._opened(start)
            if self._knows(self._history, missing):
                return
        if attempt not in self._tried:
            self._tried.add(attempt)
            unread = self._prove(missing, name, start)
            if self._knows(self._history, missing):
                return
            missing.why = unread or missing.why
        raise self._unknown(missing, name)

    def _prove(self, missing: DefinitionMissingError, name: TableName, start: BinlogOffset) -> str:
        """Prove one table's definition from the walk's start on, or from a prepare before it; "", or why it cannot."""
        assert self._history is not None  # noqa: S101 - it is opened before anything is proven
        prepared = missing.prepared
        if prepared is None or not place_of(prepared.file, prepared.start_pos) < LogPosition(
            start.file_number, start.pos
        ):
            self._history.add_proven(self._proven(start, [name]))
            return ""
        begin = BinlogOffset(prepared.file, prepared.start_pos, "", self._server.flavor, self._server.identity)
        try:
            self._history.add_proven(self._proven(begin, [name]))
        except (OffsetPurgedError, OffsetInvalidError) as error:
            return f"the log from its XA PREPARE on cannot be read: {error.message}"
        return ""

    def _knows(self, history: SchemaHistory, missing: DefinitionMissingError) -> bool:
        """Return whether a history has a definition that fits; else `missing` says why not."""
        name = TableName(missing.table.database, missing.table.table)
        entry = history.at(name, place_of(missing.file, missing.pos))
        try:
            _attached(missing.table, entry)
        except MismatchError as error:
            missing.why = str(error)
            return False
        return True

    def end(self, end: BinlogOffset) -> None:
        """Keep what a range up to this offset has shown; called before the range is planned."""
        if self._history is not None and self._kept_in is not None:
            self._history.covered = max(self._history.covered, LogPosition(end.file_number, end.pos))
            self._history.prune()
            self._kept_in.save(self._history)

    def _needed(self) -> bool:
        if self._server.flavor == "mariadb":
            return True
        server, now = self._server.identity, time.monotonic()
        if self._full is not None and self._full[0] == server and now - self._full[1] < _FULL_S:
            return False
        metadata = self._server.variables("binlog_row_metadata").get("binlog_row_metadata", "")
        self._full = (server, now) if metadata.upper() == "FULL" else None
        return self._full is None

    def _opened(self, start: BinlogOffset) -> SchemaHistory:
        for store in self._stores():
            history = store.load()
            if history is not None and _covers(history, start):
                self._kept_in = store
                return history
        return self._seeded(start)

    def _seeded(self, start: BinlogOffset) -> SchemaHistory:
        place = LogPosition(start.file_number, start.pos)
        history = SchemaHistory(start, place)
        history.add_proven(self._proven(start, None))
        self._kept_in = self._stores()[-1]
        self._kept_in.save(history)
        log.info("%s: schema history begins at %s with %d tables", self._server.place, start, len(history.tables))
        return history

    def _proven(self, start: BinlogOffset, only: list[TableName] | None) -> dict[TableName, list[Entry]]:
        """Return what information_schema says of tables, each from where on that is proven.

        A statement between two readings of the log's head may or may not be in what was read: then it is read again.
        """
        place = LogPosition(start.file_number, start.pos)
        for _ in range(_TRIES):
            before = self._server.head()
            visible = self._columns.table_names()
            databases = {n.database for n in only} if only else self._databases(visible)
            self._columns.wait_for_definition_statements(
                n for n in (only if only is not None else visible) if n.database in databases
            )
            defined = self._columns.definitions(sorted(databases))
            after = self._server.head()
            sure, head = (LogPosition(o.file_number, o.pos) for o in (before, after))
            statements = [s for s in self._statements(start, after) if place < s[0] <= head]
            wanted = set(only) if only is not None else _named(statements, databases) | set(defined)
            if not any(at > sure and _touches(names, name) for at, _, names in statements for name in wanted):
                return {name: _entries(name, defined.get(name), place, statements) for name in wanted}
        raise SourceUnavailableError(
            f"{self._server.place}: definitions change faster than they can be read", hint="Try again later."
        )

    def _databases(self, visible: Iterable[TableName]) -> set[str]:
        """Return the databases that hold, or by their name may hold, a captured table."""
        found = {n.database for n in visible if self._capture(n.database, n.table)}
        literal = {p.split(".")[0] for p in self._capture.include if not p.startswith(REGEX_PREFIX)}
        return found | {d for d in literal if not set(d) & set("*?[")} - SYSTEM_DATABASES

    def _statements(
        self, start: BinlogOffset, head: BinlogOffset
    ) -> list[tuple[LogPosition, str, frozenset[TableName]]]:
        collected = _Statements(self._server.flavor, self._server.folds_names, [])
        if (start.file, start.pos) == (head.file, head.pos):
            return []
        walk = LogWalk(_NO_TABLES, f"{self._server.place}: {start}", collected, passes_statements=True)
        for log_part in self._logs_after(start):
            with log_part as dump:
                for batch in dump.batches():
                    for _ in walk.walk(batch):
                        pass
        return collected.found

    def _stores(self) -> Sequence[HistoryStore]:
        self._known_stores = self._known_stores or self._open_stores()
        return self._known_stores

    def _unknown(self, missing: DefinitionMissingError, name: TableName) -> SchemaUnknownError:
        logged = ", ".join(f"{c.name or '?'} {c.source_type}" for c in missing.table.columns)
        return SchemaUnknownError(
            f"{self._server.place}: {missing.file}:{missing.pos}: rows of {name} are logged as ({logged}), which "
            f"leaves open what its columns are, and the definition that held there cannot be determined: {missing.why}",
            hint=_WAY_OUT,
        )


def _attached(table: TableMap, entry: Entry | None) -> tuple[TableMap, TableDefinition]:
    """Return a table completed by an entry, and its definition.

    Raises:
        MismatchError: the entry has none, or another one; says why.
    """
    if entry is None or entry.definition is None:
        never = "it was never seen; information_schema shows it to accounts that may SELECT from it"
        raise MismatchError((entry.unknown if entry else "") or never)
    try:
        return attach(table, entry.definition), entry.definition
    except MismatchError as error:
        raise MismatchError(f"the definition {entry.definition} is not that of the log: {error}") from None


def _covers(history: SchemaHistory, start: BinlogOffset) -> bool:
    """Return whether a history reaches over an offset of the same, unreset log."""
    place = LogPosition(start.file_number, start.pos)
    if not history.seed_place <= place <= history.covered:
        return False
    if start.server and history.seed.server and start.server != history.seed.server:
        return False
    return not history.seed.gtids or _contains(start, history.seed)


def _contains(later: BinlogOffset, earlier: BinlogOffset) -> bool:
    kind = MariadbGtidPosition if later.flavor == "mariadb" else MysqlGtidSet
    try:
        return bool(kind.parse(later.gtids).contains(kind.parse(earlier.gtids)))  # type: ignore[arg-type]
    except OffsetInvalidError:
        return False


def _touches(names: frozenset[TableName], name: TableName) -> bool:
    return name in names or TableName(name.database, "") in names or EVERY_TABLE in names


def _named(statements: Iterable[tuple[LogPosition, str, frozenset[TableName]]], databases: set[str]) -> set[TableName]:
    return {n for _, _, names in statements for n in names if n.table and n.database in databases}


def _entries(
    name: TableName,
    definition: TableDefinition | None,
    start: LogPosition,
    statements: Iterable[tuple[LogPosition, str, frozenset[TableName]]],
) -> list[Entry]:
    """Return one entry where no statement touched a table, else an unknown one and what holds after the last."""
    touching = [(at, text) for at, text, names in statements if _touches(names, name)]
    if not touching:
        return [Entry(start, definition)]
    _, text = touching[0]
    why = f"it was changed before its definition was first read, by {text}"
    return [Entry(start, None, why), Entry(touching[-1][0], definition)]
