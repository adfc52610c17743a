"""Metric names: what tasks emit through Airflow's Stats, and what `databus watch` shows Prometheus.

docs/metrics.md says the same in words; a test compares the two.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class MetricKind(enum.StrEnum):
    """Metric kind."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


@dataclass(frozen=True)
class MetricName:
    """Metric name and meaning.

    Attributes:
        name: with dots, as StatsD and OpenTelemetry get it behind Airflow's prefix; Prometheus gets `prometheus`.
        kind: counter, gauge or timer (milliseconds).
        labels: tags or labels.
        text: what it says, with its unit.
    """

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    text: str

    @property
    def prometheus(self) -> str:
        """Name for Prometheus."""
        return self.name.replace(".", "_")


def _of(kind: MetricKind, *rows: tuple[str, tuple[str, ...], str]) -> tuple[MetricName, ...]:
    return tuple(MetricName(f"databus.{name}", kind, labels, text) for name, labels, text in rows)


_FLOW = ("flow",)
_SINK = ("flow", "sink")
_PARTITION = ("flow", "topic", "partition")

TASK_METRICS = (
    *_of(
        MetricKind.COUNTER,
        ("batches", _FLOW, "committed batches"),
        ("rows.read", _FLOW, "rows read"),
        ("rows.filtered", _FLOW, "rows that a filter left out"),
        ("rows.quarantined", _FLOW, "rows held back"),
        ("rows.dispatched", _FLOW, "rows given to sinks"),
        ("rows.superseded", _FLOW, "rows that a snapshot read, and the log had newer"),
        ("rows.snapshot", _FLOW, "rows read that a snapshot brought"),
        ("bytes.read", _FLOW, "log bytes read"),
        ("check.violations", ("flow", "check", "severity"), "rows or values that violate a check"),
        ("outputs.records", ("flow", "sink"), "records that a sink has confirmed"),
    ),
    *_of(
        MetricKind.TIMER,
        ("batch.duration", _FLOW, "time of a batch over all stages"),
        ("batch.stage", ("flow", "stage"), "time of a batch in one stage"),
        ("batch.delay", _FLOW, "from the commit of a batch's newest row at the source to the batch's commit"),
    ),
    *_of(
        MetricKind.GAUGE,
        ("window.lag_seconds", _FLOW, "age in seconds of the oldest uncommitted change when a window ended"),
        ("window.lag_bytes", _FLOW, "log bytes not committed when a window ended"),
        ("window.headroom_seconds", _FLOW, "seconds until the source may delete what comes next, when a window ended"),
        ("window.batches", _FLOW, "batches of a window"),
        ("snapshot.rows", _FLOW, "rows of the tables that a snapshot has read so far, behind a batch of its chunks"),
        ("snapshot.rows_left", _FLOW, "rows that it has still to read, as the server estimates them"),
        ("snapshot.tables_left", _FLOW, "tables that it has still to read to their end"),
    ),
)
"""Emitted by the transfer task, one point per batch or window."""

WATCH_METRICS = (
    *_of(
        MetricKind.GAUGE,
        ("lag_seconds", _FLOW, "age in seconds of the oldest uncommitted change"),
        ("lag_bytes", _FLOW, "log bytes not committed"),
        ("lag_rows", _FLOW, "rows not committed, estimated by the bytes that a row took lately"),
        ("partition_lag_records", _PARTITION, "offsets of a topic-partition not committed"),
        ("partition_lag_seconds", _PARTITION, "age in seconds of the first of them; 0 without any"),
        ("partition_held_back_records", _PARTITION, "offsets that cannot be read, for a transaction is open"),
        ("headroom_seconds", _FLOW, "seconds until the source may delete what the flow needs next"),
        ("headroom_low", _FLOW, "1 while these seconds are below the source's own threshold"),
        ("headroom_bytes", _FLOW, "log bytes before the flow's place, which the source deletes first"),
        ("checkpoint_age_seconds", _FLOW, "seconds since the checkpoint moved"),
        ("last_run_age_seconds", _FLOW, "seconds since a run held the lease; 0 while one does"),
        ("window_seconds", _FLOW, "seconds for which the present run has held the lease; 0 while none does"),
        ("batch", _FLOW, "number of the last committed batch"),
        ("gaps", _FLOW, "gaps that nobody has decided on"),
        ("quarantine_rows", _FLOW, "rows that checks hold back and that are not settled"),
        ("quarantine_new_rows", _FLOW, "rows that checks held back for the first time within the rule's minutes"),
        ("rejected_rows", _SINK, "rows that a sink refused and that are not settled"),
        ("rejected_new_rows", _SINK, "rows that a sink refused for the first time within the rule's minutes"),
        ("quality_violations", _FLOW, "violations in the run evaluated last, those that `mostly` allows too"),
        ("quality_failed", _FLOW, "1 while that run did not meet all that was expected of it"),
        ("sinks_behind", _FLOW, "sinks that fell behind"),
        ("paused", _FLOW, "1 while a person has paused the flow"),
        ("recent_rows_per_second", _FLOW, "rows read, over the newest batches"),
        ("recent_bytes_per_second", _FLOW, "log bytes read, over the newest batches"),
        ("delay_seconds", ("flow", "quantile"), "a batch's newest row at the source to the batch's commit, by rows"),
        ("stage_seconds", ("flow", "stage"), "mean time of a batch in a stage, over the newest batches"),
        ("handover_seconds", _FLOW, "mean time from a run's last commit to the next run's first, lately"),
        ("snapshot_state", ("flow", "state"), "1 for the state of the flow's last snapshot"),
        ("snapshot_rows", _FLOW, "rows of the tables that it has read so far"),
        ("snapshot_rows_left", _FLOW, "rows that it has still to read, as the server estimates them"),
        ("snapshot_tables_left", _FLOW, "tables that it has still to read to their end"),
        ("snapshot_rows_per_second", _FLOW, "rows that it has read per second, over the looks; while it is read"),
        ("snapshot_seconds_left", _FLOW, "seconds until it ends, at that rate"),
        ("unreachable", ("flow", "what"), "1 for what did not answer"),
        ("alerts", ("flow", "kind"), "alerts that are on"),
        ("airflow_healthy", ("component",), "1 for a part of Airflow that says it is well"),
        ("watch_round_seconds", (), "time that the last look at all flows took"),
        ("watch_flows", (), "flows that are watched"),
        ("watch_broken_files", (), "DAG files that could not be read"),
    ),
    *_of(
        MetricKind.COUNTER,
        ("lease_claims_total", _FLOW, "claims of the lease: runs and hand-overs"),
        ("watch_rounds_total", (), "looks at all flows since the watchdog started"),
    ),
)  # fmt: skip
"""Shown by `databus watch`, as seen from outside any run."""

METRICS = (*TASK_METRICS, *WATCH_METRICS)
BY_NAME = {metric.name: metric for metric in METRICS}
