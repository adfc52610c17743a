"""Rules: what a flow's figures say, as verdicts. All rules are on; a flow sets thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import Field, model_validator

from databus.core.alerts.alert import AlertKind, AlertSpec
from databus.core.alerts.flow_status import FlowFigures
from databus.core.amounts import counted
from databus.core.flow import Flow
from databus.core.stored_options import HOUR, MINUTE, SECOND, ZERO, Duration, StoredOption
from databus.observe.alerts.hysteresis import NotificationTiming, RuleVerdict, above, below, worst


class AlertWhen(AlertSpec):
    """Thresholds of a flow's alerts, e.g. `AlertWhen(lag=timedelta(minutes=1), run_time=timedelta(hours=1))`.

    Attributes:
        lag: greatest age of the oldest uncommitted change, e.g. timedelta(minutes=1); default 5 minutes, None for no
            such bound.
        lag_rows: most rows not committed (estimated by the bytes a row took lately), e.g. 1_000_000; default None, no
            such bound.
        lag_bytes: most log bytes not committed, e.g. 1 << 30; default None, no such bound.
        hold: time that lag has to be over without a break before an alert is sent, e.g. timedelta(seconds=30); default
            0.
        clear_ratio: share of the threshold at which lag and headroom have recovered, so that a value that swings around
            one alert is sent, e.g. 0.5; default 0.8.
        headroom: least time until the source's server may delete what the flow needs next, e.g. timedelta(hours=12);
            default None, the source's own bound.
        quarantine_rows: most rows that checks may hold back within `quarantine_within`, e.g. 10; default 0.
        rejected_rows: most rows that a sink may refuse within `quarantine_within`, e.g. 10; default 0.
        quarantine_within: time over which these rows are counted, e.g. timedelta(minutes=10); default one hour.
        no_run: longest time that no run has held the flow's lease, e.g. timedelta(minutes=30); a paused flow is left
            alone. Default 10 minutes, None for never.
        run_time: longest time that a run takes (Airflow's deadline, and the lease's age for `databus watch`), e.g.
            timedelta(hours=1); default None, no such bound.
        remind: time after which an alert that is still on is sent again, e.g. timedelta(hours=4), at least a minute;
            default None, never.
        off: kinds that are not sent, e.g. ("quality",); default none.
    """

    kind: ClassVar[str] = "when"

    lag: Duration | None = Field(timedelta(minutes=5), gt=ZERO)
    lag_rows: int | None = Field(None, gt=0)
    lag_bytes: int | None = Field(None, gt=0)
    hold: Duration = Field(ZERO, ge=ZERO)
    clear_ratio: float = Field(0.8, gt=0, le=1)
    headroom: Duration | None = Field(None, gt=ZERO)
    quarantine_rows: int = Field(0, ge=0)
    rejected_rows: int = Field(0, ge=0)
    quarantine_within: Duration = Field(HOUR, gt=ZERO)
    no_run: Duration | None = Field(timedelta(minutes=10), gt=ZERO)
    run_time: Duration | None = Field(None, gt=ZERO)
    remind: Duration | None = Field(None, gt=ZERO)
    off: tuple[AlertKind, ...] = ()

    lag_seconds: ClassVar = StoredOption[float | None]("lag", SECOND)
    hold_seconds: ClassVar = StoredOption[float]("hold", SECOND)
    headroom_seconds: ClassVar = StoredOption[float | None]("headroom", SECOND)
    quarantine_minutes: ClassVar = StoredOption[float]("quarantine_within", MINUTE)
    no_run_minutes: ClassVar = StoredOption[float | None]("no_run", MINUTE)
    run_minutes: ClassVar = StoredOption[float | None]("run_time", MINUTE)
    remind_hours: ClassVar = StoredOption[float | None]("remind", HOUR)

    @model_validator(mode="after")
    def _hold_is_shorter(self) -> AlertWhen:
        if self.remind is not None and self.remind < MINUTE:
            raise ValueError("remind is shorter than a minute")
        return self

    def patience(self, kind: AlertKind) -> NotificationTiming:
        """Return how soon and how often alerts of a kind are sent."""
        remind_s = self.remind_hours * 3600 if self.remind_hours is not None else None
        return NotificationTiming(self.hold_seconds if kind is AlertKind.LAG else 0.0, remind_s)


def rules_of(flow: Flow) -> AlertWhen:
    """Return a flow's thresholds, the defaults when it names none."""
    return next((spec for spec in flow.alerts if isinstance(spec, AlertWhen)), AlertWhen())


