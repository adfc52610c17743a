"""Columns renamed in a table that takes the place of one in which they are hidden, in an earlier range mostly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from databus import DropColumns, Flow, Mask, Memory, Mock, Project, RenameColumns
from databus.core.errors import TransformError
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import RenamedTable, TableChange, TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.hidden_loss import HiddenLoss, in_clear
from databus.runtime.tables.sink_views import seen_by
from databus.testing.table_batches import table

USERS, GHOST, DONE = "shop.users", "shop._users_gho", "shop._users_del"
ROWS = table(USERS, {"id": "int", "card": "text"})
MOVED = (("card", "note"),)
SWAPPED = (("card", "note"), ("note", "card"))


@dataclass(frozen=True)
class Statements:
    """Statements of a log of which the flow captures these tables."""

    captured: tuple[str, ...] = (USERS,)

    def alters(self, name: str, columns: tuple[tuple[str, str], ...]) -> TableChange:
        return TableChange(name, name, name in self.captured, columns)

    def renames(self, *names: str) -> tuple[TableChange, ...]:
        pairs = zip(names[::2], names[1::2], strict=True)
        return tuple(TableChange(old, new, new in self.captured) for old, new in pairs)

    def drops(self, name: str) -> TableChange:
        return TableChange(name, "")

    def range(self, *changes: TableChange, tables: tuple[TableSchema, ...] = ()) -> dict[str, Any]:
        """Return a range as its plan tells it."""
        renames = tuple(RenamedTable(c.table, c.becomes, 1) for c in changes if c.becomes not in ("", c.table))
        ours = {*self.captured, *(r.old for r in renames if r.new in self.captured)}
        columns = tuple((c.table, c.columns) for c in changes if c.columns and c.table in ours)
        return {"changes": changes, "renames": renames, "columns": columns, "tables": tables}


LOG = Statements()
EXCHANGE = LOG.renames(USERS, DONE, GHOST, USERS)


def after(*ranges: dict[str, Any], specs: Any, known: RememberedHidden | None = None) -> RememberedHidden:
    """Return what is remembered behind ranges of one definition of the flow."""
    known = RememberedHidden({USERS: {"card"}}) if known is None else known
    for one in ranges:
        tables = one["tables"]
        changes: Any = FrameChanges(None, tables, {s.schema_id: fields_of(s) for s in tables}, hidden=Hidden())
        for spec in specs:
            changes = spec.columns_after(changes)
        loss = HiddenLoss(changes.hidden, known, one["renames"], one["columns"], one["changes"], known.tables)
        found = loss.require(tables).with_added(loss.require_new_names(again=False))
        known = known.without(RememberedHidden(beside=known.beside))
        known = known.with_added(found).with_added(RememberedHidden(beside=loss.beside))
    return known


def refused(*ranges: dict[str, Any], specs: Any) -> str:
    known = after(*ranges[:-1], specs=specs)
    with pytest.raises(TransformError) as told:
        after(ranges[-1], specs=specs, known=known)
    assert told.value.code == "hidden_column_gone"
    return f"{told.value.message} → {told.value.hint}"


@pytest.mark.parametrize("meant", [("*",), (USERS,)])
@pytest.mark.parametrize("columns", [MOVED, SWAPPED])
def test_a_rename_in_a_copy_is_told_when_it_takes_the_place(meant: tuple[str, ...], columns: Any) -> None:
    hides = DropColumns("card", tables=meant)
    split = [LOG.range(LOG.alters(GHOST, columns)), LOG.range(), LOG.range(*EXCHANGE, tables=(ROWS,))]
    at_once = [LOG.range(LOG.alters(GHOST, columns), *EXCHANGE)]
    for ranges in (split, at_once):
        told = refused(*ranges, specs=[hides])
        assert "in shop.users a statement of the log gives card, which is hidden, the name note" in told
        assert 'former=("shop.users.card",)' in told
        assert ("(it altered a table that took this one's name later)" in told) == (ranges is split)
        for mended in (
            DropColumns("card", former=("shop.users.note",), tables=meant),
            DropColumns("note", former=("shop.users.card",), tables=meant),
        ):
            known = after(*ranges, specs=[mended])
            assert known.beside == {}
            assert known.tables[USERS] == {"card", "note"}
            assert known.moved == {USERS: {old for old, _ in columns}}


def test_copies_that_rename_nothing_hidden_need_nobody() -> None:
    hides = [Mask("card", "email")]
    plain = LOG.range(LOG.alters(GHOST, (("name", "full_name"),)))
    assert after(plain, LOG.range(*EXCHANGE, tables=(ROWS,)), specs=hides).beside == {}
    # Hidden elsewhere: remembered, and of no harm where the table shows it.
    elsewhere = [Mask("card", tables=("shop.orders",))]
    before = RememberedHidden({"shop.orders": {"card"}})
    known = after(LOG.range(LOG.alters(GHOST, MOVED)), specs=elsewhere, known=before)
    assert known.beside == {GHOST: {"card\0note"}}
    assert after(LOG.range(*EXCHANGE), specs=elsewhere, known=known).tables == {"shop.orders": {"card"}}
    # What is projected is shown.
    shows = [Project("id", "card")]
    known = RememberedHidden({USERS: {"id", "card"}})
    after(LOG.range(LOG.alters(GHOST, MOVED)), LOG.range(*EXCHANGE), specs=shows, known=known)


def test_a_copy_that_was_dropped_is_another_one() -> None:
    given_up = LOG.range(LOG.alters(GHOST, MOVED)), LOG.range(LOG.drops(GHOST))
    assert after(*given_up, LOG.range(*EXCHANGE), specs=[Mask("card")]).beside == {}
    # Also where both lie in one range, and another one is made there.
    anew = LOG.range(LOG.alters(GHOST, MOVED), LOG.drops(GHOST), LOG.alters(GHOST, (("name", "card"),)))
    assert after(anew, LOG.range(*EXCHANGE), specs=[Mask("card")]).beside == {}


def test_a_copy_is_followed_through_its_names_and_its_columns_through_theirs() -> None:
    first = LOG.range(LOG.alters(GHOST, (("Card", "tmp"),)))
    then = LOG.range(LOG.alters(GHOST, (("tmp", "note"), ("id", "tmp"))), *LOG.renames(GHOST, "shop.new"))
    last = LOG.range(*LOG.renames(USERS, DONE, "shop.new", USERS))
    told = refused(first, then, last, specs=[Mask("card")])
    assert "card, which is hidden, the name note, tmp" in told
    known = after(first, then, last, specs=[Mask("card", "note", "tmp")])
    assert (known.beside, known.moved) == ({}, {USERS: {"card"}})
    # The last one in the range of the exchange.
    at_last = LOG.range(LOG.alters(GHOST, (("tmp", "note"),)), *EXCHANGE)
    assert "Name note as well" in refused(first, at_last, specs=[Mask("card", former=("shop.users.tmp",))])
    # What took its place may move on, under another name that is the flow's.
    wide = Statements((USERS, "shop.people"))
    moved_on = wide.range(*wide.renames(USERS, DONE, GHOST, USERS, USERS, "shop.people"))
    spec = [Mask("card", "tmp", tables=(USERS,))]
    assert "in shop.people a statement" in refused(first, moved_on, specs=spec)


def test_tables_that_are_renamed_away_need_not_be_hidden() -> None:
    specs = [Mask("card", former=("shop.users.note",), tables=(USERS,))]
    known = after(LOG.range(LOG.alters(GHOST, MOVED)), LOG.range(*EXCHANGE, tables=(ROWS,)), specs=specs)
    # Of the second exchange the first one's names are known.
    again = [LOG.range(LOG.alters(GHOST, MOVED)), LOG.range(*EXCHANGE), LOG.range(LOG.alters(GHOST, MOVED), *EXCHANGE)]
    assert after(*again, specs=specs, known=known).beside == {}


def test_a_copy_that_the_flow_moves_and_does_not_hide_is_told_as_well() -> None:
    wide = Statements((USERS, GHOST, DONE))
    exchange = wide.range(*wide.renames(USERS, DONE, GHOST, USERS))
    spec = [Mask("card", tables=(USERS,))]
    known = after(wide.range(wide.alters(GHOST, MOVED)), specs=spec)
    assert known.beside == {GHOST: {"card\0note"}}
    assert "in shop.users a statement" in refused(wide.range(wide.alters(GHOST, MOVED)), exchange, specs=spec)
    # Where it is hidden there, it is told at once, and nothing is left to remember.
    everywhere = [Mask("card", "note")]
    assert after(wide.range(wide.alters(GHOST, MOVED)), exchange, specs=everywhere).beside == {}


def test_tables_of_the_flow_are_renamed_each_day_without_anybody() -> None:
    daily = Statements((USERS, "shop.users_2026"))
    spec = [Mask("note", former=("shop.users.card",), tables=(USERS,))]
    known = RememberedHidden({USERS: {"card", "note"}}, moved={USERS: {"card"}})
    renamed = daily.range(daily.alters(USERS, MOVED)), daily.range(*daily.renames(USERS, "shop.users_2026"))
    assert after(*renamed, specs=spec, known=known).beside == {}


def test_columns_that_transforms_rename_are_watched_by_their_own_names() -> None:
    specs = [RenameColumns({"card": "c"}), RenameColumns({"c": "d"}), Mask("d")]
    ranges = LOG.range(LOG.alters(GHOST, MOVED)), LOG.range(*EXCHANGE)
    known = after(ranges[0], specs=specs, known=RememberedHidden({USERS: {"d"}}))
    with pytest.raises(TransformError, match="the name note"):
        after(ranges[1], specs=specs, known=known)


ORDERS, PEOPLE, BAK = "shop.orders", "shop.people", "shop.orders_bak"
OURS = Statements((ORDERS, PEOPLE, BAK))
MAIL = (("email", "mail"),)


def of_a_sink(*own: Any) -> Any:
    """Return the transforms as a sink has them that takes one of the flow's tables."""
    sink = Memory(routes=(ORDERS,), transforms=own)
    return seen_by(Flow(name="f", source=Mock(tables=(ORDERS, PEOPLE, BAK), rows=1), sinks=(sink,)), sink).transforms


