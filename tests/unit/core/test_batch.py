from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.errors import CheckpointFormatError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.plan import Plan, SinkPlan
from databus.core.stored_form import canonical_json

instants = st.datetimes(timezones=st.just(UTC))
names = st.text(min_size=1, max_size=8)
counts = st.builds(TableCounts, *[st.integers(0, 99)] * 6)
sink_plans = st.builds(
    SinkPlan,
    slots=st.integers(1, 4),
    prev=st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
    partitions=st.dictionaries(names, st.integers(1, 9), max_size=2),
    ids=st.dictionaries(names, names, max_size=1),
    names=st.dictionaries(names, names, max_size=1),
)
ranges = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(
    lambda p: OffsetRange(SequenceOffset(min(p)), SequenceOffset(max(p)))
)
plans = st.builds(
    Plan,
    installation=names,
    flow=names,
    batch=st.integers(1, 99),
    range=ranges,
    sinks=st.dictionaries(names, sink_plans, max_size=3),
    spec_hash=names,
    clock=instants,
    mode=st.sampled_from(["live", "replay"]),
    closed_until=st.none() | st.integers(0, 9).map(SequenceOffset),
)
checkpoints = st.builds(
    Checkpoint,
    offset=st.integers(0, 9).map(SequenceOffset),
    batch=st.integers(0, 9),
    epoch=st.integers(1, 9).map(Epoch),
    run_id=names,
    plan_hash=names,
    counts=st.dictionaries(names, counts, max_size=2),
    watermark=st.none() | instants,
    updated_at=instants,
    slots=st.dictionaries(names, st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=2),
    replay_until=st.none() | st.integers(0, 9).map(SequenceOffset),
    closed_until=st.none() | st.integers(0, 9).map(SequenceOffset),
    output_ids=st.dictionaries(names, st.dictionaries(names, names, min_size=1, max_size=2), max_size=2),
    output_names=st.dictionaries(names, st.dictionaries(names, names, min_size=1, max_size=2), max_size=2),
    first=st.dictionaries(names, st.lists(names, min_size=1, max_size=2).map(tuple), max_size=2),
)
entries = st.builds(
    HistoryEntry,
    number=st.integers(1, 9),
    action=st.sampled_from(["commit", "start", "rewind"]),
    who=names,
    why=names,
    previous=st.none() | st.integers(0, 9).map(SequenceOffset),
    offset=st.integers(0, 9).map(SequenceOffset),
    batch=st.integers(0, 9),
    epoch=st.integers(1, 9).map(Epoch),
    counts=st.dictionaries(names, counts, max_size=2),
    receipts=st.lists(st.fixed_dictionaries({"sink": names, "slot": st.integers(0, 3)}), max_size=2).map(tuple),
    at=instants,
)


@given(st.one_of(plans, checkpoints, entries))
def test_stored_json_is_read_back(value: Any) -> None:
    data = json.loads(canonical_json(value.to_json()))
    newer = ("output_ids", "output_names", "closed_until")
    newest = 3 if getattr(value, "first", None) and isinstance(value, Checkpoint) else 1
    assert data["v"] == max(newest, 2 if any(getattr(value, name, None) for name in newer) else 1)
    assert type(value).from_json(data) == value
    for other in (9, None, "1"):
        with pytest.raises(CheckpointFormatError, match="format version"):
            type(value).from_json({**data, "v": other})


PLAN = Plan(
    installation="default",
    flow="orders",
    batch=7,
    range=OffsetRange(SequenceOffset(1), SequenceOffset(9)),
    sinks={"kafka": SinkPlan(2, (6, 6), {"cdc.orders": 3}), "search": SinkPlan()},
    spec_hash="abc",
    clock=datetime(2024, 1, 31, 12, tzinfo=UTC),
)


@pytest.mark.parametrize(
    "change",
    [
        {"installation": "other"},
        {"flow": "payments"},
        {"batch": 8},
        {"range": OffsetRange(SequenceOffset(1), SequenceOffset(10))},
        {"sinks": {"kafka": SinkPlan(2, (6, 5), {"cdc.orders": 3}), "search": SinkPlan()}},
        {"sinks": {"kafka": SinkPlan(2, (6, 6), {"cdc.orders": 4}), "search": SinkPlan()}},
        {"sinks": {"kafka": SinkPlan(2, (6, 6), {"cdc.orders": 3}), "search": SinkPlan(first=("orders",))}},
        {"spec_hash": "abd"},
        {"clock": datetime(2024, 1, 31, 12, 0, 1, tzinfo=UTC)},
        {"mode": "replay"},
        {"closed_until": SequenceOffset(20)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_hash_covers_all_that_decides_the_output(change: dict[str, Any]) -> None:
    assert replace(PLAN, **change).hash != PLAN.hash


def test_the_hash_does_not_depend_on_order_and_is_pinned() -> None:
    turned = replace(PLAN, sinks=dict(reversed(PLAN.sinks.items())))
    assert turned.hash == PLAN.hash
    # Markers that are out there hold this value: a change of the form is a change of the format version.
    form = (
        '{"batch":7,"clock":"2024-01-31T12:00:00+00:00","flow":"orders","installation":"default","mode":"live",'
        '"range":{"end":{"kind":"sequence","sequence":9},"start":{"kind":"sequence","sequence":1}},'
        '"sinks":{"kafka":{"partitions":{"cdc.orders":3},"prev":[6,6],"slots":2},'
        '"search":{"partitions":{},"prev":[0],"slots":1}},"spec_hash":"abc","v":1}'
    )
    assert PLAN.hash == hashlib.sha256(form.encode()).hexdigest()[:16]
    assert Plan.from_json(json.loads(form)).hash == PLAN.hash


def test_canonical_json_is_one_form() -> None:
    assert canonical_json({"b": [1, "ü"], "a": None}) == '{"a":null,"b":[1,"ü"]}'.encode()


@given(counts, counts)
def test_counts_add_up(left: TableCounts, right: TableCounts) -> None:
    both = left.plus(right)
    assert (both.read, both.filtered) == (left.read + right.read, left.filtered + right.filtered)
    assert (both.quarantined, both.dispatched) == (
        left.quarantined + right.quarantined,
        left.dispatched + right.dispatched,
    )
    assert (both.superseded, both.snapshot) == (left.superseded + right.superseded, left.snapshot + right.snapshot)
    assert TableCounts.from_json(left.to_json()) == left


@pytest.mark.parametrize(
    ("given_counts", "reconciled"),
    [((10, 2, 1, 7), True), ((10, 2, 1, 6), False), ((10, 2, 1, 8), False), ((0, 0, 0, 0), True)],
)
def test_reconciled_means_every_row_is_somewhere(given_counts: tuple[int, int, int, int], reconciled: bool) -> None:
    assert TableCounts(*given_counts).reconciled is reconciled


def test_a_receipt_counts_rejected_rows_and_does_not_repeat_them() -> None:
    from databus.core.batches.receipts import RejectedRow

    row = RejectedRow("id", "shop.orders", None, "cause", "kafka", "bin.000001:4", '{"card": "4111"}')
    stored = WriteReceipt("kafka", 0, 7, 3, {"shop.orders": 2}, (row,), {"t[0]": {"first": 1}}).to_json()
    assert stored["rejected"] == 1
    assert "4111" not in json.dumps(stored)
