"""The backfill DAG of a flow: one task that moves the range of its run beside the live flow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, DeltaDataIntervalTimetable, Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException

from databus.airflow.connections import AirflowConnections
from databus.airflow.drain_deadline import DrainDeadline
from databus.airflow.failures import airflow_outcome
from databus.airflow.identity import run_identity
from databus.airflow.task_logs import only_warnings_of_libraries
from databus.core.backfill import Mode, aim_of
from databus.core.errors import BackfillOpenError, BackfillRangeError
from databus.core.flow import Flow
from databus.runtime.drain import Drain

_LEASE_WAIT_S = 90.0
"""Longer than the session of a killed run lives."""

_PLACE = (
    "A time in ISO 8601 (`2026-11-21T10:00`, UTC without a zone), a GTID set (`gtid:…`), a binlog place "
    "(`mysql-bin.000042:4`), offsets of Kafka topics (`offsets:orders:0:1200`), `earliest`, `latest`, or an offset as "
    "JSON (`databus checkpoint show FLOW -o json`)."
)


_SCHEMA: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#"}
"""Airflow checks a Param's schema at each look at its value; against the newest draft that takes four times as long."""


def backfill_params() -> dict[str, Param]:
    """Return the fields of the backfill DAG's trigger form."""
    return {
        "from": Param(
            None,
            type=["null", "string"],
            **_SCHEMA,
            title="From (inclusive)",
            description_md=f"Where the range begins. {_PLACE} Left empty in a backfill: there it is the data interval.",
        ),
        "to": Param(
            None,
            type=["null", "string"],
            **_SCHEMA,
            title="To (exclusive)",
            description_md=f"Where the range ends. {_PLACE} A time belongs to the range after it.",
        ),
        "mode": Param(
            str(Mode.MISSING),
            enum=[str(mode) for mode in Mode],
            type="string",
            **_SCHEMA,
            title="What is moved",
            description_md="`missing`: only what the ledger does not show as moved, to the live outputs. `replay`: all "
            "of the range again, to outputs beside the live ones.",
        ),
        "order": Param(
            "in_order",
            enum=["in_order", "parallel"],
            type="string",
            **_SCHEMA,
            title="Order of ranges",
            description_md="`in_order`: a range waits until earlier ones that were asked for are done. `parallel`: as "
            "many at a time as the backfill has active runs; each range is still moved once.",
        ),
        "suffix": Param(
            ".replay",
            type="string",
            **_SCHEMA,
            title="Suffix of a replay's outputs",
            description_md="Put behind the names of topics and indices, e.g. `cdc.orders.replay`. Means nothing to "
            "`missing`.",
        ),
        "into_live": Param(
            False,
            type="boolean",
            **_SCHEMA,
            title="Replay into the live outputs",
            description_md="Writes the range again where live readers read it: they see older rows after newer ones.",
        ),
        "name": Param(
            "",
            type="string",
            **_SCHEMA,
            title="Name of the replay",
            description_md="The same range under the same name is moved once, however often it is run. A new name "
            "moves it again.",
        ),
        "accept": Param(
            False,
            type="boolean",
            **_SCHEMA,
            title="Accept what a sink refuses",
            description_md="Also into compacted topics, where an older row would stand for a newer one.",
        ),
    }


