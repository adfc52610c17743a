"""Decoded batches → record batches of `ROW_COLUMNS`: keys, hashes, event ids, and primary-key updates split in two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import DELETE, INSERT, READ, UPDATE, TableBatch, TableEvent, Transactions
from databus.core.events import Op
from databus.core.tables.schemas import NO_SCHEMA
from databus.rows.columns import Ints, text
from databus.rows.flags import no_flags, row_flags
from databus.rows.image_form import FORM_KEY, PLAIN, VARIANT_FORM, ImageForm, Images, ShownBatch, needed_images
from databus.rows.json_images import refuse_too_large
from databus.rows.keys import KeyEncoder, key_encoder
from databus.rows.murmur2 import key_hashes
from databus.rows.provenance import constant, provenance
from databus.rows.row_program import (
    CROSSES,
    CROSSES_FLOW,
    CROSSING,
    FILTERED,
    PLACE_FIELDS,
    FatedRows,
    RowPlaces,
    RowProgram,
    SinkProgram,
)
from databus.rows.variant.images import arrow_schema
from databus.rows.violation_bits import FLOW_OP, HELD_FOR_SINK, MARKS, UNJUDGED
from databus.rows.violations import ImageMarks

MAX_BATCH_BYTES = 64 << 20
"""Most bytes of VARIANT values in one record batch; a single larger row stands alone."""

_NAMES = pa.list_(pa.string())
_OPS = {INSERT: Op.CREATE, UPDATE: Op.UPDATE, DELETE: Op.DELETE, READ: Op.READ, FILTERED: Op.FILTERED}
_LETTERS = pa.array([_OPS[number].value for number in range(len(_OPS))])


@dataclass(frozen=True)
class _Origin:
    """Batch origin: what all rows of a batch have in common.

    `plain` are no images where none of its rows can be held back.
    """

    batch: TableBatch
    shown: ShownBatch
    transactions: Transactions
    server: str
    prefix: str
    form: ImageForm
    keys: KeyEncoder | None
    plain: Images | None


@dataclass(frozen=True)
class _Rows:
    """The rows to emit, in log order: which change, which half of it (of a split one), and its images.

    `keyed` are the images (before, after) that say its key: those that it has until a filter makes it a delete or an
    insert. `flow_op` is what it was behind the flow's transforms, where a sink's own are behind them, and
    `held_for_sink` why one of these holds it back. `marks` are those of its images. `places` are what values choose of
    route and key, and `crossing` what the column of that name is.
    """

    change: npt.NDArray[np.int64]
    part: npt.NDArray[np.int16]
    op: npt.NDArray[np.int8]
    before: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    split: npt.NDArray[np.bool_]
    keyed: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
    unjudged: pa.StringArray | None = None
    flow_op: npt.NDArray[np.int8] | None = None
    held_for_sink: pa.StringArray | None = None
    marks: Ints | None = None
    places: RowPlaces | None = None
    crossing: npt.NDArray[np.int8] | None = None

    def cut(self, start: int, stop: int) -> _Rows:
        s = slice(start, stop)
        given = ((each.name, getattr(self, each.name)) for each in fields(self) if each.name != "keyed")
        cut: dict[str, Any] = {name: None if value is None else value[s] for name, value in given}
        return _Rows(**cut, keyed=(self.keyed[0][s], self.keyed[1][s]))

    def judged(self, program: RowProgram, batch: TableBatch, transactions: Transactions) -> _Rows:
        found = program.judged(batch, transactions, FatedRows(self.change, self.op, self.before, self.after))
        judged = replace(self, op=found.op, before=found.before, after=found.after, unjudged=found.unjudged)
        if not program.places:
            return judged
        both = np.where(judged.crosses, np.int8(CROSSES_FLOW | CROSSES), np.int8(0))
        return replace(judged, places=found.places or RowPlaces.of_source(len(self.op)), crossing=both)

    @property
    def crosses(self) -> npt.NDArray[np.bool_]:
        """Rows that are updates with both images."""
        found: npt.NDArray[np.bool_] = (self.op == UPDATE) & (self.before >= 0) & (self.after >= 0)
        return found

    def marked(self, shown: ShownBatch, marks: ImageMarks | None) -> _Rows:
        """Return the rows with the marks of checks: those of deletes alone where there is no after-image."""
        if marks is None:
            return self
        found = shown.marks(marks)
        gone = found[self.before] & marks.of_deletes(shown.batch.schema.schema_id)
        return replace(self, marks=np.where(self.after < 0, gone, found[self.after]))

    def of_sink(self, program: SinkProgram, batch: TableBatch, transactions: Transactions) -> _Rows:
        """Return the rows behind a sink's own transforms; those that the flow holds back do not reach them."""
        held = np.zeros(len(self.op), np.bool_) if self.marks is None else (self.marks & program.holding) != 0
        if self.unjudged is not None:
            held |= self.unjudged.is_valid().to_numpy(zero_copy_only=False)
        op = np.where(held, np.int8(FILTERED), self.op)
        before, after = (np.where(held, np.int32(-1), images) for images in (self.before, self.after))
        found = program.own.judged(batch, transactions, FatedRows(self.change, op, before, after))
        behind = replace(
            self,
            op=np.where(held, self.op, found.op),
            before=found.before,
            after=found.after,
            flow_op=self.op,
            held_for_sink=found.unjudged,
        )
        if self.crossing is None:
            return behind
        of_sink = np.where(behind.crosses, np.int8(CROSSES), np.int8(0))
        return replace(behind, crossing=(self.crossing & np.int8(CROSSES_FLOW)) | of_sink)


