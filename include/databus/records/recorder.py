"""Storing what batches did."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import sqlalchemy as sa

from databus.core.batches.receipts import RejectedRow
from databus.core.batches.refusals import kind_of_cause
from databus.core.batches.report import BatchPlan, BatchReport, CheckedBatch
from databus.core.positions.offset_ranges import moved_part
from databus.core.protocols.recorder import Clock
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.snapshot_progress import progress_of
from databus.core.tables.column_lineage import TableLineage
from databus.records import tables as t
from databus.records.batch_record import counts_row
from databus.records.definitions import NotedDefinitions
from databus.records.ledger.pages import LedgerPages
from databus.records.outputs import put_columns
from databus.records.quarantine.checked_batches import CheckedBatches
from databus.records.quarantine.held_row import HeldState
from databus.records.ranges import ranges_of_batch, ranges_of_chunks
from databus.records.run_ranges import run_number
from databus.records.store import RecordStore

log = logging.getLogger(__name__)

_CHUNK_ROWS = 500
"""Rows per statement: SQLite takes 32,766 parameters in one, PostgreSQL 65,535."""


class SqlRecorder:
    """Stores batch reports and quarantined rows in the records store.

    Args:
        store: the records store; closed with the recorder.
        clock: gives the time at which a row was held back; the system's by default.
    """

    def __init__(self, store: RecordStore, clock: Clock | None = None) -> None:
        self.store = store
        self._clock = clock
        self._pages = LedgerPages(store, clock)
        self._checked = CheckedBatches(store)
        self._definitions = NotedDefinitions()

    @classmethod
    def open(cls, url: str, clock: Clock | None = None) -> SqlRecorder:
        """Return a recorder; connects with the first record.

        Raises:
            ConfigError: not a URL of SQLite or PostgreSQL.
        """
        return cls(RecordStore(url), clock)

    def record(self, *reports: BatchReport) -> None:
        """Store reports in one transaction; a report that is there already (flow, batch, plan) is left as it is.

        But receipts of a sink that it lacks are added: one that fell behind takes the plan in flight by itself. And a
        report that was filled in from history meanwhile knows less: it is replaced.

        Raises:
            RecordingError: they could not be stored.
        """
        with self.store.transaction() as connection:
            told = _ReportBatch(self.store, connection)
            for report in reports:
                told.put(report)
            told.flush()
            noted = dict(filter(None, (self._definitions.put(connection, report) for report in reports)))
        self._definitions.done(noted)

    def quarantine(self, flow: str, batch: int, rows: Sequence[RejectedRow], plan_hash: str = "") -> None:
        """Store rows held back, one entry per flow, event and stage; a row held back again updates its entry.

        What a replay made of an entry is over once another batch than the one it replayed holds the row back again. An
        entry keeps the hash of the plan that held it where none is given.

        Raises:
            RecordingError: they could not be stored.
        """
        if not rows:
            return
        now = self._now()
        # One statement may not update an entry twice.
        entries = {(row.event_id, row.stage): _quarantine_row(flow, batch, plan_hash, row, now) for row in rows}
        values = list(entries.values())
        key = ("flow", "event_id", "stage")
        kept = (*key, "first_held_at", *(() if plan_hash else ("plan_hash",)))
        update = [name for name in values[0] if name not in kept]
        with self.store.transaction() as connection:
            for first in range(0, len(values), _CHUNK_ROWS):
                chunk = values[first : first + _CHUNK_ROWS]
                held = [(row["event_id"], row["stage"]) for row in chunk]
                if not plan_hash:
                    _forget_plans(connection, flow, batch, held)
                connection.execute(self.store.upsert(t.quarantine, chunk, key, update))
                _hold_again(connection, flow, batch, held, now)

    def checked_batches(self, flow: str, after: int) -> Sequence[CheckedBatch]:
        """Return the batches behind a number of which a check holds rows. Raises RecordingError."""
        return self._checked.after(flow, after)

    def held_by_checks(self, flow: str, batches: Collection[BatchPlan]) -> frozenset[str]:
        """Return the event ids of rows that a check held in some batches. Raises RecordingError."""
        return self._checked.rows_of(flow, batches)

    def paged(self, flow: str) -> int:
        """Return the number of the flow's newest ledger page, 0 without any. Raises RecordingError."""
        return self._pages.paged(flow)

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        """Write ledger pages and missing reports; see `LedgerPages.page`. Raises RecordingError."""
        return self._pages.page(flow, entries)

    def _now(self) -> datetime:
        return self._clock.now() if self._clock else datetime.now(UTC)

    def close(self) -> None:
        """Close the store; safe to call twice."""
        self.store.close()

    def __enter__(self) -> SqlRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _hold_again(
    connection: sa.Connection, flow: str, batch: int, rows: Sequence[tuple[str, str]], now: datetime
) -> None:
    """Make entries that a replay had settled held anew; what a person discarded stays so.

    The replay's stamp stays: it may not be committed yet.
    """
    d, q = t.quarantine_decisions.c, t.quarantine.c
    settled = (d.replay.is_not(None)) & (d.state != HeldState.HELD.value) & (d.origin != batch)
    mine = (d.flow == flow) & sa.tuple_(d.event_id, d.stage).in_(rows)
    update = t.quarantine_decisions.update().where(mine & settled).values(state=HeldState.HELD.value)
    again = [(row.event_id, row.stage) for row in connection.execute(update.returning(d.event_id, d.stage))]
    if again:
        anew = (q.flow == flow) & sa.tuple_(q.event_id, q.stage).in_(again)
        connection.execute(t.quarantine.update().where(anew).values(first_held_at=now))


