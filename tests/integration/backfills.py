"""What tests of backfills share: a shop whose commit times are chosen, runs of a range, what the live flow has."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databus import Flow, __version__
from databus.checkpoints.connection.session import start_client
from databus.core.errors import SinkUnavailableError
from databus.core.state.backfill import Aim, Mode
from databus.ops.backfill.run import BackfillRequest, BackfillRun, run_backfill
from databus.ops.backfill.status import BackfillState
from databus.ops.services import open_services
from databus.runtime import batch as batch_module
from databus.runtime.context import RunIdentity, Services
from databus.runtime.drain import Drain
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id
from tests.integration.one_process import OneProcess, run_locally
from tests.integration.shop_flow import Shop

_NUMBERS = itertools.count(1)
MINUTE = timedelta(minutes=1)


def fresh_time() -> datetime:
    """Return a full minute that is later than all that was ever returned: the server's log may be shared and kept."""
    since = datetime.now(UTC) - datetime(2026, 1, 1, tzinfo=UTC)
    return datetime(2040, 1, 1, tzinfo=UTC) + timedelta(minutes=10 * int(since.total_seconds()) + 30 * next(_NUMBERS))


class Later:
    """A clock that is past all chosen commit times."""

    def now(self) -> datetime:
        return datetime(2900, 1, 1, tzinfo=UTC)


@dataclass
class BackfillShop:
    """A shop, its live flow, and backfills of it; commit times are the test's own.

    Attributes:
        world: the servers.
        shop: the shop; its flow takes the direct lane.
        base: the first minute of its commit times.
    """

    world: World
    shop: Shop
    base: datetime = field(default_factory=fresh_time)

    @classmethod
    def of(cls, world: World, name: str, **sink: Any) -> BackfillShop:
        shop = Shop(world, f"{name}_{os.getpid()}", **sink)
        shop.flow = shop.flow.model_copy(update={"checks": ()})
        return cls(world, shop)

    @property
    def name(self) -> str:
        return self.shop.name

    def at(self, minutes: float) -> str:
        """Return a time as an operator writes it."""
        return (self.base + minutes * MINUTE).isoformat()

    def commit_at(self, minutes: float, transactions: int = 1) -> None:
        """Commit transactions that say they were committed at a time."""
        stamp = int((self.base + minutes * MINUTE).timestamp() * 1_000_000)
        with self.shop.connection.cursor() as cursor:
            cursor.execute(f"SET SESSION original_commit_timestamp = {stamp}")
        self.shop.writer.run(transactions)

    def commit_stepping_back(self, minutes: int, each: int, seed: int) -> None:
        """Commit transactions over some minutes, by a clock that goes on and now and then steps back by up to 90 s."""
        chosen = random.Random(seed)
        for number in range(minutes * each):
            back = chosen.choice((0.0, 0.0, 0.0, chosen.random() * 1.5))
            self.commit_at(max(0.0, (number + 0.5) / each - back))

    def live(self, **limits: Any) -> None:
        run_locally(self.world, self.shop.flow, **limits)

    @contextmanager
    def services(self) -> Iterator[Services]:
        with past_services(self.world, self.shop.flow) as services:
            yield services

    def backfill(self, start: str, end: str, aim: Aim | None = None, **how: Any) -> BackfillState:
        """Run a backfill as a task of Airflow would."""
        return run_range(self.world, self.shop.flow, start, end, aim, **how)

    def messages(self, suffix: str = "") -> list[Any]:
        return [m for m in consume(self.world.sandbox.address("kafka"), self.name + suffix) if m.value() is not None]

    def ids(self, suffix: str = "") -> Counter[str]:
        """Event ids that a read_committed consumer sees."""
        return Counter(event_id(m) for m in self.messages(suffix))

    def by_minute(self) -> dict[int, set[str]]:
        """Return what the live topic has, by minute of the running maximum of commit time."""
        latest, found = 0, dict[int, set[str]]()
        for message in self.messages():
            latest = max(latest, int(json.loads(message.value())["source"]["ts_ms"]))
            minute = int((latest / 1000 - self.base.timestamp()) // 60)
            found.setdefault(minute, set()).add(event_id(message))
        return found

    def live_nodes(self) -> dict[str, tuple[bytes, int]]:
        """Return what ZooKeeper holds of the live flow, replays and backfills apart."""
        return live_nodes(self.world, self.name)


@contextmanager
def past_services(world: World, flow: Flow) -> Iterator[Services]:
    """Open a flow's services with a clock that is past all chosen commit times."""
    with open_services(flow, world.connections, world.settings) as services:
        yield replace(services, clock=Later())


def run_range(world: World, flow: Flow, start: str, end: str, aim: Aim | None = None, **how: Any) -> BackfillState:
    """Run a backfill of a flow as a task of Airflow would."""
    drain = how.pop("drain", Drain())
    wait_s = how.pop("lease_wait_s", 30.0)
    wanted = BackfillRequest(start, end, aim or Aim(Mode.REPLAY, ".replay"), **how)
    identity = RunIdentity(f"backfill-{next(_NUMBERS)}", "", __version__)
    with past_services(world, flow) as services:
        return run_backfill(flow, services, wanted, BackfillRun(OneProcess, identity, drain, wait_s))


def at_once(count: int, run: Callable[[], object]) -> list[BaseException]:
    """Do something several times at the same time; return what failed."""
    failed: list[BaseException] = []

    def one() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - for the caller to judge
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def live_nodes(world: World, flow: str) -> dict[str, tuple[bytes, int]]:
    """Return what ZooKeeper holds of a flow, byte by byte with its version, replays and backfills apart."""
    client = start_client(world.connections.get("zookeeper_default"))
    try:
        return dict(_nodes(client, f"/databus/flows/{flow}"))
    finally:
        client.stop()
        client.close()


def _nodes(client: Any, path: str) -> Iterable[tuple[str, tuple[bytes, int]]]:
    data, stat = client.get(path)
    yield path, (data, stat.version)
    for name in sorted(client.get_children(path)):
        if name not in {"replays", "backfills", "backfills_finished", "boundaries"}:
            yield from _nodes(client, f"{path}/{name}")


def cut_off_twice(monkeypatch: pytest.MonkeyPatch, drain: Drain) -> None:
    """Let the second batch that is written die before its commit, and the fourth be the last one that is begun."""
    commit, done = batch_module.commit, 0  # type: ignore[attr-defined]

    def cut_before_the_commit(*arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done == 2:
            raise SinkUnavailableError("the task is killed here, the batch is written and not committed")
        if done == 4:
            drain.request()
        return commit(*arguments)

    monkeypatch.setattr(batch_module, "commit", cut_before_the_commit)


def drained_at_the_first_commit(monkeypatch: pytest.MonkeyPatch) -> Drain:
    """Return a drain that is asked for as the first batch is committed."""
    commit, drain = batch_module.commit, Drain()  # type: ignore[attr-defined]

    def drained(*arguments: Any) -> Any:
        drain.request()
        return commit(*arguments)

    monkeypatch.setattr(batch_module, "commit", drained)
    return drain