def emit(
    batch: TableBatch, transactions: Transactions, server: str, form: ImageForm = VARIANT_FORM, prefix: str = ""
) -> list[pa.RecordBatch]:
    """Return the rows of a batch, ordered by (transaction, ordinal, part).

    An update that changes the primary key becomes a delete of the old key (part 0, with the before-image) and an
    insert of the new one (part 1, with the after-image). So does an update of which a row filter kept one image only.
    What has no image left is a row of op "f" without key, so that it is counted. What a snapshot read is a row of op
    "r", which has an after-image alone.

    Args:
        batch: row changes of one table.
        transactions: what `batch.transaction` points into.
        server: server_uuid (MySQL) or server_id in text (MariaDB); part of the event ids of rows without GTID.
        form: how `before` and `after` are written.
        prefix: what the event ids begin with.

    Raises:
        DecodeError: a value or key that has no lossless form.
    """
    if not form.takes(batch.schema.schema_id):
        return []
    encoder = key_encoder(batch)
    rows, shown = _transformed(_rows(batch, encoder), batch, transactions, form)
    keys = form.keys(batch, shown.batch.schema) if form.keys is not None else None
    if form.values is not None:
        keys = key_encoder(batch, form.values.key_literals)
    images = shown.images(form.encode)
    causes = rows.unjudged is not None or rows.held_for_sink is not None
    held = causes or (rows.marks is not None and bool(rows.marks.any()))
    plain = shown.images(form.plain) if form.plain is not None and held else None
    origin = _Origin(batch, shown, transactions, server, prefix, form, keys, plain)
    return [_record_batch(origin, images, encoder, piece) for piece in _pieces(rows, images)]


def _transformed(
    rows: _Rows, batch: TableBatch, transactions: Transactions, form: ImageForm
) -> tuple[_Rows, ShownBatch]:
    """Return the rows behind a form's program, marked by its checks, and the images that they have."""
    program = form.program
    if program is None:
        shown = ShownBatch(batch, batch)
        return rows.marked(shown, form.marks), shown
    refuse_too_large(batch)
    if not isinstance(program, SinkProgram):
        rows = rows.judged(program, batch, transactions)
        shown = _shown(program, rows, batch, transactions)
        return rows.marked(shown, form.marks), shown
    if program.flow is not None:
        rows = rows.judged(program.flow, batch, transactions)
    if form.marks is not None:
        rows = rows.marked(_shown(program.flow, rows, batch, transactions), form.marks)
    rows = rows.of_sink(program, batch, transactions)
    if form.held_unwritten and rows.held_for_sink is not None:
        held = rows.held_for_sink.is_valid().to_numpy(zero_copy_only=False)
        before, after = (np.where(held, np.int32(-1), images) for images in (rows.before, rows.after))
        rows = replace(rows, before=before, after=after)
    return rows, _shown(program.own, rows, batch, transactions)


def _shown(program: RowProgram | None, rows: _Rows, batch: TableBatch, transactions: Transactions) -> ShownBatch:
    chosen, at = needed_images(batch, rows.before, rows.after)
    return ShownBatch(chosen if program is None else program.shown(chosen, transactions), chosen, at)