def _forget_plans(connection: sa.Connection, flow: str, batch: int, rows: Sequence[tuple[str, str]]) -> None:
    """Forget the plans of entries that another batch held: the hash of one and the number of another name no batch."""
    q = t.quarantine.c
    others = (q.flow == flow) & (q.batch != batch) & sa.tuple_(q.event_id, q.stage).in_(rows)
    connection.execute(sa.update(t.quarantine).where(others).values(plan_hash=None))


class _ReportBatch:
    """Reports on their way into one transaction: what hangs on several of them goes in by one statement per table."""

    def __init__(self, store: RecordStore, connection: sa.Connection):
        self._store, self._connection = store, connection
        self._runs: dict[tuple[str, str, str], int] = {}
        self._columns: dict[int, Sequence[TableLineage]] = {}
        self._children: dict[sa.Table, list[dict[str, Any]]] = {}

    def put(self, report: BatchReport) -> None:
        row = _batch_row(report, self._run(report))
        insert = self._store.upsert(t.batches, (), ("flow", "batch", "plan_hash"), ())
        number = self._connection.execute(insert.returning(t.batches.c.id), row).scalar_one_or_none()
        if number is None:
            self.flush()  # what is there is looked at now
            number = _emptied(self._connection, row, report)
        if number is None:
            log.debug("flow %s: report of batch %d is there already", report.plan.flow, report.plan.batch)
            _add_receipts(self._connection, row, report)
            return
        for table, rows in _children(report):
            self._children.setdefault(table, []).extend({**row, "batch": number} for row in rows)

    def flush(self) -> None:
        for table, rows in self._children.items():
            if rows:
                self._connection.execute(table.insert(), rows)
        self._children = {}

    def _run(self, report: BatchReport) -> int:
        key = (report.plan.flow, report.run_id, report.run_url)
        if key not in self._runs:
            self._runs[key] = run_number(self._store, self._connection, *key)
        run = self._runs[key]
        if self._columns.get(run) != report.columns:
            put_columns(self._store, self._connection, run, report.columns)
            self._columns[run] = report.columns
        return run


def _add_receipts(connection: sa.Connection, row: Mapping[str, Any], report: BatchReport) -> None:
    """Add the receipts of sinks of which the stored report has none."""
    b, r = t.batches.c, t.receipts.c
    mine = (b.flow == row["flow"]) & (b.batch == row["batch"]) & (b.plan_hash == row["plan_hash"])
    number = connection.execute(sa.select(b.id).where(mine)).scalar_one()
    known = set(connection.execute(sa.select(r.sink).where(r.batch == number).distinct()).scalars())
    more = [{**receipt, "batch": number} for receipt in _receipt_rows(report) if receipt["sink"] not in known]
    if not more:
        return
    connection.execute(t.receipts.insert(), more)
    streams = set(connection.execute(sa.select(t.ranges.c.stream).where(t.ranges.c.batch == number)).scalars())
    found = [row for row in _ranges(report) if row["stream"] not in streams]
    if found:
        connection.execute(t.ranges.insert(), [{"flow": report.plan.flow, **row, "batch": number} for row in found])


