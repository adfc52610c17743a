"""Single-task run: for flows that are many and quiet, whose runs cost Airflow more than their rows cost Spark."""

from __future__ import annotations

from typing import Any

from databus.airflow.operators.audit import AuditOfRun, with_outputs
from databus.airflow.operators.preflight import ProbeOfFlow
from databus.airflow.operators.transfer import TransferOperator
from databus.core.flow import Flow


class WholeRunOperator(ProbeOfFlow, AuditOfRun, TransferOperator):
    """Probes, moves rows until nothing is new, and audits, each as the task of that name does in other modes.

    A retry does all three again: rows that were committed are not moved again, and count in the audit of the run.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        **options: window and conn_id as of `TransferOperator`, and further arguments of an operator.
    """

    def __init__(self, *, flow: Flow, **options: Any) -> None:
        super().__init__(flow=flow, outlets=with_outputs(flow, options), **options)

    def execute(self, context: Any) -> dict[str, Any]:
        """Return what moved; findings and the audit's lines are in the log."""
        self.probed(context)
        summary = self.moved(context)
        self.audited(context)
        return summary
