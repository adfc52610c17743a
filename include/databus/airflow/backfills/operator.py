"""The backfill DAG of a flow: one task that moves the range of its run beside the live flow."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any, NoReturn

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.definitions.param import ParamsDict

from databus.airflow.assets import emit_backfilled
from databus.airflow.backfills.alerts import backfill_callbacks
from databus.airflow.backfills.params import run_type_of
from databus.airflow.connections import AirflowConnections
from databus.airflow.moved import AirflowSkipException, DeltaDataIntervalTimetable, TaskDeferred
from databus.airflow.operators.audit import with_outputs
from databus.airflow.operators.process import only_warnings_of_libraries
from databus.airflow.operators.task import airflow_outcome, run_identity
from databus.airflow.operators.transfer import DrainDeadline
from databus.airflow.reporting.flow_callbacks import listed
from databus.airflow.reporting.lineage import backfill_lineage, end_failed_backfill
from databus.airflow.runs.earlier import earlier_run
from databus.core.errors.checkpoint import BackfillOpenError, BackfillWaitsError
from databus.core.errors.config import BackfillRangeError
from databus.core.flow import Flow
from databus.core.state.backfill import Mode, aim_of, dag_name
from databus.runtime.drain import Drain

_LEASE_WAIT_S = 90.0
"""Longer than the session of a killed run lives."""

_ORDER_WAIT_S = 5.0
"""Until another range that is moved in order is done; longer waits are left to the triggerer."""

_LOOK_AGAIN = timedelta(seconds=15)

_PLACE = (
    "A time in ISO 8601 (`2026-11-21T10:00`, UTC without a zone), a GTID set (`gtid:…`), a binlog place "
    "(`mysql-bin.000042:4`), offsets of Kafka topics (`offsets:orders:0:1200`), `earliest`, `latest`, or an offset as "
    "JSON (`databus checkpoint show {flow} -o json`)."
)


_SCHEMA: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#"}
"""Airflow checks a Param's schema at each look at its value; against the newest draft that takes four times as long."""


def backfill_params(flow: str) -> dict[str, Param]:
    """Return the fields of the trigger form of a flow's backfill DAG."""
    place = _PLACE.format(flow=flow)
    return {
        "from": Param(
            None,
            type=["null", "string"],
            **_SCHEMA,
            title="From (inclusive)",
            description_md=f"Where the range begins. {place} Left empty in a backfill: there it is the data interval.",
        ),
        "to": Param(
            None,
            type=["null", "string"],
            **_SCHEMA,
            title="To (exclusive)",
            description_md=f"Where the range ends. {place} A time belongs to the range after it.",
        ),
        "mode": Param(
            str(Mode.MISSING),
            enum=[str(mode) for mode in Mode],
            type="string",
            **_SCHEMA,
            title="What is moved",
            description_md="`missing`: only what the ledger does not show as moved, to the live outputs. `replay`: all "
            "of the range again, to outputs beside the live ones. In the form of a backfill this and the other fields "
            "count only if *Override parameters on existing runs* is ticked; and choose *All Runs* there: intervals "
            "that have a run already are left out otherwise.",
        ),
        "order": Param(
            "in_order",
            enum=["in_order", "parallel"],
            type="string",
            **_SCHEMA,
            title="Order of ranges",
            description_md="`in_order`: one range at a time. A run of a backfill waits, without a worker, until "
            "earlier runs are over; a range goes after earlier ones that were asked for. `parallel`: as many at a "
            "time as the backfill has active runs; each range is still moved once.",
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
            None,
            type=["null", "string"],
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
            description_md="Also into compacted topics, where an older row would stand for a newer one; and where a "
            "range stood still until its markers expired, so that rows may come once more.",
        ),
    }


