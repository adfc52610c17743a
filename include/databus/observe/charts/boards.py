"""Boards: flows, mirrors, snapshot and plane, as panels over the metrics of `databus watch` and the recorded series."""

from __future__ import annotations

from databus.observe.charts.grafana import Board, Panel, PanelQuery, PanelRow, worst
from databus.observe.charts.rules import LATE_S

_MINE = 'flow=~"$flow"'
_PLACE = "{{flow}} {{topic}}-{{partition}}"
_TOPICS = 'flow=~"$flow", topic=~"$topic"'


def _line(title: str, *names: str, unit: str = "short", text: str = "", warn: float | None = None) -> Panel:
    """Return a chart of metrics by all their labels."""
    queries = tuple(PanelQuery(worst(name), _legend(name, many=len(names) > 1)) for name in names)
    return Panel(title, queries, unit=unit, text=text, warn=warn)


def _legend(name: str, *, many: bool = False) -> str:
    more = {"delay_seconds": " p{{quantile}}", "stage_seconds": " {{stage}}", "unreachable": " {{what}}"}
    sink = " {{sink}}" if name.startswith("rejected") else ""
    return "{{flow}}" + more.get(name, sink) + (" " + name.replace("_", " ") if many else "")


def _number(
    title: str, expr: str, *, unit: str = "short", warn: float | None = None, alarm: float | None = None, text: str = ""
) -> Panel:
    """Return one large number."""
    return Panel(title, (PanelQuery(expr, ""),), unit, "stat", 4, 4, text, warn, alarm)


_FLOWS = Board(
    "flows",
    "Databus / Flows",
    "How far behind each flow is, what it moves, what it holds back.",
    (
        _number("Flows", f"count({worst('batch')})", text="Flows that have committed a batch."),
        _number(
            "Late", f"sum(flow:databus_lag_late:bool{{{_MINE}}})", alarm=1,
            text=f"Lag above {LATE_S} s, or not to be measured.",
        ),
        _number("Gaps", f"sum({worst('gaps')})", alarm=1, text="Ranges never moved that nobody has decided on."),
        _number("Alerts that are on", f"sum({worst('alerts')})", warn=1, text="Of flows with a channel."),
        _number("Rows held back", f"sum({worst('quarantine_rows')})", warn=1, text="By checks."),
        _number("Rows refused", f"sum(flow:databus_rejected_rows:sum{{{_MINE}}})", warn=1, text="By sinks."),
        Panel(
            "Flows by lag",
            (
                PanelQuery(worst("lag_seconds"), title="Lag", unit="s"),
                PanelQuery(worst("lag_rows"), title="Rows behind"),
                PanelQuery(worst("recent_rows_per_second"), title="Rows/s"),
                PanelQuery(worst("checkpoint_age_seconds"), title="Checkpoint age", unit="s"),
                PanelQuery(worst("headroom_seconds"), title="Headroom", unit="s"),
                PanelQuery(worst("quarantine_rows"), title="Held back"),
                PanelQuery(worst("gaps"), title="Gaps"),
                PanelQuery(worst("paused"), title="Paused"),
            ),
            kind="table", width=24, height=9, text="Rows behind are estimated by the bytes that a row took lately.",
        ),
        PanelRow("Freshness"),
        _line("Lag", "lag_seconds", unit="s", warn=LATE_S, text="Age of the oldest uncommitted change."),
        _line("Lag, rows (estimated)", "lag_rows"),
        _line("Lag, bytes", "lag_bytes", unit="bytes"),
        _line("Source to commit, p50 p95 p99", "delay_seconds", unit="s", text="Of a batch's newest row."),
        Panel(
            "Share of the last hour within the threshold",
            (PanelQuery(f"flow:databus_lag_fresh:ratio1h{{{_MINE}}}"),), "percentunit",
        ),
        _line("Checkpoint, run", "checkpoint_age_seconds", "last_run_age_seconds", "window_seconds", unit="s"),
        PanelRow("Throughput"),
        _line("Rows per second", "recent_rows_per_second", unit="rowsps"),
        _line("Bytes per second", "recent_bytes_per_second", unit="Bps"),
        _line("Batch time by stage", "stage_seconds", unit="s"),
        Panel("Batches per second", (PanelQuery(f"flow:databus_batches:rate5m{{{_MINE}}}"),), "ops"),
        Panel("Claims of the lease per second", (PanelQuery(f"flow:databus_lease_claims:rate5m{{{_MINE}}}"),), "ops"),
        _line("Hand-over between runs", "handover_seconds", unit="s"),
        PanelRow("Safety"),
        _line("Retention headroom", "headroom_seconds", unit="s", text="Until the source may delete what comes next."),
        _line("Log bytes before the flow's place", "headroom_bytes", unit="bytes"),
        _line("Gaps, low headroom, sinks behind, paused", "gaps", "headroom_low", "sinks_behind", "paused"),
        _line("Quarantine, quality", "quarantine_rows", "quarantine_new_rows", "quality_violations", "quality_failed"),
        _line("Refused by sinks", "rejected_rows", "rejected_new_rows"),
        _line("Does not answer", "unreachable", text="Seen from the watchdog; 1 while it lasts."),
    ),
    flows="databus_batch",
)  # fmt: skip


