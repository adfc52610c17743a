"""Record: store what a batch did. It may lag behind the commit and never fails a batch."""

from __future__ import annotations

import logging

from databus.core.batches.counts import TableCounts
from databus.core.batches.refusals import refusals
from databus.core.batches.report import BatchReport
from databus.core.errors.batch import RecordingError
from databus.core.expectations import MISSING
from databus.core.protocols.recorder import Recorder

log = logging.getLogger(__name__)


def record(recorder: Recorder, *reports: BatchReport) -> None:
    """Store reports of a flow; a failure is logged with its cause and the batches stay committed."""
    try:
        recorder.record(*reports)
    except RecordingError as error:
        batches = ", ".join(str(report.plan.batch) for report in reports)
        log.warning("flow %s: report of batch %s not stored: %s", reports[0].plan.flow, batches, error)


def log_batch(report: BatchReport) -> None:
    """Write the line an operator reads: what moved, from where to where, how long it took."""
    total = TableCounts.total(report.tables.values())
    superseded = f", {total.superseded} superseded" if total.superseded else ""
    spent = sum(report.durations_ms.values())
    log.info(
        "flow %s: batch %d epoch %d %s: %d rows (%d dispatched, %d filtered, %d quarantined%s), %d bytes in %.0f ms"
        " (%.0f rows/s); stages in ms: %s%s%s",
        report.plan.flow,
        report.plan.batch,
        report.epoch,
        report.plan.range,
        report.rows,
        total.dispatched,
        total.filtered,
        total.quarantined,
        superseded,
        report.bytes,
        spent,
        report.rows / spent * 1000 if spent else 0,
        " ".join(f"{stage}={value:.0f}" for stage, value in report.durations_ms.items()),
        f"; through Spark: {', '.join(report.through_spark)}" if report.through_spark else "",
        f"; watermark {report.watermark.isoformat()}" if report.watermark else "",
    )
    for refused in refusals(report.receipts):
        log.warning(
            "flow %s: batch %d: %s; held in quarantine (`databus quarantine list %s --stage %s`)",
            report.plan.flow, report.plan.batch, refused, report.plan.flow, refused.sink,
        )  # fmt: skip
    for receipt in report.receipts:
        if receipt.vanished:
            log.warning(
                "flow %s: batch %d: slot %d of sink %s holds %d rows that an earlier attempt had written and that the "
                "source did not have any more at the last (compaction, retention)",
                report.plan.flow, report.plan.batch, receipt.slot, receipt.sink, receipt.vanished,
            )  # fmt: skip
    for result in report.checks:
        if result.violations and result.kind != MISSING:
            log.warning(
                "flow %s: batch %d: check %s (%s) on %s: %d of %d violate%s",
                report.plan.flow,
                report.plan.batch,
                result.check,
                result.severity,
                result.table,
                result.violations,
                result.evaluated,
                f", observed {result.observed}" if result.observed else "",
            )