class BackfillOperator(BaseOperator):
    """Moves the range of its run: the data interval of a backfill, or `from` and `to` of a triggered run.

    Whether it is done is decided by the ledger. A run that is cleared, repeated, killed or marked goes on where the
    ledger says it stands, and moves nothing twice. A scheduled run moves nothing: it says whether anything is missing.
    In order, a run of a backfill waits for earlier runs in the triggerer: it holds no worker, and spends no attempt.
    One that is done gives an asset event for each output that the run wrote to: the live ones, or a replay's own.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        conn_id: the Spark Connect connection, e.g. "spark_east"; default "spark_connect_default".
        **options: further arguments of an operator, e.g. task_id="backfill".
    """

    ui_color = "#e5dcf7"

    def __init__(self, *, flow: Flow, conn_id: str = "spark_connect_default", **options: Any) -> None:
        super().__init__(outlets=with_outputs(flow, options), **options)
        self.flow = flow
        self.conn_id = conn_id
        self._drain = Drain()
        self._deadline = DrainDeadline()

    def execute(self, context: Any) -> dict[str, Any]:
        """Move the range and return what its ledger shows."""
        return self._moved(context, None)

    def resumed(self, context: Any, event: Any, queued_since: str | None) -> dict[str, Any]:  # noqa: ARG002 - Airflow's
        """Do what `execute` does, after a wait in the triggerer."""
        return self._moved(context, datetime.fromisoformat(queued_since) if queued_since else None)

    def _moved(self, context: Any, queued_since: datetime | None) -> dict[str, Any]:
        from databus.ops.backfill.run import BackfillRequest, BackfillRun, preview, run_backfill
        from databus.ops.backfill.status import state_of
        from databus.ops.services import open_services

        only_warnings_of_libraries()
        identity, run_type = run_identity(context), run_type_of(context["dag_run"])
        in_order = context["params"]["order"] == "in_order"
        if in_order and run_type == "backfill" and (earlier := earlier_run(context["ti"], queued_since)):
            self._wait(f"{earlier} is earlier", earlier.queued_since)
        with (
            backfill_lineage(self.flow, context),
            airflow_outcome(),
            self._deadline,
            open_services(self.flow, AirflowConnections()) as services,
        ):
            params = dict(context["params"])
            aim = aim_of(Mode(params["mode"]), params["suffix"], params["name"] or "", into_live=params["into_live"])
            start, end = self._range(context, params, run_type)
            wanted = BackfillRequest(start, end, aim, in_order, params["accept"])
            if run_type == "scheduled":
                try:
                    found = preview(self.flow, services, wanted, identity.run_id)
                    left = [str(p.range) for p in state_of(self.flow, services, found).pieces if not p.done]
                    says = f"{'; '.join(left) or 'nothing'} is missing"
                except BackfillOpenError as error:
                    says = error.message
                raise AirflowSkipException(f"{start} to {end}: {says}; scheduled runs move nothing")
            spark = self._spark(services.settings.installation, identity.run_id)
            run = BackfillRun(spark, identity, self._drain, _LEASE_WAIT_S, _ORDER_WAIT_S)
            try:
                state = run_backfill(self.flow, services, wanted, run)
            except BackfillWaitsError as error:
                self._wait(error.message, queued_since)
            emit_backfilled(self.flow, services.settings.records_url, identity.run_id, context["outlet_events"])
            return state.to_json()

    def _wait(self, why: str, queued_since: datetime | None) -> NoReturn:
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        seconds = _LOOK_AGAIN.total_seconds()
        self.log.info("flow %s: in order: %s; looking again in %.0f s", self.flow.name, why, seconds)
        since = queued_since.isoformat() if queued_since else None
        raise TaskDeferred(trigger=TimeDeltaTrigger(_LOOK_AGAIN), method_name="resumed", kwargs={"queued_since": since})

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

            from databus.runtime.spark.session import connect_session

            address = SparkConnectHook(self.conn_id).get_connection_url()
            return connect_session(address, f"{installation}/{self.flow.name}.backfill/{run_id}")

        return connect


def backfill_dag(flow: Flow, every: timedelta, conn_id: str, options: dict[str, Any]) -> DAG:
    """Return the backfill DAG of a flow; it stands beside the flow's own and is found by Airflow with it.

    Args:
        flow: the flow.
        every: length of a data interval.
        conn_id: the Spark Connect connection.
        options: arguments of the flow's DAG that hold here as well, but for its deadlines.
    """
    failed = [*listed(options.get("on_failure_callback")), partial(end_failed_backfill, flow)]
    with DAG(
        **{
            **options,
            "dag_id": dag_name(flow.name),
            "description": f"Backfill of {flow.name}: ranges of its log, beside the live flow",
            "schedule": DeltaDataIntervalTimetable(every),
            "max_active_runs": 1,
            "deadline": None,  # is about windows; a backfill takes as long as its range
            "on_failure_callback": failed,
            "is_paused_upon_creation": True,
            "params": backfill_params(flow.name),
            "tags": {"databus", "backfill"},
            "doc_md": _documentation(flow),
        }
    ) as dag:
        told = backfill_callbacks(flow, options.get("default_args", {}))
        task = BackfillOperator(task_id="backfill", flow=flow, conn_id=conn_id, **told)
    # A run gets the DAG's params in any case. The copy that the task was given would be validated again by each
    # comparison and text that the serializer makes of it: a third of the time that parsing a flow's file takes.
    task.params = ParamsDict({name: given for name, given in task.params.items() if name not in dag.params})
    return dag


def _documentation(flow: Flow) -> str:
    return (
        f"Moves ranges of the log of **{flow.name}** beside the live flow, whose checkpoint is not touched.\n\n"
        f"* a backfill (UI, `airflow backfill create --dag-id {dag_name(flow.name)} …`, REST) moves data intervals: "
        "each change belongs to exactly one, by the running maximum of commit time\n"
        "  * its *to* is inclusive: the start of the last interval that is wanted\n"
        "  * reprocess **All Runs** (`--reprocess-behavior completed`): else Airflow leaves out each interval that has "
        "a run already, as a scheduled one; nothing is moved twice\n"
        "  * in the UI the fields count only if *Override parameters on existing runs* is ticked: else new runs move "
        "what is `missing`, and existing ones do again what they did before\n"
        "* a triggered run moves from `from` to `to`: times, GTID sets, binlog places or offsets\n"
        "* a scheduled run moves nothing; it says whether anything is missing\n\n"
        f"`databus backfill {flow.name} --status` shows, by the ledger, what is done."
    )
