"""Topics that were deleted, between batches and within one, on real servers: never made again without a person."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from databus import __version__
from databus.core.errors import SinkError, SinkOutputChangedError
from databus.core.state.amendments import AcceptedOutputs
from databus.core.state.backfill import Aim, Mode
from databus.core.state.plan import Plan
from databus.ops.backfill.run import BackfillRequest, BackfillRun, run_backfill
from databus.ops.checkpoint import accept
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.ledger.verify import verify
from databus.ops.services import open_services
from databus.runtime import batch as batch_module
from databus.runtime.context import RunIdentity, Services
from databus.runtime.drain import Drain
from databus.sinks.kafka.topics import standing as standing_module
from tests.contract.sink_contract import ORDERS, inserts, source_plan
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.half_written import half_written
from tests.integration.kafka_target import KafkaAdapter, PausedWrite, consume, event_id, forget_kept, wait_until
from tests.integration.one_process import OneProcess, OneProcessWorld
from tests.integration.shop_flow import Shop

pytestmark = pytest.mark.integration

ADA = Attribution("ada", "deleted on purpose")
A_SECOND = 1.2
"""A writer looks at its topics once a second."""


class Topics:
    """A broker's topics, as an operator sees and deletes them."""

    def __init__(self, servers: str):
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def id(self, name: str) -> str | None:
        (future,) = self.admin.describe_topics(TopicCollection([name]), request_timeout=20).values()
        try:
            return str(future.result().topic_id)
        except KafkaException:
            return None

    def delete(self, name: str) -> str:
        was = self.id(name)
        assert was is not None
        for deleted in self.admin.delete_topics([name]).values():
            deleted.result(20)
        wait_until(lambda: self.id(name) is None, f"{name} is gone")
        return was

    def make(self, name: str, partitions: int = 1) -> str:
        for made in self.admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result(20)
        return self.there(name)

    def make_by_writing(self, name: str) -> str:
        """Let the broker make it by itself, as for any producer (auto.create.topics.enable)."""
        producer = Producer({"bootstrap.servers": self.servers})
        producer.produce(name, b"somebody else's")
        assert producer.flush(20) == 0
        return self.there(name)

    def there(self, name: str) -> str:
        wait_until(lambda: self.id(name) is not None, f"{name} is there")
        return str(self.id(name))


class Till:
    """A shop's flow on the direct lane, its topic, and what a consumer has of it."""

    def __init__(self, world: OneProcessWorld, name: str, **sink: Any):
        self.world = world
        self.shop = Shop(world, name, **sink)
        self.shop.flow = self.shop.flow.model_copy(update={"checks": ()})
        self.topics = Topics(world.sandbox.address("kafka"))

    @property
    def name(self) -> str:
        return self.shop.name

    def batch(self) -> None:
        self.shop.writer.run(15)
        self.run()

    def run(self) -> None:
        forget_kept()
        self.world.run(self.shop.flow)

    def refused(self, run: Callable[[], Any] | None = None) -> str:
        """Run, and return by what it was refused; the topic is then as it was before."""
        before, checkpoint = self.topics.id(self.name), self.world.checkpoint(self.shop.flow)
        with pytest.raises(SinkOutputChangedError) as error:
            (run or self.run)()
        assert self.topics.id(self.name) == before
        assert self.world.checkpoint(self.shop.flow) == checkpoint
        assert f"databus checkpoint accept {self.name}" in error.value.hint
        return error.value.message

    def arrived(self) -> list[str]:
        messages = consume(self.topics.servers, self.name)
        return [event_id(message) for message in messages if message.value() is not None]

    @contextmanager
    def services(self) -> Iterator[Services]:
        with open_services(self.shop.flow, self.world.connections, self.world.settings) as services:
            yield services

    def accept(self) -> list[accept.ChangedSinkOutputs]:
        with self.services() as services:
            return accept.execute(self.shop.flow, services, ADA)

    def verified(self) -> tuple[list[str], list[str]]:
        """Return what the ledger says of the sink: problems, and what was accepted as another."""
        with self.services() as services:
            found = verify(self.shop.flow, services, None)
        accepted = [what for _, what in found.looked_at if "was accepted as another topic at" in what]
        return [str(problem) for problem in found.problems], accepted

    def known(self) -> dict[str, str]:
        return dict(self.world.checkpoint(self.shop.flow).output_ids.get("kafka", {}))


