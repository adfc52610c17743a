"""Preflight: probe a flow's servers and settings without moving anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from databus.core.errors.checkpoint import LeaseBusyError
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkError
from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext, SinkSpec
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import Offset
from databus.core.protocols.optional_sink import JudgingSink
from databus.core.protocols.optional_source import DefinedSource, RotatingSource, SnapshotSource
from databus.core.protocols.source import Source
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import TableSchema
from databus.ops.checkpoint.repair import tell_hidden_tables
from databus.ops.checkpoint.targets import missing
from databus.ops.health.distance import rests
from databus.ops.health.packages import missing_beside
from databus.ops.tables.compare import compare
from databus.ops.tables.wants import accepted_of, remembered_of, remembered_of_sinks, wants_of
from databus.runtime.context import Services
from databus.runtime.direct.required import lane_findings
from databus.runtime.gap_notes import note_purged
from databus.runtime.pacing.snapshot_turns import begins_with_rows
from databus.runtime.routing import chosen_key, outputs_of
from databus.runtime.sink_outage.probe import AWAY
from databus.runtime.tables.missing_tables import MissingTables
from databus.runtime.tables.rotated_topics import RotatedTopics

log = logging.getLogger(__name__)


def preflight(flow: Flow, services: Services) -> list[Finding]:
    """Probe the source at the flow's position and every sink; failures to connect become findings too."""
    checkpoint = services.store.load(flow.name)
    context = FlowContext(flow.name, services.settings, services.server_ids)
    captured: list[TableSchema] = []

    def of_source(source: Source) -> Sequence[Finding]:
        found = _of_source(flow, services, source, checkpoint.offset if checkpoint else None)
        if isinstance(source, SnapshotSource) and isinstance(source, DefinedSource):  # records have keys of their own
            with suppress(DatabusError):  # told already
                captured.extend(source.tables_now().captured)
        return found

    def of_sink(spec: SinkSpec, sink: Any) -> Sequence[Finding]:
        found = list(sink.preflight())
        if isinstance(sink, JudgingSink) and all(finding.level is not Level.ERROR for finding in found):
            try:
                outputs = outputs_of(flow, spec, captured)
                found += sink.judge(outputs)
                found += _shared_keys(flow, sink, outputs)
            except SinkError as error:  # no right to look at the outputs is none that a run needs
                found.append(Finding.of(f"{_conn(spec.conn_ids())}: outputs", error, Level.WARN))
        return found

    findings = _probe(
        f"{flow.source.kind} {_conn(flow.source.conn_ids())}",
        lambda: flow.source.open(services.connections, context),
        of_source,
    )
    behind = services.store.sinks_behind(flow.name)
    of_sinks = []
    for spec in flow.sinks:
        found = _probe(
            f"{spec.kind} {_conn(spec.conn_ids())}",
            lambda spec=spec: spec.open(services.connections, context),  # type: ignore[misc]
            lambda sink, spec=spec: of_sink(spec, sink),  # type: ignore[misc]
        )
        if spec.sink_name in behind:
            found.append(_behind(flow, services, spec.sink_name))
        of_sinks.append(found)
    parts = {spec.sink_name for spec in flow.sinks}
    removed = [_removed(flow, services, name) for name in behind if name not in parts]
    unpacked = missing_beside(flow, services.settings)
    return [*findings, *_dead_sinks_stop_only_themselves(of_sinks), *removed, *unpacked, *lane_findings(flow)]


def _shared_keys(flow: Flow, sink: JudgingSink, outputs: Sequence[tuple[TableSchema, str]]) -> list[Finding]:
    """Return an error for each compacted topic of rows that share keys which a transform chose."""
    found = []
    for table, route in outputs:
        key = chosen_key(flow, table)
        if key is None or key.unique:
            continue
        message = (
            f"rows of {table.full_name} share the key {', '.join(key.columns)}, and the topic is compacted: it keeps "
            "the last row of each key alone"
        )
        hint = "Send them to a topic that is not compacted, or say KeyBy(unique=True) where no two rows share a key."
        compacted = sink.judge([(replace(table, primary_key=()), route)])
        told = {"level": Level.ERROR, "message": message, "hint": hint, "code": "sink_key_chosen"}
        found += [replace(each, **told) for each in compacted]  # type: ignore[arg-type] # as a Finding has them
    return found


