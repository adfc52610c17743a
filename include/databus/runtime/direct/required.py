"""Sinks that need the direct lane: their encoders, and the refusal of a flow whose rows they cannot write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.findings import Finding
from databus.core.flow import Flow
from databus.core.flow_specs import TransformSpec
from databus.core.protocols.optional_sink import DirectEncoder, DirectSink, FormEncoder
from databus.core.state.plan import Plan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.runtime.direct.reasons import refusal, table_lanes
from databus.runtime.tables.column_lineage import written_tables

_HINT = 'Take it out, or use format="json", types="iso" and envelope="debezium" or "row".'


def encoder_of(sink: DirectSink, plan: Plan, flow: Flow, planned: SourcePlan) -> DirectEncoder:
    """Return a sink's encoder for the tables of a plan.

    Args:
        sink: the sink, open.
        plan: the plan.
        flow: the flow as the sink sees it.
        planned: the source's plan.
    """
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
        why = refusal(flow) or _reason(flow, planned.tables) or "a check is not judged where rows are read"
        raise next(_errors(flow, why))


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

    kept = () if may_be_direct(flow) else _errors(flow, refusal(flow))
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


def table_lane_errors(flow: Flow, tables: Sequence[TableSchema]) -> Iterator[ConfigError]:
    """Yield an error for each sink that only the direct lane can write to, where a table's rows go through Spark.

    What the flow's definition alone says is told by `lane_findings`.

    Raises:
        TransformError, ConfigError: see `table_lanes`.
    """
    if any(spec.needs_direct_lane() for spec in flow.sinks) and not refusal(flow) and (why := _reason(flow, tables)):
        yield from _errors(flow, why)


def _errors(flow: Flow, why: str) -> Iterator[ConfigError]:
    for spec in flow.sinks:
        if option := spec.needs_direct_lane():
            yield ConfigError(
                f"flow {flow.name}, sink {spec.sink_name}: {option} needs rows as they are decoded: {why}",
                hint=_HINT,
                code="lane_required",
            )


def _reason(flow: Flow, tables: Sequence[TableSchema]) -> str:
    """Return why rows of some table go through Spark, "" where none do."""
    found = (lane for lane in table_lanes(flow, tables) if lane.reason)
    return next((f"table {lane.table} goes through {lane}" if lane.table else str(lane) for lane in found), "")
