"""What a slot's writer does with a transaction whose end a broker lost (ADR 28)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from databus.core.errors import SinkTransactionHangingError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan
from databus.sinks.kafka.markers import Marker
from databus.sinks.kafka.session import Session
from databus.sinks.kafka.writer import KafkaSlotWriter

PLAN = Plan(
    "test",
    "shop",
    7,
    OffsetRange(BinlogOffset("mysql-bin.000001", 4), BinlogOffset("mysql-bin.000001", 900)),
    {"kafka": SinkPlan(1, (6,), {"orders": 3})},
    "spec",
    datetime(2026, 1, 1, tzinfo=UTC),
)


class _Hanging:
    """A slot whose marker hangs behind `settled` until it is aborted."""

    def __init__(self, settled: Marker | None, *, kept: bool = False, brokers: int = 1):
        self.settled, self.kept, self.brokers = settled, kept, brokers
        self.aborted: list[dict[str, int]] = []
        self.begun = 0

    def marker(self) -> Marker | None:
        if not self.aborted:
            raise SinkTransactionHangingError("it hangs")
        return self.settled

    def settled_marker(self) -> Marker | None:
        return self.settled

    def abort_lost(self, topics: Mapping[str, int], error: SinkTransactionHangingError) -> None:
        if self.brokers > 1:
            raise error
        self.aborted.append(dict(topics))

    def begin(self, _probe: Marker | None) -> None:
        self.begun += 1


def begin(slot: _Hanging) -> Any:
    writer = KafkaSlotWriter("kafka", PLAN, cast("Any", None))
    return writer._begin(cast("Session", slot), 0)


@pytest.mark.parametrize(
    "settled", [Marker(6, "before"), Marker(7, PLAN.hash, chunk=1, last=False)], ids=["whole batch", "a later chunk"]
)
def test_what_hangs_of_the_plan_itself_is_aborted_and_written_again(settled: Marker) -> None:
    slot = _Hanging(settled)
    resume = begin(slot)
    assert slot.aborted == [{"orders": 3}]
    assert not resume.finished
    assert resume.chunk == (2 if settled.batch == 7 else 0)
    assert slot.begun == 1


@pytest.mark.parametrize("settled", [Marker(5, "earlier"), None], ids=["an earlier batch", "no marker"])
def test_the_batch_before_was_confirmed_and_is_never_aborted(settled: Marker | None) -> None:
    slot = _Hanging(settled)
    with pytest.raises(SinkTransactionHangingError):
        begin(slot)
    assert not slot.aborted
    assert not slot.begun


@pytest.mark.parametrize("options", [{"kept": True}, {"brokers": 3}], ids=["kept producer", "several brokers"])
def test_nothing_is_aborted_by_a_kept_producer_or_on_several_brokers(options: dict[str, Any]) -> None:
    slot = _Hanging(Marker(6, "before"), **options)
    with pytest.raises(SinkTransactionHangingError):
        begin(slot)
    assert not slot.aborted