def emit_events(
    events: Sequence[TableEvent],
    transactions: Transactions,
    server: str,
    form: ImageForm = VARIANT_FORM,
    prefix: str = "",
) -> list[pa.RecordBatch]:
    """Return TRUNCATE and DDL statements as rows (op "t", "m") without key and images, in log order."""
    if not events or not form.takes(NO_SCHEMA):
        return []
    ordered = sorted(events, key=lambda event: (event.transaction, event.ordinal, event.part))
    n = len(ordered)
    columns = {
        "op": pa.array([event.op for event in ordered]),
        "database": pa.array([event.database for event in ordered]),
        "table": pa.array([event.table for event in ordered]),
        "schema_id": pa.array(np.full(n, NO_SCHEMA, np.int32)),
        "key": pa.nulls(n, pa.binary()),
        "key_hash": pa.array(np.zeros(n, np.int32)),
        "before": form.nulls(n),
        "after": form.nulls(n),
        "statement": pa.array([event.statement for event in ordered]),
        "flags": no_flags(n),
        "absent": pa.nulls(n, _NAMES),
        "other_key": pa.nulls(n, pa.binary()),
    }
    if form.marks is not None:
        columns[MARKS] = pa.array(np.zeros(n, np.int64))
    columns |= {field.name: pa.nulls(n, field.type) for field in _form_fields(form)}
    if form.program is not None:
        columns[UNJUDGED] = columns[HELD_FOR_SINK] = pa.nulls(n, pa.string())
        columns[FLOW_OP] = columns["op"]
        columns |= {field.name: pa.nulls(n, field.type) for field in PLACE_FIELDS}
    transaction = np.array([event.transaction for event in ordered], np.int64)
    ordinal = np.array([event.ordinal for event in ordered], np.int64)
    part = np.array([event.part for event in ordered], np.int16)
    columns |= provenance(transactions, (server, prefix), transaction, ordinal, part)
    return [_assemble(columns, form)]


def _rows(batch: TableBatch, encoder: KeyEncoder | None) -> _Rows:
    n = len(batch)
    split = np.zeros(n, np.bool_)
    updates = np.flatnonzero(batch.op == UPDATE)
    if encoder is not None and len(updates):
        whole = updates[(batch.before_row[updates] >= 0) & (batch.after_row[updates] >= 0)]
        before, after = batch.before_row[whole], batch.after_row[whole]
        split[whole] = encoder.differ(before, after)
    split[updates] |= (batch.before_row[updates] < 0) != (batch.after_row[updates] < 0)
    change = np.repeat(np.arange(n), 1 + split)
    second = np.zeros(len(change), np.bool_)
    second[1:] = change[1:] == change[:-1]
    first = split[change] & ~second
    op = batch.op[change].copy()
    op[first], op[second] = DELETE, INSERT
    order = np.lexsort((second, batch.ordinal[change], batch.transaction[change]))
    before = np.where(second, np.int32(-1), batch.before_row[change])
    after = np.where(first, np.int32(-1), batch.after_row[change])
    op[(before < 0) & (after < 0)] = FILTERED
    part, split = second.astype(np.int16), split[change]
    if not (order[1:] > order[:-1]).all():
        change, part, op, split = change[order], part[order], op[order], split[order]
        before, after = before[order], after[order]
    return _Rows(change, part, op, before, after, split, (before, after))


def _pieces(rows: _Rows, images: Images) -> Iterator[_Rows]:
    lengths = np.append(np.diff(images.offsets), 0)  # index -1, no image, takes nothing
    total = np.cumsum(lengths[rows.before] + lengths[rows.after])
    start, n = 0, len(total)
    while start < n:
        base = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, base + MAX_BATCH_BYTES, side="right")))
        yield rows.cut(start, stop)
        start = stop


