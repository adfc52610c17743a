"""A look at held rows where they are decoded: where each ends, who takes it, and what is held once more."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from databus import Filter, Flow, Kafka, Mask, Mock, NotNull, RenameColumns
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import ConfigError, ReconciliationError
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.rows.emit import emit
from databus.rows.image_form import ImageForm
from databus.runtime.beside.direct_replay import ChosenSplit, LookTask, replay_decoded
from databus.runtime.direct.lane import image_columns
from databus.runtime.direct.reasons import row_program
from databus.runtime.direct.row_checks import image_marks
from databus.runtime.direct.row_counts import Taker
from databus.runtime.tables.sink_views import seen_by
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sources.split_rows import SplitRows
from databus.testing.table_batches import batch, table, transactions
from tests.reference.made_messages import plan

T = table("shop.t", {"id": "int", "v": "int", "card": "text", "note": "text"})
ROWS: list[tuple[Any, Any]] = [
    (None, {"id": 1, "v": 9, "card": "4711", "note": "a"}),
    (None, {"id": 2, "v": 1, "card": "4711", "note": "b"}),
    (None, {"id": 3, "v": 9, "card": "4711", "note": None}),
    ({"id": 4}, {"card": "4711", "note": "d"}),
    ({"id": 5, "v": 9, "card": "4711", "note": "e"}, None),
]


class Rows(SplitRows):
    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        yield from emit(batch(T, ROWS), transactions(), "server", form)


FLOW = Flow(
    name="f",
    source=Mock(rows=1),
    transforms=(Filter("v > 5"), Mask("card")),
    checks=(NotNull("note"),),
    sinks=(Kafka(conn_id="k", types="debezium"), Kafka(name="plain", conn_id="k", routes=("other",))),
)


class Sink:
    """As much of a Kafka sink as a task asks for; keeps what is written."""

    def __init__(self, spec: Kafka):
        self.spec, self.lost = spec, 0
        self.written: list[Any] = []

    def accepts(self) -> frozenset[str]:
        return frozenset("cud")

    def encoder(self, pinned: Plan) -> KafkaEncoder:
        assert pinned.flow == FLOW.name, "the flow's own plan says what the messages hold"
        return KafkaEncoder(self.spec, pinned, self.spec.message_format())

    def writer(self, pinned: Plan) -> Any:
        assert pinned.flow == "replays of f", "the replay's own markers"
        return self

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        self.written += [json.loads(value) for batch in rows for value in batch["value"].to_pylist()]
        count = len(self.written) - self.lost
        return WriteReceipt(self.spec.sink_name, slot, 1, count, rows={"t": count} if count else {})


def session_of(flow: Flow, lost: int = 0) -> Any:
    sinks = {spec.sink_name: Sink(spec) for spec in flow.sinks}  # type: ignore[arg-type] # both are Kafka
    next(iter(sinks.values())).lost = lost
    slots = SimpleNamespace(run=lambda task, n: [task.write(slot) for slot in range(n)])
    source = SimpleNamespace(splits=lambda *_: [Rows()])
    session = SimpleNamespace(flow=flow, sinks=sinks, every_sink=sinks, slots=slots, source=source, hidden=None)
    session.sink_views = lambda: {
        spec.sink_name: SimpleNamespace(**{**vars(session), "flow": seen_by(flow, spec)})
        for spec in flow.sinks
        if spec.transforms
    }
    return session


def replayed(numbers: Iterable[int], lost: int = 0, flow: Flow = FLOW, **stages: str) -> tuple[Any, Any]:
    session = session_of(flow, lost)
    pinned = {name: SinkPlan(partitions={"cdc.shop.t": 1}) for name in session.sinks}
    own = replace(plan(SinkPlan()), flow="replays of f", sinks=pinned)
    source = SourcePlan(own.range, (T,), 5, 100)
    wanted = {ids()[number]: stages.get(f"row{number}", "check") for number in numbers}
    return replay_decoded(session, own, source, wanted), session.sinks


def test_a_sinks_own_transforms_decide_what_it_is_sent() -> None:
    """Row 1 passes the sink's filter, row 5 is a delete that its own transforms leave out: nothing lacks it then."""
    first, second = FLOW.sinks
    own = (Filter("_op <> 'd'"), RenameColumns({"note": "remark"}))
    flow = FLOW.model_copy(update={"sinks": (first.model_copy(update={"transforms": own}), second)})
    outcome, sinks = replayed((1, 2, 3, 5), flow=flow)

    assert [(m["op"], sorted(m["after"])) for m in sinks["kafka"].written] == [("c", ["card", "id", "remark", "v"])]
    assert outcome.taken["kafka"] == {ids()[1], ids()[3]}
    assert outcome.state[ids()[5]] == "dispatched"


