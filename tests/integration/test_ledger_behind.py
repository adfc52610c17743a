"""`databus ledger FLOW --verify` of a flow one of whose sinks is behind, or was: sound, or harm is named."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, Kafka
from databus.checkpoints.connection.session import start_client
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.errors import CheckpointConflictError, CheckpointError
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import giving_up
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.ledger.verify import Verification, verify
from databus.ops.services import open_services
from databus.testing.tcp_proxy import TcpProxy
from tests.integration.conftest import World
from tests.integration.one_process import run_locally
from tests.integration.shop_flow import Shop
from tests.integration.znodes import edited

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

_NUMBERS = itertools.count(1)


@dataclass
class TwoSinks:
    """A flow into two sinks of Kafka; the way to one of them goes through a proxy."""

    world: World
    shop: Shop
    sink: str
    proxy: TcpProxy
    zookeeper: Any

    def move(self, rows: int) -> None:
        """Write, and run until all sinks that answer have it."""
        self.shop.writer.run(rows)
        run_locally(self.world, self.shop.flow)

    def verify(self) -> Verification:
        with open_services(self.shop.flow, self.world.connections, self.world.settings) as services:
            return verify(self.shop.flow, services, None)

    def problems(self) -> list[str]:
        return [str(problem) for problem in self.verify().problems]

    def told(self) -> list[str]:
        """What is said of the sink by a ledger that adds up."""
        found = self.verify()
        assert [str(problem) for problem in found.problems] == []
        return [what for subject, what in found.looked_at if subject == f"sink {self.sink}"]

    def behind(self) -> tuple[str, ...]:
        with open_services(self.shop.flow, self.world.connections, self.world.settings) as services:
            return tuple(services.store.sinks_behind(self.shop.name))

    def own(self, path: str) -> str:
        return f"/databus/flows/{self.shop.name}/sinks/{self.sink}/{path}"

    def entries(self) -> list[str]:
        return [self.own(f"history/{name}") for name in sorted(self.zookeeper.get_children(self.own("history")))]

    def action(self, path: str) -> str:
        return str(json.loads(self.zookeeper.get(path)[0])["action"])

    @contextmanager
    def without(self, path: str) -> Iterator[None]:
        before = self.zookeeper.get(path)[0]
        self.zookeeper.delete(path)
        try:
            yield
        finally:
            self.zookeeper.create(path, before)


@pytest.fixture
def two(world: World) -> Iterator[TwoSinks]:
    with ExitStack() as stack:
        proxy = stack.enter_context(TcpProxy(world.sandbox.address("kafka"), kafka=True))
        name = f"ledger_behind_{next(_NUMBERS)}_{os.getpid()}"
        shop = Shop(world, name, partitions=3, slots=2)
        through = world.override("kafka_east", extra={"bootstrap.servers": f"127.0.0.1:{proxy.port}"})
        cut_off = Kafka(
            name="second",
            conn_id=through,
            topic=f"{name}.second",
            partitions=3,
            slots=2,
            timeout=timedelta(seconds=4.0),
        )
        shop.flow = shop.flow.model_copy(
            update={
                "sinks": (*shop.flow.sinks, cut_off),
                "batching": Batching(max_rows=40, max_wait=timedelta(seconds=0.2)),
                "sink_outage": timedelta(seconds=0.5),
            }
        )
        zookeeper = start_client(world.connections.get("zookeeper_default"))
        stack.callback(zookeeper.close)
        stack.callback(zookeeper.stop)
        yield TwoSinks(world, shop, "second", proxy, zookeeper)


def killed_at_own_commit(sink: str, after: int) -> Any:
    """A commit that is cut short at the sink's own batch number `after` + 1, before anything is written."""
    real, seen = ZooKeeperCheckpoints.commit, []

    def commit(self: ZooKeeperCheckpoints, *arguments: Any) -> None:
        if self._sink == sink:
            seen.append(1)
            if len(seen) > after:
                raise CheckpointError("killed here")
        real(self, *arguments)

    return commit


