"""Validation of a flow: each sink that holds state beside the source's tables, while the flow goes on."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.protocols.optional_source import ComparableSource
from databus.core.protocols.validated_sink import ValidatedSink
from databus.core.state.snapshot import TableProgress
from databus.core.tables.schemas import TableSchema
from databus.ops.checkpoint.repair import hidden_tables, require_readable
from databus.ops.health.distance import rests
from databus.ops.validation.checkpoint_wait import CheckpointWait
from databus.ops.validation.expected_rows import FlowPath
from databus.ops.validation.extra_keys import unseen_of, with_deletes
from databus.ops.validation.key_conditions import sample_condition
from databus.ops.validation.result import SinkComparison, Validation
from databus.ops.validation.sink_comparison import ComparedSink
from databus.ops.validation.table_reads import TableReads
from databus.runtime.beside.look import looking
from databus.runtime.context import FlowSession, RunIdentity, Services, open_session
from databus.runtime.routing import chosen_key, outputs_of


@dataclass(frozen=True)
class ValidationRequest:
    """Request of a validation.

    Attributes:
        tables: `database.table` of those to compare; all of the flow's when empty.
        sink: name of the one sink to compare; "" for all that hold state.
        sample: about how many rows of each table to compare; 0 for all.
        wait_s: longest wait for the flow to reach a place, in seconds.
        seed: chooses the rows of a sample.
        most: so many differences of each sink are shown: contents are kept of these alone.
    """

    tables: tuple[str, ...] = ()
    sink: str = ""
    sample: int = 0
    wait_s: float = 60.0
    seed: int | None = None
    most: int = 20


def validate(
    flow: Flow, services: Services, identity: RunIdentity, request: ValidationRequest, spark: Callable[[], Any]
) -> Validation:
    """Compare a flow's sinks with its source's tables; takes no lease, changes nothing.

    Args:
        flow: the flow.
        services: the installation's services.
        identity: who asks.
        request: what to compare.
        spark: makes a Spark session; asked only where the flow's rows need one.

    Raises:
        ConfigError: the source or a sink cannot be compared, or a table is none of the flow's.
        ValidationRefusedError: an output keeps no state.
        ValidationBehindError: the flow does not go on; nothing was judged.
        SnapshotRefusedError: a setting or a grant is missing with which the tables could be read.
        DatabusError: source, store or a sink cannot be reached.
    """
    with open_session(flow, services, None, identity) as opened, looking(opened) as session:
        source, hidden = _comparable(flow, session)
        specs = _compared_sinks(flow, session, request.sink)
        known = {table.table: table for table in source.snapshot_tables()}
        tables = _tables(flow, known, request.tables)
        done: list[SinkComparison] = []
        schemas: dict[str, TableSchema] = {}
        unseen = _not_compared(flow, session, specs, tables)
        rows, seconds = 0, 0.0
        resting = rests(flow, services.store)
        for spec in specs:
            mine = tuple(name for name in tables if outputs_of(flow, spec, (_table(name),)))
            _require_own_keys(flow, spec, mine)
            reads = TableReads(source, FlowPath(session, spec, spark), flow.batching)
            wait = CheckpointWait(flow.name, services.store, source, spec.sink_name, request.wait_s, resting)
            sink = session.every_sink[spec.sink_name]
            if not isinstance(sink, ValidatedSink):  # said by `_compared_sinks`
                raise AssertionError(f"sink {spec.sink_name} cannot be compared")
            compared = ComparedSink(
                flow, spec.sink_name, sink, _outputs(flow, spec, known, mine), mine, reads, wait, hidden, request.most
            )
            done.append(_sampled(compared, known, request) if request.sample else compared.whole())
            unseen[spec.sink_name] = unseen_of(done[-1], compared.outputs, keys_say=compared.keys_say)
            schemas.update(reads.schemas)
            rows, seconds = rows + reads.rows, seconds + reads.seconds
    return with_deletes(Validation(flow.name, tuple(done), rows, seconds), flow, schemas, unseen)


def _sampled(compared: ComparedSink, known: Mapping[str, TableProgress], request: ValidationRequest) -> SinkComparison:
    """Compare about so many rows of each table, chosen by a hash of their keys."""
    reads, chance = compared.reads, random.Random(request.seed)  # noqa: S311 - a sample, no secret
    keys = reads.keys_of(compared.wait.standing(), compared.tables)
    conditions = {}
    for name, key in keys.items():
        share = max(1, round((known[name].estimate or 0) / request.sample))
        conditions[name] = sample_condition(key, share, chance.randrange(share)) if key and share > 1 else ""
    compared.notes.append("a sample finds rows that are missing or different; extra rows are not looked for")
    return compared.sampled(conditions)


def _comparable(flow: Flow, session: FlowSession) -> tuple[ComparableSource, bool]:
    """Return the source, and whether tables that the flow's patterns mean may be hidden from the account."""
    source = session.source
    if not isinstance(source, ComparableSource):
        raise ConfigError(
            f"flow {flow.name}: a source of kind {flow.source.kind} has no tables to compare with",
            hint="Tables of MySQL and MariaDB can be compared.",
        )
    findings = source.snapshot_findings()
    require_readable(findings)
    return source, bool(hidden_tables(findings))


