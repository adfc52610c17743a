"""Sinks that need the direct lane: their encoders, and the refusal of a flow whose rows go through Spark."""

from __future__ import annotations

from collections.abc import Iterator

from databus.core.errors.config import ConfigError
from databus.core.findings import Finding
from databus.core.flow import Flow
from databus.core.protocols.optional_sink import DirectEncoder, DirectSink, FormEncoder
from databus.core.state.plan import Plan, SourcePlan
from databus.runtime.check import row_checks
from databus.runtime.tables.column_lineage import written_tables

_HINT = 'Take out what keeps the rows in Spark, or use format="json", types="iso" and envelope="debezium" or "row".'


def encoder_of(sink: DirectSink, plan: Plan, flow: Flow, planned: SourcePlan) -> DirectEncoder:
    """Return a sink's encoder for the tables of a plan."""
    encoder = sink.encoder(plan)
    if isinstance(encoder, FormEncoder) and encoder.values is not None:
        return encoder.of_tables(written_tables(flow, planned.tables))
    return encoder


def require_lane(flow: Flow, planned: SourcePlan) -> None:
    """Refuse a plan whose rows go through Spark, to a sink that only the direct lane can write to.

    Raises:
        ConfigError: code `lane_required`; names the sink, its option and what keeps the rows in Spark.
    """
    from databus.runtime.direct.lane import is_direct

    if any(spec.needs_direct_lane() for spec in flow.sinks) and not is_direct(flow, planned):
        raise next(_errors(flow))


def lane_findings(flow: Flow) -> list[Finding]:
    """Return a finding for each sink that only the direct lane can write to, of a flow that may not take it."""
    from databus.runtime.direct.lane import may_be_direct

    return [] if may_be_direct(flow) else [Finding.of("lane", error) for error in _errors(flow)]


def _errors(flow: Flow) -> Iterator[ConfigError]:
    for spec in flow.sinks:
        if option := spec.needs_direct_lane():
            yield ConfigError(
                f"flow {flow.name}, sink {spec.sink_name}: {option} needs the direct lane, and {_keeps_in_spark(flow)} "
                "keeps the rows in Spark",
                hint=_HINT,
                code="lane_required",
            )


def _keeps_in_spark(flow: Flow) -> str:
    """Return what of a flow's definition wants rows as a DataFrame, as a person wrote it."""
    if flow.lane != "auto":
        return f'lane="{flow.lane}"'
    if not flow.source.direct:
        return f"source {flow.source.kind}"
    for transform in flow.transforms:
        if not transform.by_table:
            return f"transform {transform.label()}"
    for sink in flow.sinks:
        if not sink.direct:
            return f"sink {sink.sink_name} of kind {sink.kind}"
    for check in row_checks(flow):
        if check.severity == "fail":
            return f'check {check.check_name} with severity="fail"'
    return "a check that is not judged where rows are read"
