"""The watermark that a commit leaves: the newest commit time that can be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import SourcePlan
from databus.runtime.commit import commit

NOW = datetime(2026, 11, 25, 1, tzinfo=UTC)
BEFORE = Checkpoint(SequenceOffset(5), 1, 1, "r0", "", {}, None, NOW, {})


def watermark_after(former: datetime | None, newest: datetime | None) -> datetime | None:
    planned = OffsetRange(SequenceOffset(5), SequenceOffset(9))
    store: Any = SimpleNamespace(commit=lambda *_: None)
    session: Any = SimpleNamespace(
        clock=SimpleNamespace(now=lambda: NOW), identity=SimpleNamespace(run_id="r1"), sinks={}, store=store,
        flow=SimpleNamespace(batching=None),
    )  # fmt: skip
    batch: Any = SimpleNamespace(
        plan=SimpleNamespace(range=planned, batch=2, hash="h", closed_until=None),
        source=SourcePlan(planned, (), 4, 40, newest, newest),
        previous=replace(BEFORE, watermark=former),
    )
    pace: Any = SimpleNamespace(to_json=lambda _: None)
    lease: Any = SimpleNamespace(epoch=1)
    return commit(session, lease, batch, {}, (), pace).watermark


@pytest.mark.parametrize(
    ("former", "newest", "after"),
    [(None, None, None), (NOW, None, NOW), (None, NOW, NOW), (NOW, NOW - timedelta(hours=1), NOW)],
)
def test_it_is_the_running_maximum(former: datetime | None, newest: datetime | None, after: datetime | None) -> None:
    assert watermark_after(former, newest) == after


def test_one_that_an_older_version_wrote_from_a_wrong_clock_does_not_stay() -> None:
    assert watermark_after(datetime(9999, 12, 31, tzinfo=UTC), NOW) == NOW
    assert watermark_after(None, datetime(2106, 1, 1, tzinfo=UTC)) is None
