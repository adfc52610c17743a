"""The validation DAG of a flow: one task that compares sinks and source, and fails where a row differs."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException

from databus.airflow.connections import AirflowConnections
from databus.airflow.dags_beside import PARAM_SCHEMA, dag_beside, tables_param
from databus.airflow.operators.process import only_warnings_of_libraries
from databus.airflow.operators.task import airflow_outcome, run_identity
from databus.core.flow import Flow

if TYPE_CHECKING:
    from databus.ops.validation.result import Validation

TASK = "validate"
LONGEST_WAIT = timedelta(minutes=15)
_LISTED = 20


def dag_name(flow: str) -> str:
    """Return the name of a flow's validation DAG."""
    return f"{flow}_validate"


def validation_params(flow: str) -> dict[str, Param]:
    """Return the fields of the trigger form of a flow's validation DAG."""
    return {
        "tables": tables_param(
            "Tables to compare, each as `database.table` on a line of its own. Left empty, all tables "
            f"of {flow} are compared."
        ),
        "sample": Param(
            0,
            type="integer",
            minimum=0,
            **PARAM_SCHEMA,
            title="Rows of a sample",
            description_md="About how many rows of each table to compare; 0 for all. A sample finds rows that are "
            "missing or different, not extra ones.",
        ),
    }


class ValidateOperator(BaseOperator):
    """Compares what a flow's sinks hold with the source's tables; fails where a row is missing, extra or different.

    It changes nothing and takes no lease: the flow's own runs go on beside it, and have to, for what was read in the
    source is judged once it has reached the sinks. Keys that differ are named in the log, values are not.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        wait: longest wait for the flow to reach a place, e.g. timedelta(minutes=2); default one minute.
        conn_id: the Spark Connect connection, for flows whose rows need Spark; default "spark_connect_default".
        **options: further arguments of an operator, e.g. task_id="validate".
    """

    ui_color = "#e3f4dc"

    def __init__(
        self,
        *,
        flow: Flow,
        wait: timedelta = timedelta(minutes=1),
        conn_id: str = "spark_connect_default",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.flow, self.conn_id, self.wait_s = flow, conn_id, wait.total_seconds()

    def execute(self, context: Any) -> dict[str, Any]:
        """Compare, and return the figures.

        Raises:
            AirflowException: a retry may help; the flow did not go on, for example.
            AirflowFailException: a row differs, or only a person can help.
        """
        from databus.ops.services import open_services
        from databus.ops.validation.validate import ValidationRequest, validate

        only_warnings_of_libraries()
        params, identity = context["params"], run_identity(context)
        request = ValidationRequest(tuple(params["tables"] or ()), sample=params["sample"], wait_s=self.wait_s)
        with airflow_outcome(), open_services(self.flow, AirflowConnections(), records=False) as services:
            spark = partial(self._spark, services.settings.installation, identity.run_id)
            result = validate(self.flow, services, identity, request, spark)
        return self._judged(result)

    def _judged(self, result: Validation) -> dict[str, Any]:
        """Log what was found; raise where a row differs."""
        differing = []
        for sink in result.sinks:
            for table, figures in sink.tables.items():
                said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in figures.items())
                self.log.info("sink %s, %s: %s", sink.sink, table, said)
            for note in sink.notes:
                self.log.info("sink %s: %s", sink.sink, note)
            for each in sink.differences[:_LISTED]:
                told = each.to_json()
                columns = f" ({', '.join(told['columns'])})" if told.get("columns") else ""
                self.log.error("%s: %s in %s: %s%s", told["kind"], told["key"], told["output"], told["table"], columns)
            if not sink.equal:
                differing.append(f"{sink.sink}: {len(sink.differences) + sink.beyond} keys")
        if differing:
            raise AirflowFailException(
                f"flow {self.flow.name}: sinks differ from the source's tables: {'; '.join(differing)}; "
                f"`databus validate {self.flow.name}` shows both values, and sends the rows again with --repair"
            )
        return result.to_json(0)

    def _spark(self, installation: str, run_id: str) -> Any:
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        from databus.runtime.spark.session import connect_session

        address = SparkConnectHook(self.conn_id).get_connection_url()
        return connect_session(address, f"{installation}/{self.flow.name}.validate/{run_id}")


def validation_dag(flow: Flow, every: timedelta, between: timedelta, conn_id: str, options: dict[str, Any]) -> DAG:
    """Return the validation DAG of a flow; it stands beside the flow's own and is found by Airflow with it.

    Args:
        flow: the flow.
        every: time between two comparisons.
        between: longest time between two runs of the flow, which the comparison waits for.
        conn_id: the Spark Connect connection.
        options: arguments of the flow's DAG that hold here as well, but for its deadlines and callbacks of runs.
    """
    own = {
        "dag_id": dag_name(flow.name),
        "description": f"Validation of {flow.name}: its sinks beside the source's tables",
        "schedule": every,
        "max_active_runs": 1,
        "params": validation_params(flow.name),
        "tags": {"databus", "validate"},
        "doc_md": _documentation(flow),
    }
    wait = min(between + timedelta(minutes=1), LONGEST_WAIT)
    return dag_beside(flow, TASK, options, own, partial(ValidateOperator, wait=wait, conn_id=conn_id))


def _documentation(flow: Flow) -> str:
    return (
        f"Compares what the sinks of **{flow.name}** hold with the source's tables, row by row, while the flow goes "
        "on. Nothing is changed.\n\n"
        "* the task fails where a row is missing, extra or different; its log names the keys\n"
        "* the flow has to be running: what was read in the source is judged once it has reached the sinks\n"
        f"* `databus validate {flow.name}` shows both values; with `--repair` it sends such rows again"
    )
