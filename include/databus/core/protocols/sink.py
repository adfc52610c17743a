"""Sink: the promises that every kind keeps, its writers and its fenced plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from databus.core.batches.receipts import WriteReceipt
from databus.core.findings import Finding
from databus.core.state.amendments import SinkEffect
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa


class SlotWriter(Protocol):
    """A picklable writer that runs in a Spark task, one per slot.

    Guarantee: exactly once per (installation, flow, sink, batch, slot) for transactional sinks, else idempotent.
    """

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Write all rows of the slot, in the order given, or nothing visible; return the receipt."""
        ...


class FencedPlan(Protocol):
    """A plan in flight whose writers a sink has fenced in every slot.

    Guarantee: what is found holds until it is closed or put back. A writer that begins anew in between fails that call
    with SinkFencedError; the plan is then fenced again.
    """

    def held(self) -> Sequence[int]:
        """Return the slots that hold a part of the plan or all of it."""
        ...

    def abandon(self) -> Mapping[int, str]:
        """Close the plan in every slot, none of which holds anything of it; idempotent.

        Returns:
            Slot → "abandoned".

        Raises:
            SinkFencedError: a writer began anew; some slots may be closed, and hold nothing.
            MarkerDivergedError: a slot's marker has nothing to do with the plan; no slot was closed.
        """
        ...

    def put_back(self) -> None:
        """Open the plan again in the slots where `abandon` closed it: it can be finished; idempotent.

        What an amendment has closed stays closed.

        Raises:
            SinkFencedError: a writer began anew; some slots may be closed still.
        """
        ...

    def remember(self) -> None:
        """Write what a slot held before the plan again, where the slot holds nothing at all; idempotent.

        Raises:
            SinkFencedError: a writer began anew; some slots may hold it, and nothing else.
        """
        ...

    def discard(self) -> None:
        """Close the clients; safe to call twice."""
        ...


class Sink(Protocol):
    """An open sink."""

    def preflight(self) -> Sequence[Finding]:
        """Probe reachability, rights and settings; changes nothing."""
        ...

    def accepts(self) -> frozenset[str]:
        """Return the operations (`Op` values) it takes; rows of others count as filtered."""
        ...

    def prepare(self, plan: SourcePlan, outputs: Sequence[tuple[TableSchema, str]]) -> SinkPlan:
        """Make missing outputs for (table, route) pairs and pin slots, partitions; idempotent. The path sets `prev`.

        Tables have the columns that the flow's transforms leave, or none where a transform does not declare them.
        """
        ...

    def wrote_any_of(self, plan: Plan) -> bool:
        """Return whether any slot is already marked with this plan; False for sinks whose writes are idempotent."""
        ...

    def abandon(self, plan: Plan) -> Mapping[int, str]:
        """Close a plan that will not be finished, so that no writer of it can write any more; idempotent.

        Returns:
            Slot → "abandoned" or "written", what its marker now says of the plan; empty for sinks without markers.
        """
        ...

    def fence(self, plan: Plan) -> FencedPlan | None:
        """Fence the writers of a plan in every slot, then look at its markers; None for sinks without markers.

        Raises:
            SinkFencedError: a writer began anew in between; nothing was closed, and it may be called again.
            SinkUnavailableError: no answer.
        """
        ...

    def effect_of(self, outputs: Sequence[str], *, back: bool) -> SinkEffect:
        """Say what a move of the flow's checkpoint, back or forward, does to this sink's readers; changes nothing.

        Args:
            outputs: names, in receipts or of ids, of what was written in the range that is passed.
            back: whether the move goes back.
        """
        ...

    def encode(self, rows: Any, plan: Plan) -> Any:
        """Turn the DataFrame of checked rows into this sink's columns plus `slot`; pure, row by row."""
        ...

    def writer(self, plan: Plan) -> SlotWriter:
        """Return the picklable writer of a plan."""
        ...

    def close(self) -> None:
        """Close clients; safe to call twice."""
        ...