def _receipt_rows(report: BatchReport) -> list[dict[str, Any]]:
    kept = {column.name for column in t.receipts.columns} - {"id", "batch"}
    receipts = [receipt.to_json() for receipt in report.receipts]
    return [{name: receipt[name] for name in kept} for receipt in receipts]


def _emptied(connection: sa.Connection, row: Mapping[str, Any], report: BatchReport) -> int | None:
    """Take over the report that was filled in from history: its own row becomes `row`, what hung on it is deleted.

    Receipts of sinks that are not this report's stay: they took the same plan by themselves.
    """
    b = t.batches.c
    mine = (b.flow == row["flow"]) & (b.batch == row["batch"]) & (b.plan_hash == row["plan_hash"]) & b.refilled
    update = t.batches.update().where(mine).values(**row, refilled=False).returning(b.id)
    number: int | None = connection.execute(update).scalar_one_or_none()
    sinks = {receipt.sink for receipt in report.receipts}
    connection.execute(t.receipts.delete().where((t.receipts.c.batch == number) & t.receipts.c.sink.in_(sinks)))
    streams = {row["stream"] for row in _ranges(report)}
    connection.execute(t.ranges.delete().where((t.ranges.c.batch == number) & t.ranges.c.stream.in_(streams)))
    for table in (t.table_counts, t.check_results):
        connection.execute(table.delete().where(table.c.batch == number))
    return number


def _batch_row(report: BatchReport, run: int) -> dict[str, Any]:
    plan, covered = report.plan, moved_part(report.plan.range)
    return {
        "run": run,
        "flow": plan.flow,
        "batch": plan.batch,
        "plan_hash": plan.hash,
        "spec_hash": plan.spec_hash,
        "mode": plan.mode,
        "epoch": report.epoch,
        "attempt": report.attempt,
        "range_start": covered.start.to_json(),
        "range_end": covered.end.to_json(),
        "rows": report.rows,
        "bytes": report.bytes,
        "durations_ms": dict(report.durations_ms),
        "watermark": report.watermark,
        "committed_at": report.committed_at,
        "code_version": report.code_version,
        "lost": report.lost.why if report.lost else None,
        "snapshot_progress": progress_of(plan.chunks.snapshot, report.committed_at).to_json() if plan.chunks else None,
    }


def _children(report: BatchReport) -> list[tuple[sa.Table, list[dict[str, Any]]]]:
    counts = [counts_row(name, counts) for name, counts in sorted(report.tables.items())]
    checks = [
        {
            "check_name": result.check,
            "kind": result.kind,
            "column_name": result.column,
            "table_name": result.table,
            "severity": result.severity,
            "evaluated": result.evaluated,
            "violations": result.violations,
            "observed": result.observed,
        }
        for result in report.checks
    ]
    return [
        (t.table_counts, counts),
        (t.receipts, _receipt_rows(report)),
        (t.check_results, checks),
        (t.ranges, [{"flow": report.plan.flow, **row} for row in _ranges(report)]),
    ]


def _ranges(report: BatchReport) -> list[dict[str, Any]]:
    moved = moved_part(report.plan.range)
    outputs = [r.outputs for r in report.receipts]
    of_log = ranges_of_batch(moved.start.to_json(), moved.end.to_json(), outputs)
    return [*of_log, *ranges_of_chunks(report.plan.chunks)]


def _quarantine_row(flow: str, batch: int, plan_hash: str, row: RejectedRow, now: datetime) -> dict[str, Any]:
    return {
        "flow": flow,
        "event_id": row.event_id,
        "stage": row.stage,
        "batch": batch,
        "table_name": row.table,
        "key": row.key,
        "cause": row.cause,
        "cause_class": kind_of_cause(row.stage, row.cause),
        "position": row.position,
        "payload": row.payload,
        "plan_hash": plan_hash or None,
        "first_held_at": now,
        "last_held_at": now,
    }
