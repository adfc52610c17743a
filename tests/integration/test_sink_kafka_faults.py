"""The Kafka writer's protocol on a real broker: marks, zombies, kills."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from databus.core.errors import (
    MarkerDivergedError,
    SinkFencedError,
    SinkTransactionHangingError,
    SinkUnavailableError,
)
from databus.core.state.plan import Plan
from databus.kafka.callbacks import fatal_error_raised
from databus.sinks.kafka import produce
from databus.sinks.kafka import session_cache as kept_sessions
from databus.sinks.kafka.markers import MARKER_TOPIC, Marker
from databus.sinks.kafka.session import Session
from databus.sinks.kafka.sink import KafkaSink
from tests.contract.sink_contract import ContractChange, inserts
from tests.integration.kafka_target import (
    DEADLINE_S,
    KafkaAdapter,
    PausedWrite,
    forget_kept,
    wait_until,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def adapter(servers: str) -> Iterator[KafkaAdapter]:
    with closing(KafkaAdapter(servers)) as adapter:
        yield adapter


def test_a_fence_is_named_whatever_else_the_client_has_to_say(adapter: KafkaAdapter) -> None:
    """In a takeover a line for the log came behind the fatal error and hid it; how: unit/kafka/test_callbacks.py.

    The error was never freed either, and with it the producer and its threads.
    """
    fenced: list[weakref.ref[Any]] = []
    sink = adapter.make_sink()
    adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(3), 1500))
    forget_kept()
    for _ in range(3):
        holder = Session(sink.key, 0, replace(sink._producer({}), extra={"debug": "eos,msg,queue"}))
        holder.begin()
        fenced.append(weakref.ref(holder.producer))
        holder.producer.produce(adapter.topic, b"late")
        Session(sink.key, 0, sink._producer({})).discard()
        with pytest.raises(SinkFencedError):
            write_out(holder)
        holder.discard()
    del holder
    gc.collect()
    assert [producer() for producer in fenced] == [None] * 3


def write_out(holder: Session) -> None:
    holder.flush()
    holder.commit(Marker(2, "next"))


class TestMarks:
    def test_an_open_transaction_is_waited_for_only_when_asked(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(3), 1500))
        forget_kept()
        hasty = adapter.make_sink(timeout=timedelta(seconds=3.0))
        holder = Session(sink.key, 0, sink._producer({}))
        try:
            holder.begin(Marker(2, "next"))
            (before,) = hasty.marks(1, settled=False)
            with pytest.raises(SinkUnavailableError):
                hasty.marks(1)
            holder.commit(Marker(2, "next"))
            (after,) = sink.marks(1)
        finally:
            holder.discard()
        assert before is not None
        assert before.batch == 1
        assert after is not None
        assert after.batch == 2

    def test_a_transaction_that_nobody_ends_is_named(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(3), 1500))
        forget_kept()
        hasty = adapter.make_sink(timeout=timedelta(seconds=3.0))
        own = Session(hasty.key, 0, hasty._producer({}))
        # One of another transactional.id: no initialisation of the slot's writer ends it, as with one the broker lost.
        foreign = Producer({"bootstrap.servers": adapter.servers, "transactional.id": f"lost.{adapter.flow}"})
        foreign.init_transactions(30)
        foreign.begin_transaction()
        lost = TopicPartition(MARKER_TOPIC, 0, 2, metadata=Marker(2, "lost").metadata())
        foreign.send_offsets_to_transaction([lost], own._group, 30)
        try:
            with pytest.raises(SinkTransactionHangingError, match="slot 0"):
                own.marker()
            foreign.abort_transaction(30)
            wait_until(lambda: _batch(own) == 1, "the marker before")
        finally:
            own.discard()


def _batch(own: Session) -> int:
    marker = own.marker()
    return marker.batch if marker else 0


class TestZombies:
    def test_one_fenced_in_mid_transaction_leaves_nothing(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(40), 1500)
        zombie = PausedWrite(adapter, sink, plan, changes)
        receipt = adapter.write(sink, plan, changes)
        assert not receipt.duplicate
        assert isinstance(zombie.finish(), SinkFencedError)
        assert adapter.delivered() == [c.event_id for c in changes]

    def test_a_fence_that_the_client_lost_is_asked_for(self, adapter: KafkaAdapter) -> None:
        """The client tells a fatal error once, as an exception that its next callbacks may take away."""
        sink = adapter.make_sink()
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1500))
        (fenced,) = kept_sessions._kept.values()
        Session(fenced.key, fenced.slot, fenced.settings).discard()
        fenced.begin()
        fenced.producer.produce(adapter.topic, b"", partition=0)
        with pytest.raises((KafkaException, SystemError)):
            fenced.producer.flush(DEADLINE_S)
        lost = SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")
        with pytest.raises(KafkaException) as fatal, fatal_error_raised():
            raise lost
        assert isinstance(fenced.produce_failed(fatal.value), SinkFencedError)

    def test_one_that_initialises_late_fences_the_holder_and_still_writes_nothing(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        old, old_changes = adapter.plan(sink, 1, 0), inserts([1, 2, 3], 1500)
        adapter.write(sink, old, old_changes)
        forget_kept()
        plan, changes = adapter.plan(sink, 2, 1), inserts(range(10, 50), 2500)
        holder = PausedWrite(adapter, sink, plan, changes)
        # The zombie still believes in batch 1: its init_transactions comes after the holder's.
        assert adapter.write(sink, old, old_changes).duplicate
        assert isinstance(holder.finish(), SinkFencedError)
        assert adapter.delivered() == [c.event_id for c in old_changes]
        adapter.write(sink, plan, changes)
        assert adapter.delivered() == [c.event_id for c in (*old_changes, *changes)]

    def test_one_with_a_plan_of_its_own_for_the_same_batch_is_refused(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        mine, other = adapter.plan(sink, 1, 0), adapter.plan(sink, 1, 0, clock=9)
        adapter.write(sink, mine, inserts([1], 1500))
        with pytest.raises(MarkerDivergedError) as caught:
            adapter.write(sink, other, inserts([2], 1500))
        assert mine.hash in str(caught.value)
        assert other.hash in str(caught.value)
        assert adapter.read_back() == {1: 0}

    def test_a_plan_that_skips_a_batch_is_refused(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        with pytest.raises(MarkerDivergedError, match="no marker"):
            adapter.write(sink, adapter.plan(sink, 5, 4), inserts([1], 1500))
        assert adapter.delivered() == []

    def test_a_checkpoint_that_was_lost_is_noticed(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1500))
        adapter.write(sink, adapter.plan(sink, 2, 1), inserts([2], 2500))
        with pytest.raises(MarkerDivergedError):
            adapter.write(sink, adapter.plan(sink, 1, 0, clock=5), inserts([1], 1500))
        assert adapter.read_back() == {1: 0, 2: 0}

    def test_a_kept_producer_that_was_fenced_is_replaced_before_input_is_read(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts([1], 1500))
        kept = dict(kept_sessions._kept)
        kept_sessions._kept.clear()
        adapter.write(sink, adapter.plan(sink, 2, 1), inserts([2], 2500))
        forget_kept()
        kept_sessions._kept.update(kept)
        adapter.write(sink, adapter.plan(sink, 3, 2), inserts([3], 3500))
        assert adapter.read_back() == {1: 0, 2: 0, 3: 0}
        assert len(adapter.delivered()) == 3


CRASH = """
import os, pickle, signal, sys
from databus.sinks.kafka import produce
produce.COMPILED_FROM, produce.ROWS_A_REPORT = int(os.environ["TEST_COMPILED_FROM"]), 0
writer, batches = pickle.load(open(sys.argv[1], "rb"))
def rows():
    yield from batches
    signal.pause()
