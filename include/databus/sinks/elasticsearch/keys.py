"""Keys of an index: under which key columns its documents were written, and whether a table still has them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from databus.core.errors.sink import SinkKeyChangedError
from databus.core.positions.offsets import OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.tables.column_moves import GONE, Columns
from databus.core.tables.key_forms import keeps_text, key_forms
from databus.core.tables.schemas import TableSchema
from databus.sinks.elasticsearch.client import translated
from databus.sinks.elasticsearch.documents import DELETED_FIELD
from databus.sinks.elasticsearch.index_state import IndexState
from databus.sinks.elasticsearch.indices import Indices
from databus.sinks.elasticsearch.key_names import Key, keys_of, moves_of, of_keys, placed, said, version_of
from databus.sinks.elasticsearch.spec import OnKeyChange

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexKeys:
    """Compares the keys of a range's tables with those of the documents that are there.

    Attributes:
        indices: the indices.
        policy: what to do about another key.
        span: the range.
        met: index → statements of the range that move columns of its table; see `note`.
    """

    indices: Indices
    policy: OnKeyChange
    span: OffsetRange
    met: dict[str, dict[int, Columns]] = field(default_factory=dict)

    def compare(self, index: str, plan: SourcePlan, tables: Sequence[TableSchema]) -> None:
        """Compare each definition of an index's tables in a range, at each place where it has rows; see `require`.

        Args:
            index: name; `ensure` was called.
            plan: the range.
            tables: those whose rows go there, as they are written; the source has their columns.
        """
        source = {table.schema_id: table for table in plan.tables}
        written = {table.schema_id: source.get(table.schema_id, table) for table in tables}
        for name in dict.fromkeys(table.full_name for table in tables):
            self.note(index, name, moves_of(plan, name))
            earlier: set[str] = set()
            for place, number, rows in placed(plan, name):
                if (table := written.get(number)) is not None:
                    try:
                        self.require(index, table, earlier, place)
                    except SinkKeyChangedError as refused:
                        refused.rows_before = rows
                        raise
                    earlier |= {column.name for column in table.columns}
            self.note(index, name, {})

    def note(self, index: str, table: str, moves: Mapping[int, Columns]) -> None:
        """Write down in an index what statements make of the columns that its ids are made of; idempotent.

        They are facts of the log, each with its place: it does not matter in which batch they are met, and how often.
        Those of other columns change no id.

        Args:
            index: name; nothing is done without an index.
            table: its `database.table`.
            moves: version and columns of each statement.

        Raises:
            SinkUnavailableError: no answer.
        """
        standing = self.indices.standing(index, table)
        if standing is None or self.indices.shared:
            return
        met, written = self.met.setdefault(index, {}), dict(standing.moved)
        met.update((at, _with_known(columns, written.get(at, ()))) for at, columns in moves.items())
        moved = of_keys({**dict(standing.moved), **met}, keys_of(standing))
        if moved.items() <= dict(standing.moved).items():
            return
        standing.moved = tuple(sorted({**dict(standing.moved), **moved}.items()))

        def added(ours: dict[str, Any]) -> dict[str, Any]:
            if ours.get("table") != table:
                return ours
            all_of_them = {**dict(ours.get("moved", ())), **dict(standing.moved)}
            return {**ours, "moved": [[at, [*map(list, columns)]] for at, columns in sorted(all_of_them.items())]}

        self.indices.write_down(index, added, f"statements gave names of {table}'s key columns to others")

    def require(self, index: str, table: TableSchema, earlier: Collection[str], place: int | None = None) -> None:
        """Refuse a table whose documents have ids of other key columns, or of the same ones written in another way.

        Names of columns do not matter, and a name that stands for another column is another key. Of an index that
        several tables may share nothing is remembered. What is accepted is written down in the index, and so is the key
        of one that does not say it, or not its form: the present one is taken for that of its documents.

        Args:
            index: name; `ensure` was called.
            table: a definition of the table, in the order of the log.
            earlier: columns that the table had in the range before this definition.
            place: version of the place of its rows, behind the last statement that moves columns; the range's start
                where it has none.

        Raises:
            SinkKeyChangedError: the key is another one.
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
        """
        at = version_of(self.span.start) if place is None else place
        standing, now = self.indices.standing(index, table.full_name), Key(table.primary_key, key_forms(table), at)
        if standing is None or self.indices.shared:
            return
        keys, first = keys_of(standing), self._first_known(standing)
        moves = sorted({**dict(standing.moved), **self.met.get(index, {})}.items())
        known = [(key, key.at(at, moves)) for key in keys[first:]]
        called = [here for _, here in known]
        found = next((number for number, here in enumerate(called, first) if here.may_be(now)), None)
        if now in called:
            found = called.index(now) + first
        if found is not None and (found < standing.former or any(key.names == now.names for key in keys)):
            if now in called or not now.forms:
                return
            since = at if keys[found].names == now.names else 0  # of one that an earlier databus wrote down
            keys[found] = replace(keys[found], forms=now.forms, place=keys[found].place or since)
        else:
            if found is None and known and not self._makes_the_same(index, known, table, earlier):
                standing.former = len(keys)
                standing.since = max(standing.since, version_of(self.span.end))
            keys.append(now)
        standing.key, standing.keys = keys[0].names, tuple(key.names for key in keys[1:])
        standing.forms, standing.places = tuple(key.forms for key in keys), tuple(key.place for key in keys)

        def added(ours: dict[str, Any]) -> dict[str, Any]:
            if ours.get("table") != table.full_name:  # somebody else's index: it is not ours to say
                return ours
            further: dict[str, Any] = {"keys": [list(each) for each in standing.keys]} if standing.keys else {}
            further |= {"former": standing.former, "since": standing.since} if standing.since else {}
            further |= {"forms": [list(each) for each in standing.forms]} if any(standing.forms) else {}
            further |= {"at": list(standing.places)} if any(standing.places) else {}
            return {**ours, "key": list(standing.key), **further}

        self.indices.write_down(index, added, f"ids are made of ({now.written}): it is asked again")

    def _first_known(self, standing: IndexState) -> int:
        """Return the first key that a definition in the range may have; former ones where it begins before the last."""
        anew = standing.since and version_of(self.span.start) >= standing.since
        return standing.former if anew else 0

    def _makes_the_same(
        self, index: str, known: Sequence[tuple[Key, Key]], table: TableSchema, earlier: Collection[str]
    ) -> bool:
        """Return whether it is a known key under other names; False where another is accepted. Raises where none is.

        Then the old names are gone, and the new ones were neither in the range before nor in any document. A key whose
        values got another form but keep their text is accepted; the way back from there is another one.

        Args:
            index: name.
            known: each key as it is written down, and as its columns are called at the definition's place.
            table: the definition.
            earlier: see `require`.
        """
        now = Key(table.primary_key, key_forms(table))
        called = [here for _, here in known]
        if any(before.names == now.names and keeps_text(before.forms, now.forms) for before in called):
            return False
        there = _newest(self.indices, index)
        had = {*earlier, *self.indices.fields_before(index), *(there or ())}
        columns = {column.name for column in table.columns}
        for before in called:
            if (
                GONE not in before.names
                and len(before.names) == len(now.names)
                and all(
                    old == new or (old not in columns and new not in had)
                    for old, new in zip(before.names, now.names, strict=True)
                )
            ):
                if before.forms == now.forms or not (before.forms and now.forms):
                    return True
                if keeps_text(before.forms, now.forms):
                    return False
        names = said(*known[-1], now)
        if there is None and not earlier:
            log.info(
                "%s: index %r has no documents of %s, whose key was (%s): ids are made of (%s) from here on",
                self.indices.place, index, table.full_name, *names,
            )  # fmt: skip
            return False
        if self.policy == "fail":
            raise _changed(self.indices.place, index, table, names)
        log.warning(
            "%s: documents of %s in index %r have ids made of (%s), and its key is (%s) now: those of former ids stay "
            "as they are (on_key_change)",
            self.indices.place, table.full_name, index, *names,
        )  # fmt: skip
        return False


def _with_known(columns: Columns, known: Columns) -> Columns:
    """Return what a statement makes of columns; what is written of it stays: a range that begins later may see less."""
    names = {old.casefold() for old, _ in known}
    return (*known, *(pair for pair in columns if pair[0].casefold() not in names))


def _newest(indices: Indices, index: str) -> Collection[str] | None:
    """Return the fields of the document that was written last, None where an index has none.

    Of a login that may not look nothing is known: no fields, of a document that may be there.
    """
    from opensearchpy.exceptions import AuthorizationException, OpenSearchException

    if index in indices.made:
        return None
    alive = {"bool": {"must_not": {"term": {DELETED_FIELD: True}}}}
    try:
        indices.client.indices.refresh(index=index)
        found = indices.client.search(
            index=index,
            body={"size": 1, "query": alive, "sort": [{"_seq_no": "desc"}]},
            params={"allow_partial_search_results": "false"},
        )
    except AuthorizationException as error:
        log.debug("%s: documents of index %r are not looked at: %s", indices.place, index, error)
        return ()
    except OpenSearchException as error:
        raise translated(error, f"{indices.place}: looking at index {index!r}") from error
    hits = found["hits"]["hits"]
    return {*(hits[0].get("_source") or ())} if hits else None


def _changed(place: str, index: str, table: TableSchema, names: tuple[str, str]) -> SinkKeyChangedError:
    name, (before, now) = table.full_name, names
    error = SinkKeyChangedError(
        f"{place}: the primary key of {name} is ({now}) now, and the documents of index {index!r} have ids made of "
        f"({before}): later rows would overwrite and miss them",
        hint=f"Take a new index (`index` of the sink) and have the rows of {name} written again behind the ALTER, and "
        "those of other tables that go to a new one with it, or "
        'go on knowingly with on_key_change="ignore" of the sink: documents under former ids stay until they are '
        f"deleted by hand. Where {name} was dropped and made anew in these very rows, they go with the DROP "
        '(on_truncate="delete"), and "ignore" leaves nothing behind.',
    )
    error.definition = table.schema_id
    return error