def _of_source(flow: Flow, services: Services, source: Source, start: Offset | None) -> list[Finding]:
    if start is not None and rests(flow, services.store):
        start = None  # what the server deletes of the log is no loss
    findings = list(source.preflight(start))
    if start is not None and isinstance(source, SnapshotSource) and _reads_tables(flow, services):
        findings += source.snapshot_findings()
    try:
        known = remembered_of(flow, services), remembered_of_sinks(flow, services)
        compared = compare(flow, source, accepted_of(flow, services), *known)
        return [*findings, *compared.findings]
    except DatabusError as error:
        told = any(f.level is Level.ERROR and f.code == error.code for f in findings)
        return findings if told else [*findings, Finding.of(f"{flow.source.kind}: tables of the flow", error)]


def _reads_tables(flow: Flow, services: Services) -> bool:
    """Tell whether the flow's next batches read tables as they stand; a flow that never ran asks by itself."""
    checkpoint, snapshot = services.store.load(flow.name), services.store.snapshot(flow.name)
    if snapshot is None:
        if checkpoint is None or not flow.source.begins_with_snapshot():
            return False
        return begins_with_rows(services.store, flow.name, checkpoint)
    return snapshot.under_way


def refuse_what_is_not_there(flow: Flow, services: Services) -> None:
    """Refuse what `require_tables` refuses, before Spark is started for it; changes nothing, and logs nothing.

    A flow that is paused, or of which all that it asks for was found already, is not compared.

    Raises:
        ConfigError: of the first finding's code; names each table and column that is not there.
        SourceUnavailableError, SourceAccessError: the source cannot be asked.
    """
    accepted = services.accepted.load(flow.name) if services.accepted is not None else None
    if accepted == wants_of(flow) or services.store.paused(flow.name):
        return
    with closing(flow.source.open(services.connections, FlowContext(flow.name, services.settings))) as source:
        require_passed(flow, compare(flow, source, accepted_of(flow, services)).findings)


def refuse_purged(flow: Flow, services: Services, who: str) -> None:
    """Refuse a flow whose server has deleted what it reads next, before Spark is started for it; notes the gap.

    A batch in flight has its part of the log already, and a paused flow reads nothing. What else is wrong the run says.

    Args:
        flow: the flow.
        services: its services.
        who: run id, for the gap.

    Raises:
        OffsetPurgedError: as the run would.
    """
    store, name = services.store, flow.name
    error = None
    with suppress(DatabusError):
        checkpoint = store.load(name)
        if checkpoint is None or store.paused(name) or store.pending_plan(name) is not None or rests(flow, store):
            return
        context = FlowContext(name, services.settings, services.server_ids)
        with closing(flow.source.open(services.connections, context)) as source:
            error = missing(source, checkpoint) if isinstance(source, SnapshotSource) else None
        if error is not None:
            note_gap(flow, services, who)
    if error is not None:
        raise error


def require_tables(flow: Flow, services: Services, source: Source, *, hands_over: bool = False) -> MissingTables:
    """Compare a flow with its tables; warnings are logged. Return what looks for tables that go from here on.

    Where what it asks for was found already, only tables and patterns that are gone are logged.

    Args:
        flow: the flow.
        services: what was found before.
        source: its source, open.
        hands_over: whether a predecessor waits to be followed: what was found already is not asked for again.

    Raises:
        ConfigError: of the first finding's code; names each table and column that is not there. Nothing was moved.
        SourceUnavailableError, SourceAccessError: the source cannot be asked.
    """
    rotated = None
    if isinstance(source, RotatingSource) and services.topics_read is not None:
        rotated = RotatedTopics(flow, source, services.topics_read, services.clock)
    missing = MissingTables(flow, source, rotated=rotated)
    if services.accepted is None or not isinstance(source, DefinedSource) or services.store.paused(flow.name):
        return missing
    if services.accepted.load(flow.name) == wants_of(flow):
        if not hands_over:
            checkpoint = services.store.load(flow.name)
            if rotated is not None:
                rotated.stands(checkpoint)
            missing.look(checkpoint.offset if checkpoint else None)
        return missing
    compared = compare(flow, source, accepted_of(flow, services))
    for finding in compared.findings:
        if finding.level is Level.WARN:
            log.warning("flow %s: %s: %s → %s", flow.name, finding.subject, finding.message, finding.hint)
    require_passed(flow, compared.findings)
    if services.hidden_columns is not None and _begins_at_the_head(flow, services):
        # Its first rows may have another definition.
        if compared.hidden:
            services.hidden_columns.add(flow.name, RememberedHidden(compared.hidden))
        for sink, hidden in compared.hidden_of.items():
            services.hidden_columns.of_sink(sink).add(flow.name, RememberedHidden(hidden))
    services.accepted.keep(flow.name, compared.wants)
    missing.known(compared.missing)
    return missing


