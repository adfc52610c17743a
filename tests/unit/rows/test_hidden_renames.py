"""Hidden columns that statements of the log give other names, whatever takes their old ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from databus import DropColumns, Hash, Mask, Project, RenameColumns
from databus.core.errors import TransformError
from databus.core.flow_specs import TransformSpec
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import RenamedTable, TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.hidden_loss import HiddenLoss
from databus.rows.frames.hidden_renames import ColumnRenames
from databus.testing.table_batches import table

BEFORE = table("s2.a", {"id": "int", "card": "text", "note": "text"})
EXCHANGED = table("s2.a", {"id": "int", "note": "text", "card": "text"}, schema_id=1)
REPLACED = table("s2.a", {"id": "int", "card_old": "text", "note": "text", "card": "text"}, schema_id=1)
EXCHANGE = (("s2.a", (("card", "note"), ("note", "card"))),)
REPLACE = (("s2.a", (("Card", "card_old"),)),)


def found_in(
    tables: tuple[TableSchema, ...],
    *specs: TransformSpec,
    columns: ColumnRenames,
    renames: Sequence[RenamedTable] = (),
    before: RememberedHidden | None = None,
    again: bool = False,
) -> RememberedHidden:
    changes: Any = FrameChanges(
        None, tables, {schema.schema_id: fields_of(schema) for schema in tables}, hidden=Hidden()
    )
    for spec in specs:
        changes = spec.columns_after(changes)
    loss = HiddenLoss(changes.hidden, before or RememberedHidden(), renames, columns)
    return loss.require(tables).with_added(loss.require_new_names(again=again))


def refused(*specs: TransformSpec, columns: ColumnRenames, tables: tuple[TableSchema, ...] = (), **more: Any) -> str:
    with pytest.raises(TransformError) as told:
        found_in(tables, *specs, columns=columns, **more)
    assert told.value.code == "hidden_column_gone"
    return f"{told.value.message} → {told.value.hint}"


@pytest.mark.parametrize("kind", [DropColumns, Mask, Hash])
@pytest.mark.parametrize("meant", [("*",), ("s2.a",), ("s2.?",)])
@pytest.mark.parametrize(
    ("columns", "after", "new"), [(EXCHANGE, EXCHANGED, "note"), (REPLACE, REPLACED, "card_old")], ids=["swap", "add"]
)
def test_a_name_that_another_column_takes_does_not_hide_that_one_has_moved(
    kind: Any, meant: tuple[str, ...], columns: ColumnRenames, after: TableSchema, new: str
) -> None:
    hides = kind("card", tables=meant)
    for tables in ((BEFORE, after), (after,), ()):
        told = refused(hides, columns=columns, tables=tables)
        assert f"Name {new} as well" in told
    former = tuple(re.findall(r'former=\("(.*?)",\)', told))
    assert tuple(map(str.casefold, former)) == ("s2.a.card",)
    for mended in (kind(new, former=former, tables=meant), kind("card", new, former=former, tables=meant)):
        for tables in ((BEFORE, after), (after,), ()):
            for again in (False, True):
                found = found_in(tables, mended, columns=columns, again=again)
        assert found.tables["s2.a"] >= {new}
        assert "card" in found.moved["s2.a"]


def test_what_is_hidden_elsewhere_or_not_at_all_may_be_renamed() -> None:
    found_in((), Mask("card"), columns=(("s2.a", (("note", "card"), ("id", "number"))),))
    found_in((), Mask("card", tables=("s2.b",)), columns=EXCHANGE)
    found_in((), Mask("card", "note"), columns=EXCHANGE)
    found_in((), Project("id", "card"), columns=EXCHANGE, before=RememberedHidden({"s2.a": {"id", "card"}}))
    # What takes the old name is another column, and may move on.
    chain = (*REPLACE, ("s2.a", (("other", "more"),)))
    found_in((), Mask("card", "card_old"), columns=chain)


def test_a_former_name_of_another_table_hides_none_here() -> None:
    spec = Mask("card", former=("s2.b.note", "s2.b.card_old"))
    assert "Name note as well" in refused(spec, columns=EXCHANGE)
    assert "Name card_old as well" in refused(spec, columns=REPLACE)


def test_each_name_that_a_column_had_on_the_way_is_told_at_once() -> None:
    chain = (("s2.a", (("card", "tmp"),)), ("s2.a", (("tmp", "card_no"), ("id", "tmp"))))
    told = refused(Mask("card"), columns=chain)
    assert 'Name card_no as well, and add former=("s2.a.card", "s2.a.tmp")' in told
    found = found_in((), Mask("card_no", former=("s2.a.card", "s2.a.tmp")), columns=chain)
    assert found.tables == {"s2.a": {"card_no"}}
    assert found.moved == {"s2.a": {"card", "tmp"}}
    back = (("s2.a", (("card", "tmp"),)), ("s2.a", (("tmp", "card"),)))
    assert 'Add former=("s2.a.card", "s2.a.tmp")' in refused(Mask("card"), columns=back)
    # At once: what another column is called then is none of it.
    assert found_in((), Mask("card", "note"), columns=(("s2.a", (("card", "note"), ("id", "x"))),))


def test_columns_that_transforms_rename_are_known_by_their_own_names() -> None:
    first = RenameColumns({"card": "c"})
    assert "Name card_old as well" in refused(first, DropColumns("c"), columns=REPLACE)
    found_in((), first, DropColumns("c", "card_old"), columns=REPLACE)
    found_in((), RenameColumns({"card": "c", "card_old": "o"}), DropColumns("c", "o"), columns=REPLACE)
    refused(RenameColumns({"card_old": "o"}), DropColumns("card", "card_old"), columns=REPLACE)
    found_in((), DropColumns("card", "card_old"), RenameColumns({"card_old": "o"}), columns=REPLACE)


def test_what_an_earlier_definition_of_the_flow_hid_is_hidden() -> None:
    known = RememberedHidden({"s2.a": {"card"}})
    assert "hidden columns: in s2.a" in refused(Mask("email"), columns=REPLACE, before=known)
    shown = RememberedHidden({"s2.a": {"card"}}, shown={"s2.a": {"card"}})
    found_in((), Mask("email"), columns=REPLACE, before=shown)


def test_what_the_flow_was_changed_to_show_since_keeps_no_older_range_back() -> None:
    shown, spec = RememberedHidden(shown={"s2.a": {"note"}}), Mask("card")
    found_in((), spec, columns=EXCHANGE, before=shown, again=True)
    assert refused(spec, columns=EXCHANGE, before=shown)  # a statement that is met for the first time


def test_columns_are_followed_through_their_tables_names() -> None:
    moved, narrow = (RenamedTable("s2.a", "s2.b", 1),), Mask("card", tables=("s2.a",))
    after = table("s2.b", {"id": "int", "note": "text", "card": "text"}, schema_id=1)
    at_once = (("s2.b", EXCHANGE[0][1]),)
    for columns in (EXCHANGE, at_once):
        assert "s2." in refused(narrow, columns=columns, renames=moved)
        found_in((BEFORE, after), Mask("card", "note"), columns=columns, renames=moved)
    wide = Mask("card", "note", tables=("s2.a",))
    with pytest.raises(TransformError, match=r"s2\.b was s2\.a"):
        found_in((BEFORE, after), wide, columns=EXCHANGE, renames=moved)
    refused(wide, columns=at_once, renames=moved)
    # Another batch: what the names have become is remembered.
    before = found_in((), wide, columns=EXCHANGE)
    assert before.tables == {"s2.a": {"card", "note"}}
    # As gh-ost does: the columns are renamed in a table that takes the name.
    ghost = (("s2._a_gho", EXCHANGE[0][1]),)
    swap = (RenamedTable("s2.a", "s2._a_del"), RenamedTable("s2._a_gho", "s2.a"))
    assert "in s2.a a statement" in refused(narrow, columns=ghost, renames=swap)
    found_in((), wide, columns=ghost, renames=swap)