writer.write(rows(), 0)
"""


def kill_in_mid_batch(
    adapter: KafkaAdapter, sink: KafkaSink, plan: Plan, batches: Sequence[pa.RecordBatch], folder: Path
) -> None:
    """Run a writer in a process of its own and kill it (SIGKILL) once its rows lie in the log."""
    before = len(adapter.messages("read_uncommitted"))
    rows = sum(batch.num_rows for batch in batches)
    task = folder / "task.pickle"
    task.write_bytes(pickle.dumps((sink.writer(plan), list(batches))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen([sys.executable, "-c", CRASH, str(task)], env=environment)
    try:
        wait_until(lambda: len(adapter.messages("read_uncommitted")) >= before + rows, "rows of the child in the log")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(DEADLINE_S) == -signal.SIGKILL


class TestKills:
    @pytest.fixture(autouse=True, params=[1, 10**9], ids=["compiled", "client"])
    def handed_over(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rows go to the producer by compiled code, or by one call each."""
        monkeypatch.setattr(produce, "COMPILED_FROM", request.param)
        monkeypatch.setattr(produce, "ROWS_A_REPORT", 0)
        monkeypatch.setenv("TEST_COMPILED_FROM", str(request.param))

    def test_a_killed_writer_is_retried_without_loss_or_repeat(self, servers: str, tmp_path: Path) -> None:
        adapter = KafkaAdapter(servers, partitions=3)
        sink = adapter.make_sink()
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(9), 1500))
        forget_kept()
        plan = adapter.plan(sink, 2, 1)
        changes = [ContractChange("u", n % 9, n, 2001 + n) for n in range(300)]
        kill_in_mid_batch(adapter, sink, plan, adapter.encode(changes, plan)[:1], tmp_path)
        assert len(adapter.delivered()) == 9
        assert not sink.wrote_any_of(plan)

        receipt = adapter.write(sink, plan, changes)

        assert not receipt.duplicate
        assert sink.wrote_any_of(plan)
        seen = adapter.delivered()
        assert len(seen) == len(set(seen)) == 309
        values = values_by_key(adapter)
        assert values == {key: [0, *range(key, 300, 9)] for key in range(9)}

    def test_chunks_resume_behind_the_last_committed_one(self, servers: str, tmp_path: Path) -> None:
        adapter = KafkaAdapter(servers, partitions=2, chunk_rows=100)
        sink = adapter.make_sink()
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(450), 1500)
        batches = adapter.encode(changes, plan)
        kill_in_mid_batch(adapter, sink, plan, batches[:1], tmp_path)
        assert len(adapter.delivered()) == 200  # two whole chunks of the 225 rows that the child was given
        assert sink.wrote_any_of(plan)

        receipt = adapter.write(sink, plan, changes)

        seen = adapter.delivered()
        assert len(seen) == len(set(seen)) == 450
        assert (receipt.written, receipt.rows, receipt.duplicate) == (450, {"shop.orders": 450}, False)
        whole = {name: facts["records"] for name, facts in receipt.outputs.items()}
        assert whole == {f"{adapter.topic}[0]": 225, f"{adapter.topic}[1]": 225}
        assert {facts["first_offset"] for facts in receipt.outputs.values()} != {-1}
        again = adapter.write(sink, plan, changes)
        assert again.duplicate
        assert again.outputs == receipt.outputs

    def test_an_input_that_changed_between_attempts_is_refused(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        plan = adapter.plan(sink, 1, 0)
        adapter.write(sink, plan, inserts(range(10), 1500))
        with pytest.raises(MarkerDivergedError, match="10 rows"):
            adapter.write(sink, plan, inserts(range(11), 1500))

    def test_an_input_that_fails_leaves_nothing_visible(self, adapter: KafkaAdapter) -> None:
        sink = adapter.make_sink()
        plan, changes = adapter.plan(sink, 1, 0), inserts(range(10), 1500)

        def rows() -> Iterator[pa.RecordBatch]:
            yield adapter.encode(changes, plan)[0]
            raise RuntimeError("upstream")

        with pytest.raises(RuntimeError, match="upstream"):
            sink.writer(plan).write(rows(), 0)
        assert adapter.delivered() == []
        adapter.write(sink, plan, changes)
        assert adapter.delivered() == [c.event_id for c in changes]


def values_by_key(adapter: KafkaAdapter) -> dict[int, list[int]]:
    """Key → its values in the order a reader sees them; a key must stay in one partition."""
    values: dict[int, list[int]] = {}
    places: dict[int, set[int]] = {}
    for message in adapter.messages():
        key = json.loads(message.key())["id"]
        values.setdefault(key, []).append(json.loads(message.value())["after"]["v"])
        places.setdefault(key, set()).add(message.partition())
    assert {len(partitions) for partitions in places.values()} == {1}
    return values
