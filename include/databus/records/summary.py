"""The sum of a run: its batches added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from databus.core.batches.counts import SinkCounts, TableCounts, state_of
from databus.core.batches.report import CheckResult
from databus.core.positions.offsets import Offset
from databus.core.state.snapshot_progress import SnapshotProgress
from databus.records.batch_record import BatchRecord


@dataclass(frozen=True)
class SinkTotal:
    """Sink total of a run.

    Attributes:
        sink: sink name.
        written: records written.
        rows: rows by table.
        rejected: rows refused for good.
        outputs: output ("topic[partition]", index) → counts that add up; first and last offsets span the run.
    """

    sink: str
    written: int
    rows: Mapping[str, int]
    rejected: int
    outputs: Mapping[str, Mapping[str, Any]]

    @property
    def counts(self) -> SinkCounts:
        """Rows that the sink confirmed and refused, and the statements that it took apart from them."""
        return SinkCounts.of(self.rows, self.rejected, self.outputs)


@dataclass(frozen=True)
class RunSummary:
    """Run summary.

    Attributes:
        flow: flow name.
        run_id: run id.
        run_url: address of the run's page, "" when unknown.
        batches: numbers of its batches in order of commit.
        start: start of the first range, None for an idle run.
        end: end of the last range, None for an idle run.
        bytes: log bytes read.
        durations_ms: stage → milliseconds over all batches.
        watermark: the newest watermark, None when unknown.
        tables: counts by table.
        sinks: totals of each sink.
        checks: results of each check and table over all batches; `observed` is the last batch's.
        snapshot: how far the snapshot was whose chunks it took along last, at the run's own rate; None without.
        gaps_passed: why ranges that its batches passed over unread are gone, each once.
    """

    flow: str
    run_id: str
    run_url: str
    batches: tuple[int, ...]
    start: Offset | None
    end: Offset | None
    bytes: int
    durations_ms: Mapping[str, float]
    watermark: datetime | None
    tables: Mapping[str, TableCounts]
    sinks: tuple[SinkTotal, ...]
    checks: tuple[CheckResult, ...]
    snapshot: SnapshotProgress | None = None
    gaps_passed: tuple[str, ...] = ()

    @property
    def total(self) -> TableCounts:
        """Counts over all tables."""
        return TableCounts.total(self.tables.values())

    @property
    def state(self) -> str:
        """State, the worst first: rows "lost" to a gap, "rejected" by a sink, "quarantined" by checks, else "ok"."""
        return state_of((sink.counts for sink in self.sinks), self.total.quarantined, len(self.gaps_passed))

    @property
    def reconciled(self) -> bool:
        """Return whether every row read is accounted for, table by table."""
        return all(counts.reconciled for counts in self.tables.values())


def summarize(flow: str, run_id: str, batches: Sequence[BatchRecord]) -> RunSummary:
    """Add up the batches of a run, in the order of their commits."""
    durations: Counter[str] = Counter()
    tables: dict[str, TableCounts] = {}
    for batch in batches:
        durations.update(batch.durations_ms)
        for table, counts in batch.tables.items():
            tables[table] = tables.get(table, TableCounts()).plus(counts)
    watermarks = [batch.watermark for batch in batches if batch.watermark is not None]
    return RunSummary(
        flow=flow,
        run_id=run_id,
        run_url=batches[-1].run_url if batches else "",
        batches=tuple(batch.batch for batch in batches),
        start=batches[0].start if batches else None,
        end=batches[-1].end if batches else None,
        bytes=sum(batch.bytes for batch in batches),
        durations_ms=dict(durations),
        watermark=max(watermarks, default=None),
        tables=dict(sorted(tables.items())),
        sinks=_sinks(receipt for batch in batches for receipt in batch.receipts),
        checks=_checks(result for batch in batches for result in batch.checks),
        snapshot=_snapshot([batch.snapshot for batch in batches if batch.snapshot is not None]),
        gaps_passed=tuple(dict.fromkeys(batch.lost for batch in batches if batch.lost)),
    )


def _snapshot(seen: Sequence[SnapshotProgress]) -> SnapshotProgress | None:
    """Return the last progress, its rate counted from the first of the same snapshot."""
    if not seen:
        return None
    first = next(one for one in seen if one.number == seen[-1].number)
    return seen[-1].since(first)


def _checks(results: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    totals: dict[tuple[str, str, str], CheckResult] = {}
    for result in results:
        # The severity may be changed in mid-run: each counts for itself.
        place = (result.check, result.table, result.severity)
        before = totals.get(place)
        totals[place] = (
            replace(
                result,
                evaluated=before.evaluated + result.evaluated,
                violations=before.violations + result.violations,
            )
            if before
            else result
        )
    return tuple(totals[place] for place in sorted(totals))


def _sinks(receipts: Iterable[Mapping[str, Any]]) -> tuple[SinkTotal, ...]:
    by_sink: dict[str, list[Mapping[str, Any]]] = {}
    for receipt in receipts:
        by_sink.setdefault(receipt["sink"], []).append(receipt)
    totals = []
    for sink, mine in sorted(by_sink.items()):
        rows: Counter[str] = Counter()
        outputs: dict[str, dict[str, Any]] = {}
        for receipt in mine:
            rows.update(receipt["rows"])
            for output, facts in receipt["outputs"].items():
                _add(outputs.setdefault(output, {}), facts)
        written, rejected = (sum(receipt[name] for receipt in mine) for name in ("written", "rejected"))
        totals.append(SinkTotal(sink, written, dict(rows), rejected, outputs))
    return tuple(totals)


def _add(total: dict[str, Any], facts: Mapping[str, Any]) -> None:
    for name, value in facts.items():
        if name not in total:
            total[name] = value
        elif name == "first_offset":
            total[name] = min(total[name], value)
        elif name == "last_offset":
            total[name] = max(total[name], value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            total[name] += value
        else:
            total[name] = value
