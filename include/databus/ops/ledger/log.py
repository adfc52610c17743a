"""The log read again: do the rows of each committed range still count as the ledger says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from databus.core.batches.counts import STATEMENTS, TableCounts
from databus.core.errors.source import (
    DecodeError,
    OffsetInvalidError,
    OffsetPurgedError,
    SchemaUnknownError,
    SourceDivergedError,
)
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import OffsetRange
from databus.core.positions.replaced_logs import is_of_former_log, of_former_log
from databus.core.protocols.source import Source
from databus.core.state.evidence import Evidence
from databus.core.state.ledger import LedgerSpan, SpanState
from databus.runtime.beside.look import look
from databus.runtime.context import Services

_NOT_THERE = (OffsetPurgedError, SourceDivergedError, SchemaUnknownError)
_NAMED = 5
"""Gaps that are listed one by one, the newest."""


def log_evidence(flow: Flow, services: Services, spans: Sequence[LedgerSpan], other: frozenset[int]) -> Evidence:
    """Read ranges again from the server, or from kept segments, and compare rows by table and bytes.

    Segments are staged under a name of their own beside the flow's, and deleted.

    Args:
        flow: the flow as it is defined now.
        services: where to connect.
        spans: batches to read again; others than whole batches are left out.
        other: batches that were read under another definition of the flow or by other code: differences are reported,
            but may be right.

    Raises:
        SourceUnavailableError: the server does not answer.
    """
    wanted = [s for s in spans if s.state not in (SpanState.GAP, SpanState.UNKNOWN) and not s.partial]
    same: list[int] = []
    left_out: dict[str, list[int]] = {}
    problems: list[str] = []
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with look(flow, services.connections, context) as source:
        for span in wanted:
            try:
                if is_of_former_log(span.end, spans[-1].end):
                    raise of_former_log(f"the range up to {span.end}", spans[-1].end)
                found, compacted = _differences(source, span)
            except _NOT_THERE as error:
                left_out.setdefault(f"not read again, {error.code}", []).append(span.batch)
            except DecodeError as error:
                if span.batch in other:
                    left_out.setdefault(f"not read again by this version, {error.message}", []).append(span.batch)
                else:
                    problems.append(f"batch {span.batch} ({span.start}, {span.end}]: {error.message}")
            except OffsetInvalidError as error:
                problems.append(f"batch {span.batch}: {error.message}")
            else:
                if found and span.batch in other:
                    left_out.setdefault("differ, but were read under another definition", []).append(span.batch)
                elif found:
                    problems += [f"batch {span.batch} ({span.start}, {span.end}]: {line}" for line in found]
                elif compacted:
                    left_out.setdefault("fewer rows are left in the log than were read, by compaction", []).append(
                        span.batch
                    )
                else:
                    same.append(span.batch)
    told = [f"batches {_ranges(same)} read again: {len(same)} equal"] if same else []
    told += [f"batches {_ranges(batches)}: {reason}" for reason, batches in sorted(left_out.items())]
    told += _passed_over([s for s in spans if s.state is SpanState.GAP])
    return Evidence("log", tuple(told), tuple(problems))


def _passed_over(gaps: Sequence[LedgerSpan]) -> list[str]:
    """Say of named gaps that nothing was moved there which could be compared."""
    told = [f"({gap.start}, {gap.end}] was passed over, not moved: {gap.cause}" for gap in gaps[-_NAMED:]]
    return told + ([f"{len(gaps) - _NAMED} earlier ranges were passed over as well"] if len(gaps) > _NAMED else [])


def _differences(source: Source, span: LedgerSpan) -> tuple[list[str], bool]:
    """Return what differs, and whether a log that loses rows by itself holds fewer now, which is no difference."""
    planned = source.reopen(OffsetRange(span.start, span.end))
    rows: Counter[str] = Counter()
    try:
        for split in source.splits(planned, 1):
            for batch in split.read():
                names = zip(
                    *(batch.column(name).to_pylist() for name in ("schema_id", "database", "table")), strict=True
                )
                rows.update(STATEMENTS if schema < 0 else f"{database}.{table}" for schema, database, table in names)
    finally:
        source.discard(planned)
    lines, fewer = [], False
    for table in sorted({*rows, *span.tables}):
        counts = span.tables.get(table, TableCounts())
        counted = counts.read - counts.snapshot  # what a snapshot brought is not in the log
        if planned.bound and rows[table] < counted:
            fewer = True
        elif counted != rows[table]:
            lines.append(f"table {table}: the log holds {rows[table]} rows, the ledger counts {counted}")
    if span.bytes is not None and planned.bytes != span.bytes and not fewer:
        lines.append(f"the log holds {planned.bytes} bytes, the ledger counts {span.bytes}")
    return lines, fewer


def _ranges(batches: Sequence[int]) -> str:
    """Write numbers as runs, e.g. "1–57, 60"."""
    runs: list[list[int]] = []
    for batch in batches:
        if runs and batch == runs[-1][1] + 1:
            runs[-1][1] = batch
        else:
            runs.append([batch, batch])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)
