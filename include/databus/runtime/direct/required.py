"""Sinks that need the direct lane: their encoders, and the refusal of a flow whose rows they cannot write."""

from __future__ import annotations

from collections.abc import Iterator

from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
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
    if any(spec.needs_direct_lane() for spec in flow.sinks) and not is_direct(flow, planned):
        raise next(_errors(flow, planned))


def require_direct_values(flow: Flow, batch: int, error: DatabusError) -> None:
    """Refuse to send a batch through Spark for a value of it, of a flow with a sink that only the direct lane can do.

    Raises:
        ConfigError: code `lane_required`; names the sink, its option and the value's column.
    """
    for spec in flow.sinks:
        if option := spec.needs_direct_lane():
            raise ConfigError(
                f"flow {flow.name}, sink {spec.sink_name}: {option} needs rows as they are decoded, and batch {batch} "
                f"has a row that its transforms judge or change in Spark alone: {error.message}",
                hint="Leave the column out of the Filter, and hide it by Hash or by Mask without keep_last, which do "
                "without its text; or pass the row by `databus checkpoint skip`.",
                code="lane_required",
            ) from error


def lane_findings(flow: Flow) -> list[Finding]:
    """Return a finding for each sink that only the direct lane can write to, of a flow that may not take it.

    And one for each transform that is to change raw records.
    """
    from databus.runtime.direct.lane import may_be_direct

    kept = () if may_be_direct(flow) else _errors(flow)
    return [Finding.of("lane", error) for error in (*raw_record_errors(flow), *kept)]


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


def _refused(flow: Flow, planned: SourcePlan | None) -> str:
    """Return what of a flow stands against that, as a person wrote it."""
    if said := refusal(flow):
        return said
    lanes = table_lanes(flow, planned.tables) if planned is not None else ()
    return next((str(lane) for lane in lanes if lane.reason), "a check is not judged where rows are read")