@dataclass(frozen=True)
class Observation:
    """Observation of a flow by a rule.

    Attributes:
        kind: what it looked at.
        verdict: what it says.
        summary: one line for people, with the figure and the threshold.
        subject: distinguishes observations of a kind.
        figures: name → figure.
        range: range of the log concerned, "" when there is none.
        run_id: run concerned, "" when none.
        run_url: address of its page.
    """

    kind: AlertKind
    verdict: RuleVerdict
    summary: str
    subject: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    range: str = ""
    run_id: str = ""
    run_url: str = ""

    @property
    def key(self) -> str:
        """Name of its state in the book."""
        return f"{self.kind}/{self.subject}" if self.subject else str(self.kind)


_MISSING_TOLD = 20
"""Tables and topics that are named one by one, when a whole database goes."""

LEASE = "lease"
"""Subject of the deadline that whoever holds the lease has missed; the others are runs."""


def late_run(key: str) -> str:
    """Return the run id of a state's key that is a run's missed deadline, "" of any other key."""
    kind, _, subject = key.partition("/")
    return subject if kind == AlertKind.DEADLINE and subject != LEASE else ""


def comes_once(key: str) -> bool:
    """Return whether what a state's key names never comes back once it is over: a run's missed deadline, a gap."""
    return bool(late_run(key)) or key.startswith(f"{AlertKind.GAP}/")


JUDGED = frozenset(
    {
        AlertKind.LAG, AlertKind.GAP, AlertKind.HEADROOM, AlertKind.QUALITY, AlertKind.QUARANTINE, AlertKind.REJECTED,
        AlertKind.DEADLINE, AlertKind.NO_RUN, AlertKind.SINK_BEHIND, AlertKind.MISSING_TABLES, AlertKind.UNREACHABLE,
    }
)  # fmt: skip
"""Kinds that `judge` says something of; failures are reported by tasks, Airflow's health by `databus watch`."""


def judge(figures: FlowFigures, when: AlertWhen) -> list[Observation]:
    """Return an observation for each rule that can be judged by the figures, and for each subject that is over."""
    found = [
        *_lag(figures, when),
        *_gaps(figures),
        *_headroom(figures, when),
        *_quality(figures),
        *_quarantine(figures, when),
        *_rejected(figures, when),
        *_runs(figures, when),
        *_behind(figures),
        *_missing(figures),
        *_unreachable(figures),
    ]
    return [observation for observation in found if observation.kind not in when.off]


def _lag(f: FlowFigures, when: AlertWhen) -> Iterator[Observation]:
    bounds = (
        (f.lag_seconds, when.lag_seconds, "s"),
        (f.lag_rows, when.lag_rows, "rows (estimated)"),
        (f.lag_bytes, when.lag_bytes, "bytes"),
    )
    asked = [(value, bound, unit) for value, bound, unit in bounds if bound is not None]
    verdict = worst(above(value, bound, when.clear_ratio) for value, bound, _ in asked)
    said = ", ".join(f"{value:,.0f} of {bound:,.0f} {unit}" for value, bound, unit in asked if value is not None)
    yield Observation(
        AlertKind.LAG,
        verdict,
        f"lag {said}",
        figures={"lag_seconds": f.lag_seconds, "lag_bytes": f.lag_bytes, "lag_rows": f.lag_rows},
        range=f.open_range,
        run_id=f.run_id,
        run_url=f.run_url,
    )


def _gaps(f: FlowFigures) -> Iterator[Observation]:
    for gap in f.gaps or ():
        yield Observation(
            AlertKind.GAP,
            RuleVerdict.OVER,
            f"gap {gap.number}: {gap.cause}; the flow stops before it until somebody decides",
            str(gap.number),
            {"gap": gap.number, "cause": gap.cause, "noted_at": gap.at.isoformat()},
            f"({gap.start}, {gap.end}]",
            gap.who,
            gap.run_url,
        )


def _headroom(f: FlowFigures, when: AlertWhen) -> Iterator[Observation]:
    room = f.headroom
    if room is None:
        return
    if when.headroom_seconds is None:
        verdict = RuleVerdict.OVER if room.low else RuleVerdict.CLEAR
    elif room.seconds is None:
        verdict = RuleVerdict.CLEAR
    else:
        verdict = below(room.seconds, when.headroom_seconds, when.clear_ratio)
    yield Observation(
        AlertKind.HEADROOM,
        verdict,
        f"retention headroom: {room}",
        figures={"headroom_seconds": room.seconds, "headroom_bytes": room.bytes, "kept_seconds": room.kept_s},
        range=f.open_range,
        run_id=f.committed_run or f.run_id,
        run_url=f.committed_url if f.committed_run else f.run_url,
    )