def test_a_ledger_adds_up_while_a_sink_is_behind_and_after(two: TwoSinks, monkeypatch: pytest.MonkeyPatch) -> None:
    two.move(20)
    assert two.behind() == ()
    assert len(two.told()) == 1

    two.proxy.go_down()
    two.move(30)
    assert two.behind() == (two.sink,)
    told = two.told()
    assert any("is behind" in what for what in told)
    assert any("does not answer" in what for what in told)

    two.proxy.heal()
    told = two.told()  # reachable, and holding what its own checkpoint says: no "marker behind", no rows missing
    assert any("is behind" in what for what in told)
    assert not any("does not answer" in what for what in told)

    with monkeypatch.context() as patch:
        patch.setattr(ZooKeeperCheckpoints, "commit", killed_at_own_commit(two.sink, 2))
        with pytest.raises(CheckpointError, match="killed here"):
            two.move(20)
    assert two.behind() == (two.sink,)
    two.told()  # its third batch is at the sink and not committed: in flight

    two.move(20)
    assert two.behind() == ()
    two.told()
    two.move(20)  # of both again; the sink's records of before lie between those
    assert not any("is behind" in what for what in two.told())
    two.shop.assert_all_arrived_once()


@pytest.mark.parametrize("part", [True, False], ids=["of the flow", "taken out of it"])
def test_what_a_sink_gives_up_is_named_and_the_flow_is_moved_again(
    two: TwoSinks, monkeypatch: pytest.MonkeyPatch, part: bool
) -> None:
    two.move(20)
    two.proxy.go_down()
    two.move(30)
    two.proxy.heal()
    with monkeypatch.context() as patch:
        patch.setattr(ZooKeeperCheckpoints, "commit", killed_at_own_commit(two.sink, 2))
        with pytest.raises(CheckpointError, match="killed here"):
            two.move(20)
    assert two.behind() == (two.sink,)
    both = two.shop.flow
    if not part:
        two.shop.flow = both.model_copy(update={"sinks": both.sinks[:1]})
    flow, ada = two.shop.flow, Attribution("ada", "nothing brings them", consents=True)
    with open_services(flow, two.world.connections, two.world.settings) as services:
        with pytest.raises(CheckpointConflictError, match=f"checkpoint skip {flow.name} --sink {two.sink}"):
            mediation.execute(flow, services, "rewind", Target(batches=1), ada)
        stood = services.store.of_sink(two.sink).load(flow.name)
        giving_up.execute(flow, services, two.sink, None, ada)
        (gap,) = services.store.gaps(flow.name)
        assert stood is not None
        assert (gap.start, gap.cause, gap.who) == (stood.offset, f"sink {two.sink}: skip", "ada")
    assert two.behind() == ()
    assert two.problems() == []
    two.move(20)
    with open_services(flow, two.world.connections, two.world.settings) as services:
        mediation.execute(flow, services, "rewind", Target(batches=1), ada)
    two.move(20)
    assert (two.behind(), two.problems()) == ((), [])


def test_harm_to_what_a_sink_did_alone_is_named(two: TwoSinks) -> None:
    two.move(20)
    two.proxy.go_down()
    with two.shop.connection.cursor() as cursor:
        cursor.execute("ALTER TABLE shop.customers MODIFY email VARCHAR(200) NULL")
        cursor.execute("UPDATE shop.customers SET email = NULL LIMIT 1")  # a check holds it, of the sink behind too
    two.move(30)
    two.proxy.heal()
    two.move(5)
    assert two.behind() == ()
    two.told()
    assert ("quarantine", "0 rows counted against those kept") not in two.verify().looked_at
    entries = two.entries()
    assert (two.action(entries[0]), two.action(entries[-1])) == ("detach", "join")
    commits = [path for path in entries if two.action(path) == "commit"]
    assert len(commits) > 2

    with two.without(commits[1]):
        problems = two.problems()
    assert any("its own entry" in p and "entries between are missing" in p for p in problems), problems

    def further(value: dict[str, Any]) -> None:
        value["offset"]["pos"] += 1

    with edited(two.zookeeper, commits[1], further):
        problems = two.problems()
    assert any("goes on from" in p and p.startswith("sink second: its own entry") for p in problems), problems

    def more(value: dict[str, Any]) -> None:
        table = next(name for name, counts in value["counts"].items() if counts["read"])
        value["counts"][table]["read"] += 1
        value["counts"][table]["filtered"] += 1

    with edited(two.zookeeper, commits[1], more):
        problems = two.problems()
    assert any(p.startswith("sink second: table ") and "alone it counts" in p for p in problems), problems
    assert any(p.startswith("reports: batch ") and "of sink second" in p for p in problems), problems

    with two.without(entries[-1]):
        problems = two.problems()
    assert any("the sink has no checkpoint of its own" in p for p in problems), problems
    two.told()
