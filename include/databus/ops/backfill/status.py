"""Backfill status by its own ledger: what Airflow says of its runs decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.amounts import counted
from databus.core.batches.counts import SinkCounts, TableCounts, by_sink
from databus.core.errors.source import SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import overlap
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.state.backfill import Backfill
from databus.ops.ledger.range import spans_over
from databus.ops.ledger.show import read_ledger
from databus.runtime.context import Services


@dataclass(frozen=True)
class PieceState:
    """Piece state by its ledger.

    Attributes:
        name: name of its checkpoint.
        range: what it is to move.
        stands: where it stands, None before it began.
        rows: counts over all tables; a row that any sink refused is quarantined.
        sinks: rows that each sink took and refused.
        bytes: log bytes moved.
        batches: committed batches.
        in_flight: whether a batch is planned and not committed.
        behind: sinks that do not stand there yet.
        problems: what does not add up in its ledger.
        passed: what of its range was passed over, because it is logged by statement.
    """

    name: str
    range: OffsetRange
    stands: Offset | None
    rows: TableCounts
    sinks: Mapping[str, SinkCounts]
    bytes: int
    batches: int
    in_flight: bool
    behind: tuple[str, ...]
    problems: tuple[str, ...]
    passed: tuple[OffsetRange, ...] = ()

    @property
    def done(self) -> bool:
        """Return whether its ledger covers its range from end to end, nothing is in flight, and all adds up."""
        reached = self.stands is not None and self.stands.compare(self.range.end) is Ordering.EQUAL
        return reached and not (self.in_flight or self.behind or self.problems)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        return {
            "name": self.name,
            "range": self.range.to_json(),
            "stands": str(self.stands) if self.stands else None,
            "done": self.done,
            "rows": self.rows.figures,
            "sinks": {name: counts.to_json() for name, counts in sorted(self.sinks.items())},
            "bytes": self.bytes,
            "batches": self.batches,
            "in_flight": self.in_flight,
            "sinks_behind": list(self.behind),
            "problems": list(self.problems),
            **({"passed": [gap.to_json() for gap in self.passed]} if self.passed else {}),
        }


@dataclass(frozen=True)
class BackfillState:
    """A backfill and the state of its pieces.

    Attributes:
        backfill: what was asked for.
        pieces: state of each, in log order.
    """

    backfill: Backfill
    pieces: tuple[PieceState, ...]

    @property
    def done(self) -> bool:
        """Return whether each piece is; true when nothing was missing."""
        return all(piece.done for piece in self.pieces)

    @property
    def rows(self) -> TableCounts:
        """Counts over all pieces."""
        total = TableCounts()
        for piece in self.pieces:
            total = total.plus(piece.rows)
        return total

    @property
    def sinks(self) -> dict[str, SinkCounts]:
        """Rows that each sink took and refused, over all pieces."""
        total: dict[str, SinkCounts] = {}
        for piece in self.pieces:
            for name, counts in piece.sinks.items():
                total[name] = total.get(name, SinkCounts()).plus(counts)
        return total

    def line(self) -> str:
        """Say in a line what was moved."""
        if not self.pieces:
            return "nothing was missing"
        rows = self.rows
        size, batches = sum(p.bytes for p in self.pieces), sum(p.batches for p in self.pieces)
        return (
            f"{counted(batches, 'batch', 'batches')}, {counted(rows.read, 'row')} ({rows.dispatched} dispatched, "
            f"{rows.filtered} filtered, "
            f"{rows.quarantined} quarantined; {by_sink(self.sinks) or 'no sink took any'}), {counted(size, 'byte')}"
        )

    def left(self) -> str:
        """Say in a line what is not done yet."""
        return "; ".join(
            f"{piece.range} stands at {piece.stands or 'its start'}" + "".join(f", {p}" for p in piece.problems)
            for piece in self.pieces
            if not piece.done
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        backfill = self.backfill
        return {
            "flow": backfill.flow,
            "id": backfill.id,
            "mode": str(backfill.aim.mode),
            "suffix": backfill.aim.suffix,
            "name": backfill.aim.name,
            "from": backfill.wanted[0],
            "to": backfill.wanted[1],
            "range": backfill.range.to_json(),
            "asked_by": backfill.who,
            "asked_at": backfill.at.isoformat(),
            "done": self.done,
            "rows": self.rows.figures,
            "sinks": {name: counts.to_json() for name, counts in sorted(self.sinks.items())},
            "pieces": [piece.to_json() for piece in self.pieces],
        }


def state_of(flow: Flow, services: Services, backfill: Backfill) -> BackfillState:
    """Read the ledger of each piece."""
    found = (piece_state(flow, services, backfill, number) for number in range(len(backfill.pieces)))
    return BackfillState(backfill, tuple(found))


def status(flow: Flow, services: Services) -> Sequence[BackfillState]:
    """Return all backfills of a flow that were asked for, by time."""
    if services.backfills is None:
        return ()
    return [state_of(flow, services, backfill) for backfill in services.backfills.backfills(flow.name)]


def piece_state(flow: Flow, services: Services, backfill: Backfill, number: int) -> PieceState:
    """Read the ledger of one piece."""
    name, wanted = backfill.piece_name(number), backfill.pieces[number]
    state = read_ledger(flow.model_copy(update={"name": name}), services)
    ledger, total = state.ledger, TableCounts()
    for counts in ledger.tables.values():
        total = total.plus(counts)
    problems = [str(problem) for problem in ledger.problems]
    if ledger.start is not None and ledger.start.compare(wanted.start) is not Ordering.EQUAL:
        problems.append(f"begins at {ledger.start}, not at {wanted.start}")
    stands = state.checkpoint.offset if state.checkpoint else None
    if stands is not None and (ledger.end is None or ledger.end.compare(stands) is not Ordering.EQUAL):
        problems.append(f"its history ends at {ledger.end}, its checkpoint stands at {stands}")
    size = sum(span.bytes or 0 for span in ledger.spans)
    behind = tuple(services.store.sinks_behind(name))
    batches = state.checkpoint.batch if state.checkpoint else 0
    passed = tuple(OffsetRange(gap.start, gap.end) for gap in ledger.gaps)
    return PieceState(
        name, wanted, stands, total, ledger.sinks, size, batches, state.plan is not None, behind, tuple(problems),
        passed,
    )  # fmt: skip


def delivered_in(flow: Flow, services: Services, wanted: OffsetRange) -> int:
    """Return how many rows went on in the batches that meet a range; those at its ends count as a whole."""
    met = (span for span in spans_over(flow, services, wanted) if _meet(OffsetRange(span.start, span.end), wanted))
    return sum(counts.dispatched for span in met for counts in span.tables.values())


def _meet(one: OffsetRange, other: OffsetRange) -> bool:
    try:
        return overlap(one, other)
    except SourceDivergedError:
        return False  # of a log that was replaced, or of a former server