def _quality(f: FlowFigures) -> Iterator[Observation]:
    if f.quality_passed is None:
        return
    yield Observation(
        AlertKind.QUALITY,
        RuleVerdict.CLEAR if f.quality_passed else RuleVerdict.OVER,
        f"quality of run {f.quality_run}: {f.quality_violations} violations",
        figures={"violations": f.quality_violations},
        range=f.quality_range,
        run_id=f.quality_run,
        run_url=f.quality_url,
    )


def _quarantine(f: FlowFigures, when: AlertWhen) -> Iterator[Observation]:
    held = bool(f.quarantine_run)
    yield Observation(
        AlertKind.QUARANTINE,
        above(f.quarantine_new, when.quarantine_rows, 1.0),
        f"{counted(f.quarantine_new or 0, 'row')} held back in {when.quarantine_minutes:g} minutes, "
        f"{f.quarantine_rows} in all",
        figures={"quarantine_new_rows": f.quarantine_new, "quarantine_rows": f.quarantine_rows},
        range=f.quarantine_range or (f.plan_range if f.quarantine_new else ""),
        run_id=f.quarantine_run if held else f.committed_run,
        run_url=f.quarantine_url if held else f.committed_url,
    )


def _rejected(f: FlowFigures, when: AlertWhen) -> Iterator[Observation]:
    for sink, rows in (f.rejected or {}).items():
        new = bool(rows.run_id)
        yield Observation(
            AlertKind.REJECTED,
            above(rows.new, when.rejected_rows, 1.0),
            f"sink {sink} refused {counted(rows.new, 'row')} in {when.quarantine_minutes:g} minutes; "
            f"it lacks {rows.held} in all, which are in quarantine",
            sink,
            {"rejected_new_rows": rows.new, "rejected_rows": rows.held},
            rows.range or (f.plan_range if rows.new else ""),
            rows.run_id if new else f.committed_run,
            rows.run_url if new else f.committed_url,
        )


def _runs(f: FlowFigures, when: AlertWhen) -> Iterator[Observation]:
    if when.no_run_minutes is not None and "checkpoint store" not in f.unreachable:
        idle_s = (f.at - f.last_run_at).total_seconds() if f.last_run_at else None
        verdict = above(idle_s, when.no_run_minutes * 60, 1.0)
        said = f"no run for {(idle_s or 0) / 60:.1f} minutes" if idle_s is not None else "never run"
        yield Observation(
            AlertKind.NO_RUN,
            RuleVerdict.CLEAR if f.paused else verdict,
            said + (f" ({f.paused})" if f.paused else ""),
            figures={"idle_seconds": idle_s, "lag_bytes": f.lag_bytes, "lag_seconds": f.lag_seconds},
            range=f.open_range,
            run_id=f.run_id,
            run_url=f.run_url,
        )
    if when.run_minutes is not None and "checkpoint store" not in f.unreachable:
        held_s = f.window_seconds or 0.0
        yield Observation(
            AlertKind.DEADLINE,
            above(held_s, when.run_minutes * 60, 1.0),
            f"a run has held the lease for {held_s / 60:.1f} of {when.run_minutes:g} minutes",
            LEASE,
            {"window_seconds": held_s},
            f.plan_range or f.open_range,
            f.run_id,
            f.run_url,
        )


def _behind(f: FlowFigures) -> Iterator[Observation]:
    for sink in f.behind or ():
        yield Observation(
            AlertKind.SINK_BEHIND,
            RuleVerdict.OVER,
            f"sink {sink} fell behind, the others go on without it",
            sink,
            {"lag_bytes": f.lag_bytes, "lag_seconds": f.lag_seconds},
            f.open_range,
            f.run_id,
            f.run_url,
        )


def _missing(f: FlowFigures) -> Iterator[Observation]:
    missing = f.missing_tables or ()
    told, others = missing[:_MISSING_TOLD], missing[_MISSING_TOLD:]
    said = {name: f"nothing more comes of {name}: it is not there (any more)" for name in told}
    if others:
        said["others"] = f"nothing more comes of {len(others)} others, from {others[0]} to {others[-1]}"
    for subject, summary in said.items():
        figures = {"missing_tables": len(missing), "lag_seconds": f.lag_seconds}
        told_of = f.open_range, f.run_id, f.run_url
        yield Observation(AlertKind.MISSING_TABLES, RuleVerdict.OVER, summary, subject, figures, *told_of)


def _unreachable(f: FlowFigures) -> Iterator[Observation]:
    for what, error in f.unreachable.items():
        said = f"{what} does not answer: {error}"
        yield Observation(AlertKind.UNREACHABLE, RuleVerdict.OVER, said, what, {}, f.open_range, f.run_id, f.run_url)