def _begins_at_the_head(flow: Flow, services: Services) -> bool:
    """Return whether all that a flow will read is logged from now on: no row has an earlier definition than today's."""
    return flow.source.begins_at_head() and services.store.load(flow.name) is None


def _behind(flow: Flow, services: Services, sink: str) -> Finding:
    checkpoint = services.store.of_sink(sink).load(flow.name)
    text = f"fell behind, stands at {checkpoint.offset if checkpoint else '?'}"
    return Finding(f"sink {sink}", Level.WARN, text, "It catches up by itself once it answers.", "sink_behind")


def _removed(flow: Flow, services: Services, sink: str) -> Finding:
    found = _behind(flow, services, sink)
    hint = (
        "Lag and the log that is kept are counted from there, and no amendment is taken. Put it back, or give up what "
        f"it lacks: `databus checkpoint skip {flow.name} --sink {sink}`."
    )
    return replace(found, message=f"{found.message}, and is no part of the flow any more", hint=hint)


def _dead_sinks_stop_only_themselves(of_sinks: Sequence[Sequence[Finding]]) -> list[Finding]:
    """Return the findings; a sink that is away or overloaded is a warning while another one takes rows."""
    if all(any(_is_away(f) for f in found) for found in of_sinks):
        return [f for found in of_sinks for f in found]
    hint = "The other sinks go on without it; it catches up by itself."
    return [
        replace(f, level=Level.WARN, hint=f"{f.hint} {hint}".strip()) if _is_away(f) else f
        for found in of_sinks
        for f in found
    ]


def _is_away(finding: Finding) -> bool:
    return finding.level is Level.ERROR and finding.code in AWAY


def require_passed(flow: Flow, findings: Sequence[Finding]) -> None:
    """Stop on the first ERROR finding; tables that may be hidden from the account are told.

    Raises:
        DatabusError: of the finding's code, naming all that is wrong.
    """
    errors = [f for f in findings if f.level is Level.ERROR]
    if errors:
        text = "; ".join(dict.fromkeys(f"{f.subject}: {f.message}" for f in errors))
        hint = " ".join(dict.fromkeys(f.hint for f in errors if f.hint))
        retryable = any(f.retryable for f in errors)
        raise ConfigError(
            f"flow {flow.name}: {text}", hint=hint, code=errors[0].code or "preflight", retryable=retryable
        )
    tell_hidden_tables(findings)


def _probe(subject: str, connect: Callable[[], Any], look: Callable[[Any], Sequence[Finding]]) -> list[Finding]:
    try:
        opened = connect()
    except DatabusError as error:
        return [Finding.of(subject, error)]
    try:
        return list(look(opened))
    except DatabusError as error:
        return [Finding.of(subject, error)]
    finally:
        opened.close()


def _conn(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(conn_id for conn_id, _ in pairs)


def note_gap(flow: Flow, services: Services, who: str, run_url: str = "") -> Gap | None:
    """Note what the source's server deleted behind the checkpoint, under a claim of the flow for the moment.

    Args:
        flow: the flow.
        services: its services.
        who: run id.
        run_url: address of the run's page.

    Returns:
        The open gap; None when nothing is missing, or a run holds the flow and will run into it itself.
    """
    checkpoint = services.store.load(flow.name)
    if checkpoint is None:
        return None
    source = flow.source.open(services.connections, FlowContext(flow.name, services.settings, services.server_ids))
    try:
        error = missing(source, checkpoint)
    finally:
        source.close()
    if error is None or error.missing is None:
        return None
    try:
        lease = services.store.claim(flow.name, f"preflight of {who}", 0.0, run_url)
    except LeaseBusyError:
        return None
    try:
        return note_purged(services.store, flow.name, lease, error, (who, run_url, services.clock.now()))
    finally:
        lease.release()