def _record_batch(origin: _Origin, images: Images, encoder: KeyEncoder | None, rows: _Rows) -> pa.RecordBatch:
    batch, n = origin.batch, len(rows.change)
    named = rows.op != FILTERED
    lost = (rows.keyed[1] >= 0) & (rows.after < 0)  # to a filter, that made a delete of the update
    if encoder is None:
        key = form_key = pa.nulls(n, pa.binary())
        hashes = np.zeros(n, np.int32)
    else:
        # An update that kept its key may name it in one image only; after a split each row has but its own image.
        before, after = rows.keyed
        other = np.where(rows.part > 0, batch.before_row[rows.change], before)
        if not named.all():
            after, other = after[named], other[named]
        key = encoder.keys(after, other)
        hashes = np.zeros(n, np.int32)
        hashes[named] = key_hashes(*text(key))
        key = _at(key, named)
        form_key = key if origin.keys is None else _at(origin.keys.keys(after, other), named)
    columns = {
        FORM_KEY: form_key,
        "op": _LETTERS.take(pa.array(rows.op)),
        "database": constant(batch.schema.database, n),
        "table": constant(batch.schema.table, n),
        "schema_id": pa.array(np.full(n, batch.schema.schema_id, np.int32)),
        "key": key,
        "key_hash": pa.array(hashes),
        "before": _taken(images, rows.before, origin.form),
        "after": _taken(images, rows.after, origin.form),
        "statement": pa.nulls(n, pa.string()),
        "flags": row_flags(batch, rows.before, rows.after, origin.shown.flags(origin.form)),
        "absent": _absent(batch, np.where(named & ~lost, batch.after_row[rows.change], np.int32(-1))),
        "other_key": _other_keys(batch, encoder, rows),
    }
    if rows.marks is not None:
        columns[MARKS] = pa.array(rows.marks)
    if origin.form.plain is not None:
        plain = origin.plain
        columns |= {
            name: pa.nulls(n, pa.binary()) if plain is None else _taken(plain, getattr(rows, of), origin.form)
            for name, of in PLAIN.items()
        }
    if origin.form.program is not None:
        causes = {UNJUDGED: rows.unjudged, HELD_FOR_SINK: rows.held_for_sink}
        columns |= {name: pa.nulls(n, pa.string()) if told is None else told for name, told in causes.items()}
    if rows.flow_op is not None:
        columns[FLOW_OP] = _LETTERS.take(pa.array(rows.flow_op))
    if rows.places is not None:
        columns |= rows.places.columns | {CROSSING: pa.array(rows.crossing, pa.int8())}
    place = rows.change
    columns |= provenance(
        origin.transactions,
        (origin.server, origin.prefix),
        batch.transaction[place],
        batch.ordinal[place],
        rows.part,
    )
    return _assemble(columns, origin.form)


def _at(keys: pa.BinaryArray, named: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """Return the keys of the rows that have one, null for the others."""
    return keys if named.all() else keys.take(pa.array(np.cumsum(named) - 1, mask=~named))


def _form_fields(form: ImageForm) -> list[pa.Field]:
    names = [] if form.values is None and form.keys is None else [FORM_KEY]
    return [pa.field(name, pa.binary()) for name in [*names, *([] if form.plain is None else PLAIN)]]


def _absent(batch: TableBatch, after: npt.NDArray[np.int32]) -> pa.ListArray:
    """Return the columns that each after-image lacks, null without any and where the row is -1."""
    whole = np.array([carried.all() for carried in batch.presence_sets], np.bool_)
    if whole.all() or not len(batch.presence):
        return pa.nulls(len(after), _NAMES)
    names = np.array([column.name for column in batch.schema.columns], object)
    lacking = [None if carried.all() else names[~carried].tolist() for carried in batch.presence_sets]
    return pa.array([lacking[batch.presence[row]] if row >= 0 else None for row in after.tolist()], _NAMES)


def _other_keys(batch: TableBatch, encoder: KeyEncoder | None, rows: _Rows) -> pa.BinaryArray:
    """Return the key of the other half of each primary-key update, null for all other rows."""
    n = len(rows.change)
    before, after = batch.before_row[rows.change], batch.after_row[rows.change]
    halves = rows.split & (before >= 0) & (after >= 0)
    if encoder is None or not halves.any():
        return pa.nulls(n, pa.binary())
    inserted = rows.part[halves] > 0
    before, after = before[halves], after[halves]
    keys = encoder.keys(np.where(inserted, before, after), np.where(inserted, after, before))
    return keys.take(pa.array(np.cumsum(halves) - 1, mask=~halves))


def _taken(images: Images, rows: npt.NDArray[np.int32], form: ImageForm) -> pa.Array:
    return images.take(rows) if (rows >= 0).any() else form.nulls(len(rows))  # filters may have left no image


def _assemble(columns: dict[str, pa.Array], form: ImageForm) -> pa.RecordBatch:
    schema = arrow_schema(form.kind)
    if form.marks is not None:
        schema = schema.append(pa.field(MARKS, pa.int64()))
    for field in _form_fields(form):
        schema = schema.append(field)
    told = [] if form.program is None else [UNJUDGED]
    told += [FLOW_OP, HELD_FOR_SINK] if isinstance(form.program, SinkProgram) else []
    for name in told:
        schema = schema.append(pa.field(name, pa.string()))
    for field in PLACE_FIELDS if form.program is not None and form.program.places else ():
        schema = schema.append(field)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
