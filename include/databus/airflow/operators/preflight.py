"""The preflight task: probe before anything moves, and say what is missing in an operator's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

from databus.airflow.connections import AirflowConnections
from databus.airflow.operators.failures import airflow_outcome
from databus.airflow.operators.identity import run_identity
from databus.airflow.operators.run_conf import require_known
from databus.airflow.operators.takeover import takeover
from databus.airflow.operators.task_logs import only_warnings_of_libraries
from databus.airflow.reporting.lineage import close_left_open
from databus.core.errors.source import OffsetPurgedError
from databus.core.findings import Level
from databus.core.flow import Flow


class ProbeOfFlow:
    """Mixin of the operators that probe before anything moves."""

    flow: Flow
    log: Any

    def probed(self, context: Any) -> dict[str, int]:
        """Log what is found; return how many findings there are of each level.

        Raises:
            AirflowException: a retry may mend what was found, as of `airflow_outcome`.
            AirflowFailException: only a person can.
        """
        from databus.ops.health.preflight import preflight, require_passed
        from databus.ops.ledger.gaps import note_gap
        from databus.ops.mirror.loops import findings_beside
        from databus.ops.services import open_services

        only_warnings_of_libraries()
        with airflow_outcome():
            require_known(self.flow, context)
        close_left_open(self.flow, context)
        with airflow_outcome(), open_services(self.flow, AirflowConnections()) as services:
            dag = context.get("dag")
            beside = [takeover(dag), *findings_beside(self.flow, Path(dag.fileloc).parent)] if dag is not None else []
            findings = [*preflight(self.flow, services), *beside]
            for finding in findings:
                level = {Level.OK: 20, Level.WARN: 30, Level.ERROR: 40}[finding.level]
                hint = f" → {finding.hint}" if finding.hint else ""
                self.log.log(level, "%s: %s: %s%s", finding.level.upper(), finding.subject, finding.message, hint)
            if any(finding.code == OffsetPurgedError.code for finding in findings):
                who = run_identity(context)
                note_gap(self.flow, services, who.run_id, who.run_url)
            require_passed(self.flow, findings)
        return {level: sum(f.level is level for f in findings) for level in Level}


class PreflightOperator(ProbeOfFlow, BaseOperator):
    """Probes settings, grants, retention, connections and outputs of a flow; changes nothing.

    An ERROR finding fails the task with the first finding's code; warnings are logged.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        **options: further arguments of an operator, e.g. task_id="preflight".
    """

    ui_color = "#e8f0fe"

    def __init__(self, *, flow: Flow, **options: Any) -> None:
        super().__init__(**options)
        self.flow = flow

    def execute(self, context: Any) -> dict[str, int]:
        """Probe and return how many findings there are of each level."""
        return self.probed(context)
