"""The short set of the fault harness: every kind of kill and zombie once, and some faults of servers.

In the live lane, where the window's Spark task goes on over many batches, the kills and zombies once more.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from databus.core.flow import Mode
from tests.faults.harness import Harness
from tests.faults.schedule import TASK_FAULTS, Fault, schedule
from tests.faults.snapshots import OnlyHarness, SnapshotHarness
from tests.faults.world import World as FaultWorld
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ROUNDS = int(os.environ.get("DATABUS_FAULT_ROUNDS", "0"))
SEED = int(os.environ.get("DATABUS_FAULT_SEED", "5"))
KINDS = (*TASK_FAULTS, "kafka killed", "zookeeper paused", "kafka unheard")
SNAPSHOT_KINDS = ("kill driver", "kill at driver point", "kill at executor point", "zombie both")
OTHERS = tuple(kind for kind in KINDS if kind not in SNAPSHOT_KINDS)
LIVE_KINDS = tuple(kind for kind in TASK_FAULTS if kind != "kill under a wrong clock")

WHILE_IDLE = Fault(
    "kill executor", point="", hit=1, after_s=4.0, lasts_s=0.3, slot=0,
    timed_out=False, commits=1, max_rows=60, clock_offset_s=3600.0,
)  # fmt: skip
"""So late that the run has moved all that the writer wrote before it waited: nobody asks for the executor just then."""


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [("standard", OTHERS), ("standard", KINDS), ("live", LIVE_KINDS)],
    ids=["others", "standard", "live"],
)
def test_nothing_is_lost_repeated_or_disordered(
    world: World, tmp_path: Path, mode: Mode, kinds: tuple[str, ...]
) -> None:
    faults = [*schedule(ROUNDS or len(kinds), SEED, kinds=kinds), WHILE_IDLE]
    with FaultWorld(world.sandbox, tmp_path / "faults") as opened:
        harness = Harness(opened, f"faults_{mode}_{os.getpid()}", SEED, mode=mode)
        try:
            report = harness.play(faults)
        finally:
            harness.close()
    story = "\n".join(f"{at:9.3f} {text}" for at, text in report.timeline)
    assert report.findings == [], f"seed {SEED}\n{story}\n{report.table()}\n{opened.log.read_text()[-5000:]}"
    assert sum(report.rounds.values()) == len(faults)
    assert report.facts["changes"] == harness.oracle.seen


@pytest.mark.parametrize(
    ("harnessed", "mode"), [(SnapshotHarness, "standard"), (SnapshotHarness, "live"), (OnlyHarness, "standard")]
)
def test_rows_of_snapshots_come_once_through_kills(
    world: World, tmp_path: Path, harnessed: type[SnapshotHarness], mode: Mode
) -> None:
    faults = schedule(ROUNDS or len(SNAPSHOT_KINDS), SEED, kinds=SNAPSHOT_KINDS)
    with FaultWorld(world.sandbox, tmp_path / "faults") as opened:
        harness = harnessed(opened, f"snapshots_{mode}_{os.getpid()}", SEED, lambda _line: None, mode)
        try:
            report = harness.play(faults)
        finally:
            harness.close()
    story = "\n".join(f"{at:9.3f} {text}" for at, text in report.timeline)
    assert report.findings == [], f"seed {SEED}\n{story}\n{report.table()}\n{opened.log.read_text()[-5000:]}"
    assert sum(report.rounds.values()) == len(faults)
    assert report.facts["rows_read"]
