"""Look ahead without side effects: the next range of a flow, and the rows at a position of its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import Offset
from databus.core.positions.replaced_logs import resumed
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot_progress import progress_of
from databus.core.tables.schemas import TableSchema
from databus.ops.checkpoint.targets import looked
from databus.ops.decode.row_lines import plain_rows
from databus.ops.health.distance import rests
from databus.runtime.beside.look import look
from databus.runtime.context import Services
from databus.runtime.direct.reasons import table_lanes
from databus.runtime.direct.required import raw_record_errors
from databus.runtime.routing import outputs_of


@dataclass(frozen=True)
class Preview:
    """The batch that a run would plan now.

    Attributes:
        flow: flow name.
        pending: an unfinished plan that would be taken up first.
        next: what the source proposes, None when nothing is new.
        outputs: per sink the routes its rows would take.
        profiles: per sink what it promises, of sinks that have a choice.
        behind: sink that fell behind → where it stands; it would catch up first.
        lanes: table → lane that its rows take, in words; "*" for all tables.
        snapshot: what rows of its tables the flow reads beside the log, in words; "" where it reads none.
    """

    flow: str
    pending: dict[str, Any] | None
    next: SourcePlan | None
    outputs: dict[str, tuple[str, ...]]
    profiles: dict[str, str] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    snapshot: str = ""
    lanes: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        snapshot = {"snapshot": self.snapshot} if self.snapshot else {}
        if self.next is None:
            note = "nothing new in the log" if self.snapshot else "nothing new at the source"
            return {"flow": self.flow, "next": None, **snapshot, "note": note}
        return {
            "flow": self.flow,
            "range": str(self.next.range),
            "unfinished": self.pending is not None,
            "rows": self.next.rows,
            "bytes": self.next.bytes,
            "tables": sorted({t.full_name for t in self.next.tables}),
            "lane": self.lanes,
            "outputs": self.outputs,
            "profiles": self.profiles,
            "sinks_behind": self.behind,
            "more_follows": self.next.more,
            **snapshot,
        }


def preview(flow: Flow, services: Services) -> Preview:
    """Plan the next batch without writing anything; staged log data is dropped again."""
    checkpoint = services.store.load(flow.name)
    pending = services.store.pending_plan(flow.name)
    with _opened(flow, services) as source:
        if pending:
            proposed = resumed(source, pending.range)
        elif checkpoint is not None and rests(flow, services.store):
            proposed = None
        else:
            start = checkpoint.offset if checkpoint else source.start_offset()
            proposed = source.plan(start, flow.batching)
        if proposed is not None and pending is None:
            source.discard(proposed)
    tables = proposed.tables if proposed else ()
    outputs = {s.sink_name: tuple(dict.fromkeys(r for _, r in outputs_of(flow, s, tables))) for s in flow.sinks}
    profiles = {s.sink_name: str(s.profile) for s in flow.sinks if hasattr(s, "profile")}
    stores = {name: services.store.of_sink(name) for name in services.store.sinks_behind(flow.name)}
    behind = {name: str(own.offset) for name, store in stores.items() if (own := store.load(flow.name)) is not None}
    told = snapshot_text(flow, services, begun=checkpoint is not None)
    return Preview(
        flow.name,
        pending.to_json() if pending else None,
        proposed,
        outputs,
        profiles,
        behind,
        told,
        _lanes(flow, tables),
    )


def _lanes(flow: Flow, tables: Sequence[TableSchema]) -> dict[str, str]:
    for error in raw_record_errors(flow):
        return {"*": f"none: {error.message}"}
    try:
        return {lane.table or "*": str(lane) for lane in table_lanes(flow, tables)}
    except DatabusError as error:
        return {"*": f"none: {error.message}"}


def snapshot_text(flow: Flow, services: Services, *, begun: bool) -> str:
    """Say in words what rows of its tables a flow reads beside the log; "" where it reads none."""
    if not begun and flow.source.begins_with_snapshot():
        return "its first run begins with the rows that its tables hold"
    snapshot = services.store.snapshot(flow.name)
    if snapshot is None or not snapshot.unfinished:
        return "" if flow.source.reads_changes() else 'snapshot="only" reads no changes'
    said = progress_of(snapshot, services.clock.now()).text
    return said if snapshot.paused else f"{said}; batches take chunks of it along"


def peek(
    flow: Flow,
    services: Services,
    start: str | None,
    rows: int,
    note: Callable[[SourcePlan], object] = lambda _: None,
) -> Iterator[dict[str, Any]]:
    """Yield up to `rows` decoded row changes as plain JSON, from a place in any form or the checkpoint.

    Args:
        flow: the flow.
        services: where to connect.
        start: a place in any form, None for the checkpoint.
        rows: how many at most.
        note: told each range that is read, before its rows.

    Raises:
        PlaceError: the text is no place.
        OffsetInvalidError: the position is not one of this server's log.
        SourceDivergedError: it is a place of a log that was replaced since.
    """
    with _opened(flow, services) as source:
        checkpoint = services.store.load(flow.name)
        at: Offset
        if start is not None:
            at = looked(flow, services, source, checkpoint, start)
        else:
            at = checkpoint.offset if checkpoint else source.start_offset()
        left = rows
        while left > 0:
            proposed = source.plan(at, flow.batching)
            if proposed is None:
                return
            note(proposed)
            for row in _rows(source, proposed):
                yield row
                left -= 1
                if left == 0:
                    break
            source.discard(proposed)
            at = proposed.range.end


def _rows(source: Source, proposed: SourcePlan) -> Iterator[dict[str, Any]]:
    for split in source.splits(proposed, 1):
        for batch in split.read():
            yield from plain_rows(batch)


def _opened(flow: Flow, services: Services) -> AbstractContextManager[Source]:
    return look(flow, services.connections, FlowContext(flow.name, services.settings, services.server_ids))
