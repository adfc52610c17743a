"""The Kafka writer in a live job, whose batches follow one another: what it has just committed is not asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from databus.core.client_cache import keeping
from databus.core.errors import MarkerDivergedError, SinkUnavailableError
from databus.sinks.kafka import session
from databus.sinks.kafka import session_cache as kept_sessions
from databus.sinks.kafka.session import Session
from tests.contract.sink_contract import inserts
from tests.integration.kafka_target import KafkaAdapter, PausedWrite, forget_kept

pytestmark = pytest.mark.integration


@pytest.fixture
def adapter(servers: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaAdapter]:
    monkeypatch.setattr(session, "_JUST_S", 600.0)  # three seconds pass between two batches on a loaded machine
    with keeping(), closing(KafkaAdapter(servers)) as adapter:
        yield adapter


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What sessions asked the brokers for, beside the rows and the end of the transaction."""
    found: list[str] = []

    def noted(name: str) -> None:
        right = getattr(Session, name)

        def call(*args: Any) -> Any:
            found.append(name)
            return right(*args)

        monkeypatch.setattr(Session, name, call)

    for name in ("marker", "_send", "_connect"):
        noted(name)
    return found


def elsewhere(adapter: KafkaAdapter, sink: Any, batch: int, **plan: Any) -> None:
    """Let another process write a batch of one row, with a producer of its own."""
    kept = dict(kept_sessions._kept)
    kept_sessions._kept.clear()
    adapter.write(sink, adapter.plan(sink, batch, batch - 1, **plan), inserts([batch], 1000 * batch))
    forget_kept()
    kept_sessions._kept.update(kept)


def test_the_next_batch_sends_its_rows_and_its_marker(adapter: KafkaAdapter, asked: list[str]) -> None:
    sink = adapter.make_sink()
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1000))
    asked.clear()
    for batch in (2, 3):
        adapter.write(sink, adapter.plan(sink, batch, batch - 1), inserts([batch], 1000 * batch))
    assert asked == ["_send", "_send"]
    assert adapter.read_back() == {1: 0, 2: 0, 3: 0}


def test_after_a_pause_both_are_asked(adapter: KafkaAdapter, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sink = adapter.make_sink()
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1000))
    asked.clear()
    monkeypatch.setattr(session, "_JUST_S", -1.0)
    adapter.write(sink, adapter.plan(sink, 2, 1), inserts([2], 2000))
    assert asked == ["marker", "_send", "_send"]


def test_a_batch_that_another_process_wrote_in_between_is_seen(adapter: KafkaAdapter, asked: list[str]) -> None:
    sink = adapter.make_sink()
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1000))
    elsewhere(adapter, sink, 2)
    asked.clear()
    adapter.write(sink, adapter.plan(sink, 3, 2), inserts([3], 3000))
    assert asked[0] == "marker"
    assert adapter.read_back() == {1: 0, 2: 0, 3: 0}
    assert len(adapter.delivered()) == 3


def test_a_producer_that_was_only_fenced_is_replaced(adapter: KafkaAdapter, asked: list[str]) -> None:
    """Whoever did so wrote nothing: the marker is still the one that this session has committed."""
    sink, changes = adapter.make_sink(), inserts(range(2, 42), 2000)
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1000))
    (kept,) = kept_sessions._kept.values()
    Session(kept.key, kept.slot, kept.settings).discard()
    asked.clear()
    receipt = adapter.write(sink, adapter.plan(sink, 2, 1), changes)
    assert (receipt.duplicate, receipt.written) == (False, 40)
    assert asked[-3:] == ["_connect", "marker", "_send"]
    assert adapter.delivered()[1:] == [change.event_id for change in changes]


def test_a_zombie_s_plan_is_refused(adapter: KafkaAdapter) -> None:
    """It takes the batch that it committed for the last one; another has been written since."""
    sink = adapter.make_sink()
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1000))
    elsewhere(adapter, sink, 2)
    with pytest.raises(MarkerDivergedError):
        adapter.write(sink, adapter.plan(sink, 2, 1, clock=9), inserts([7], 2000))
    assert adapter.read_back() == {1: 0, 2: 0}


def test_one_that_is_overtaken_in_mid_batch_finds_its_batch_written(adapter: KafkaAdapter) -> None:
    sink = adapter.make_sink()
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1000))
    plan, changes = adapter.plan(sink, 2, 1), inserts(range(2, 42), 2000)
    zombie = PausedWrite(adapter, sink, plan, changes)
    assert not adapter.write(sink, plan, changes).duplicate
    found: Any = zombie.finish()
    assert (found.duplicate, found.written) == (True, 40)
    assert adapter.delivered()[1:] == [change.event_id for change in changes]


def test_a_commit_whose_answer_was_lost_is_not_repeated(adapter: KafkaAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, right = adapter.make_sink(), Session.commit
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1000))

    def commit(own: Session, marker: Any) -> None:
        right(own, marker)
        if own.hurries:
            raise SinkUnavailableError("no answer")

    monkeypatch.setattr(Session, "commit", commit)
    plan, changes = adapter.plan(sink, 2, 1), inserts(range(2, 42), 2000)
    receipt = adapter.write(sink, plan, changes)
    assert (receipt.duplicate, receipt.written) == (True, 40)
    assert adapter.delivered()[1:] == [change.event_id for change in changes]