def _not_compared(
    flow: Flow, session: FlowSession, compared: Sequence[SinkSpec], tables: Sequence[str]
) -> dict[str, frozenset[str]]:
    """Return the sinks that hold state and are not compared → tables whose rows they take."""
    return {
        spec.sink_name: frozenset(name for name in tables if outputs_of(flow, spec, (_table(name),)))
        for spec in flow.sinks
        if spec not in compared and isinstance(session.every_sink[spec.sink_name], ValidatedSink)
    }


def _compared_sinks(flow: Flow, session: FlowSession, name: str) -> Sequence[SinkSpec]:
    """Return the sinks to compare.

    Raises:
        ConfigError: there is no sink of that name, or none that holds state.
    """
    names = [spec.sink_name for spec in flow.sinks]
    if own := next((s for s in flow.sinks if s.transforms and (not name or s.sink_name == name)), None):
        labels = ", ".join(each.label() for each in own.transforms)
        raise ConfigError(
            f"flow {flow.name}: sink {own.sink_name} has transforms of its own ({labels}), and rows are compared as "
            "the flow's transforms leave them",
            hint="Compare another sink by --sink.",
            code="sink_transforms_not_compared",
        )
    if name and name not in names:
        raise ConfigError(f"flow {flow.name} has no sink {name}", hint=f"Its sinks are {', '.join(names)}.")
    asked = [spec for spec in flow.sinks if not name or spec.sink_name == name]
    found = [spec for spec in asked if isinstance(session.every_sink[spec.sink_name], ValidatedSink)]
    if not found:
        kinds = ", ".join(f"{spec.sink_name} ({spec.kind})" for spec in asked)
        raise ConfigError(
            f"flow {flow.name}: nothing tells what its sinks hold of each row: {kinds}",
            hint="Search indices, and Kafka topics that keep the last record of each key, can be compared.",
        )
    return found


def _require_own_keys(flow: Flow, spec: SinkSpec, tables: Sequence[str]) -> None:
    """Refuse a sink that has rows under other keys than the source's.

    Raises:
        ConfigError: names the table and its key.
    """
    for name in tables:
        if (key := chosen_key(flow, _table(name))) is not None:
            raise ConfigError(
                f"flow {flow.name}: sink {spec.sink_name} has rows of {name} by the key {', '.join(key.columns)}, and "
                "rows are compared by the source's primary key",
                hint="Compare another sink by --sink, or tables without a KeyBy by --table.",
            )


def _tables(flow: Flow, known: Mapping[str, TableProgress], wanted: Sequence[str]) -> tuple[str, ...]:
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(
            f"flow {flow.name} has no table {', '.join(unknown)}",
            hint=f"Its tables are {', '.join(known) or 'none'}: write DATABASE.TABLE.",
        )
    return tuple(dict.fromkeys(wanted)) or tuple(known)


def _outputs(
    flow: Flow, spec: SinkSpec, known: Mapping[str, TableProgress], tables: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return output → all of the flow's tables whose rows go there, of the outputs of some tables."""
    by_output: dict[str, list[str]] = defaultdict(list)
    for name in known:
        for table, route in outputs_of(flow, spec, (_table(name),)):
            output = spec.output_of(table, route, flow.name)
            if output is not None and name not in by_output[output]:
                by_output[output].append(name)
    return {output: tuple(names) for output, names in by_output.items() if not set(names).isdisjoint(tables)}


def _table(name: str) -> TableSchema:
    database, _, table = name.partition(".")
    return TableSchema(-1, database, table, ())
