"""Run context: what a run holds open while it moves batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.flow import PLAN_CODE, Flow
from databus.core.flow_specs import DumpTurns, FlowContext, ServerIds, SinkSpec
from databus.core.positions.topics_read import TopicsReadStore
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.protocols.recorder import Clock, Recorder
from databus.core.protocols.sink import Sink
from databus.core.protocols.source import Source
from databus.core.settings import Settings
from databus.core.state.backfill import BackfillStore
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import CheckpointStore
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import ClaimRegister
from databus.core.tables.hidden_columns import HiddenColumns
from databus.core.tables.wanted import AcceptedWants
from databus.runtime.beside.held_by_flow import HeldByFlow
from databus.runtime.direct.spark_tables import SparkTables
from databus.runtime.pacing.snapshot_rate import SnapshotRate
from databus.runtime.pacing.snapshot_turns import SnapshotTurns
from databus.runtime.recorder_breaker import RecorderBreaker
from databus.runtime.slot_runner import SlotRunner
from databus.runtime.tables.changed_keys import ChangedKeys
from databus.runtime.tables.column_lineage import ColumnLineage
from databus.runtime.tables.hidden_columns import HiddenMemory
from databus.runtime.tables.sink_views import seen_by
from databus.runtime.takeover.flow_commits import FlowCommits

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunIdentity:
    """Run identity.

    Attributes:
        run_id: Airflow run id, or "local:<host>:<pid>".
        run_url: address of the run's page; "" when unknown.
        code_version: version of the package, for reports.
        plan_code: what stands for the code in the spec hash.
    """

    run_id: str
    run_url: str
    code_version: str
    plan_code: str = PLAN_CODE


@dataclass
class FlowSession:
    """A flow with its source, sinks, store and Spark session open; a context manager that closes them.

    Attributes:
        flow: the flow.
        settings: the installation's settings.
        store: checkpoint store, shared and not closed here.
        recorder: stores reports.
        clock: gives the time.
        spark: Spark session, classic or Connect; not stopped here.
        identity: who runs.
        source: open source.
        sinks: open sinks by name, in the flow's order; in a view, those that the view moves rows to.
        every_sink: all sinks of the flow: which rows are dispatched is decided by them, whichever a view moves rows to.
        reopen_sink: opens a further client of a sink, for another thread.
        reopen_source: opens the source once more, with a name under which it stages what is nobody else's.
        split: whether some sink is behind, so that batch numbers are drawn from all of the flow's plans.
        passed: in a view of a sink that is behind, what the flow has held back of what it moves; else None.
        register: what distinguishes holders while ZooKeeper is away; None unless the flow goes on then.
        replays: whether all it moves may have been moved before, and sinks may hold newer rows.
        consents: whether rows of a backfill may come once more where nothing shows any more whether they came.
        live_standing: checkpoint of the live flow, of what moves rows beside it to the same outputs; else None.
        slot_runner: runs the writers of batches; None where every batch is a Spark job of its own.
        keys: reports primary keys that change; shared by all views.
        column_lineage: what the outputs are made of; shared by all views.
        backfills: knows what was asked for of the flow's past; None where nothing is backfilled.
        hidden: remembers which columns transforms hid; None where nobody asks.
        hidden_of: the same of each sink that has transforms of its own; empty where nobody asks.
        snapshots: the flow's snapshot; None where its source has none.
        raw_store: what `store` asks, where that outlasts ZooKeeper's absence for this one flow; None where it does not.
        commits: the flow's own commits, once a sink that is behind has asked for them.
        spark_tables: tables that were found to need Spark's lane; shared by all views.
    """

    flow: Flow
    settings: Settings
    store: CheckpointStore
    recorder: Recorder
    clock: Clock
    spark: Any
    identity: RunIdentity
    source: Source
    sinks: Mapping[str, Sink]
    every_sink: Mapping[str, Sink] = field(default_factory=dict)
    reopen_sink: Callable[[str], Sink] | None = None
    reopen_source: Callable[[str], Source] | None = None
    split: bool = False
    passed: HeldByFlow | None = None
    register: ClaimRegister | None = None
    replays: bool = False
    consents: bool = False
    live_standing: Checkpoint | None = None
    slot_runner: SlotRunner | None = None
    keys: ChangedKeys = field(default_factory=ChangedKeys, repr=False)
    column_lineage: ColumnLineage = field(default_factory=ColumnLineage, repr=False)
    backfills: BackfillStore | None = None
    hidden: HiddenMemory | None = None
    hidden_of: Mapping[str, HiddenMemory] = field(default_factory=dict)
    snapshots: SnapshotTurns | None = None
    raw_store: CheckpointStore | None = None
    commits: FlowCommits | None = None
    spark_tables: SparkTables = field(default_factory=SparkTables, repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def __post_init__(self) -> None:
        self.every_sink = self.every_sink or self.sinks

    @property
    def slots(self) -> SlotRunner:
        """Runner of the writers of batches."""
        from databus.runtime.direct.spark_jobs import SparkJobs

        return self.slot_runner or SparkJobs(self.spark)

    @cached_property
    def spec_hash(self) -> str:
        """Hash of the flow and the code that runs it."""
        return self.flow.spec_hash(self.identity.plan_code)

    @cached_property
    def definition(self) -> Mapping[str, Any]:
        """The flow, as the records keep it."""
        return self.flow.shown()

    def takes_up(self, plan: Plan) -> bool:
        """Return whether a plan in flight may be finished by the flow and the code as they are."""
        return plan.spec_hash == self.spec_hash or self.flow.takes_up(plan.spec_hash, self.identity.plan_code)

    def sink_spec(self, name: str) -> SinkSpec:
        """Return the spec of a sink by its name."""
        return next(s for s in self.flow.sinks if s.sink_name == name)

    def sink_views(self) -> dict[str, FlowSession]:
        """Return sink → a view whose flow has that sink's own transforms behind it, of each sink that has any.

        Of those that are behind too, but in a view of one such sink: what the flow passes is remembered for all.
        """
        names = self.every_sink if self.passed is None else self.sinks
        return {
            name: replace(self, flow=seen_by(self.flow, spec), hidden=self.hidden_of.get(name))
            for name in names
            if (spec := self.sink_spec(name)).transforms
        }

    def memories(self) -> tuple[HiddenMemory, ...]:
        """Return what remembers hidden columns: the flow's memory, and that of each sink with its own transforms."""
        return (*(() if self.hidden is None else (self.hidden,)), *self.hidden_of.values())

    def joined(self, behind: Collection[str]) -> FlowSession:
        """Return a view that moves rows to all sinks but those that are behind."""
        joined = {name: sink for name, sink in self.every_sink.items() if name not in behind}
        return replace(self, sinks=joined, split=bool(behind))

    def of_sink(self, name: str, source: Source) -> FlowSession:
        """Return a view that moves rows to one sink that is behind, by its own plan and checkpoint."""
        store, sinks = self.store.of_sink(name), {name: self.every_sink[name]}
        if self.commits is None or self.commits.store is not self.store:
            self.commits = FlowCommits(self.flow.name, self.store)
        passed = HeldByFlow(self.flow.name, self.commits, store, self.recorder)
        return replace(self, sinks=sinks, store=store, source=source, split=True, passed=passed)

    def interrupt_orphans(self) -> None:
        """Stop jobs that a killed run of this flow left on a shared Spark server; correctness does not rest on it."""
        tag = f"databus-{self.settings.installation}-{self.flow.name}"
        try:
            self.spark.interruptTag(tag)
        except Exception as error:  # noqa: BLE001 - classic sessions and old servers lack it; nothing depends on it
            log.debug("no jobs interrupted by tag %s: %s", tag, error)
        self.spark.addTag(tag)

    def __enter__(self) -> FlowSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


