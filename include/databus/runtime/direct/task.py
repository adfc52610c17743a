"""Task of the direct lane: reads the splits in log order, encodes one slot's rows and hands them to the writer."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.errors.sink import SinkSettingError
from databus.core.errors.source import DecodeError
from databus.core.flow import Flow
from databus.core.protocols.optional_sink import DirectEncoder, FormEncoder, ImageEncoder
from databus.core.protocols.sink import SlotWriter
from databus.core.protocols.splits import DirectSplit, ImageSplit
from databus.core.state.plan import SourcePlan
from databus.rows.former_columns import former_columns_named
from databus.runtime.direct.merged_rows import merged
from databus.runtime.direct.read_ahead import collector_at_rest, overlapped, return_free_memory
from databus.runtime.direct.row_counts import RowCounter, Taker, TaskCounts
from databus.runtime.direct.transactions import TransactionStream

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.row_program import RowProgram, SinkProgram
    from databus.rows.violations import ImageMarks

AHEAD = 2
"""Batches that are decoded and encoded ahead of the writer."""

_ONE_PIECE_ROWS = 1_000
"""So few rows are one piece: nothing is left to be made ahead, and a thread would cost more than it saves."""

_ROWS_BETWEEN_TRIMS = 16_384
"""Rows read until free memory is returned once more: a worker does not grow with batches, nor with their size."""

Columns = Mapping[int, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class DirectTask:
    """Task of one slot; picklable, without credentials beyond the writer's.

    Attributes:
        flow: the flow, for routes.
        planned: the source's plan, for the tables' names.
        splits: what to read, in log order.
        columns: see `image_columns`.
        marks: see `image_marks`.
        takers: what each sink of the flow takes.
        mine: which of the takers is this sink.
        keeps_held: whether its first slot brings back the rows that checks hold back; each task of a batch sees them.
        encoder: the sink's encoder.
        writer: the sink's writer.
        passed: see `dispatch_direct`.
        program: see `databus.runtime.direct.reasons.row_program`.
        tells_transactions: whether a sink that writes transactions is given theirs; a replay's rows are in none.
        flow_form: columns and program of the rows as the flow leaves them, of a sink with transforms of its own; None
            of others.
    """

    flow: Flow
    planned: SourcePlan
    splits: tuple[DirectSplit, ...]
    columns: Columns
    marks: ImageMarks | None
    takers: tuple[Taker, ...]
    mine: int
    keeps_held: bool
    encoder: DirectEncoder
    writer: SlotWriter
    passed: frozenset[str] | None = None
    program: RowProgram | SinkProgram | None = None
    tells_transactions: bool = True
    flow_form: tuple[Columns, RowProgram | None] | None = None

    def write(self, slot: int) -> tuple[WriteReceipt, TaskCounts]:
        """Read everything, write the rows of one slot, and return the receipt with what was read.

        Reading and encoding run ahead of the writer in a thread, unless there are but few rows.

        Raises:
            DatabusError: what reading or writing raised.
        """
        return self.write_among(slot, None)

    def write_among(self, slot: int, beside: Iterable[pa.RecordBatch] | None) -> tuple[WriteReceipt, TaskCounts]:
        """Write the rows of one slot among rows of other tables; see `write`.

        Args:
            slot: number of the slot.
            beside: encoded rows of the slot from Spark, in log order: they are written at their places among those read
                here, and not counted. None for none.
        """
        mine = self.keeps_held and slot == 0
        keep_held = mine and self.flow_form is None and not isinstance(self.encoder, ImageEncoder)
        counter = RowCounter(
            self.flow, self.planned, self.takers, self.mine, keeps="held" if keep_held else "", passed=self.passed
        )
        encoded = self._encoded(slot, counter)
        ahead = overlapped(encoded, AHEAD) if self.planned.rows > _ONE_PIECE_ROWS else encoded
        with collector_at_rest(), closing(ahead), closing(ahead if beside is None else merged(ahead, beside)) as rows:
            # The first batch is made before the writer opens a transaction, whose time is limited.
            first = list(islice(rows, 1))
            receipt = self.writer.write(chain(first, rows), slot)
        if mine and not keep_held and counter.quarantined:
            counter.observed.held = self._held()
        if slot == 0 and counter.observed.refused:
            counter.observed.refusals = self._refusals()
        if self.planned.rows > _ROWS_BETWEEN_TRIMS:
            return_free_memory()
        return receipt, counter.observed

    def encode(self, slot: int) -> int:
        """Read and encode everything of a slot and write nothing; return the rows."""
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine)
        return sum(rows.num_rows for rows in self._encoded(slot, counter))

    def reaching(self) -> frozenset[str]:
        """Return the event ids of the rows that the sink is given, or that its own transforms hold back."""
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine, keeps="refused", passed=self.passed)
        given: set[str] = set()
        for split in self.splits:
            for rows in split.read_text(self.columns, self.marks, *_given(self.program)):
                if rows.num_rows:
                    given.update(event for taken in counter.take(rows) for event in taken["event_id"].to_pylist())
        return frozenset(given | {row.event_id for row in counter.observed.refusals})

    def _encoded(self, slot: int, counter: RowCounter) -> Generator[pa.RecordBatch]:
        passed = 0
        told = TransactionStream.of(self.encoder, slot) if self.tells_transactions else None
        transactions = counter.number_by(told)
        for rows in in_order(self._read()):
            passed += rows.num_rows
            if passed >= _ROWS_BETWEEN_TRIMS:
                return_free_memory()
                passed = 0
            for taken in counter.take(rows):
                if not taken.num_rows:
                    continue
                with former_columns_named(f"sink {self.flow.sinks[self.mine].sink_name}"):
                    encoded = self.encoder.encode(taken, slot)
                counter.give(encoded)
                if transactions is not None:
                    encoded = transactions.merged(encoded)
                if encoded.num_rows:
                    yield encoded
        if transactions is not None:
            yield from transactions.end()

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Yield the splits' rows with their images in the encoder's form."""
        values = self.encoder.values if isinstance(self.encoder, FormEncoder) else None
        if not isinstance(self.encoder, ImageEncoder):
            told = {} if values is None else {"values": values}
            for split in self.splits:
                yield from split.read_text(self.columns, self.marks, *_given(self.program), **told)
            return
        form = replace(self.encoder.image_form(self.columns, self.marks), program=self.program)
        for split in self.splits:
            if not isinstance(split, ImageSplit):
                raise SinkSettingError(
                    f"sink {self.flow.sinks[self.mine].sink_name}: source {self.flow.source.kind} gives JSON only",
                    hint="Give the sink format='json'.",
                )
            yield from split.read_in(form)

    def _held(self) -> list[RejectedRow]:
        """Return the rows that checks hold back, read once more as JSON text."""
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine, keeps="held", passed=self.passed)
        columns, program = (self.columns, self.program) if self.flow_form is None else self.flow_form
        self._count(counter, columns, program)
        return counter.observed.held

    def _refusals(self) -> list[RejectedRow]:
        """Return the rows that the sink's own transforms hold back, read once more as JSON text."""
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine, keeps="refused", passed=self.passed)
        self._count(counter, self.columns, self.program)
        return counter.observed.refusals

    def _count(self, counter: RowCounter, columns: Columns, program: RowProgram | SinkProgram | None) -> None:
        for split in self.splits:
            for rows in split.read_text(columns, self.marks, *_given(program)):
                if rows.num_rows:
                    counter.take(rows)


def _given(program: RowProgram | SinkProgram | None) -> tuple[RowProgram | SinkProgram, ...]:
    # Splits of another package may know of no program.
    return () if program is None else (program,)


def in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass batches on after checking that their rows follow one another in the log; nothing sorts them later.

    Raises:
        DecodeError: a row stands before its predecessor; names both places.
    """
    import numpy as np

    before = (0, "", -1, -1, -1)
    for rows in batches:
        if not rows.num_rows:
            continue
        position, ordinal, part = (np.asarray(rows[name]).astype(np.int64) for name in ("place", "ordinal", "part"))
        file = rows["log"][0].as_py()
        first = (len(file), file, int(position[0]), int(ordinal[0]), int(part[0]))
        rising = (np.diff(position) > 0) | (
            (np.diff(position) == 0) & ((np.diff(ordinal) > 0) | ((np.diff(ordinal) == 0) & (np.diff(part) > 0)))
        )
        if first <= before or not rising.all():
            raise DecodeError(f"rows came out of order at {file}:{position[0]}, behind {before[1]}:{before[2]}")
        before = (len(file), file, int(position[-1]), int(ordinal[-1]), int(part[-1]))
        yield rows