@pytest.mark.parametrize("spec", [DropColumns("email"), Mask("email"), RenameColumns({"email": "e"})])
def test_a_column_of_a_table_that_a_sink_does_not_take_may_be_renamed(spec: Any) -> None:
    specs, known = of_a_sink(spec), RememberedHidden({ORDERS: {"email"}, PEOPLE: {"email"}})
    people = table(PEOPLE, {"id": "int", "mail": "text"})
    moved = after(OURS.range(OURS.alters(PEOPLE, MAIL), tables=(people,)), specs=specs, known=known)
    assert moved.tables == known.tables
    with pytest.raises(TransformError, match=r"in shop\.orders a statement"):
        after(OURS.range(OURS.alters(ORDERS, MAIL)), specs=of_a_sink(Mask("email")))


@pytest.mark.parametrize("at_once", [False, True])
def test_a_table_that_takes_the_name_of_one_that_a_sink_takes_is_judged_then(at_once: bool) -> None:
    specs, known = of_a_sink(DropColumns("email")), RememberedHidden({ORDERS: {"email"}})
    alters, takes = OURS.alters(PEOPLE, MAIL), OURS.renames(ORDERS, BAK, PEOPLE, ORDERS)
    ranges = [OURS.range(alters, *takes)] if at_once else [OURS.range(alters), OURS.range(*takes)]
    with pytest.raises(TransformError, match=r"in shop\.orders a statement of the log gives email"):
        after(*ranges, specs=specs, known=known)
    assert after(*ranges, specs=of_a_sink(DropColumns("email", "mail")), known=known).tables[ORDERS] >= {"mail"}


