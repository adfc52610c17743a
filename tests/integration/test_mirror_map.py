"""The kept offset map against the truth: where each record lies, found by reading both topics record by record."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from databus import Batching, Flow
from databus.core.errors import ConfigError, OffsetInvalidError
from databus.core.positions.offset_map import Image
from databus.ops.mirror.offset_map import KeptMap
from databus.ops.services import open_services
from databus.records.ledger.pages import LedgerPages
from databus.records.store import RecordStore
from tests.integration import kafka_world as given
from tests.integration.commands import Commands
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_target import consume
from tests.integration.kafka_world import KafkaWorld, caught_up
from tests.integration.mirrors import mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
world = given.world


@contextmanager
def eager_cleaner(logs: Logs) -> Iterator[None]:
    """Let the brokers compact at once instead of each 15 s."""

    def set_to(value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=operation)
        brokers = [
            ConfigResource(ConfigResource.Type.BROKER, str(number), incremental_configs=[entry])
            for number in logs.admin.list_topics(timeout=30).brokers
        ]
        for future in logs.admin.incremental_alter_configs(brokers).values():
            future.result()

    set_to("100")
    try:
        yield
    finally:
        set_to(None)


def placed(logs: Logs, topic: str) -> dict[int, dict[bytes, int]]:
    """Return partition → value → offset of what a consumer sees; values are unique."""
    found: dict[int, dict[bytes, int]] = {0: {}, 1: {}}
    for message in consume(logs.servers, topic):
        assert found[message.partition()].setdefault(message.value(), message.offset()) == message.offset()
    return found


def truth(here: dict[bytes, int], there: dict[bytes, int], position: int) -> int | None:
    """Return where the first record at or behind a position, of those that are on both sides, lies on the other."""
    behind = [(offset, there[value]) for value, offset in here.items() if offset >= position and value in there]
    return min(behind)[1] if behind else None


def require_exact(world: KafkaWorld, mirror: Flow, topic: str, east: dict[int, dict[bytes, int]]) -> int:
    """Compare the map with the truth at every offset of both sides; return how many had a record behind them.

    Args:
        world: the clusters.
        mirror: the flow.
        topic: mirrored under its name.
        east: what the source held when it was mirrored; some of it may be compacted since.
    """
    west = placed(world.west, topic)
    with open_services(mirror, world.connections, world.settings) as services:
        kept = KeptMap(mirror.name, services)
    asked = 0
    try:
        for partition in (0, 1):
            ours, theirs, place = east[partition], west[partition], (topic, partition)
            for position in range(max(ours.values()) + 4):
                found, expected = kept.to_target(place, position), truth(ours, theirs, position)
                if expected is not None:
                    assert found == Image(place, expected, exact=True), position
                else:
                    assert found is not None
                    assert found.end
                asked += expected is not None
            for position in range(max(theirs.values()) + 4):
                found, expected = kept.to_source(place, position), truth(theirs, ours, position)
                if expected is not None:
                    assert found == Image(place, expected, exact=True), position
                else:
                    assert found is not None
                    assert found.end
    finally:
        kept.close()
    return asked


def test_the_map_is_exact_over_aborted_transactions_compacted_gaps_and_control_records(
    world: KafkaWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, west = world.east, world.west
    compact = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic = east.create(east.name("o"), 2, compact)
    west.create(topic, 2)
    written = 0
    for n in range(8):
        rows = [{"key": f"{i % 7}", "value": f"{n}.{i}", "partition": i % 2} for i in range(20)]
        east.transaction(topic, rows, commit=n % 3 != 1)
        written += len(rows) if n % 3 != 1 else 0  # not as a reader counts them: some may be compacted away by then
    with eager_cleaner(east):

        def compacted() -> bool:
            time.sleep(0.1)  # a segment is closed by a record that comes later than segment.ms
            for partition in (0, 1):
                east.write(topic, [{"key": "last", "value": f"{time.time_ns()}", "partition": partition}])
            return sum(len(found) for found in placed(east, topic).values()) < written / 2

        east.until(compacted, "the source is compacted")
    held = placed(east, topic)
    mirror = mirror_of(
        world, topic, batching=Batching(max_rows=13, max_wait=timedelta(seconds=0.3)), copy_settings=False
    )
    caught_up(world, mirror)
    for n in range(3):
        rows = [{"key": f"new {n} {i}", "value": f"new {n}.{i}", "partition": i % 2} for i in range(9)]
        east.transaction(topic, rows, commit=n != 1)
    for partition, found in placed(east, topic).items():
        held[partition] |= found
    caught_up(world, mirror)
    assert require_exact(world, mirror, topic, held) > 40
    with RecordStore(world.settings.records_url) as records:
        assert LedgerPages(records).paged(mirror.name) > 3  # most of it was looked up in SQL

    told = f"from databus.registry import flow_from_json\nflow = flow_from_json({mirror.to_json()!r})\n"
    (tmp_path / "mirrors.py").write_text(f"# databus\n{told}")
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    command = Commands(world, tmp_path, monkeypatch)
    ours, theirs = held[0], placed(west, topic)[0]
    rows = command.json("mirror", "offsets", mirror.name, topic, "0")
    assert all(row["exact"] and row["topic"] == topic and row["partition"] == 0 for row in rows)
    told_map = {r["from"] + n: r["other_from"] + n for r in rows for n in range(r["to"] - r["from"] + 1)}
    assert told_map == {ours[value]: offset for value, offset in theirs.items()}
    turned = command.json("mirror", "offsets", mirror.name, topic, "0", "--back")
    assert {(r["other_from"], r["from"]) for r in turned} == {(r["from"], r["other_from"]) for r in rows}
    last = max(told_map)
    (cut,) = command.json("mirror", "offsets", mirror.name, topic, "0", "--from", str(last), "--to", str(last + 1))
    assert (cut["from"], cut["to"], cut["other_from"]) == (last, last, told_map[last])
    with pytest.raises(OffsetInvalidError, match="nothing of nowhere"):
        command("mirror", "offsets", mirror.name, "nowhere", "0")
    beyond = command("mirror", "offsets", mirror.name, topic, "0", "--from", "9000000")
    assert (beyond.exit_code, beyond.stderr) == (0, "nothing of these offsets was mirrored\n")
    with pytest.raises(ConfigError, match="kafka_east has no consumer group 'nobody'"):
        command("mirror", "sync-groups", mirror.name, "--group", "nobody")
    there = command.json("mirror", "translate", mirror.name, topic, "0", str(last))
    assert there == {"topic": topic, "partition": 0, "offset": told_map[last]}
    back = command.json("mirror", "translate", mirror.name, topic, "0", str(told_map[last]), "--back")
    assert back == {"topic": topic, "partition": 0, "offset": last}


def test_the_map_is_exact_while_others_write_between_the_mirrors_records(world: KafkaWorld) -> None:
    east, west = world.east, world.west
    topic = east.create(east.name("o"), 2)
    west.create(topic, 2)
    batching = Batching(max_rows=400, max_wait=timedelta(seconds=0.3))
    there = mirror_of(world, topic, two_way="of_no_matter", batching=batching, producer={"batch.num.messages": 5})
    caught_up(world, there)
    east.write(topic, [{"value": f"east {n}", "partition": n % 2} for n in range(800)])
    over = threading.Event()

    def write_on() -> None:
        number = 0
        while not over.is_set():
            for _ in range(20):
                west.write_later(topic, value=f"west {number}", partition=number % 2)
                number += 1
            west.flush()
            over.wait(0.01)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        caught_up(world, there)
    finally:
        over.set()
        writer.join()
    order = [value[:4] for value in placed(west, topic)[0]]
    switches = sum(one != other for one, other in pairwise(order))
    with open_services(there, world.connections, world.settings) as services:
        batches = [e for e in services.store.history(there.name, 100) if e.receipts]
        assert switches > 2 * len(batches)  # they lie within batches, and not between them only
        kept = KeptMap(there.name, services)
    try:
        ours, theirs = placed(east, topic), placed(west, topic)
        for partition in (0, 1):
            mine = {value: offset for value, offset in ours[partition].items() if value.startswith(b"east")}
            assert mine
            for value, offset in mine.items():
                expected = Image((topic, partition), theirs[partition][value], exact=True)
                assert kept.to_target((topic, partition), offset) == expected
                assert kept.to_source((topic, partition), expected.offset) == Image((topic, partition), offset, True)
    finally:
        kept.close()
