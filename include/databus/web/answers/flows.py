"""Answers about flows: lists, definitions, the pages of a flow and of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from databus.web.answers.parts import Answer, Counts, ItemError, Json, ProgressAnswer, SinkCountsAnswer


class ListedFlow(Answer):
    """Flow in a list, as Airflow has stored its DAG; `error` says why it cannot be read."""

    dag_id: str
    flow: str | None
    source: str | None
    sinks: str | None
    file: str | None
    error: ItemError | None


class FlowPage(Answer):
    """Page of flows."""

    items: list[ListedFlow]
    next: str | None


class DefinitionAnswer(Answer):
    """Flow as its DAG file writes it."""

    dag_id: str
    file: str
    options: Json
    lane_taken: str


class Lanes(Answer):
    """Lane of each table; "*" is all tables."""

    flow: str
    lanes: dict[str, str]


class GraphNodeAnswer(Answer):
    """Step of a flow."""

    id: str
    stage: str
    kind: str
    label: str


class GraphEdgeAnswer(Answer):
    """Connection of two steps."""

    start: str
    end: str
    label: str


class Graph(Answer):
    """Steps and connections."""

    flow: str
    nodes: list[GraphNodeAnswer]
    edges: list[GraphEdgeAnswer]


class Drawn(Answer):
    """Graph of a flow, and the same in Mermaid's language."""

    flow: str
    graph: Graph
    mermaid: str


class LastBatch(Answer):
    """Newest batch of a flow."""

    number: int
    rows: int
    committed_at: datetime
    age_seconds: float
    seconds: float
    run_id: str
    gap_passed: str


class RecordedFlow(Answer):
    """Flow that has moved a batch."""

    flow: str
    dag_id: str
    mode: str
    watermark: datetime | None
    delay_seconds: float | None
    rows_per_second: float
    last_batch: LastBatch
    held_rows: int
    refused_rows: dict[str, int]
    gaps_passed: int
    snapshot: ProgressAnswer | None


class Recorded(Answer):
    """Flows that have moved a batch, from the records."""

    as_of: datetime
    flows: list[RecordedFlow]


class DelaysAnswer(Answer):
    """Delays of the last hour by flow, of the newest batch in each span, oldest first."""

    as_of: datetime
    start: datetime = Field(alias="from")
    width_seconds: float
    delays: dict[str, list[float | None]]


class Batch(Answer):
    """Batch of a flow."""

    batch: int
    first_batch: int | None
    mode: str
    attempt: int
    run_id: str
    dag_id: str
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    bytes: int
    read: int
    filtered: int
    quarantined: int
    dispatched: int
    superseded: int
    adds_up: bool
    lost: str
    durations_ms: dict[str, float]
    committed_at: datetime
    refilled: bool
    code_version: str


class MarkAnswer(Answer):
    """Mark in a chart."""

    kind: str
    at: datetime
    text: str


class Chart(Answer):
    """Figures of equal parts of a window."""

    start: datetime = Field(alias="from")
    width_seconds: float
    rows_per_second: list[float]
    delay_seconds: list[float | None]


class Since(Answer):
    """Time since when a definition is in use."""

    since: datetime
    batch: int


class FlowView(Answer):
    """Page of a flow."""

    as_of: datetime
    flow: str
    dag_id: str
    window: str
    mode: str
    epoch: int
    watermark: datetime | None
    delay_seconds: float | None
    rows_per_second: float
    place: str
    last_batch: Batch
    age_seconds: float
    held_rows: int
    refused_rows: dict[str, int]
    gaps_passed: int
    snapshot: ProgressAnswer | None
    graph: Json = Field(description="source, transforms, checks, counts, seconds and sinks, with figures.")
    chart: Chart
    marks: list[MarkAnswer]
    batches: list[Batch]
    definition: Since | None
    settings: Json | None
    tables: list[Json]


class RunCounts(Counts):
    """Rows of a run."""

    reconciled: bool


class RunSink(SinkCountsAnswer):
    """Sink of a run."""

    sink: str


class RunInput(Counts):
    """Table of a run."""

    table: str


class RunOutput(Answer):
    """Output of a sink, with facts of its kind."""

    model_config = ConfigDict(extra="allow")

    sink: str
    output: str


class RunCheck(Answer):
    """Check of a run."""

    check: str
    table: str
    severity: str
    evaluated: int
    violations: int
    observed: Any


class RunBatch(Answer):
    """Batch of a run."""

    flow: str
    batch: int
    mode: str
    attempt: int
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    rows: int
    duration_ms: float
    committed_at: datetime
    refilled: bool


class RunQualityAnswer(Answer):
    """Quality of a run."""

    success: bool | None
    worst: str | None
    result: Json


class RunView(Answer):
    """Page of a run."""

    flow: str
    run_id: str
    start: str | None = Field(alias="from")
    end: str | None = Field(alias="to")
    watermark: datetime | None
    bytes: int
    counts: RunCounts
    state: str
    gaps_passed: list[str]
    snapshot: ProgressAnswer | None
    sinks: list[RunSink]
    code: list[list[str]] = Field(description="Version of the code, and hash of the flow's definition.")
    inputs: list[RunInput]
    outputs: list[RunOutput]
    expectations: list[Json]
    checks: list[RunCheck]
    quality: RunQualityAnswer | None
    data_docs: bool
    durations_ms: dict[str, float]
    batch_count: int
    batches: list[RunBatch]
    graph: Json = Field(description="nodes and edges.")
