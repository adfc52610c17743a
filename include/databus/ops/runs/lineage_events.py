"""Send OpenLineage events of each window once: START by its first attempt, one end by whoever sees it."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.records.lineage.datasets import Lineage, declared, namespace_of, recorded
from databus.records.lineage.events import window_event
from databus.records.lineage.windows import ABORT, COMPLETE, FAIL, WindowRun, WindowRuns
from databus.records.outputs import columns_of_run
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.records.summary import summarize

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent


log = logging.getLogger(__name__)

_ENDS = {"success": COMPLETE, "failed": FAIL, "": ABORT}
"""State of a DAG run that is over, or is not there any more → how its window ended."""

BACKLOG = 20
"""Windows that one run ends for others at most: after a long outage of the lineage server many wait."""

_REFUSED_AT_MOST = 2 * BACKLOG
"""Windows that cannot be sent, after which a run leaves the others to the next one."""

_BACKLOG_S = 10.0
"""After so long no further window is begun: a server that is away may let each event wait for its time limit."""


@dataclass(frozen=True)
class LineageTeller:
    """Sends the events of a flow's windows; what goes wrong is logged, never raised: lineage fails no batch.

    Attributes:
        flow: the flow.
        connections: its connections, for the datasets' namespaces.
        settings: the installation's.
        namespace: OpenLineage's job namespace.
        emit: hands an event to the provider's transport; raises when it is not taken.
    """

    flow: Flow
    connections: ConnectionSource
    settings: Settings
    namespace: str
    emit: Callable[[RunEvent], None]

    def started(self, run_id: str, clear: int, parent: str) -> None:
        """Send that a window began, unless an earlier attempt has; end what a clear of the run cut off."""
        self._safely(lambda runs: self._started(runs, WindowRun(self.flow.name, run_id, clear, _now(), parent)))

    def ended(self, run_id: str, clear: int, state: str) -> None:
        """Send that a window ended with COMPLETE, FAIL or ABORT, unless that has been sent."""
        self._safely(lambda runs: self._end(runs, WindowRun(self.flow.name, run_id, clear, _now()), state))

    def close_left_open(self, but: str, state_of: Callable[[str], str]) -> None:
        """End windows whose last attempt was killed, and send what is due: nobody else does.

        At most `BACKLOG` windows, and for a few seconds; one that cannot be sent keeps no other waiting.

        Args:
            but: run id of the run that looks.
            state_of: run id → state of the DAG run, "" for one that is not there any more.
        """
        self._safely(lambda runs: self._close_left_open(runs, but, state_of))

    def _close_left_open(self, runs: WindowRuns, but: str, state_of: Callable[[str], str]) -> None:
        told, refused, until = 0, list[str](), time.monotonic() + _BACKLOG_S
        for run in _in_turn(runs.unfinished(self.flow.name), but):
            if told == BACKLOG or len(refused) == _REFUSED_AT_MOST or time.monotonic() > until:
                log.info("flow %s: lineage of further windows is left to the next run", self.flow.name)
                break
            try:
                end = run.state or _ENDS.get(state_of(run.run_id), "")
                if end:
                    self._end(runs, run, end)
                    told += 1
            except Exception as error:  # noqa: BLE001 - as in `_safely`, and the others do not wait for this one
                refused.append(f"{run.run_id}: {error!r}")
        if refused:
            text = "flow %s: lineage of %d windows is sent later, among them %s"
            log.warning(text, self.flow.name, len(refused), refused[0])

    def _started(self, runs: WindowRuns, run: WindowRun) -> None:
        for former in runs.unfinished(self.flow.name):
            if former.run_id == run.run_id and former.clear < run.clear:
                self._end(runs, former, ABORT)
        self._send_due(runs, runs.begin(run))

    def _end(self, runs: WindowRuns, run: WindowRun, state: str) -> None:
        ended = runs.end(run, state, _now())
        if ended is not None:
            self._send_due(runs, ended)

    def _send_due(self, runs: WindowRuns, run: WindowRun) -> None:
        for kind in run.due:
            if kind == "START":
                lineage = declared_lineage(self.flow, self.connections)
            else:
                lineage = lineage_in(runs.store, self.flow, self.connections, run.run_id)
            self.emit(window_event(kind, run, (self.settings.installation, self.namespace), lineage))
            runs.sent(run, kind)

    def _safely(self, tell: Callable[[WindowRuns], None]) -> None:
        try:
            with RecordStore(self.settings.records_url) as store:
                tell(WindowRuns(store))
        except DatabusError as error:
            log.warning("flow %s: lineage is sent later: %s", self.flow.name, error)
        except Exception:  # the transport is the user's; what it raises must not fail a window
            log.warning("flow %s: lineage is sent later", self.flow.name, exc_info=True)


def _in_turn(unfinished: Sequence[WindowRun], turn: str) -> list[WindowRun]:
    """Return the windows of others: those that nobody has tried to end, then those whose events are due, by lot.

    `turn` draws the lots. So windows that are refused again and again, at once or after a long wait, keep no other
    waiting for ever.
    """
    others = [run for run in unfinished if run.run_id != turn]
    due = [run for run in others if run.state]
    random.Random(turn).shuffle(due)  # noqa: S311 - no secret
    return [*(run for run in others if not run.state), *due]


def _now() -> datetime:
    return datetime.now(UTC)


def declared_lineage(flow: Flow, connections: ConnectionSource) -> Lineage:
    """Return what a flow is declared to read and write."""
    outputs: dict[str, tuple[str, ...]] = {}
    for sink in flow.sinks:
        for space in _namespaces(sink.conn_ids(), connections):
            outputs[space] = (*outputs.get(space, ()), *sink.datasets())
    return declared(_source(flow, connections), flow.source.datasets(), outputs, flow.name)


def recorded_lineage(
    flow: Flow, connections: ConnectionSource, run_id: str, settings: Settings | None = None
) -> Lineage:
    """Return what a run's committed batches read and wrote; the declared datasets when there was nothing to move."""
    with RecordStore((settings or Settings.from_environment()).records_url) as records:
        return lineage_in(records, flow, connections, run_id)


def lineage_in(records: RecordStore, flow: Flow, connections: ConnectionSource, run_id: str) -> Lineage:
    """Return the same as `recorded_lineage`, from a records store that is open."""
    summary = summarize(flow.name, run_id, Reports(records).batches(flow.name, run_id))
    columns = columns_of_run(records, flow.name, run_id)
    sinks = {sink.sink_name: space for sink in flow.sinks for space in _namespaces(sink.conn_ids(), connections)}
    found = recorded(summary, _source(flow, connections), sinks, columns)
    if found.inputs:
        return found
    meant = declared_lineage(flow, connections)
    return Lineage(meant.inputs, meant.outputs, found.run_facets)


def _source(flow: Flow, connections: ConnectionSource) -> str:
    return next(iter(_namespaces(flow.source.conn_ids(), connections)), f"databus://{flow.source.kind}")


def _namespaces(pairs: tuple[tuple[str, str], ...], connections: ConnectionSource) -> list[str]:
    return [namespace_of(connections.get(conn_id)) for conn_id, _ in pairs[:1]]
