"""Answers that account for a flow: ledger, gaps, audit, quality, lag, mirrors, findings, alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from databus.web.answers.parts import Answer, Counts, GapAnswer, Json, ProgressAnswer, SinkCountsAnswer


class ProblemAnswer(Answer):
    """Fault of an account: what does not add up."""

    subject: str
    problem: str


class LookedAt(Answer):
    """Comparison that was made."""

    subject: str
    what: str


class Span(Counts):
    """Part of the log, and what its rows came to."""

    start: str = Field(alias="from")
    end: str = Field(alias="to")
    kind: str
    batches: str | None
    bytes: int | None


class LedgerSums(Answer):
    """Sums of a flow's ledger, between two places of its log."""

    flow: str
    start: Json | str | None = Field(alias="from")
    end: Json | str | None = Field(alias="to")
    batch: int
    entries: int
    entries_not_paged: int
    bytes: int
    bytes_by_state: dict[str, int]
    rows: Counts
    sinks: dict[str, SinkCountsAnswer]
    tables: dict[str, Counts]
    rows_replayed: int
    pending: list[list[str | int]] = Field(description="Prepared transactions: xid, file, start, end.")
    plan_in_flight: str | None
    problems: list[ProblemAnswer]


class LedgerAnswer(LedgerSums):
    """Account of every byte and row of a flow's log."""

    start: Json | None = Field(alias="from")
    end: Json | None = Field(alias="to")
    spans: list[Span]
    gaps: list[GapAnswer]


class BandColumn(Answer):
    """Column of the band: neighbouring spans of the log, or one gap or hole."""

    kind: Literal["read", "gap", "unknown"]
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    batches: list[int] | None
    bytes: int | None
    cause: str
    gaps: list[int]
    partial: bool
    at: datetime | None
    rows: Counts


class BandGap(Answer):
    """Gap beside the band, places as text."""

    number: int
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    cause: str
    decision: str
    decided: bool
    taken_back: bool
    who: str
    why: str
    at: datetime
    run_url: str


class Band(LedgerSums):
    """Ledger as a band of columns."""

    start: str | None = Field(alias="from")
    end: str | None = Field(alias="to")
    gaps: list[BandGap]
    band: list[BandColumn]


class Verified(LedgerAnswer):
    """Ledger that was derived again."""

    sound: bool
    looked_at: list[LookedAt]


class Gaps(Answer):
    """Gaps of a flow."""

    flow: str
    gaps: list[GapAnswer]


class AuditEntryAnswer(Answer):
    """Entry of the audit: what somebody did."""

    at: datetime
    who: str
    action: str
    why: str
    subject: str
    facts: str
    number: int


class AuditPage(Answer):
    """Page of an audit."""

    items: list[AuditEntryAnswer]
    actions: list[str] = Field(description="What was done at all, by the names of `action`.")
    next: str | None


class QualityRun(Answer):
    """Results of a run."""

    run_id: str
    evaluated_at: datetime
    success: bool | None
    worst: str | None
    evaluated: int
    violations: int
    data_docs: str


class FindingAnswer(Answer):
    """Newest result of a check or an expectation; `trend` is its share of violations over the runs, oldest first."""

    name: str
    table: str
    action: str
    met: bool | None
    evaluated: int
    violations: int
    violating_percent: float | None = None
    observed: Any = None
    judged_by: str = ""
    error: str = ""
    trend: list[float | None]


class Quality(Answer):
    """Results of checks and expectations."""

    flow: str
    runs: list[QualityRun]
    latest: list[FindingAnswer]


class FoundInRun(Answer):
    """Findings of one run for a check."""

    evaluated: int
    violations: int
    violating_percent: float | None
    met: bool | None
    error: str


class CheckOverRuns(Answer):
    """Check or expectation as its newest run had it; `runs` is what each run found, oldest first, null: not judged."""

    name: str
    table: str
    action: str
    met: bool | None
    evaluated: int
    violations: int
    violating_percent: float | None
    observed: Any
    judged_by: str
    error: str
    runs: list[FoundInRun | None]


class QualityByRun(Answer):
    """Results of checks and expectations, run by run."""

    flow: str
    runs: list[QualityRun]
    checks: list[CheckOverRuns]


class LagNow(Answer):
    """Distance to the head of the source's log."""

    bytes: int | None
    seconds: float | None
    head: str
    measured_at: datetime


class HeadroomAnswer(Answer):
    """Distance to what the source's server deletes."""

    seconds: float | None
    bytes: int
    file: str
    kept_s: int | None
    low: bool


class BeginningAnswer(Answer):
    """Place where a flow that never ran would begin."""

    start: str
    at: str
    head: str
    rows: bool
    text: str


class LagAnswer(Answer):
    """Lag of a flow."""

    flow: str
    committed: str | None
    lag: LagNow | None
    headroom: HeadroomAnswer | None
    eta_s: float | None
    beginning: BeginningAnswer | None
    snapshot: ProgressAnswer | None


class PartitionLagAnswer(Answer):
    """Lag of a partition."""

    topic: str
    partition: int
    records: int
    seconds: float | None
    held_back: int
    target: str


class Partitions(Answer):
    """Lag of a mirror's partitions."""

    flow: str
    partitions: list[PartitionLagAnswer]


class HeartbeatAnswer(Answer):
    """Newest heartbeat of a mirror that has arrived."""

    flow: str
    written_at: datetime | None
    age_seconds: float | None


class Translated(Answer):
    """Offset of a consumer on the other side."""

    topic: str
    partition: int
    offset: int | None


class ProbeAnswer(Answer):
    """Finding of doctor."""

    level: Literal["ok", "warn", "error"]
    subject: str
    found: str
    what_to_do: str
    code: str


class Doctor(Answer):
    """Finding: what is missing."""

    flow: str
    worst: Literal["ok", "warn", "error"]
    findings: list[ProbeAnswer]


class AlertAnswer(Answer):
    """Alert of a flow; `problem` says why its state cannot be read."""

    flow: str
    alert: str
    on: bool | None
    since: datetime | None
    number: int | None
    owed_to: str
    problem: str | None


class Alerts(Answer):
    """Alerts of a flow."""

    flow: str
    alerts: list[AlertAnswer]


class Planned(Answer):
    """Range of the next batch; without one, `next` is null and `note` says so."""

    flow: str
    next: None = None
    note: str = ""
    snapshot: str = ""
    range: str | None = None
    unfinished: bool | None = None
    rows: int | None = None
    bytes: int | None = None
    tables: list[str] | None = None
    lane: dict[str, str] | None = None
    outputs: dict[str, list[str]] | None = None
    profiles: dict[str, str] | None = None
    sinks_behind: dict[str, str] | None = None
    more_follows: bool | None = None