def ids() -> dict[int, str]:
    (every,) = Rows().read_text({})
    return dict(zip(range(1, 6), every["event_id"].to_pylist(), strict=True))


def test_rows_are_sent_once_more_in_the_sink_s_form_with_hidden_values() -> None:
    outcome, sinks = replayed((1, 2, 3, 5))

    sent = [(m["op"], (m["after"] or m["before"])["id"], m["source"]["event_id"]) for m in sinks["kafka"].written]
    assert sent == [("c", 1, ids()[1]), ("d", 5, ids()[5])]
    assert {(m["after"] or m["before"])["card"] for m in sinks["kafka"].written} == {"***"}
    assert sinks["plain"].written == []
    assert outcome.state == {
        ids()[1]: "dispatched", ids()[2]: "filtered", ids()[3]: "quarantined", ids()[5]: "dispatched",
    }  # fmt: skip
    assert (outcome.taken["kafka"], outcome.taken["plain"]) == (frozenset(ids()[n] for n in (1, 3, 5)), frozenset())
    assert [row.cause for row in outcome.rejected] == ["not_null(note)"]
    assert [(counts.read, counts.dispatched) for counts in outcome.tables.values()] == [(2, 2)]


def test_a_row_that_one_sink_held_is_sent_to_that_sink_alone() -> None:
    _, sinks = replayed((1, 5), row1="plain")
    assert [(m["after"] or m["before"])["id"] for m in sinks["kafka"].written] == [5]


def test_rows_of_a_replay_stand_in_no_transaction() -> None:
    """The transaction's end was told when its range was written, with those held back beside its count (ADR 74)."""
    sinks = (Kafka(conn_id="k", types="debezium", transaction_topic="cdc.transactions"), FLOW.sinks[1])
    _, written = replayed((1, 5), flow=FLOW.model_copy(update={"sinks": sinks}))
    assert [(m["op"], m["transaction"]) for m in written["kafka"].written] == [("c", None), ("d", None)]


def test_rows_that_are_gone_or_not_confirmed_are_an_error() -> None:
    with pytest.raises(ReconciliationError, match="confirmed 1 of 2 replayed rows"):
        replayed((1, 5), lost=1)
    session = session_of(FLOW)
    source = SourcePlan(plan(SinkPlan()).range, (T,), 5, 100)
    with pytest.raises(ReconciliationError, match="1 rows to be replayed are not in") as caught:
        replay_decoded(session, plan(SinkPlan()), source, {"server:gone:0:0": "check"})
    assert caught.value.code == "quarantine_rows_gone"
    spark = session_of(FLOW.model_copy(update={"lane": "spark"}))
    with pytest.raises(ConfigError, match='types="debezium" needs rows as they are decoded: lane="spark"'):
        replay_decoded(spark, plan(SinkPlan()), source, {})


def test_a_look_says_where_chosen_rows_end_and_who_takes_them() -> None:
    flow = FLOW
    planned = SourcePlan(plan(SinkPlan()).range, (T,), 5, 100)
    takers = (Taker(("*",), frozenset("cud")), Taker(("shop.*",), frozenset("cu")), Taker(("other",), frozenset("cud")))
    wanted = frozenset(ids()[number] for number in (1, 2, 3, 4))
    look = LookTask(
        flow,
        planned,
        (ChosenSplit(Rows(), wanted),),
        image_columns(flow, planned),
        image_marks(flow, planned),
        takers,
        row_program(flow, planned),
    )

    found = pickle.loads(pickle.dumps(look)).write(0)

    assert found.state == {
        ids()[1]: "dispatched", ids()[2]: "filtered", ids()[3]: "quarantined", ids()[4]: "quarantined",
    }  # fmt: skip
    assert found.takes[ids()[1]] == (True, True, False)
    assert found.takes[ids()[2]] == (False, False, False)
    assert set(found.table.values()) == {"shop.t"}
    assert [(row.key, row.cause) for row in found.held] == [
        ('{"id":3}', "not_null(note)"), ('{"id":4}', "filter_lacks(v)"),
    ]  # fmt: skip
    assert json.loads(found.held[0].payload)["after"] == {"id": 3, "v": 9, "card": "***", "note": None}


def test_a_chosen_split_has_the_same_rows_in_every_form() -> None:
    (every,) = Rows().read_text({})
    one = frozenset(every["event_id"].to_pylist()[2:3])

    for read in (ChosenSplit(Rows(), one).read(), ChosenSplit(Rows(), one).read_text({})):
        (rows,) = read
        assert rows["event_id"].to_pylist() == list(one)
    assert [rows.num_rows for rows in ChosenSplit(Rows(), frozenset()).read_text({})] == [0]
