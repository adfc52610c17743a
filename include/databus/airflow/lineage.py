"""OpenLineage facets of a transfer, for the provider's listener: inputs and outputs of the run's batches."""

from __future__ import annotations

from typing import Any

from databus.airflow.connections import AirflowConnections
from databus.core.flow import Flow


class LineageOfRun:
    """Mixin of the transfer operators: the provider emits START and one terminal event with these datasets."""

    flow: Flow

    def get_openlineage_facets_on_start(self) -> Any:
        """Return what the flow is declared to read and write."""
        from databus.ops.lineage import declared_lineage

        return _operator_lineage(declared_lineage(self.flow, AirflowConnections()))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what the run's batches really read and wrote, with ranges and counts."""
        from databus.ops.lineage import recorded_lineage

        return _operator_lineage(recorded_lineage(self.flow, AirflowConnections(), task_instance.run_id))

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """Return what was committed before the failure."""
        return self.get_openlineage_facets_on_complete(task_instance)


def _operator_lineage(lineage: Any) -> Any:
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(
        inputs=list(lineage.inputs), outputs=list(lineage.outputs), run_facets=dict(lineage.run_facets)
    )
