"""What a flow remembers of the columns it hides, through batches of the direct lane."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus import DropColumns, Flow
from databus.core.errors import CheckpointUnavailableError, TransformError
from databus.core.positions.offsets import Offset, OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import TableChange
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import fields_of
from databus.rows.frames.hidden import Hidden
from databus.runtime import batch
from databus.runtime.drain import Drain
from databus.runtime.tables.hidden_columns import HiddenMemory
from databus.runtime.tables.hidden_loss import require_again
from databus.runtime.window import run_window
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.runtime.zookeeper_loss.retrying_store import Retry
from databus.sinks.memory import Memory, clear, records
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.table_batches import table
from tests.unit.runtime.hiding_flow import FOUND, Beside, Kept, Renaming, Told, moved, opened


def test_nothing_is_dispatched_of_a_table_that_lost_a_hidden_column() -> None:
    kept = Kept()
    assert moved(kept, "card_number", DropColumns("card_number"))
    assert kept.hidden.tables == {"shop.orders": {"card_number"}}
    with pytest.raises(TransformError) as told:
        moved(kept, "card_no", DropColumns("card_number"))
    assert told.value.code == "hidden_column_gone"
    assert records("hidden") == []
    assert moved(kept, "card_no", DropColumns("card_no", former=("card_number",)))
    assert kept.hidden.tables == {"shop.orders": {"card_number", "card_no"}}


def test_what_one_sink_hides_is_remembered_for_that_sink() -> None:
    kept = Kept()
    assert moved(kept, "card_number", own=(DropColumns("card_number"),))
    assert kept.hidden.tables == {}
    assert kept.sinks["memory"].hidden.tables == {"shop.orders": {"card_number"}}
    with pytest.raises(TransformError) as told:
        moved(kept, "card_no", own=(DropColumns("card_number"),))
    assert told.value.code == "hidden_column_gone"
    assert records("hidden") == []
    assert moved(kept, "card_no", own=(DropColumns("card_no", former=("card_number",)),))
    assert kept.sinks["memory"].hidden.tables == {"shop.orders": {"card_number", "card_no"}}


@pytest.mark.parametrize(
    "view",
    [{"passed": SimpleNamespace(over=lambda _moved: frozenset())}, {"replays": True}],
    ids=["behind", "replays"],
)
def test_what_moves_older_ranges_asks_and_adds_nothing(view: dict[str, Any]) -> None:
    kept = Kept(orders={"email"})
    assert moved(kept, "card", DropColumns("email", "card"), view=view)
    assert kept.hidden.tables == {"shop.orders": {"email"}}


def test_what_cannot_be_written_while_zookeeper_is_away_is_written_later() -> None:
    kept = Kept()
    memory = HiddenMemory("hides", kept)
    assert not memory.known()
    kept.away = True
    memory.remember(FOUND)
    assert memory.known() == FOUND
    kept.away = False
    memory.remember(FOUND)
    assert kept.hidden == FOUND


def test_a_batch_of_an_outage_does_not_wait_for_zookeeper() -> None:
    """A try to reach it takes its whole time-out: where it is known to be away none is made."""
    kept = Kept()
    memory = HiddenMemory("hides", kept)
    memory.outlasting(Retry(0, Drain()), lambda: not kept.away, goes_on=True)
    memory.begin()
    kept.away = True
    for column in "xyz":
        memory.remember(RememberedHidden({"shop.a": {column}}))
    assert kept.asked == 1
    kept.away = False
    memory.begin()  # the next claim
    assert memory.known().tables == {"shop.a": {"x", "y", "z"}}
    memory.remember(RememberedHidden())
    assert kept.hidden.tables == {"shop.a": {"x", "y", "z"}}


def test_a_flow_that_does_not_go_on_without_zookeeper_dispatches_nothing_that_is_not_written_down() -> None:
    kept = Kept()
    memory = HiddenMemory("hides", kept)
    memory.outlasting(Retry(0, Drain()), lambda: True, goes_on=False)
    memory.begin()
    kept.away = True
    with pytest.raises(CheckpointUnavailableError):
        memory.remember(FOUND)
    memory.outlasting(Retry(60, Back(kept)), lambda: True, goes_on=False)
    memory.remember(FOUND)
    assert kept.hidden == FOUND


class Back(Drain):
    """No drain; ZooKeeper is back after the first wait."""

    def __init__(self, kept: Kept):
        super().__init__()
        self._kept = kept

    def wait(self, seconds: float) -> bool:
        self._kept.away = False
        return False


class Lost(MockSource):
    """A source that is asked for rows once ZooKeeper has gone away."""

    def __init__(self, kept: Kept):
        super().__init__(Mock(rows=4, columns={"card": "varchar"}))
        self._kept = kept

    def plan(self, after: Offset, limit: Any) -> Any:
        self._kept.away = True
        return super().plan(after, limit)


def test_the_first_rows_of_a_window_come_while_zookeeper_is_away() -> None:
    """What is remembered is read as the window begins."""
    clear("hidden")
    kept, sinks = Kept(orders={"card"}), (Memory(store="hidden"),)
    flow = Flow(name="hides", source=Mock(rows=4), transforms=(DropColumns("card"),), sinks=sinks)
    with opened(flow, kept) as session:
        session.source = Lost(kept)
        run_window(session, WindowControl(WindowLimits(until_caught_up=True, store_wait_s=0)))
    assert len(records("hidden")) == 4
    assert kept.asked == 1


@pytest.mark.parametrize("until", [2, 10], ids=["up to where it stood", "on the way"])
@pytest.mark.parametrize("before", [{"card_no", "card_number"}, {"card_no"}], ids=["renamed", "added"])
def test_a_flow_that_was_set_back_meets_definitions_from_before_what_it_has_seen(before: set[str], until: int) -> None:
    former = ("shop.orders.card_number",) if "card_number" in before else ()
    column, spec = "card_number" if former else "note", DropColumns("card_no", former=former)
    assert moved(Kept(orders=before), column, spec, until=until)
    # A batch that goes on behind what the flow has seen would have the rows that had it, were they older ones.
    with pytest.raises(TransformError, match="any more"):
        moved(Kept(orders=before), column, spec, until=1)
    assert moved(Kept(orders={column}), column, DropColumns(column), until=1)


def test_a_column_that_is_renamed_on_the_way_back_is_named() -> None:
    kept = Kept()
    memory = HiddenMemory("hides", kept)
    assert moved(kept, "phone", DropColumns("phone"), view={"hidden": memory}, until=10)
    assert kept.hidden.tables == {"shop.orders": {"phone"}}
    with pytest.raises(TransformError, match="any more"):
        moved(kept, "tel", DropColumns("phone"), view={"hidden": memory}, until=10)


@pytest.mark.parametrize(
    "view",
    [{}, {"passed": SimpleNamespace(over=lambda _moved: frozenset())}, {"replays": True}],
    ids=["live", "behind", "replays"],
)
def test_rows_of_a_former_definition_are_not_shown_by_a_transform_of_the_new_name_alone(view: dict[str, Any]) -> None:
    kept, mended = Kept(orders={"email"}), DropColumns("mail", former=("shop.orders.email",))
    told = {"source": Told("id", "mail"), **view}
    with pytest.raises(TransformError, match=r"shop\.orders has a column email in these rows") as error:
        moved(kept, "email", DropColumns("mail"), view=told)
    assert error.value.code == "hidden_column_shown"
    assert 'former=("shop.orders.email",)' in error.value.hint
    assert records("hidden") == []
    assert moved(kept, "email", mended, view=told)


def test_a_name_that_is_former_in_all_tables_is_told_once_where_it_lets_one_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = Kept(orders={"card_number"})
    memory = HiddenMemory("hides", kept)
    for _ in range(2):
        assert moved(kept, "card_no", DropColumns("card_no", former=("card_number",)), view={"hidden": memory})
    assert caplog.text.count('write former=("shop.orders.card_number",)') == 1


def test_a_backfill_asks_what_its_flow_remembers() -> None:
    flow = Flow(name="hides", source=Mock(rows=4), transforms=(DropColumns("card"),), sinks=(Memory(store="hidden"),))
    kept = Kept(orders={"email"})
    with opened(flow.model_copy(update={"name": "hides.backfill-replay-0"}), kept) as session:
        assert session.hidden is not None
        assert session.hidden.known() == kept.hidden


def test_a_column_that_the_table_still_has_is_shown_once_the_flow_says_so() -> None:
    kept, source = Kept(orders={"email"}), Told("id", "email", "mail")
    assert moved(kept, "email", DropColumns("mail"), view={"source": source})
    assert kept.hidden.shown == {"shop.orders": {"email"}}
    source.columns = ("id", "mail")  # and is dropped later: older rows are shown as well
    assert moved(kept, "email", DropColumns("mail"), view={"source": source})


def test_a_column_that_was_shown_for_a_while_and_is_hidden_again_is_hidden() -> None:
    kept, source = Kept(orders={"email"}), Told("id", "email", "mail")
    assert moved(kept, "email", DropColumns("mail"), view={"source": source})
    assert kept.hidden.shown == {"shop.orders": {"email"}}
    assert moved(kept, "email", DropColumns("email"), view={"source": source})
    assert kept.hidden.shown == {}
    source.columns = ("id", "mail")  # and is renamed: its older rows would show it
    with pytest.raises(TransformError, match=r"shop\.orders has a column email in these rows"):
        moved(kept, "email", DropColumns("mail"), view={"source": source})
    # Without a row of that table as well.
    kept.hidden = RememberedHidden({"shop.orders": {"email"}}, shown={"shop.orders": {"email", "mail"}})
    assert moved(kept, "x", DropColumns("x", former=("shop.orders.email",)), view={"source": Told("id", "x")})
    assert kept.hidden.shown == {"shop.orders": {"mail"}}


@pytest.mark.parametrize(
    "view",
    [{}, {"passed": SimpleNamespace(over=lambda _moved: frozenset())}, {"replays": True}],
    ids=["live", "behind", "replays"],
)
def test_a_hidden_column_whose_name_another_takes_is_shown_under_neither(view: dict[str, Any]) -> None:
    kept = Kept(orders={"email"})
    told = {"source": Renaming("id", "mail", "email"), **view}
    with pytest.raises(TransformError) as error:
        moved(kept, "email", DropColumns("email"), view=told)
    assert error.value.code == "hidden_column_gone"
    # The table has a column of that name, which is another.
    with pytest.raises(TransformError, match="gave its values another name") as error:
        moved(kept, "email", DropColumns("mail", former=("shop.orders.mail",)), view=told)
    assert error.value.code == "hidden_column_shown"
    assert records("hidden") == []
    mended = DropColumns("mail", former=("shop.orders.email",))
    assert moved(kept, "email", mended, view=told)
    assert kept.hidden.shown == {}
    assert kept.hidden.moved == ({} if view else {"shop.orders": {"email"}})


@pytest.mark.parametrize(
    "view",
    [{"until": 10}, {"passed": SimpleNamespace(over=lambda _moved: frozenset())}, {"replays": True}],
    ids=["set back", "behind", "replays"],
)
def test_rows_from_before_a_name_went_to_another_column_stay_hidden(view: dict[str, Any]) -> None:
    kept, until = Kept(orders={"email"}), view.get("until")
    assert moved(kept, "email", DropColumns("mail", "email"), view={"source": Renaming("id", "mail", "email")})
    assert kept.hidden.moved == {"shop.orders": {"email"}}
    told = {"source": Told("id", "mail", "email"), **{name: value for name, value in view.items() if name != "until"}}
    with pytest.raises(TransformError, match="gave its values another name"):
        moved(kept, "email", DropColumns("mail"), view=told, until=until)
    assert moved(kept, "email", DropColumns("mail", former=("shop.orders.email",)), view=told, until=until)
    assert kept.hidden.shown == {}


def test_a_range_without_rows_of_the_flow_tells_what_a_copy_of_its_table_renames() -> None:
    kept, ghost = Kept(orders={"email"}), "shop._orders_gho"
    renames = TableChange(ghost, ghost, captured=False, columns=(("email", "note"),))
    assert moved(kept, "email", DropColumns("email"), view={"source": Beside(renames)}) == []
    assert kept.hidden.beside == {ghost: {"email\0note"}}
    takes = TableChange(ghost, "shop.orders", captured=True)
    with pytest.raises(TransformError, match="a statement of the log gives email") as error:
        moved(kept, "email", DropColumns("email"), view={"source": Beside(takes)})
    assert error.value.code == "hidden_column_gone"
    assert kept.hidden.beside == {ghost: {"email\0note"}}
    moved(kept, "email", DropColumns("email", "note"), view={"source": Beside(takes)})
    assert (kept.hidden.beside, kept.hidden.tables) == ({}, {"shop.orders": {"email", "note"}})
    # A copy that is dropped is no more, and a flow that hides nothing remembers nothing.
    for transforms in ((), (DropColumns("email"),)):
        moved(kept, "email", *transforms, view={"source": Beside(renames)})
        assert bool(kept.hidden.beside) == bool(transforms)
    moved(kept, "email", DropColumns("email"), view={"source": Beside(TableChange(ghost, ""))})
    assert kept.hidden.beside == {}


@pytest.mark.parametrize("until", [None, 10], ids=["tried again", "set back"])
def test_a_range_that_is_read_again_loses_no_rename_of_a_copy(
    until: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it takes back, and gives to another table, it finds as it stood before it."""
    kept, copy, ready = Kept(orders={"email"}), "shop._orders_new", "shop._orders_ready"
    moves = {"source": Beside(TableChange(ready, ""), TableChange(copy, ready))}
    kept.hidden = kept.hidden.with_added(RememberedHidden(beside={copy: {"email\0note"}}))
    if until is None:
        with monkeypatch.context() as killed:
            killed.setattr(batch, "commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                moved(kept, "email", DropColumns("email"), view=moves)
    else:
        moved(kept, "email", DropColumns("email"), view=moves)
    moved(kept, "email", DropColumns("email"), view=moves, until=until)
    assert kept.hidden.beside == {ready: {"email\0note"}}


def interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_what_is_taken_back_while_zookeeper_is_away_is_so_later() -> None:
    kept, gone = Kept(), RememberedHidden(beside={"shop.a": {"x\0y"}})
    kept.hidden = gone.with_added(RememberedHidden(beside={"shop.b": {"x\0y"}}))
    memory = HiddenMemory("hides", kept)
    memory.begin()
    kept.away = True
    memory.remember(FOUND, gone=gone)
    assert memory.known().beside == {"shop.b": {"x\0y"}}
    memory.remember(RememberedHidden(beside={"shop.b": {"x\0z"}}), gone=RememberedHidden(beside={"shop.b": {"x\0y"}}))
    memory.remember(RememberedHidden(beside={"shop.b": {"x\0y"}}), gone=FOUND)
    kept.away = False
    memory.begin()
    assert (memory.known().beside, memory.known().tables) == ({"shop.b": {"x\0y", "x\0z"}}, {})
    memory.remember(RememberedHidden())
    assert (kept.hidden.beside, kept.hidden.tables) == ({"shop.b": {"x\0y", "x\0z"}}, {})


def test_an_account_that_is_not_shown_a_table_is_told_so() -> None:
    source = Told()
    source.tells = lambda _table: False
    with pytest.raises(TransformError, match="not shown whether it is still there") as error:
        moved(Kept(orders={"email"}), "email", DropColumns("mail"), view={"source": source})
    assert "GRANT SELECT on shop.orders" in error.value.hint


def test_a_flow_without_transforms_is_asked_by_no_replay_of_the_quarantine() -> None:
    """It shows what it hid once, as its batches do: a statement in the range of a held row keeps that back no more."""
    kept = Kept(orders={"card"})
    flow = Flow(name="hides", source=Mock(rows=4), sinks=(Memory(store="hidden"),))
    place, orders = SequenceOffset(1), table("shop.orders", {"id": "int", "note": "varchar"})
    renamed = (("shop.orders", (("card", "note"),)),)
    planned = SourcePlan(OffsetRange(place, place), (orders,), 1, 1, columns_renamed=renamed)
    changes: Any = FrameChanges(None, (orders,), {0: fields_of(orders)}, hidden=Hidden())  # type: ignore[arg-type]
    with opened(flow, kept) as session:
        require_again(session, planned, changes)
    hiding: Any = DropColumns("card")
    hides = flow.model_copy(update={"transforms": (hiding,)})
    with opened(hides, kept) as session, pytest.raises(TransformError, match="card, which is hidden, the name note"):
        require_again(session, planned, hiding.columns_after(changes))
