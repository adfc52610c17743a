"""The short set of faults on a mirror; `make faults-mirror` is the long one, on two clusters of three brokers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.mirror.by_hand import Operator
from tests.faults.mirror.harness import SERVER_FAULTS, MirrorHarness, name_of
from tests.faults.mirror.world import MirrorWorld, Side
from tests.faults.schedule import schedule
from tests.integration import kafka_world as given
from tests.integration.kafka_world import KafkaWorld, records

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
world = given.world

ROUNDS = int(os.environ.get("DATABUS_FAULT_ROUNDS", "0"))
SEED = int(os.environ.get("DATABUS_FAULT_SEED", "6"))
KINDS = ("kill both", "zombie both", "late initialiser", "kill at executor point", "target link down", "source cut")


def test_a_transaction_whose_owner_is_gone_is_aborted_by_hand(world: KafkaWorld) -> None:
    topic, said = world.east.create(world.east.name("g"), 2), list[str]()
    operator = Operator(world.sandbox, "kafka", {topic: 2}, said.append, hung_s=1.0)
    with world.east.open_transaction(topic, [{"value": "open", "partition": 1}]):
        world.east.until(lambda: operator.look() or operator.aborted > 0, f"aborted by hand: {said}")
        assert any("Ongoing" in text for text in said), said
        world.east.write(topic, [{"value": "after", "partition": 1}])
        assert [record[2] for record in records(world.east, topic)] == [b"after"]
    operator.close()


def test_the_target_holds_what_was_committed_at_the_source(world: KafkaWorld, tmp_path: Path) -> None:
    source, target = Side(world.sandbox, "kafka", 1), Side(world.sandbox, "kafka-b", 1)
    faults = schedule(ROUNDS or len(KINDS), SEED, kinds=KINDS, of_servers=SERVER_FAULTS)
    with MirrorWorld(world.sandbox, tmp_path / "faults", source, target) as opened:
        harness = MirrorHarness(opened, name_of(SEED), SEED)
        try:
            report = harness.play(faults)
        finally:
            harness.close()
    story = "\n".join(f"{at:9.3f} {text}" for at, text in report.timeline)
    assert report.findings == [], f"seed {SEED}\n{story}\n{report.table()}\n{opened.log.read_text()[-5000:]}"
    assert sum(report.rounds.values()) == len(faults)
    # More may have come than is known to be committed: of some transactions the writer lost the answer.
    assert harness.oracle.seen >= report.facts["changes"] > 0
