"""Prometheus rules over the figures of `databus watch`: recorded series, and alerts at the default thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.alerts.alert import SEVERITIES, AlertKind, Severity
from databus.observe.alerts.rules import AlertWhen
from databus.observe.charts.grafana import worst

RUNBOOKS = "docs/runbooks"
"""Base address of the runbooks' links; `--runbooks` and the chart's value set another."""

LATE_S = int(AlertWhen().lag_seconds or 0)
NO_RUN_S = int((AlertWhen().no_run_minutes or 0) * 60)


@dataclass(frozen=True)
class RecordedSeries:
    """Recording rule.

    Attributes:
        name: as Prometheus names them: level, metric, operation.
        expr: PromQL.
        labels: labels of its samples.
        text: what it says, with its unit.
    """

    name: str
    expr: str
    labels: tuple[str, ...]
    text: str

    def json(self) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {"record": self.name, "expr": self.expr}


@dataclass(frozen=True)
class AlertRule:
    """Alerting rule.

    Attributes:
        name: of the alert.
        expr: PromQL; each series is an alert.
        holds: time that it has to hold, in Prometheus' words.
        severity: as that of the flow's own alerts.
        runbook: page below docs/runbooks, without its ending.
        summary: one line; labels and value are filled in.
        text: what the alert means.
    """

    name: str
    expr: str
    holds: str
    severity: Severity
    runbook: str
    summary: str
    text: str

    def json(self, runbooks: str) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        told = {"summary": self.summary, "description": self.text}
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.holds,
            "labels": {"severity": str(self.severity)},
            "annotations": {**told, "runbook_url": f"{runbooks.rstrip('/')}/{self.runbook}.md"},
        }


def _all(name: str, *by: str) -> str:
    return worst(name, by=by, match="")


_FLOW = ("flow",)
_TOPIC = ("flow", "topic")

RECORDED = (
    RecordedSeries(
        "flow:databus_lag_late:bool", f"{_all('lag_seconds')} > bool {LATE_S} or {_all('unreachable', *_FLOW)}", _FLOW,
        "1 while the flow's lag is above the default threshold, or cannot be measured",
    ),
    RecordedSeries(
        "flow:databus_lag_fresh:ratio1h", "1 - avg_over_time(flow:databus_lag_late:bool[1h])", _FLOW,
        "share of the last hour in which the lag was within the default threshold",
    ),
    RecordedSeries(
        "flow:databus_batches:rate5m", f"clamp_min(deriv(({_all('batch')})[5m:30s]), 0)", _FLOW,
        "batches committed per second",
    ),
    RecordedSeries(
        "flow:databus_lease_claims:rate5m", "max by (flow) (rate(databus_lease_claims_total[5m]))", _FLOW,
        "claims of the lease per second",
    ),
    RecordedSeries(
        "flow:databus_rejected_rows:sum", f"sum by (flow) ({_all('rejected_rows')})", _FLOW,
        "rows that sinks refused and that are not settled, over all sinks",
    ),
    RecordedSeries(
        "flow_topic:databus_partition_lag_records:sum", f"sum by (flow, topic) ({_all('partition_lag_records')})",
        _TOPIC, "offsets of a topic not committed",
    ),
    RecordedSeries(
        "flow_topic:databus_partition_lag_seconds:max", _all("partition_lag_seconds", *_TOPIC), _TOPIC,
        "age in seconds of the first of them",
    ),
    RecordedSeries(
        "flow_topic:databus_partition_held_back_records:sum",
        f"sum by (flow, topic) ({_all('partition_held_back_records')})", _TOPIC,
        "offsets of a topic that cannot be read, for a transaction is open",
    ),
    RecordedSeries(
        "flow:databus_snapshot_progress:ratio",
        f"{_all('snapshot_rows')} / ({_all('snapshot_rows')} + {_all('snapshot_rows_left')} > 0)", _FLOW,
        "share of the rows that the flow's last snapshot has read, by the server's estimate",
    ),
    RecordedSeries(
        "plane:databus_flows_late:sum", "sum(flow:databus_lag_late:bool)", (),
        "flows whose lag is above the default threshold, or cannot be measured",
    ),
    RecordedSeries(
        "plane:databus_recent_rows_per_second:sum", f"sum({_all('recent_rows_per_second')})", (),
        "rows read per second, over all flows",
    ),
    RecordedSeries(
        "plane:databus_recent_bytes_per_second:sum", f"sum({_all('recent_bytes_per_second')})", (),
        "log bytes read per second, over all flows",
    ),
)  # fmt: skip
"""Recording rules in order: a later one may read an earlier one."""


_OTHERS = {
    "SnapshotStalled": Severity.WARNING,
    "WatchAbsent": Severity.CRITICAL,
    "WatchStuck": Severity.CRITICAL,
    "BrokenFiles": Severity.WARNING,
}
"""Alerts that are no kind of the product's own."""

_UNPAUSED = f"unless on (flow) {_all('paused')} == 1"
_MOVING = 'state=~"waiting|reading"'


def _raised(kind: AlertKind) -> str:
    return worst("alerts", match=f'kind="{kind}"')


def _alert(kind: AlertKind | str, name: str, expr: str, holds: str, *told: str) -> AlertRule:
    severity = _OTHERS[name] if name in _OTHERS else SEVERITIES[AlertKind(kind)]
    summary, text = told
    return AlertRule(f"Databus{name}", expr, holds, severity, str(kind), summary, text)


