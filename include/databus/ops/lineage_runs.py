"""Tell OpenLineage of each window once: START by its first attempt, one end by whoever sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from databus.core.connections import ConnectionSource
from databus.core.errors import DatabusError
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.ops.lineage import declared_lineage, recorded_lineage
from databus.records.lineage_events import window_event
from databus.records.lineage_runs import ABORT, COMPLETE, FAIL, WindowRun, WindowRuns
from databus.records.store import RecordStore

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

log = logging.getLogger(__name__)

_ENDS = {"success": COMPLETE, "failed": FAIL, "": ABORT}
"""State of a DAG run that is over, or is not there any more → how its window ended."""


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
        """Tell that a window began, unless an earlier attempt has told; end what a clear of the run cut off."""
        self._safely(lambda runs: self._started(runs, WindowRun(self.flow.name, run_id, clear, _now(), parent)))

    def ended(self, run_id: str, clear: int, state: str) -> None:
        """Tell that a window ended with COMPLETE, FAIL or ABORT, unless that has been told."""
        self._safely(lambda runs: self._end(runs, WindowRun(self.flow.name, run_id, clear, _now()), state))

    def close_left_open(self, but: str, state_of: Callable[[str], str]) -> None:
        """End windows whose last attempt was killed: nobody else does.

        Args:
            but: run id of the run that looks.
            state_of: run id → state of the DAG run, "" for one that is not there any more.
        """

        def close(runs: WindowRuns) -> None:
            for run in runs.unfinished(self.flow.name):
                if run.run_id == but:
                    continue
                end = run.state or _ENDS.get(state_of(run.run_id), "")
                if end:
                    self._end(runs, run, end)

        self._safely(close)

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
                lineage = recorded_lineage(self.flow, self.connections, run.run_id, self.settings)
            self.emit(window_event(kind, run, (self.settings.installation, self.namespace), lineage))
            runs.sent(run, kind)

    def _safely(self, tell: Callable[[WindowRuns], None]) -> None:
        try:
            with RecordStore(self.settings.records_url) as store:
                tell(WindowRuns(store))
        except DatabusError as error:
            log.warning("flow %s: lineage is told later: %s", self.flow.name, error)
        except Exception:  # the transport is the user's; what it raises must not fail a window
            log.warning("flow %s: lineage is told later", self.flow.name, exc_info=True)


def _now() -> datetime:
    return datetime.now(UTC)