@dataclass(frozen=True)
class Services:
    """Services that an installation offers to every flow.

    Attributes:
        settings: the installation's settings.
        connections: resolves conn_ids.
        store: checkpoint store.
        server_ids: leases replication server ids.
        recorder: stores reports.
        clock: gives the time.
        dump_turns: gives turns to dump a server's log; None where each flow dumps for itself.
        backfills: keeps backfills and their boundaries; None where nothing is backfilled.
        accepted: remembers what flows were found to have of their tables; None where these are not compared.
        topics_read: remembers how far topics were read that come and go under patterns; None where nobody asks.
        hidden_columns: remembers which columns flows' transforms hid in their tables; None where nobody asks.
    """

    settings: Settings
    connections: ConnectionSource
    store: CheckpointStore
    server_ids: ServerIds | None
    recorder: Recorder
    clock: Clock
    dump_turns: DumpTurns | None = None
    backfills: BackfillStore | None = None
    accepted: AcceptedWants | None = None
    topics_read: TopicsReadStore | None = None
    hidden_columns: HiddenColumns | None = None


def open_ends(
    stack: ExitStack, flow: Flow, connections: ConnectionSource, context: FlowContext
) -> tuple[Source, Mapping[str, Sink]]:
    """Open source and sinks, the sinks by name in the flow's order; the stack closes them.

    Raises:
        DatabusError: a connection is missing, a server refused or cannot be reached.
    """
    source = flow.source.open(connections, context)
    stack.callback(source.close)
    sinks: dict[str, Sink] = {}
    for spec in flow.sinks:
        sinks[spec.sink_name] = sink = spec.open(connections, context)
        stack.callback(sink.close)
    return source, sinks