ALERTS = (
    _alert(
        AlertKind.LAG, "Lag", f"{_all('lag_seconds')} > {LATE_S}", "1m",
        "{{ $labels.flow }} is {{ $value | humanizeDuration }} behind its source",
        "The oldest uncommitted change is older than the threshold.",
    ),
    _alert(
        AlertKind.GAP, "Gap", f"{_all('gaps')} > 0", "0s",
        "{{ $labels.flow }} has {{ $value }} gaps that nobody has decided on",
        "The source deleted log that the flow has not read. The flow stops before the gap until a person decides.",
    ),
    _alert(
        AlertKind.HEADROOM, "Headroom", f"{_all('headroom_seconds')} and on (flow) {_all('headroom_low')} == 1", "1m",
        "The source of {{ $labels.flow }} may delete unread log in {{ $value | humanizeDuration }}",
        "The flow stands in log that its source deletes soon; what is deleted unread is a gap.",
    ),
    _alert(
        AlertKind.QUALITY, "Quality", f"{_all('quality_violations')} and on (flow) {_all('quality_failed')} == 1", "0s",
        "The last audited run of {{ $labels.flow }} did not pass, with {{ $value }} violations",
        "Rows or batches violate a check of the flow, or more of them than an expectation allows.",
    ),
    _alert(
        AlertKind.QUARANTINE, "Quarantine", f"{_all('quarantine_new_rows')} > 0", "0s",
        "Checks of {{ $labels.flow }} hold {{ $value }} new rows back",
        "Rows were held back lately. They reach no sink until they are replayed.",
    ),
    _alert(
        AlertKind.REJECTED, "Rejected", f"{_all('rejected_new_rows')} > 0", "0s",
        "Sink {{ $labels.sink }} of {{ $labels.flow }} refused {{ $value }} rows lately",
        "The sink lacks these rows; they lie in quarantine.",
    ),
    _alert(
        AlertKind.SINK_BEHIND, "SinkBehind", f"{_all('sinks_behind')} > 0", "0s",
        "{{ $value }} sinks of {{ $labels.flow }} fell behind",
        "A sink was away. It has a checkpoint of its own, and the flow goes on without it.",
    ),
    _alert(
        AlertKind.NO_RUN, "NoRun", f"{_all('last_run_age_seconds')} > {NO_RUN_S} {_UNPAUSED}", "1m",
        "No run of {{ $labels.flow }} for {{ $value | humanizeDuration }}",
        "No run holds the flow's lease, and nobody has paused the flow.",
    ),
    _alert(
        AlertKind.UNREACHABLE, "Unreachable", f"{_all('unreachable')} == 1", "1m",
        "The {{ $labels.what }} of {{ $labels.flow }} does not answer",
        "The source, ZooKeeper or the records store is away, seen from the watchdog.",
    ),
    _alert(
        AlertKind.FAILURE, "TaskFailure", f"{_raised(AlertKind.FAILURE)} > 0", "0s",
        "A task of {{ $labels.flow }} failed and has no retry left",
        "Known only of flows with a channel (Email, Webhook or Notifier).",
    ),
    _alert(
        AlertKind.DEADLINE, "Deadline", f"{_raised(AlertKind.DEADLINE)} > 0", "0s",
        "A run of {{ $labels.flow }} takes longer than its run_time",
        "Known only of flows with a channel and with AlertWhen(run_time=…).",
    ),
    _alert(
        AlertKind.MISSING_TABLES, "MissingTables", f"{_raised(AlertKind.MISSING_TABLES)} > 0", "0s",
        "{{ $value }} tables or topics of {{ $labels.flow }} are gone",
        "Nothing more comes of them. Known only of flows with a channel.",
    ),
    _alert(
        AlertKind.AIRFLOW, "Airflow", "min by (component) (databus_airflow_healthy) == 0", "1m",
        "{{ $labels.component }} of Airflow is not well",
        "Runs may not start, or not end. Known only with `databus watch --airflow`.",
    ),
    _alert(
        "snapshot_stalled", "SnapshotStalled",
        f"{worst('snapshot_state', by=_FLOW, match=_MOVING)} == 1 "
        f"and on (flow) changes(({_all('snapshot_rows')})[10m:30s]) == 0 {_UNPAUSED}",
        "20m", "The snapshot of {{ $labels.flow }} has read no row for half an hour",
        "A snapshot is under way and does not move, and nobody has paused the flow.",
    ),
    _alert(
        "watch", "WatchAbsent", "absent(databus_watch_rounds_total)", "2m",
        "Prometheus has no figures of `databus watch`",
        "No other alert of these rules can fire.",
    ),
    _alert(
        "watch", "WatchStuck", "increase(databus_watch_rounds_total[5m]) == 0", "1m",
        "`databus watch` at {{ $labels.instance }} finishes no look",
        "It still answers, with the figures of its last look.",
    ),
    _alert(
        "watch", "BrokenFiles", "max(databus_watch_broken_files) > 0", "5m",
        "{{ $value }} DAG files cannot be read by `databus watch`",
        "Flows of these files are watched as they were, or not at all.",
    ),
)  # fmt: skip
"""Alerting rules."""


def recording_file() -> dict[str, Any]:
    """Return the file of recording rules."""
    return {"groups": [{"name": "databus-recorded", "interval": "30s", "rules": [r.json() for r in RECORDED]}]}


def alerting_file(rules: Sequence[AlertRule] = ALERTS, runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """Return the file of alerting rules, with links below `runbooks`."""
    return {"groups": [{"name": "databus-alerts", "interval": "30s", "rules": [r.json(runbooks) for r in rules]}]}
