"""Where a look at a flow's log begins."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.core.positions.offsets import BinlogOffset, Offset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.ops.runs import preview

STANDING = BinlogOffset("bin.000001", 900, server="s", timeline=1, generation=1)
EARLIEST = BinlogOffset("bin.000001", 4, server="s")
FLOW = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.*",)), sinks=(Noop(),))


@pytest.mark.parametrize(
    ("start", "begins"), [(None, STANDING), ("earliest", replace(EARLIEST, timeline=1, generation=1))]
)
def test_a_peek_reads_from_a_place_of_the_log_as_the_flow_counts_it(
    monkeypatch: pytest.MonkeyPatch, start: str | None, begins: BinlogOffset
) -> None:
    """Event ids say which log they are of, by the place that is read from."""
    planned: list[Offset] = []
    source = SimpleNamespace(
        earliest_offset=lambda: EARLIEST,
        log_replaced=lambda _: None,
        forget_former_log=lambda _: None,
        plan=lambda after, _: planned.append(after),
    )
    monkeypatch.setattr(preview, "_opened", lambda *_: nullcontext(source))
    stands = Checkpoint(STANDING, 4, Epoch(1), "run", "", {}, None, datetime(2024, 1, 31, tzinfo=UTC))
    services: Any = SimpleNamespace(store=SimpleNamespace(load=lambda _: stands))
    assert list(preview.peek(FLOW, services, start, 10)) == []
    assert planned == [begins]