def open_session(flow: Flow, services: Services, spark: Any, identity: RunIdentity) -> FlowSession:
    """Open a flow's source and sinks; on any failure what was opened is closed again.

    Raises:
        DatabusError: a connection is missing, a server refused or cannot be reached.
    """
    context = FlowContext(flow.name, services.settings, services.server_ids, services.dump_turns)
    with ExitStack() as stack:
        source, sinks = open_ends(stack, flow, services.connections, context)

        def reopen(name: str) -> Sink:
            return next(s for s in flow.sinks if s.sink_name == name).open(services.connections, context)

        def reopen_source(name: str) -> Source:
            return flow.source.open(services.connections, replace(context, staged=name))

        return FlowSession(
            flow=flow,
            settings=services.settings,
            store=services.store,
            recorder=RecorderBreaker(services.recorder),
            clock=services.clock,
            spark=spark,
            identity=identity,
            source=source,
            sinks=sinks,
            reopen_sink=reopen,
            reopen_source=reopen_source,
            backfills=services.backfills,
            hidden=_hidden_memory(flow, services),
            hidden_of=_sinks_memories(flow, services),
            snapshots=_snapshot_turns(flow, source),
            _stack=stack.pop_all(),
        )


def _hidden_memory(flow: Flow, services: Services) -> HiddenMemory | None:
    """Return what is remembered of the flow; a backfill asks what the flow remembers whose rows it moves."""
    kept = services.hidden_columns
    return HiddenMemory(flow.name.partition(".")[0], kept) if kept is not None else None


def _sinks_memories(flow: Flow, services: Services) -> dict[str, HiddenMemory]:
    kept, name = services.hidden_columns, flow.name.partition(".")[0]
    own = [spec.sink_name for spec in flow.sinks if spec.transforms]
    return {sink: HiddenMemory(name, kept.of_sink(sink)) for sink in own} if kept is not None else {}


def _snapshot_turns(flow: Flow, source: Source) -> SnapshotTurns | None:
    """Return the snapshots of a live flow; what moves rows beside it takes no chunks along."""
    if not isinstance(source, SnapshotSource) or "." in flow.name:
        return None
    spec, most = flow.source, flow.source.snapshot_rows_per_second()
    return SnapshotTurns(
        flow.name,
        initial=spec.begins_with_snapshot(),
        only=not spec.reads_changes(),
        scope=spec.capture_scope(),
        rate=SnapshotRate(most) if most is not None else None,
    )
