"""Counts of the direct lane: rows that one task read, that each sink takes of them, that its writer got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from databus.core.batches.counts import STATEMENTS
from databus.core.batches.receipts import RejectedRow
from databus.core.events import Op, RowState
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.protocols.sink import Sink
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.rows.violation_bits import FLOW_OP, HELD_FOR_SINK, MARKS, UNJUDGED
from databus.runtime.check import row_checks
from databus.runtime.copies import most_copies
from databus.runtime.counts import table_names
from databus.runtime.direct.row_checks import held_rows, holding
from databus.runtime.routing import changes_ops, offered_ops, route_of, routes_of

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.columns import Ints
    from databus.runtime.direct.row_copies import RowCopies
    from databus.runtime.direct.transaction_orders import TransactionOrders
    from databus.runtime.direct.transactions import TransactionStream


@dataclass(frozen=True)
class Taker:
    """Rows that one sink takes, of a task.

    Attributes:
        routes: its fnmatch patterns.
        ops: the operations it accepts.
        changing: whether its own transforms may make a delete or an insert of an update.
    """

    routes: tuple[str, ...]
    ops: frozenset[str]
    changing: bool = False

    @classmethod
    def of(cls, spec: SinkSpec, sink: Sink) -> Taker:
        """Return what a sink takes."""
        return cls(spec.routes, sink.accepts(), changes_ops(spec))

    @property
    def offered(self) -> frozenset[str]:
        """Operations of the rows that reach the sink's own transforms."""
        return offered_ops(self.ops, changing=self.changing)