def test_a_table_whose_new_name_a_sink_does_not_take_shows_it_nothing() -> None:
    specs, known = of_a_sink(DropColumns("email")), RememberedHidden({ORDERS: {"email"}})
    bak = table(BAK, {"id": "int", "email": "text"}, schema_id=1)
    away = OURS.range(*OURS.renames(ORDERS, BAK), tables=(bak,))
    moved = after(away, OURS.range(OURS.alters(BAK, MAIL)), specs=specs, known=known)
    with pytest.raises(TransformError, match=r"in shop\.orders a statement of the log gives email"):
        after(OURS.range(*OURS.renames(BAK, ORDERS)), specs=specs, known=moved)


def test_rows_that_a_sink_does_not_take_are_not_shown_to_it() -> None:
    known = RememberedHidden({ORDERS: {"email"}, PEOPLE: {"email"}})
    tables = tuple(table(name, {"id": "int", "email": "text"}, schema_id=n) for n, name in enumerate((ORDERS, PEOPLE)))
    changes: Any = FrameChanges(None, tables, {s.schema_id: fields_of(s) for s in tables}, hidden=Hidden())
    for spec in of_a_sink(DropColumns("mail")):
        changes = spec.columns_after(changes)
    assert [(schema.full_name, name) for schema, name, _ in in_clear(changes, known)] == [(ORDERS, "email")]