class BackfillOperator(BaseOperator):
    """Moves the range of its run: the data interval of a backfill, or `from` and `to` of a triggered run.

    Whether it is done is decided by the ledger. A run that is cleared, repeated, killed or marked goes on where the
    ledger says it stands, and moves nothing twice. A scheduled run moves nothing: it says whether anything is missing.
    """

    ui_color = "#e5dcf7"

    def __init__(self, *, flow: Flow, conn_id: str = "spark_connect_default", **options: Any) -> None:
        super().__init__(**options)
        self.flow = flow
        self.conn_id = conn_id
        self._drain = Drain()
        self._deadline = DrainDeadline()

    def execute(self, context: Any) -> dict[str, Any]:
        """Move the range and return what its ledger shows."""
        from databus.ops.backfill import Run, Wanted, preview, run_backfill
        from databus.ops.services import open_services

        only_warnings_of_libraries()
        identity, run_type = run_identity(context), str(getattr(context["dag_run"].run_type, "value", "manual"))
        with airflow_outcome(), self._deadline, open_services(self.flow, AirflowConnections()) as services:
            params = dict(context["params"])
            aim = aim_of(Mode(params["mode"]), params["suffix"], params["name"], into_live=params["into_live"])
            start, end = self._range(context, params, run_type)
            wanted = Wanted(start, end, aim, params["order"] == "in_order", params["accept"])
            if run_type == "scheduled":
                try:
                    pieces = preview(self.flow, services, wanted, identity.run_id).pieces
                    found = f"{'; '.join(map(str, pieces)) or 'nothing'} is missing"
                except BackfillOpenError as error:
                    found = error.message
                raise AirflowSkipException(f"{start} to {end}: {found}; scheduled runs move nothing")
            run = Run(
                self._spark(services.settings.installation, identity.run_id), identity, self._drain, _LEASE_WAIT_S
            )
            return run_backfill(self.flow, services, wanted, run).to_json()

    def on_kill(self) -> None:
        """Drain; Airflow calls this from its SIGTERM handler."""
        self.log.warning("asked to stop: finishing the batch in hand; the next run of this range goes on from there")
        self._drain.request()
        self._deadline.start()

    def _range(self, context: Any, params: dict[str, Any], run_type: str) -> tuple[str, str]:
        given = (params["from"], params["to"])
        if all(given):
            return str(given[0]), str(given[1])
        if any(given) or run_type not in {"backfill", "scheduled"}:
            raise BackfillRangeError(
                f"flow {self.flow.name}: a triggered backfill needs both from and to",
                hint="Give them in the trigger form, or create a backfill, whose runs have data intervals.",
            )
        return context["data_interval_start"].isoformat(), context["data_interval_end"].isoformat()

    def _spark(self, installation: str, run_id: str) -> Any:
        def connect() -> Any:
            from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

            from databus.runtime.engine import connect_session

            address = SparkConnectHook(self.conn_id).get_connection_url()
            return connect_session(address, f"{installation}/{self.flow.name}.backfill/{run_id}")

        return connect


def backfill_dag(flow: Flow, every: timedelta, conn_id: str, options: dict[str, Any]) -> DAG:
    """Return the backfill DAG of a flow; it stands beside the flow's own and is found by Airflow with it.

    Args:
        flow: the flow.
        every: length of a data interval.
        conn_id: the Spark Connect connection.
        options: arguments of the flow's DAG that hold here as well.
    """
    dag_id = f"{flow.name}_backfill"
    with DAG(
        **{
            **options,
            "dag_id": dag_id,
            "description": f"Backfill of {flow.name}: ranges of its log, beside the live flow",
            "schedule": DeltaDataIntervalTimetable(every),
            "max_active_runs": 1,
            "is_paused_upon_creation": True,
            "params": backfill_params(),
            "tags": {"databus", "backfill"},
            "doc_md": _documentation(flow),
        }
    ) as dag:
        task = BackfillOperator(task_id="backfill", flow=flow, conn_id=conn_id)
    # A run gets the DAG's params in any case. The copy that the task was given would be validated again by each
    # comparison and text that the serializer makes of it: a third of the time that parsing a flow's file takes.
    task.params = ParamsDict({name: given for name, given in task.params.items() if name not in dag.params})
    return dag


def _documentation(flow: Flow) -> str:
    return (
        f"Moves ranges of the log of **{flow.name}** beside the live flow, whose checkpoint is not touched.\n\n"
        f"* a backfill (UI, `airflow backfill create --dag-id {flow.name}_backfill …`, REST) moves its data intervals: "
        "each change belongs to exactly one, by the running maximum of commit time\n"
        "* a triggered run moves from `from` to `to`: times, GTID sets, binlog places or offsets\n"
        "* a scheduled run moves nothing; it says whether anything is missing\n\n"
        f"`databus backfill {flow.name} --status` shows, by the ledger, what is done."
    )
