"""What refuses the replay of a batch's rows, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence

from databus.core.checkpoint_store import CheckpointStore
from databus.core.errors import CheckpointConflictError
from databus.core.flow import Flow
from databus.core.offset_ranges import unreached
from databus.core.offsets import OffsetRange
from databus.core.receipts import CHECK
from databus.records.held_rows import HeldRow


def require_passed(flow: Flow, store: CheckpointStore, moved: OffsetRange, taken: Sequence[HeldRow]) -> None:
    """Refuse to send rows to a sink that has yet to pass the range that they come from.

    It would get older rows of their keys after them.

    Args:
        flow: the flow.
        store: its checkpoint store.
        moved: range of the batch that held the rows.
        taken: the rows.

    Raises:
        CheckpointConflictError: names the sink and where it stands.
    """
    stages = {row.stage for row in taken}
    for spec in flow.sinks:
        name = spec.sink_name
        if not stages & {CHECK, name} or name not in store.sinks_behind(flow.name):
            continue
        own = store.of_sink(name).load(flow.name)
        if own is not None and unreached(own.offset, moved.end) is not None:
            raise CheckpointConflictError(
                f"flow {flow.name}: sink {name} is behind: it stands at {own.offset}, and has yet to pass "
                f"{moved.start} to {moved.end}, where the rows are",
                hint=f"Run the flow until it has caught up (`databus checkpoint show {flow.name}` tells where it "
                "stands), then replay.",
                code="quarantine_sink_behind",
            )
