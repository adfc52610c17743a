"""Sinks that need the direct lane: their encoders, and the refusal of a flow whose rows they cannot write."""

from __future__ import annotations

from collections.abc import Iterator

from databus.core.errors.config import ConfigError
from databus.core.findings import Finding
from databus.core.flow import Flow
from databus.core.flow_specs import TransformSpec
from databus.core.protocols.optional_sink import DirectEncoder, DirectSink, FormEncoder
from databus.core.state.plan import Plan, SourcePlan
from databus.runtime.direct.reasons import refusal, table_lanes
from databus.runtime.tables.column_lineage import written_tables

_HINT = 'Take it out, or use format="json", types="iso" and envelope="debezium" or "row".'


def encoder_of(sink: DirectSink, plan: Plan, flow: Flow, planned: SourcePlan) -> DirectEncoder:
    """Return a sink's encoder for the tables of a plan."""
    encoder = sink.encoder(plan)
    if isinstance(encoder, FormEncoder) and encoder.values is not None:
        return encoder.of_tables(written_tables(flow, planned.tables))
    return encoder


def require_lane(flow: Flow, planned: SourcePlan) -> None:
    """Refuse a plan whose rows go through Spark, to a sink that only the direct lane can write to.

    Raises:
        ConfigError: code `lane_required`; names the sink, its option and what keeps the rows in Spark. Or a transform
            is to change raw records.
    """
    from databus.runtime.direct.lane import is_direct

    for error in raw_record_errors(flow):
        raise error
    if any(spec.needs_direct_lane() for spec in flow.sinks) and (
        _looks_at_values(flow) or not is_direct(flow, planned)
    ):
        raise next(_errors(flow, planned))


def lane_findings(flow: Flow) -> list[Finding]:
    """Return a finding for each sink that only the direct lane can write to, of a flow that may not take it.

    And one for each transform that is to change raw records.
    """
    from databus.runtime.direct.lane import may_be_direct

    fits = may_be_direct(flow) and not _looks_at_values(flow)
    return [Finding.of("lane", error) for error in (*raw_record_errors(flow), *(() if fits else _errors(flow)))]


def raw_record_errors(flow: Flow) -> Iterator[ConfigError]:
    """Yield an error for each transform that is to change raw records, which are handed on byte for byte."""
    for spec in flow.sinks:
        for transform in flow.transforms:
            if spec.takes_raw_records and not _routes_only(transform):
                yield ConfigError(
                    f"flow {flow.name}, sink {spec.sink_name}: a mirror hands records on byte for byte, and transform "
                    f"{transform.label()} would change them",
                    hint="Leave the transform out, or use a flow of KafkaTopics and Kafka without raw=True.",
                )


def _routes_only(transform: TransformSpec) -> bool:
    return transform.by_table and type(transform).route is not TransformSpec.route


def _errors(flow: Flow, planned: SourcePlan | None = None) -> Iterator[ConfigError]:
    for spec in flow.sinks:
        if option := spec.needs_direct_lane():
            yield ConfigError(
                f"flow {flow.name}, sink {spec.sink_name}: {option} needs rows as they are decoded: "
                f"{_refused(flow, planned)}",
                hint=_HINT,
                code="lane_required",
            )


def _looks_at_values(flow: Flow) -> bool:
    """Return whether a transform looks at values: forms beside JSON write columns as their table has them."""
    return any(not transform.by_table for transform in flow.transforms)


def _refused(flow: Flow, planned: SourcePlan | None) -> str:
    """Return what of a flow stands against that, as a person wrote it."""
    for transform in flow.transforms:
        if not transform.by_table:
            return f"transform {transform.label()} looks at values"
    if said := refusal(flow):
        return said
    lanes = table_lanes(flow, planned.tables) if planned is not None else ()
    return next((str(lane) for lane in lanes if lane.reason), "a check is not judged where rows are read")