@pytest.fixture(autouse=True)
def _soon_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """One broker does not lag behind itself: what it does not list is gone (`tests/unit/sinks/test_kafka_standing`)."""
    monkeypatch.setattr(standing_module, "_PAUSES_S", (0.5, 0.5))


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), tmp_path_factory.mktemp("deleted"))


def test_between_batches_it_is_refused_until_a_person_accepts_that_it_is_gone(
    world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till(world, "gone_between", partitions=3)
    till.batch()
    before = till.arrived()
    assert till.known() == {till.name: till.topics.id(till.name)}
    was = till.topics.delete(till.name)
    till.shop.writer.run(15)
    assert any("is gone, batch 1 wrote up to" in problem for problem in till.verified()[0])
    message = till.refused()
    assert (
        f"topic {till.name} (id {was}) was deleted, none is there now; last known when batch 1 was committed" in message
    )
    till.refused()

    till.shop.dag_file(tmp_path)
    commands = Commands(world, tmp_path, monkeypatch)
    (row,) = commands.json("checkpoint", "accept", till.name)
    assert (row["output"], row["known"], row["found"], row["accepted"]) == (till.name, was, None, False)
    till.refused()
    (row,) = commands.json("checkpoint", "accept", till.name, "--reason", "deleted on purpose", "--execute")
    assert row["accepted"]
    assert commands.json("checkpoint", "accept", till.name) == []
    assert f"deleted on purpose; kafka: {till.name} deleted" in commands("checkpoint", "history", till.name).stdout
    till.run()
    assert till.known() == {till.name: till.topics.id(till.name)}
    assert till.known() != {till.name: was}
    now = till.arrived()
    assert now
    assert not set(now) & set(before)
    till.batch()
    assert set(Counter(till.arrived()).values()) == {1}
    problems, (note,) = till.verified()
    assert problems == []
    assert note.startswith(f"{till.name} was accepted as another topic at ")
    assert note.endswith("what batches up to 1 wrote there is not looked for")
    till.topics.delete(till.name)
    assert any("is gone, batch 3 wrote up to" in problem for problem in till.verified()[0])
    with till.services() as services:
        entries = services.store.history(till.name, 10)
    assert [entry.why for entry in entries if entry.action == "accept"] == ["deleted on purpose"]


@pytest.mark.parametrize("how", ["by hand", "by a producer"])
def test_another_in_its_place_is_refused_and_nothing_is_written_to_it(world: OneProcessWorld, how: str) -> None:
    till = Till(world, f"anew_{how.replace(' ', '_')}")
    till.batch()
    was = till.topics.delete(till.name)
    new = till.topics.make(till.name) if how == "by hand" else till.topics.make_by_writing(till.name)
    till.shop.writer.run(15)
    assert f"(id {was}) was deleted, another one is there now (id {new})" in till.refused()
    foreign = 0 if how == "by hand" else 1
    assert len(consume(till.topics.servers, till.name, "read_uncommitted")) == foreign
    (changed,) = till.accept()
    assert (changed.outputs[0].known, changed.outputs[0].found) == (was, new)
    assert till.known() == {till.name: new}
    till.run()
    assert till.known() == {till.name: new}
    assert len(consume(till.topics.servers, till.name)) > foreign


def test_a_rewind_accepts_what_it_shows_and_sends_all_again(world: OneProcessWorld) -> None:
    till = Till(world, "gone_rewind")
    start = None
    for _ in range(3):
        till.batch()
        start = start or world.checkpoint(till.shop.flow).offset
    before = till.arrived()
    was = till.topics.delete(till.name)
    till.refused(till.batch)
    with till.services() as services:
        first = services.store.history(till.name, 10)[-1]
        target = Target(entry=first.number)
        seen = mediation.preview(till.shop.flow, services, "restore", target)
        shown = seen.to_json()["outputs_accepted"]
        assert shown == [f"kafka: {till.name} (id {was}) was deleted, none is there now"]
        mediation.execute(till.shop.flow, services, "restore", target, ADA)
    till.run()
    again = till.arrived()
    assert Counter(again).most_common(1)[0][1] == 1
    assert set(before) < set(again)
    till.shop.assert_all_arrived_once()
    problems, notes = till.verified()
    assert (problems, len(notes)) == ([], 1)


@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
def test_while_a_plan_is_in_flight_it_is_not_made_by_the_run_that_takes_it_up(
    world: OneProcessWorld, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    till = Till(world, f"gone_in_flight_{int(first)}", partitions=3, slots=2)
    if not first:
        till.batch()
    plan = killed_before_the_commit(till, monkeypatch)
    till.topics.delete(till.name)
    assert f"last known when batch {plan.batch} was planned at" in till.refused()
    (changed,) = till.accept()
    assert changed.outputs[0].found is None
    # Made as the plan counts on it; the plan goes on, and its markers, which say that all was written, still hold.
    made = till.topics.there(till.name)
    with till.services() as services:
        pending = services.store.pending_plan(till.name)
    assert pending is not None
    assert (pending.hash, pending.sinks["kafka"].ids) == (plan.hash, {till.name: made})
    assert len(till.topics.admin.list_topics(till.name, timeout=20).topics[till.name].partitions) == 3
    till.run()
    assert till.arrived() == []
    till.batch()
    assert till.known() == {till.name: made}
    assert set(Counter(till.arrived()).values()) == {1}
    problems, (note,) = till.verified()
    assert problems == []
    assert f"what batches up to {plan.batch} wrote there" in note


def test_what_a_half_written_plan_loses_after_it_was_accepted_is_a_problem(world: OneProcessWorld) -> None:
    till = Till(world, "lost_in_flight", chunk_rows=5)
    till.batch()
    till.shop.writer.run(15)
    half_written(till.run, 1)
    till.topics.delete(till.name)
    till.accept()
    till.run()
    arrived = till.arrived()
    assert len(arrived) >= 5
    problems, (note,) = till.verified()
    assert problems == []
    assert note.endswith("but for what batch 2 wrote since")
    # Emptied before another batch: its own rows are those that are lost.
    till.topics.delete(till.name)
    till.topics.make(till.name)
    ((lost,), _) = till.verified()
    assert f"{till.name}[0] ends at 0, batch 2 wrote" in lost


def killed_before_the_commit(till: Till, monkeypatch: pytest.MonkeyPatch) -> Plan:
    def killed(*_: Any, **__: Any) -> Any:
        raise SinkError("killed here")

    till.shop.writer.run(15)
    monkeypatch.setattr(batch_module, "commit", killed)
    with pytest.raises(SinkError, match="killed here"):
        till.run()
    monkeypatch.undo()
    with till.services() as services:
        plan = services.store.pending_plan(till.name)
    assert plan is not None
    return plan


def test_a_checkpoint_that_knows_no_topics_learns_them(world: OneProcessWorld) -> None:
    """One that an older version wrote."""
    till = Till(world, "learns")
    till.batch()
    with till.services() as services:
        lease = services.store.claim(till.name, "an older version", 0)
        said = AcceptedOutputs("test", "an older version", {"kafka": {till.name: None}})
        assert services.store.accept_outputs(till.name, lease, said).to_json()["v"] == 1
        lease.release()
    till.batch()
    assert till.known() == {till.name: till.topics.id(till.name)}
    assert set(Counter(till.arrived()).values()) == {1}


def test_a_backfill_into_the_same_topic_does_not_make_it_either(world: OneProcessWorld) -> None:
    till = Till(world, "gone_backfill")
    till.batch()
    till.shop.writer.run(15)
    with till.services() as services:
        stood = services.store.load(till.name)
        mediation.execute(till.shop.flow, services, "skip", Target(place="latest"), ADA)
        skipped = services.store.load(till.name)
    assert stood is not None
    assert skipped is not None
    was = till.topics.delete(till.name)

    def backfill() -> None:
        forget_kept()
        wanted = BackfillRequest(str(stood.offset), str(skipped.offset), Aim(Mode.MISSING))
        identity = RunIdentity("backfill", "", __version__)
        with till.services() as services:
            run_backfill(till.shop.flow, services, wanted, BackfillRun(OneProcess, identity, Drain()))

    assert f"(id {was}) was deleted" in till.refused(backfill)
    till.accept()
    backfill()
    missing = set(till.arrived())
    assert missing
    till.batch()
    assert set(Counter(till.arrived()).values()) == {1}
    assert missing < set(till.arrived())


def test_without_transactions_it_is_refused_as_well(world: OneProcessWorld) -> None:
    till = Till(world, "gone_plain", profile="at_least_once")
    till.batch()
    till.topics.delete(till.name)
    till.shop.writer.run(15)
    assert "none is there now" in till.refused()
    till.accept()
    till.run()
    assert till.arrived()


class TestWhileABatchIsWritten:
    @pytest.fixture
    def adapter(self, servers: str) -> Iterator[KafkaAdapter]:
        with closing(KafkaAdapter(servers, partitions=2)) as adapter:
            yield adapter

    @pytest.mark.parametrize("anew", [False, True], ids=["gone", "made anew"])
    def test_nothing_of_it_is_to_be_seen(self, adapter: KafkaAdapter, anew: bool) -> None:
        topics = Topics(adapter.servers)
        sink = adapter.make_sink(timeout=timedelta(seconds=8.0))
        adapter.write(sink, adapter.plan(sink, 1, 0), inserts(range(5), 1500))
        forget_kept()
        plan = pinned(adapter, sink, 2)
        paused = PausedWrite(adapter, sink, plan, inserts(range(10, 30), 2500))
        was = topics.delete(adapter.topic)
        if anew:
            topics.make(adapter.topic, 2)
        time.sleep(A_SECOND)
        error = paused.finish()
        if not isinstance(error, SinkOutputChangedError):  # the client may notice first, without a name for it
            assert isinstance(error, SinkError)
        with pytest.raises(SinkOutputChangedError, match=re.escape(was)):
            sink.writer(plan)
        if anew:
            assert adapter.messages() == []
        assert [marker.batch for marker in sink.markers() if marker] == [1]

    @pytest.mark.parametrize("profile", ["exactly_once", "at_least_once"])
    def test_the_writer_does_not_have_the_broker_make_it_anew(
        self, adapter: KafkaAdapter, monkeypatch: pytest.MonkeyPatch, profile: str
    ) -> None:
        """The sandbox's brokers make topics by themselves (auto.create.topics.enable), as Kafka's default is."""
        topics = Topics(adapter.servers)
        sink = adapter.make_sink(timeout=timedelta(seconds=8.0), profile=profile)
        plan = pinned(adapter, sink, 1)
        paused = PausedWrite(adapter, sink, plan, inserts(range(10, 30), 2500))
        topics.delete(adapter.topic)
        # Deleted just after the writer's last look: what it produces now goes to a topic that is gone.
        monkeypatch.setattr(standing_module.PinnedTopics, "require", lambda *_, **__: None)
        assert isinstance(paused.finish(), SinkError)
        assert topics.id(adapter.topic) is None
        topics.make_by_writing(adapter.topic)

    def test_chunk_by_chunk_it_ends_at_the_next_commit(self, adapter: KafkaAdapter) -> None:
        topics = Topics(adapter.servers)
        sink = adapter.make_sink(chunk_rows=10)
        plan = pinned(adapter, sink, 1)
        paused = PausedWrite(adapter, sink, plan, inserts(range(40), 1500))
        topics.delete(adapter.topic)
        topics.make(adapter.topic, 2)
        time.sleep(A_SECOND)
        assert isinstance(paused.finish(), SinkError)
        assert adapter.messages() == []
        with pytest.raises(SinkOutputChangedError):
            sink.writer(plan)


def pinned(adapter: KafkaAdapter, sink: Any, batch: int) -> Plan:
    """The adapter's plan with the ids that the sink pinned, which the contract leaves out."""
    plan = adapter.plan(sink, batch, batch - 1)
    made = sink.prepare(source_plan(500, 1000), [(ORDERS, ORDERS.full_name)])
    assert made.ids
    return replace(plan, sinks={"kafka": replace(plan.sinks["kafka"], ids=made.ids)})