@dataclass
class TaskCounts:
    """Row counts that a task observed.

    Attributes:
        read: the aggregates of `counts.aggregates`, by their names.
        mine: rows the sink takes, by table.
        given: rows handed to this task's writer.
        held: rows that checks hold back; kept by one task of a batch alone.
        left_out: rows that the sink's own transforms leave out, by table.
        refused: rows that these hold back, by table; `refusals` are the rows, as one task of a sink brings them.
        offsets: of raw records' partitions, how many were passed.
    """

    read: Counter[str] = field(default_factory=Counter)
    mine: Counter[str] = field(default_factory=Counter)
    given: int = 0
    held: list[RejectedRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    refusals: list[RejectedRow] = field(default_factory=list)
    offsets: int = 0


class RowCounter:
    """Counts the rows of one task on their way, and picks those that its sink takes.

    Args:
        flow: the flow.
        planned: the source's plan.
        takers: what each sink of the flow takes.
        mine: which of the takers is the task's sink.
        keeps: which rows are collected as the quarantine keeps them: those that checks hold back ("held"), those that
            the sink's own transforms do ("refused"), or none.
        passed: see `dispatch_direct`.
    """

    def __init__(
        self,
        flow: Flow,
        planned: SourcePlan,
        takers: tuple[Taker, ...],
        mine: int,
        *,
        keeps: Literal["", "held", "refused"] = "",
        passed: frozenset[str] | None = None,
    ):
        import pyarrow as pa

        self.observed = TaskCounts()
        self._orders: TransactionOrders | None = None
        self._flow, self._takers, self._mine = flow, takers, mine
        self._passed = pa.array(sorted(passed), pa.string()) if passed is not None else None
        self._checks, self._holding, self._keeps = row_checks(flow), holding(flow), keeps
        self._most_copies = most_copies(flow)
        names = table_names(planned)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._tables = {schema.schema_id: schema for schema in planned.tables}
        self.observed.read["changes"] = 0
        for number in range(len(names)):
            self.observed.read.update({f"{number}_{state}": 0 for state in RowState})
            self.observed.read[f"{number}_checked"] = 0
            for bit, check in enumerate(self._checks):
                if check.applies_to(names[number]):
                    self.observed.read[f"{number}_violates_{bit}"] = 0

    def number_by(self, transactions: TransactionStream | None) -> TransactionStream | None:
        """Let rows be numbered in their transactions, where the sink writes these; return the argument."""
        self._orders = None if transactions is None else transactions.orders
        return transactions

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Count the rows and return those that the sink takes, with their `route`: one batch, but of many copies."""
        import pyarrow as pa
        import pyarrow.compute as pc

        schema_id = np.asarray(rows["schema_id"])
        changes = schema_id >= 0
        self.observed.read["changes"] += int(np.count_nonzero(changes & (np.asarray(rows["part"]) == 0)))
        group, tables = _groups(rows, schema_id, self._tables)
        routes = [routes_of(self._flow, table) for table in tables]
        ops = rows[FLOW_OP] if FLOW_OP in rows.schema.names else rows["op"]
        copies = self._copies(rows, ops, group, routes, of_flow=True)
        accepted = self._accepted(rows, ops, group, routes, copies)
        taken = np.logical_or.reduce(accepted)
        marks = np.asarray(rows[MARKS]) if self._checks else np.zeros(rows.num_rows, np.int64)
        held = taken & held_back(rows, marks, self._holding)
        kept = held
        if self._passed is not None:  # of a sink that is behind, what it alone lacks
            before = np.asarray(pc.is_in(rows["event_id"], self._passed))
            held, kept = held | before, held & accepted[self._mine] & ~before
        written = copies
        if FLOW_OP in rows.schema.names:
            written = self._copies(rows, rows["op"], group, routes, of_flow=False)
        mine, refused = self._behind_own(rows, accepted[self._mine] & ~held, written)
        for number, table in enumerate(tables):
            here = group == number
            name = table.full_name if table.schema_id >= 0 else STATEMENTS
            self._add(name, RowState.DISPATCHED, here & taken & ~held)
            self._add(name, RowState.QUARANTINED, here & held)
            self._add(name, RowState.FILTERED, here & ~taken & ~held)
            self._judge(name, ops, here, marks)
            of_sink = here & accepted[self._mine] & ~held
            shares = [(self.observed.refused, refused), (self.observed.left_out, of_sink & ~mine & ~refused)]
            shares += [(self.observed.mine, mine)] if written is None else []
            for counter, rows_of in shares:
                if found := int(np.count_nonzero(here & rows_of)):
                    counter[name] += found
        if self._keeps == "held" and kept.any():
            self.observed.held += held_rows(self._flow, rows.filter(pa.array(kept)))
        if written is not None:
            return self._copied(rows, written, mine, group, tables)
        routed = rows.append_column(
            "route", pa.array([names[0] for names in routes], pa.string()).take(pa.array(group))
        )
        if self._orders is not None:
            held = (held & accepted[self._mine]) | refused
            routed = self._orders.numbered(routed, mine | held, held)
        return iter((routed if mine.all() else routed.filter(pa.array(mine)),))

    def _accepted(
        self,
        rows: pa.RecordBatch,
        ops: pa.Array,
        group: npt.NDArray[np.int32],
        routes: Sequence[Sequence[str]],
        copies: RowCopies | None,
    ) -> list[npt.NDArray[np.bool_]]:
        """Return for each sink which rows reach it, by route and operation, a copy of them at least."""
        if copies is None:
            first = [each[0] for each in routes]
            return [_accepted(ops, taker.offered, group, first, taker) for taker in self._takers]
        return [copies.rows_with(copies.accepted(taker.routes, taker.offered), rows.num_rows) for taker in self._takers]

    def _copies(
        self,
        rows: pa.RecordBatch,
        ops: pa.Array,
        group: npt.NDArray[np.int32],
        routes: Sequence[Sequence[str]],
        *,
        of_flow: bool,
    ) -> RowCopies | None:
        """Return the copies of rows; None where none are made."""
        if self._most_copies == 1:
            return None
        from databus.runtime.direct.row_copies import copies_of

        return copies_of(rows, ops, group, routes, of_flow=of_flow)

    def _copied(
        self,
        rows: pa.RecordBatch,
        copies: RowCopies,
        mine: npt.NDArray[np.bool_],
        group: npt.NDArray[np.int32],
        tables: Sequence[TableSchema],
    ) -> Iterator[pa.RecordBatch]:
        """Count and return those copies of rows that the sink takes."""
        from databus.runtime.direct.row_copies import CopiedRows

        taker = self._takers[self._mine]
        given = mine[copies.row] & copies.accepted(taker.routes, taker.ops)
        of_group = np.bincount(group[copies.row[given]], minlength=len(tables))
        for number, table in enumerate(tables):
            if found := int(of_group[number]):
                self.observed.mine[table.full_name if table.schema_id >= 0 else STATEMENTS] += found
        return CopiedRows(rows, copies, given, self._most_copies).made()

    def _behind_own(
        self, rows: pa.RecordBatch, reached: npt.NDArray[np.bool_], copies: RowCopies | None
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which rows the sink takes behind its own transforms, and which these hold back, of those reached."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if FLOW_OP not in rows.schema.names:
            return reached, np.zeros(rows.num_rows, np.bool_)
        taker = self._takers[self._mine]
        if copies is None:
            left = reached & np.asarray(pc.is_in(rows["op"], pa.array(sorted(taker.ops), pa.string())))
        else:
            left = reached & copies.rows_with(copies.accepted(taker.routes, taker.ops), rows.num_rows)
        refused = left & np.asarray(rows[HELD_FOR_SINK].is_valid())
        if self._keeps == "refused" and refused.any():
            sink = self._flow.sinks[self._mine].sink_name
            self.observed.refusals += held_rows(self._flow, rows.filter(pa.array(refused)), sink)
        return left & ~refused, refused

    def count_raw(self, table: TableSchema, kept: int, left_out: int) -> bool:
        """Count raw records of a table; return whether the sink takes those that are kept."""
        route = route_of(self._flow, table)
        takes = [
            Op.CREATE.value in taker.ops and any(fnmatchcase(route, pattern) for pattern in taker.routes)
            for taker in self._takers
        ]
        dispatched = kept if any(takes) else 0
        number, read = self._numbers[table.full_name], self.observed.read
        read["changes"] += kept + left_out
        read[f"{number}_{RowState.DISPATCHED}"] += dispatched
        read[f"{number}_{RowState.FILTERED}"] += kept + left_out - dispatched
        if takes[self._mine] and kept:
            self.observed.mine[table.full_name] += kept
        return takes[self._mine]

    def _add(self, name: str, state: RowState, rows: npt.NDArray[np.bool_]) -> None:
        self.observed.read[f"{self._numbers[name]}_{state}"] += int(np.count_nonzero(rows))

    def _judge(self, name: str, ops: pa.Array, here: npt.NDArray[np.bool_], marks: Ints) -> None:
        """Count the rows that checks look at, and those that violate each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._checks:
            return
        number = self._numbers[name]
        looked_at = np.asarray(pc.is_in(ops, pa.array(["c", "u", "r"]))) & here
        self.observed.read[f"{number}_checked"] += int(np.count_nonzero(looked_at))
        for bit, check in enumerate(self._checks):
            if check.applies_to(name):
                violated = int(np.count_nonzero(here & (marks >> bit & 1 != 0)))
                self.observed.read[f"{number}_violates_{bit}"] += violated

    @property
    def quarantined(self) -> bool:
        """Return whether a check holds back any row that was read."""
        read = self.observed.read
        return any(read[f"{number}_{RowState.QUARANTINED}"] for number in self._numbers.values())

    def give(self, rows: pa.RecordBatch) -> None:
        """Count rows that go to the writer."""
        self.observed.given += rows.num_rows


def held_back(rows: pa.RecordBatch, marks: Ints, holding: int) -> npt.NDArray[np.bool_]:
    """Return which rows are held back: a check that does so is violated, or a filter could not judge them.

    Args:
        rows: the rows.
        marks: int64[rows], bits of the checks that they violate.
        holding: bits of the checks that hold rows back.
    """
    held: npt.NDArray[np.bool_] = (marks & holding) != 0
    if UNJUDGED in rows.schema.names and rows[UNJUDGED].null_count < rows.num_rows:
        held |= np.asarray(rows[UNJUDGED].is_valid())
    return held


def _groups(
    rows: pa.RecordBatch, schema_id: npt.NDArray[np.int32], known: Mapping[int, TableSchema]
) -> tuple[npt.NDArray[np.int32], list[TableSchema]]:
    """Return each row's group and the groups' tables; statements stand under the table they name."""
    if (schema_id == schema_id[0]).all() and schema_id[0] >= 0:
        return np.zeros(len(schema_id), np.int32), [known[int(schema_id[0])]]
    ids, inverse = np.unique(schema_id, return_inverse=True)
    group = inverse.astype(np.int32)
    tables = [known[number] if number >= 0 else TableSchema(number, "", "", ()) for number in ids.tolist()]
    for row in np.flatnonzero(schema_id < 0).tolist():
        group[row] = len(tables)
        tables.append(TableSchema(-1, rows["database"][row].as_py(), rows["table"][row].as_py(), ()))
    return group, tables


def _accepted(
    found: pa.Array, ops: frozenset[str], group: npt.NDArray[np.int32], routes: list[str], taker: Taker
) -> npt.NDArray[np.bool_]:
    """Return for each row whether a sink takes it, by route and operation."""
    import pyarrow as pa
    import pyarrow.compute as pc

    routed = np.array([any(fnmatchcase(route, pattern) for pattern in taker.routes) for route in routes], np.bool_)
    accepted: npt.NDArray[np.bool_] = np.asarray(pc.is_in(found, pa.array(sorted(ops), pa.string())))
    return accepted & routed[group]
