"""What is asked of the log before a backfill after a failover: only where something is left to move."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.errors import OffsetPurgedError
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange
from databus.ops.backfill import places as backfill_places
from databus.ops.backfill.places import require_places

STANDING = BinlogOffset("mysql-bin.000009", 900, "u1:1-900", "mysql", "server-b", 1)


def former(pos: int) -> BinlogOffset:
    return BinlogOffset("mysql-bin.000002", pos, f"u1:1-{pos}", "mysql", "server-a", 0)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Numbers of the pieces that are done, of a flow whose new server keeps nothing of the former one's log."""
    found: set[int] = set()

    def located(place: Offset) -> Offset:
        if isinstance(place, BinlogOffset) and place.server == STANDING.server:
            return place
        raise OffsetPurgedError(f"{place}: the log that would show it was deleted")

    monkeypatch.setattr(backfill_places, "locating", lambda _source, _standing: located)
    monkeypatch.setattr(
        backfill_places, "piece_state", lambda _f, _s, _b, number: SimpleNamespace(done=number in found, stands=None)
    )
    return found


def require(*pieces: OffsetRange) -> None:
    flow: Any = SimpleNamespace(name="orders", sinks=())
    nobody: Any = None
    checkpoint: Any = SimpleNamespace(offset=STANDING)
    backfill: Any = SimpleNamespace(pieces=pieces)
    require_places(flow, nobody, nobody, checkpoint, backfill)


def test_what_is_done_is_not_looked_for_in_another_servers_log(done: set[int]) -> None:
    before, after = OffsetRange(former(100), former(200)), OffsetRange(STANDING, STANDING)
    with pytest.raises(OffsetPurgedError):
        require(before, after)
    done.add(0)
    require(before, after)
    require(before)