def _topic(title: str, expr: str, unit: str = "short", text: str = "") -> Panel:
    return Panel(title, (PanelQuery(expr, "{{flow}} {{topic}}"),), unit, text=text)


_MIRRORS = Board(
    "mirrors",
    "Databus / Mirrors",
    "Mirrors and other flows that read Kafka: lag by topic and partition, what open transactions keep back.",
    (
        _number(
            "Records behind", f"sum(flow_topic:databus_partition_lag_records:sum{{{_TOPICS}}})",
            text="Offsets not committed; control records and compacted ones count.",
        ),
        _number(
            "Oldest", f"max(flow_topic:databus_partition_lag_seconds:max{{{_TOPICS}}})", unit="s", warn=LATE_S,
            text="Age of the first record not committed.",
        ),
        _number(
            "Held back", f"sum(flow_topic:databus_partition_held_back_records:sum{{{_TOPICS}}})",
            text="Offsets that cannot be read, for a transaction is open.",
        ),
        _number("Rows per second", f"sum({worst('recent_rows_per_second')})", unit="rowsps"),
        _number("Bytes per second", f"sum({worst('recent_bytes_per_second')})", unit="Bps"),
        _number("Alerts that are on", f"sum({worst('alerts')})", warn=1, text="Of flows with a channel."),
        Panel(
            "Partitions furthest behind",
            (
                PanelQuery(f"topk(20, {worst('partition_lag_records', match=_TOPICS)})", title="Records"),
            ),
            kind="table", width=12, height=9,
        ),
        Panel(
            "Partitions that wait longest",
            (
                PanelQuery(f"topk(20, {worst('partition_lag_seconds', match=_TOPICS)})", title="Age", unit="s"),
            ),
            kind="table", width=12, height=9,
        ),
        PanelRow("By topic"),
        _topic("Records behind by topic", f"flow_topic:databus_partition_lag_records:sum{{{_TOPICS}}}"),
        _topic("Age of the oldest", f"flow_topic:databus_partition_lag_seconds:max{{{_TOPICS}}}", "s"),
        _topic(
            "Held back by open transactions", f"flow_topic:databus_partition_held_back_records:sum{{{_TOPICS}}}",
            text="A line that never falls is a transaction that nobody ends.",
        ),
        PanelRow("By partition"),
        Panel(
            "Records behind, twenty partitions",
            (PanelQuery(f"topk(20, {worst('partition_lag_records', match=_TOPICS)})", _PLACE),),
        ),
        Panel(
            "Age of the oldest, twenty partitions",
            (PanelQuery(f"topk(20, {worst('partition_lag_seconds', match=_TOPICS)})", _PLACE),),
            "s",
        ),
        Panel(
            "Held back, twenty partitions",
            (
                PanelQuery(
                    f"topk(20, {worst('partition_held_back_records', match=_TOPICS)})",
                    _PLACE,
                ),
            ),
        ),
    ),
    flows="databus_partition_lag_records",
    topics="databus_partition_lag_records",
)  # fmt: skip

