"""What may be asked of a quarantine: names that no row of the flow can have are refused, not told as "no rows"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from databus import Elasticsearch, Flow, Kafka, KafkaTopics, MysqlBinlog
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.counts import SinkCounts
from databus.core.batches.receipts import RejectedRow
from databus.core.errors import ConfigError
from databus.core.events import RowState
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.ops.checkpoint.amend import Attribution
from databus.ops.mirror.consumer_groups import require_known as require_groups
from databus.ops.quarantine.outcome import ReplayResult, beside, outcome, tally
from databus.ops.quarantine.replay_entries import MAX_ROWS, in_replays, stages_of
from databus.ops.quarantine.show import discard, require_known
from databus.ops.quarantine.show import tally as quarantine_tally
from databus.records.quarantine import rows as held_rows
from databus.records.quarantine.held_row import HeldRow, HeldState
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from databus.runtime.beside.replay import ReplayOutcome
from databus.runtime.context import Services
from databus.testing.memory_store import MemoryCheckpoints

SINKS = (Kafka(conn_id="k", topic="t"), Elasticsearch(conn_id="e", name="search"))
FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.*", "re:crm\\.c.*")), sinks=SINKS)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    url = f"sqlite:///{tmp_path / 'r.db'}"
    with SqlRecorder(RecordStore(url)) as recorder:
        held = [("e1", "shop.orders", "check"), ("e2", "old.table", "former")]
        rows = [RejectedRow(event, table, None, "a cause", stage, "b.1:4", "{}") for event, table, stage in held]
        recorder.quarantine("orders", 1, rows)
        nothing: Any = None
        yield Services(Settings("t", "", url), EnvironmentConnections({}), nothing, nothing, recorder, SystemClock())


@pytest.mark.parametrize("most", [500, held_rows._CHUNK_IDS], ids=["few_at_a_time", "as_many_as_it_is"])
def test_more_events_than_a_database_takes_parameters_may_be_named(
    services: Services, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(held_rows, "_CHUNK_IDS", most)
    held = most + most // 10
    rows = [RejectedRow(f"m{n}", "shop.orders", None, "a cause", "check", "b.1:4", "{}") for n in range(held)]
    services.recorder.quarantine("orders", 2, rows)
    ids = tuple(row.event_id for row in rows)
    require_known(FLOW, services, Selection(event_ids=ids))
    others = tuple(f"x{number}" for number in range(4 * most))
    with pytest.raises(ConfigError, match=f"no row x0, x1, x2, x3, x4 and {4 * most - 5} more in quarantine"):
        require_known(FLOW, services, Selection(event_ids=(*ids, *others)))
    store = MemoryCheckpoints()
    discarding: Any = replace(services, store=store)
    assert discard(FLOW, discarding, Selection(event_ids=ids), Attribution("ada", "test data")) == held
    assert quarantine_tally(FLOW, services) == {"discarded": {"check": held}, "held": {"check": 1, "former": 1}}


def test_a_known_name_is_asked_for_without_reading_the_quarantine(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeldRows, "places", lambda _: pytest.fail("all stages and tables were looked for"))
    for wanted in (Selection(stage="former"), Selection(table="old.table"), Selection(stage="search", table="shop.x")):
        require_known(FLOW, services, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        Selection(),
        Selection(stage="check"),
        Selection(stage="search"),  # a sink of the flow that has refused nothing
        Selection(stage="former"),  # one that the flow had
        Selection(table="shop.items"),
        Selection(table="crm.customers"),
        Selection(table="old.table"),
        Selection(event_ids=("e1", "e2")),
        Selection(cause="none has it"),
    ],
)
def test_what_rows_may_have_is_looked_for(services: Services, wanted: Selection) -> None:
    require_known(FLOW, services, wanted)


@pytest.mark.parametrize(
    ("wanted", "named", "known"),
    [
        (Selection(stage="foo"), "'foo'", "Known: check, former, kafka, search."),
        (Selection(stage=""), "''", "check, former"),
        (Selection(table="shops.orders"), "'shops.orders'", "shop.orders (in quarantine), shop.*"),
        (Selection(event_ids=("e1", "e3")), "e3", "`databus quarantine list orders`"),
    ],
)
def test_what_no_row_can_have_is_refused(services: Services, wanted: Selection, named: str, known: str) -> None:
    with pytest.raises(ConfigError) as refused:
        require_known(FLOW, services, wanted)
    assert named in refused.value.message
    assert known in refused.value.hint
    assert "e1" not in refused.value.message


def test_tables_of_topics_are_known_with_their_database_and_without(services: Services) -> None:
    flow = Flow(name="orders", source=KafkaTopics(conn_id="k", topics=("cdc.*",)), sinks=SINKS)
    require_known(flow, services, Selection(table="kafka.cdc.orders"))
    with pytest.raises(ConfigError, match="no table"):
        require_known(flow, services, Selection(table="kafka.other"))


def test_a_consumer_group_that_is_none_is_refused() -> None:
    require_groups(["app-*", "batch"], ["app-1", "batch"], "kafka_east")
    require_groups([], [], "kafka_east")
    with pytest.raises(ConfigError, match=r"kafka_east has no consumer group 'ap-\*', 'bath'") as refused:
        require_groups(["ap-*", "batch", "bath"], ["app-1", "batch"], "kafka_east")
    assert refused.value.hint == "Known: app-1, batch."


def test_a_replay_is_told_in_words() -> None:
    done = ReplayResult(3, 7, 4, 1, 0, {"kafka": 4}, {"kafka": SinkCounts(4), "search": SinkCounts(0, 1)})
    assert done.line() == (
        "replay 3 of rows of batch 7: 4 replayed, 1 held again, 0 discarded; kafka took 4, search took 0 and refused 1"
    )


def test_a_replay_of_a_checks_entry_answers_for_sinks_that_take_the_row() -> None:
    """A closing that was cut off leaves entries of sinks; the log came back, and the replay was finished."""
    held = [entry("e1", "kafka"), entry("e1", "search"), entry("e2", "kafka"), entry("e3", "kafka")]
    states = {("e1", "check"): HeldState.REPLAYED, ("e2", "check"): HeldState.HELD, ("e3", "kafka"): HeldState.REPLAYED}
    ids = frozenset({"e1", "e2", "e3"})
    done = ReplayOutcome(dict.fromkeys(ids, RowState.DISPATCHED), {"kafka": ids, "search": ids}, (), (), {})
    assert beside(held, states, done) == held[:2]
    refused = RejectedRow("e1", "shop.orders", None, "mapping", "search", "b.1:4", "{}")
    assert beside(held, states, replace(done, rejected=(refused,))) == held[:1]
    assert beside(held, states, replace(done, taken={"search": ids})) == held[1:2]


def entry(event: str, stage: str, batch: int = 1) -> HeldRow:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    return HeldRow(
        event_id=event, stage=stage, batch=batch, table="shop.orders", key=None, cause="a cause", position="b.1:4",
        payload="{}", held_at=noon, state=HeldState.HELD, replay=1, origin=1, who="ada", why="mended", at=noon,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("held_by", "refused_by", "replayed", "held"),
    [
        (["check"], [], 1, 0),
        (["check"], ["search"], 0, 1),  # a new entry is held
        (["check"], ["search", "kafka"], 0, 1),
        (["search"], ["search"], 0, 1),
        (["check", "search"], ["search"], 1, 1),
    ],
)
def test_a_row_that_a_sink_refuses_as_it_is_replayed_counts_as_held(
    held_by: list[str], refused_by: list[str], replayed: int, held: int
) -> None:
    again = tuple(RejectedRow("e1", "shop.orders", None, "mapping", sink, "b.1:4", "{}") for sink in refused_by)
    takes = dict.fromkeys(("kafka", "search"), frozenset({"e1"}))
    done = ReplayOutcome({"e1": RowState.DISPATCHED}, takes, again, (), {})
    states, entries = outcome([entry("e1", stage) for stage in held_by], done)
    became = tally(states, entries)
    assert (became[HeldState.REPLAYED], became[HeldState.HELD]) == (replayed, held)
    assert [row.stage for row in entries] == refused_by


def test_entries_of_several_sinks_on_one_event_are_taken_up_by_a_replay_each() -> None:
    kafka, search, later = entry("e1", "kafka"), entry("e1", "search"), entry("e0", "search", 2)
    other = entry("e2", "search")
    assert in_replays([kafka, search, other, later]) == [(1, [kafka, other]), (1, [search]), (2, [later])]


def test_beside_a_checks_entry_all_of_the_event_are_taken_up_together() -> None:
    """What a check had held goes to every sink, also to the one that refused it in an earlier batch."""
    before, check, another = entry("e1", "kafka"), entry("e1", "check", 9), entry("e1", "search", 9)
    assert in_replays([before, check, another]) == [(9, [before, check, another])]
    assert stages_of([before, check, another]) == ({"e1": "check"}, [before, check, another])


def test_a_replay_takes_so_many_rows() -> None:
    rows = [entry(f"e{number}", stage) for number in range(MAX_ROWS + 1) for stage in ("check", "search")]
    assert in_replays(rows) == [(1, rows[:-2]), (1, rows[-2:])]


@pytest.mark.parametrize("sent_to", [{"search"}, set()])
@pytest.mark.parametrize("beside", [(), ("check",)])
def test_a_sinks_entry_is_told_as_replayed_only_where_that_sink_takes_the_row(
    beside: tuple[str, ...], sent_to: set[str]
) -> None:
    """A sink that was taken out of the flow, or takes the table no more, is sent nothing."""
    taken = [entry("e1", stage) for stage in ("kafka", *beside)]
    done = ReplayOutcome({"e1": RowState.DISPATCHED}, dict.fromkeys(sent_to, frozenset({"e1"})), (), (), {})
    states, _ = outcome(taken, done)
    checked = {("e1", "check"): HeldState.REPLAYED if sent_to else HeldState.DISCARDED} if beside else {}
    assert states == {("e1", "kafka"): HeldState.DISCARDED, **checked}


def test_of_two_sinks_that_an_older_replay_took_up_it_answers_the_one_that_it_sent_the_row_to() -> None:
    assert stages_of([entry("e1", "kafka"), entry("e1", "search")]) == ({"e1": "search"}, [entry("e1", "search")])
