"""A column that transforms hide and that a table has no longer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from databus import DropColumns, Flow, Hash, Mask, MysqlBinlog, Noop, Project, RenameColumns
from databus.core.errors import TransformError
from databus.core.flow_specs import TransformSpec
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import RenamedTable, TableSchema
from databus.ops.tables.wants import asked_by, wants_of
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.hidden_loss import HiddenLoss, in_clear
from databus.testing.table_batches import table

OLD = table("shop.orders", {"id": "int", "card_number": "varchar(20)"})
NEW = table("shop.orders", {"id": "int", "card_no": "varchar(20)"}, schema_id=1)
OTHER = table("shop.log", {"id": "int", "text": "text"}, schema_id=2)


def hidden(tables: tuple[TableSchema, ...], *specs: TransformSpec) -> Hidden:
    changes: Any = FrameChanges(None, tables, {t.schema_id: fields_of(t) for t in tables}, hidden=Hidden())
    for spec in specs:
        changes = spec.columns_after(changes)
    return changes.hidden


def require(
    tables: tuple[TableSchema, ...],
    *specs: TransformSpec,
    before: Mapping[str, Any] | None = None,
    renames: Sequence[RenamedTable] = (),
) -> None:
    HiddenLoss(hidden(tables, *specs), RememberedHidden(before or {}), renames).require(tables)


SPECS = [DropColumns("card_number"), Mask("Card_Number"), Hash("card_number"), Project("card_number")]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_a_column_that_was_renamed_within_a_batch_is_named(spec: TransformSpec) -> None:
    with pytest.raises(TransformError, match=r"shop\.orders has no column \w+ any more") as told:
        require((OLD, NEW, OTHER), spec)
    assert told.value.code == "hidden_column_gone"
    assert "Columns of shop.orders now: id, card_no." in told.value.hint


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_a_column_that_an_earlier_batch_had_is_named(spec: TransformSpec) -> None:
    before = hidden((OLD, OTHER), spec).by_table((OLD, OTHER))
    assert before == {"shop.orders": {"card_number"}}
    with pytest.raises(TransformError, match="any more"):
        require((NEW,), spec, before=before)
    require((OLD, OTHER), spec, before=before)


def test_a_column_that_some_tables_never_had_or_that_comes_is_none(caplog: pytest.LogCaptureFixture) -> None:
    comes = table("shop.orders", {"id": "int"}, schema_id=0)
    grown = table("shop.orders", {"id": "int", "card_number": "text"}, schema_id=1)
    require((comes, grown, OTHER), DropColumns("card_number"))
    require((OTHER,), DropColumns("card_number"), before={"shop.orders": {"card_number"}})


def test_former_names_are_hidden_where_they_are_and_not_missed() -> None:
    renamed = DropColumns("card_no", former=("card_number",))
    require((OLD, NEW, OTHER), renamed, before={"shop.orders": {"card_number"}})
    assert hidden((OLD, NEW), renamed).by_table((OLD, NEW)) == {"shop.orders": {"card_number", "card_no"}}
    meant = DropColumns("id_", "card_number", former=("card_number", "id_"), tables=("shop.orders",))
    require((OLD, NEW), meant, before={"shop.orders": {"card_number"}})
    left: Any = renamed.columns_after(FrameChanges(None, (OLD, NEW), {0: fields_of(OLD), 1: fields_of(NEW)}))
    assert [[c.name for c in t.columns] for t in left.tables] == [["id"], ["id"]]


def test_names_are_those_that_the_transforms_before_leave_and_one_that_hides_is_enough() -> None:
    renamed = RenameColumns({"card_number": "card"}), Mask("card")
    with pytest.raises(TransformError, match="mask card"):
        require((OLD, NEW), *renamed)
    require((OLD,), DropColumns("card_number"), Mask("card_number"), before={"shop.orders": {"card_number"}})
    kept = table("shop.orders", {"id": "int", "v": "int"}, schema_id=1)
    require((OLD, kept), Project("id", "card_number"))  # what it does not keep is not delivered


def test_former_is_no_part_of_an_earlier_definition() -> None:
    plain, renamed = DropColumns("card_number"), DropColumns("card_no", former=("card_number",))
    assert "former" not in plain.to_json()
    assert renamed.to_json()["former"] == ["card_number"]
    asked = asked_by(renamed)
    assert asked is not None
    assert asked.columns.names == ("card_no",)
    flows = [
        Flow(name="f", source=MysqlBinlog(conn_id="c", tables=("shop.*",)), transforms=(spec,), sinks=(Noop(),))
        for spec in (DropColumns("card_no"), renamed)
    ]
    assert wants_of(flows[0]) == wants_of(flows[1])


def test_what_is_remembered_comes_back() -> None:
    remembered = RememberedHidden({"shop.b": {"y", "x"}, "shop.a": {"z"}})
    stored = remembered.to_json()
    assert stored == {"v": 1, "tables": {"shop.a": ["z"], "shop.b": ["x", "y"]}}  # as an earlier databus reads it
    assert RememberedHidden.from_json(stored) == remembered
    more = RememberedHidden(renamed={"shop.b": {"shop.a"}}, shown={"shop.b": {"y"}})
    assert more.to_json() == {"v": 2, "tables": {}, "renamed": {"shop.b": ["shop.a"]}, "shown": {"shop.b": ["y"]}}
    assert RememberedHidden.from_json(more.to_json()) == more
    both = remembered.with_added(more)
    assert both.without(remembered) == more
    assert not both.without(both)


def former_of(told: pytest.ExceptionInfo[TransformError]) -> tuple[str, ...]:
    """Return what the hint says to write."""
    found = re.search(r"former=\((.*?)\)", told.value.hint)
    assert found is not None
    return tuple(name.strip(' "') for name in found[1].split(",") if name.strip())


def test_the_advice_for_one_table_leaves_the_others_watched() -> None:
    dropped = table("shop.orders", {"id": "int"}, schema_id=1)
    users = table("shop.users", {"id": "int", "card_number": "text"}, schema_id=2)
    renamed = table("shop.users", {"id": "int", "card_no": "text"}, schema_id=3)
    with pytest.raises(TransformError) as told:
        require((OLD, dropped), Mask("card_number"))
    assert "former alone is enough" in told.value.hint
    advised = Mask("card_number", former=former_of(told))
    assert advised.former == ("shop.orders.card_number",)
    require((OLD, dropped), advised)
    with pytest.raises(TransformError, match=r"shop\.users has no column card_number any more"):
        require((OLD, dropped, users, renamed), advised)


def test_former_names_of_one_table_are_hidden_and_not_missed_there_alone() -> None:
    former = ("shop_?.orders.CARD_number", "shop.orders.card_number")
    for mended in (DropColumns("card_no", former=former), DropColumns("card_no", former=former, tables=("shop.*",))):
        require((OLD, NEW), mended, before={"shop.orders": {"card_number"}})
        assert hidden((OLD, NEW), mended).by_table((OLD, NEW)) == {"shop.orders": {"card_number", "card_no"}}
    other = table("shop_1.orders", {"id": "int", "card_number": "text"}, schema_id=2)
    found = hidden((other,), DropColumns("card_no", former=former)).by_table((other,))
    assert found == {"shop_1.orders": {"card_number"}}
    users = table("shop.users", {"id": "int", "card_number": "text"}, schema_id=2)
    assert not hidden((users,), DropColumns("card_no", former=former)).by_table((users,))
    with pytest.raises(TransformError, match="no column 'email'"):  # of two new names the old definition has one
        hidden((OLD,), DropColumns("card_no", "email", former=former, tables=("shop.*",)))
    asked = asked_by(DropColumns("card_no", "card_number", former=former, tables=("shop.*",)))
    assert asked is not None
    assert asked.columns.names == ("card_no",)


def test_a_name_that_is_former_in_all_tables_is_told_where_it_lets_one_pass() -> None:
    everywhere, one = DropColumns("card_no", former=("card_number",)), ("shop.orders.card_number",)
    for spec, waived in ((everywhere, [("shop.orders", "card_number")]), (DropColumns("card_no", former=one), [])):
        loss = HiddenLoss(hidden((NEW,), spec), RememberedHidden({"shop.orders": {"card_number"}}))
        loss.require((NEW,))
        assert loss.waived == waived


USERS = table("shop.users", {"id": "int", "card_number": "text"})
CUSTOMERS = table("shop.customers", {"id": "int", "card_no": "text"}, schema_id=1)
RENAMED = (RenamedTable("shop.users", "shop.customers", 1),)


@pytest.mark.parametrize("tables", [("*",), ("shop.users",), ("shop.u*",)])
def test_a_table_that_gets_another_name_with_its_column_is_named(tables: tuple[str, ...]) -> None:
    spec = Mask("card_number", tables=tables)
    with pytest.raises(TransformError, match=r"shop\.customers"):
        require((USERS, CUSTOMERS), spec, renames=RENAMED)
    loss = HiddenLoss(hidden((USERS,), spec), RememberedHidden(), RENAMED)
    before = loss.require((USERS,))  # no row of the new name yet
    assert before.renamed == {"shop.customers": {"shop.users"}}
    later = HiddenLoss(hidden((CUSTOMERS,), spec), before)
    with pytest.raises(TransformError, match=r"shop\.customers"):
        later.require((CUSTOMERS,))
    again = HiddenLoss(hidden((), spec), before, (RenamedTable("shop.customers", "shop.clients"),)).require(())
    clients = replace(CUSTOMERS, table="clients", schema_id=0)
    with pytest.raises(TransformError, match=r"shop\.clients"):
        HiddenLoss(hidden((clients,), spec), again).require((clients,))


def test_a_table_under_another_name_is_not_delivered_in_clear_for_its_transform_means_the_former_one() -> None:
    same = replace(USERS, table="customers", schema_id=1)
    narrow = Mask("card_number", tables=("shop.users",))
    with pytest.raises(TransformError) as told:
        require((USERS, same), narrow, renames=RENAMED)
    assert told.value.code == "hidden_column_shown"
    assert 'Add "shop.customers" to tables=' in told.value.hint
    require((USERS, same), Mask("card_number", tables=("shop.users", "shop.customers")), renames=RENAMED)
    # With its column under another name too, the hint's other way.
    of_its_own = Mask("card_no", former=("shop.customers.card_number",), tables=("shop.customers",))
    require((USERS, CUSTOMERS), narrow, of_its_own, renames=RENAMED)
    require((USERS, same), narrow)  # another table, which is none of the transform's


def test_online_schema_changes_pass() -> None:
    """gh-ost's and pt-osc's tables take each other's names."""
    ghost = table("shop._users_gho", {"id": "int", "card_number": "text", "more": "int"}, schema_id=1)
    after = replace(ghost, table="users", schema_id=2)
    swap = (RenamedTable("shop.users", "shop._users_del", 2), RenamedTable("shop._users_gho", "shop.users", 2))
    for spec in (Mask("card_number"), Mask("card_number", tables=("shop.users",))):
        require((USERS, ghost, after), spec, renames=swap)
    # A column that comes with it is none of the rows before.
    more = HiddenLoss(hidden((ghost,), Mask("more")), RememberedHidden()).require((ghost,))
    assert more.tables == {"shop._users_gho": {"more"}}
    require((USERS, ghost, after), Mask("card_number", "more"), before=more.tables, renames=swap)
    with pytest.raises(TransformError, match=r"shop\.users has no column more"):
        require((USERS, ghost, replace(USERS, schema_id=2)), Mask("more"), before=more.tables, renames=swap)
    lost = table("shop.users", {"id": "int", "card_no": "text"}, schema_id=2)
    with pytest.raises(TransformError, match=r"shop\.users has no column card_number"):
        require((USERS, lost), Mask("card_number"), renames=swap)


def test_what_was_hidden_and_is_not_any_more_is_found_under_each_name_it_has() -> None:
    known = RememberedHidden({"shop.orders": {"card_number"}})

    def clear(*specs: TransformSpec, remembered: RememberedHidden = known) -> list[str]:
        changes: Any = FrameChanges(None, (OLD, NEW), {0: fields_of(OLD), 1: fields_of(NEW)}, hidden=Hidden())
        for spec in specs:
            changes = spec.columns_after(changes)
        return [name for schema, name, _ in in_clear(changes, remembered)]

    assert clear(Mask("card_no")) == ["card_number"]
    assert clear(RenameColumns({"card_number": "c"})) == ["card_number"]
    assert clear(RenameColumns({"card_no": "card_number"}, tables=("shop.none",)), DropColumns("card_number")) == []
    assert clear(RenameColumns({"card_number": "c"}), Mask("c")) == []
    assert clear(Mask("card_number"), RenameColumns({"card_number": "c"})) == []
    assert clear(Mask("card_no", former=("shop.orders.card_number",))) == []
    assert clear(Project("id", "card_number")) == []  # it names what it shows
    assert clear(remembered=replace(known, shown={"shop.orders": {"card_number"}})) == []
