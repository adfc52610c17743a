"""Dispatch: fan the checked rows out to the sinks, one writer task per slot, and bring the receipts back."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from databus.core.batches import counts
from databus.core.batches.receipts import CHECK, RejectedRow, WriteReceipt
from databus.core.errors.root import DatabusError
from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.protocols.optional_sink import TransactionSink
from databus.core.protocols.sink import Sink, SlotWriter
from databus.core.state.plan import Plan
from databus.rows.former_columns import former_columns_named
from databus.rows.frames.transactions import with_boundaries
from databus.rows.violation_bits import FLOW_OP
from databus.runtime.check import STATE, held_rows_of
from databus.runtime.copies import first_of_row, taken_by
from databus.runtime.counts import aggregates, sink_aggregates, sink_counts
from databus.runtime.sink_rows import SINK_STATE, own_share, refused_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Observation

MINE, LEFT_OUT, REFUSED = "mine", "left_out", "refused"
"""Shares of a sink's rows: those that it is given, those that its own transforms leave out, and hold back."""


@dataclass(frozen=True)
class Dispatched:
    """Dispatch result of one sink's job.

    Attributes:
        receipts: one per slot.
        observed: every aggregate of the pass, the first sink's also by state.
        given: rows handed to the sink by table, those that its own transforms hold back among them.
    """

    receipts: tuple[WriteReceipt, ...]
    observed: Mapping[str, int]
    given: Mapping[str, int]


def writing_order(flow: Flow, plan: Plan, names: Collection[str]) -> list[str]:
    """Return sinks in the order in which a batch is written: in the flow's, but for those that may stop it.

    These come first, so that the others do not hold a batch that stops; and first of all those in which the rest of
    one does no harm.

    Args:
        flow: the flow.
        plan: the batch's plan.
        names: the sinks that take it.
    """

    def rank(spec: SinkSpec) -> int:
        if not spec.may_stop(plan.sinks[spec.sink_name]):
            return 2
        return 0 if spec.idempotent else 1

    return [spec.sink_name for spec in sorted((s for s in flow.sinks if s.sink_name in names), key=rank)]