_SNAPSHOT = Board(
    "snapshot",
    "Databus / Snapshot",
    "Tables that are read beside the log: how far, how fast, until when, and what the log's lag is meanwhile.",
    (
        Panel(
            "Snapshots",
            (
                PanelQuery(f"flow:databus_snapshot_progress:ratio{{{_MINE}}}", title="Read", unit="percentunit"),
                PanelQuery(worst("snapshot_rows"), title="Rows read"),
                PanelQuery(worst("snapshot_rows_left"), title="Rows left (estimated)"),
                PanelQuery(worst("snapshot_tables_left"), title="Tables left"),
                PanelQuery(worst("snapshot_rows_per_second"), title="Rows/s"),
                PanelQuery(worst("snapshot_seconds_left"), title="Time left", unit="s"),
            ),
            kind="table", width=16, height=8,
        ),
        Panel(
            "State", (PanelQuery(worst("snapshot_state"), "{{flow}} {{state}}"),), text="1 for the state it is in.",
        ),
        PanelRow("Progress"),
        Panel("Share of rows read", (PanelQuery(f"flow:databus_snapshot_progress:ratio{{{_MINE}}}"),), "percentunit"),
        _line("Rows read and left", "snapshot_rows", "snapshot_rows_left"),
        _line("Tables left", "snapshot_tables_left"),
        _line("Rows per second", "snapshot_rows_per_second", unit="rowsps"),
        _line("Time left", "snapshot_seconds_left", unit="s"),
        _line("Lag of the log meanwhile", "lag_seconds", unit="s", warn=LATE_S),
    ),
    flows="databus_snapshot_rows",
)  # fmt: skip


def _sum(title: str, expr: str, legend: str, unit: str = "short", text: str = "") -> Panel:
    return Panel(title, (PanelQuery(expr, legend),), unit, text=text)


_PLANE = Board(
    "plane",
    "Databus / Plane",
    "All flows at once: the watchdog itself, Airflow, what does not answer, the flows that are worst.",
    (
        _number("Flows watched", "max(databus_watch_flows)", text="Flows of the DAG folder."),
        _number("Late", "plane:databus_flows_late:sum", alarm=1, text=f"Lag above {LATE_S} s, or unknown."),
        _number("Paused", f"sum({worst('paused', match='')})", text="By a person."),
        _number("Unreachable", f"count({worst('unreachable', match='')})", alarm=1),
        _number("Broken files", "max(databus_watch_broken_files)", warn=1, text="DAG files that cannot be read."),
        _number("Alerts that are on", f"sum({worst('alerts', match='')})", warn=1, text="Of flows with a channel."),
        PanelRow("Flows"),
        _sum("Most lag", f"topk(10, {worst('lag_seconds', match='')})", "{{flow}}", "s"),
        _sum("Most rows held back", f"topk(10, {worst('quarantine_rows', match='')} > 0)", "{{flow}}"),
        _sum("Least headroom", f"bottomk(10, {worst('headroom_seconds', match='')})", "{{flow}}", "s"),
        _sum("Rows per second, all flows", "plane:databus_recent_rows_per_second:sum", "rows", "rowsps"),
        _sum("Bytes per second, all flows", "plane:databus_recent_bytes_per_second:sum", "bytes", "Bps"),
        _sum("Batches per second", "topk(10, flow:databus_batches:rate5m)", "{{flow}}", "ops"),
        PanelRow("Health"),
        _sum("Airflow", "min by (component) (databus_airflow_healthy)", "{{component}}", text="1: well."),
        _sum("Does not answer", worst("unreachable", match=""), "{{flow}} {{what}}"),
        _sum("Alerts that are on, by kind", f"sum by (kind) ({worst('alerts', match='')})", "{{kind}}"),
        _sum("Time of a look", "databus_watch_round_seconds", "{{instance}}", "s", "At all flows, by watchdog."),
        _sum("Looks per second", "rate(databus_watch_rounds_total[5m])", "{{instance}}", "ops"),
        _sum("Claims of the lease per second", "sum(flow:databus_lease_claims:rate5m)", "claims", "ops"),
    ),
)

BOARDS = (_FLOWS, _MIRRORS, _SNAPSHOT, _PLANE)
"""All dashboards; each is a file of its name."""
