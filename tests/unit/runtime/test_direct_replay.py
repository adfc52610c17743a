"""A look at held rows where they are decoded: where each ends, who takes it, and what is held once more."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from databus import Filter, Flow, Kafka, Mask, Mock, NotNull
from databus.core.state.plan import SinkPlan, SourcePlan
from databus.rows.emit import emit
from databus.rows.image_form import ImageForm
from databus.runtime.beside.direct_replay import ChosenSplit, LookTask
from databus.runtime.direct.lane import image_columns
from databus.runtime.direct.reasons import row_program
from databus.runtime.direct.row_checks import image_marks
from databus.runtime.direct.row_counts import Taker
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


def test_a_look_says_where_chosen_rows_end_and_who_takes_them() -> None:
    flow = Flow(
        name="f",
        source=Mock(rows=1),
        transforms=(Filter("v > 5"), Mask("card")),
        checks=(NotNull("note"),),
        sinks=(Kafka(conn_id="k", types="debezium"),),
    )
    planned = SourcePlan(plan(SinkPlan()).range, (T,), 5, 100)
    (every,) = Rows().read_text({})
    ids = dict(zip(range(1, 6), every["event_id"].to_pylist(), strict=True))
    takers = (Taker(("*",), frozenset("cud")), Taker(("shop.*",), frozenset("cu")), Taker(("other",), frozenset("cud")))
    wanted = frozenset(ids[number] for number in (1, 2, 3, 4))
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
        ids[1]: "dispatched", ids[2]: "filtered", ids[3]: "quarantined", ids[4]: "quarantined",
    }  # fmt: skip
    assert found.takes[ids[1]] == (True, True, False)
    assert found.takes[ids[2]] == (False, False, False)
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