def dispatch(
    flow: Flow, plan: Plan, rows: DataFrame, sink: tuple[SinkSpec, Sink], names: Sequence[str], splits: int
) -> Dispatched:
    """Write one sink's share of the rows and return what it confirmed; the rows are counted in the same pass.

    Args:
        flow: the flow.
        plan: the batch's plan.
        rows: as `rows_of_sink` gives them; a row is counted once, whatever copies of it are written.
        sink: the sink and its spec.
        names: tables that are counted.
        splits: number of splits that were read.

    Raises:
        DatabusError: what the writer raised.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    spec, opened = sink
    shares = shares_of(flow, sink)
    mine = shares[MINE]
    seen = Observation(f"{spec.sink_name}-{plan.batch}")
    op = FLOW_OP if spec.transforms else ""
    figures = (*aggregates(flow, names, first_of_row(flow), op), *sink_aggregates(names, shares))
    counted = rows.observe(seen, *figures)
    with former_columns_named(f"sink {spec.sink_name}"):
        encoded = opened.encode(_sent(counted, mine, sink), plan)
    slots = plan.sinks[spec.sink_name].slots
    if slots > 1:
        placed = encoded.repartitionById(slots, F.col("slot").cast("int")).sortWithinPartitions(*log_order())
    elif splits > 1 or _writes_transactions(opened):
        placed = encoded.repartitionById(1, F.lit(0)).sortWithinPartitions(*log_order())
    else:
        placed = encoded.coalesce(1)
    write = slot_task(opened.writer(plan), slots)
    collected = placed.mapInArrow(write, "slot int, receipt binary").collect()
    observed = observation(seen, rows, figures)
    receipts = [_receipt(row["receipt"]) for row in collected]
    receipts += write_empty_slots(opened.writer(plan), slots, {r.slot for r in receipts})
    in_order = tuple(sorted(receipts, key=lambda r: r.slot))
    return with_own_rows(flow, spec, Dispatched(in_order, observed, {}), rows, names)


def shares_of(flow: Flow, sink: tuple[SinkSpec, Sink]) -> dict[str, Column]:
    """Return share → Column that is true of its rows: those that a sink is given, and what its own transforms do."""
    from pyspark.sql import functions as F  # noqa: N812

    spec, opened = sink
    state = SINK_STATE if spec.transforms else STATE
    mine = {MINE: (F.col(state) == RowState.DISPATCHED) & taken_by(opened, spec)}
    if not spec.transforms:
        return mine
    return mine | {
        LEFT_OUT: own_share(flow, RowState.FILTERED),
        REFUSED: own_share(flow, RowState.QUARANTINED),
    }


def with_own_rows(flow: Flow, spec: SinkSpec, sent: Dispatched, rows: DataFrame, names: Sequence[str]) -> Dispatched:
    """Return what a sink was given and confirmed, with what its own transforms did, as the pass observed it."""
    mine, left_out, refused = (sink_counts(names, sent.observed, share) for share in (MINE, LEFT_OUT, REFUSED))
    held = refused_rows(flow, spec, rows) if refused else ()
    return replace(sent, receipts=with_own_shares(sent.receipts, left_out, held), given=dict(mine + refused))


def with_own_shares(
    receipts: Sequence[WriteReceipt], left_out: Mapping[str, int], refused: Sequence[RejectedRow]
) -> tuple[WriteReceipt, ...]:
    """Return a sink's receipts with what its own transforms did, which the first one tells.

    Args:
        receipts: by slot.
        left_out: rows by table that they leave out.
        refused: rows that they hold back.
    """
    if not left_out and not refused:
        return tuple(receipts)
    first, *others = receipts
    outputs, rows = dict(first.outputs), sum(left_out.values())
    if rows:
        whole = dict(outputs.get("", {}))
        outputs[""] = whole | {counts.LEFT_OUT: rows + int(whole.get(counts.LEFT_OUT, 0))}
    return (replace(first, outputs=outputs, rejected=(*first.rejected, *refused)), *others)


def _writes_transactions(sink: Sink) -> bool:
    return isinstance(sink, TransactionSink) and sink.transactions


def _sent(rows: DataFrame, mine: Column, sink: tuple[SinkSpec, Sink]) -> DataFrame:
    """Return the rows that a sink is given, and boundaries of transactions beside them if it writes these."""
    from pyspark.sql import functions as F  # noqa: N812

    spec, opened = sink
    if not _writes_transactions(opened):
        return rows.where(mine)
    held = F.col(SINK_STATE if spec.transforms else STATE) == RowState.QUARANTINED
    return with_boundaries(rows.where((mine | held) & taken_by(opened, spec)), held)


def observation(seen: Observation, rows: DataFrame, figures: Sequence[Column]) -> Counter[str]:
    """Return what the pass observed; where Spark brought nothing, the rows are counted once more.

    A Spark Connect server waits 100 ms for an observation after the job's end, then answers without it
    (`Observation.getOrEmpty`, Spark 4.1): on a busy machine the listener that brings it may come later. Nothing comes
    of a plan without partitions either; its counts are all 0.
    """
    found = seen.get
    if not found:
        (counted,) = rows.agg(*figures).collect()
        found = counted.asDict()
    return Counter({str(name): int(value) for name, value in found.items()})


def write_empty_slots(writer: SlotWriter, slots: int, done: set[int]) -> list[WriteReceipt]:
    """Commit a marker for each slot that got no rows, from this process: every slot follows every batch."""
    return [writer.write((), slot) for slot in range(slots) if slot not in done]


def slot_task(writer: SlotWriter, slots: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function a Spark task runs over one slot's rows: write them, yield one receipt row.

    A task without rows writes nothing here, because Spark does not say which slot it stands for.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        full = (batch for batch in batches if batch.num_rows)
        first = next(full, None)
        if first is None:
            return
        slot = first.column("slot")[0].as_py() if slots > 1 else 0

        def rows() -> Iterator[pa.RecordBatch]:
            yield first
            yield from full

        try:
            receipt = writer.write(rows(), slot)
            result = pickle.dumps(receipt)
        except DatabusError as error:
            result = pickle.dumps(error)
        yield pa.RecordBatch.from_pydict(
            {"slot": pa.array([slot], pa.int32()), "receipt": pa.array([result], pa.binary())}
        )

    return run


def log_order() -> list[Column]:
    """Return the columns that put rows into the order of the log; a log's number may outgrow six digits."""
    from pyspark.sql import functions as F  # noqa: N812

    return [F.length("log"), *map(F.col, ("log", "place", "ordinal", "part"))]


def quarantined_rows(rows: DataFrame, taken: Column | None = None) -> tuple[RejectedRow, ...]:
    """Return the rows that checks hold back, with all that is needed to look at and replay them.

    Args:
        rows: checked rows.
        taken: which of them are looked at; None for all.
    """
    from pyspark.sql import functions as F  # noqa: N812

    held = F.col(STATE) == RowState.QUARANTINED
    return held_rows_of(rows, held if taken is None else held & taken, F.concat_ws(", ", "violations"), CHECK)


def _receipt(data: bytes) -> WriteReceipt:
    """Read a task's answer; an error that the writer raised is raised here, with its own class and hint."""
    answer: Any = pickle.loads(data)  # noqa: S301 - our own task wrote it
    if isinstance(answer, DatabusError):
        raise answer
    receipt: WriteReceipt = answer
    return receipt
