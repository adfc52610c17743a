"""Refusal to compare while a snapshot has rows to bring."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.errors.checkpoint import SnapshotUnfinishedError, ValidationBehindError
from databus.core.positions.offsets import BinlogOffset
from databus.ops.validation.checkpoint_wait import CheckpointWait


@pytest.mark.parametrize(("paused", "state", "command"), [(False, "unfinished", "show"), (True, "paused", "resume")])
def test_a_snapshot_that_is_held_is_told_with_what_lets_it_go_on(*, paused: bool, state: str, command: str) -> None:
    snapshot = SimpleNamespace(number=2, unfinished=True, paused=paused)
    store: Any = SimpleNamespace(snapshot=lambda _: snapshot)
    source: Any = None
    with pytest.raises(SnapshotUnfinishedError, match=f"snapshot 2 is {state}") as refused:
        CheckpointWait("f", store, source, "kafka", 1.0).standing()
    assert f"`databus snapshot {command} f`" in refused.value.hint


def test_a_flow_that_reads_no_changes_is_not_waited_for() -> None:
    stands = SimpleNamespace(offset=BinlogOffset("bin.000001", 4, server="s"))
    store: Any = SimpleNamespace(
        snapshot=lambda _: None, sinks_behind=lambda _: {}, load=lambda _: stands, paused=lambda _: None
    )
    source: Any = SimpleNamespace(lag=lambda _: SimpleNamespace(bytes=9))
    wait = CheckpointWait("f", store, source, "kafka", 2.0, rests=True)
    with pytest.raises(ValidationBehindError, match='snapshot="only" reads no changes') as refused:
        wait.reached(BinlogOffset("bin.000001", 13, server="s"))
    assert "databus snapshot begin f" in refused.value.hint
