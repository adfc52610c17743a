"""The snapshot DAG of a flow: one task that begins a snapshot and waits for its end, or decides on the present one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from databus.airflow.connections import AirflowConnections
from databus.airflow.dags_beside import PARAM_SCHEMA, dag_beside, tables_param
from databus.airflow.operators.process import only_warnings_of_libraries
from databus.airflow.operators.task import airflow_outcome
from databus.core.flow import Flow

ACTIONS = ("begin", "show", "pause", "resume", "cancel")
TASK = "snapshot"


def dag_name(flow: str) -> str:
    """Return the name of a flow's snapshot DAG."""
    return f"{flow}_snapshot"


def snapshot_params(flow: str) -> dict[str, Param]:
    """Return the fields of the trigger form of a flow's snapshot DAG."""
    return {
        "action": Param(
            "begin",
            enum=list(ACTIONS),
            type="string",
            **PARAM_SCHEMA,
            title="Action",
            description_md="`begin`: read tables as they stand, and wait until all rows are delivered. `show`: log how "
            "far the snapshot is. `pause`, `resume`, `cancel`: hold the one under way, let it go on, end it.",
        ),
        "tables": tables_param(
            "Tables to read, each as `database.table` on a line of its own. Left empty, all tables of "
            f"{flow} are read. Only `begin` looks at it."
        ),
        "where": Param(
            None,
            type=["null", "string"],
            **PARAM_SCHEMA,
            title="Condition",
            description_md="Condition in SQL that rows of the one table must meet, e.g. `id > 1000`. Left empty, all "
            "rows are read. Only `begin` looks at it.",
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            **PARAM_SCHEMA,
            title="Reason",
            description_md="Why, for the flow's history. Left empty, the history names the run that asked.",
        ),
    }


class SnapshotOperator(BaseOperator):
    """Begins a snapshot of a flow and waits for its end, or pauses, resumes, cancels or shows the one under way.

    Rows are moved by the flow's own runs. The task waits in the triggerer, holds no worker, and logs progress. A task
    that fails, is killed or is marked leaves the snapshot as it is: it goes on, and `cancel` ends it. The next attempt
    of the same run waits for the snapshot that the run has begun; a cleared run begins another one.

    It fails where rows did not reach the sinks: a table was dropped meanwhile, rows are in quarantine. It is skipped
    where a person cancelled the snapshot.

    Args:
        flow: the flow, as `Flow(…)` returned it.
        poll: time between looks, e.g. timedelta(seconds=30); default 5 seconds.
        **options: further arguments of an operator, e.g. task_id="snapshot".
    """

    ui_color = "#d9ecf7"

    def __init__(self, *, flow: Flow, poll: timedelta = timedelta(seconds=5), **options: Any) -> None:
        super().__init__(**options)
        self.flow, self.poll_s = flow, poll.total_seconds()

    def execute(self, context: Any) -> dict[str, Any]:
        """Do what the run was asked for; return how far the snapshot is then."""
        only_warnings_of_libraries()
        params = context["params"]
        if params["action"] == "begin":
            return self._waited(self._begun(context, params))
        return self._decided(context, params)

    def ended(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Return what became of the snapshot, after a wait in the triggerer.

        Raises:
            AirflowException: the wait ended with an error that a retry may mend.
            AirflowFailException: one that a retry cannot mend, or not all rows reached the sinks.
            AirflowSkipException: a person cancelled it.
        """
        if "error" in event:
            raise (AirflowException if event["retryable"] else AirflowFailException)(event["error"])
        return self._waited(event["number"])

    def on_kill(self) -> None:
        """Say that the snapshot goes on; Airflow calls this from its SIGTERM handler."""
        self.log.warning("the snapshot is left as it is, and goes on where it has begun: action `cancel` ends it")

    def _begun(self, context: Any, params: Any) -> int:
        """Return the number of the run's snapshot, begun now or by an earlier attempt, which is known by its time."""
        from databus.ops import snapshots
        from databus.ops.services import open_services

        asked_at: datetime | None = getattr(context["dag_run"], "start_date", None)
        with airflow_outcome(), open_services(self.flow, AirflowConnections(), records=False) as services:
            last = services.store.snapshot(self.flow.name)
            if last is not None and last.cause == "request" and last.begun_at == asked_at:
                self.log.info("flow %s: snapshot %d was begun by an earlier attempt", self.flow.name, last.number)
                return last.number
            wanted = snapshots.proposed(self.flow, services, params["tables"] or (), params["where"] or "")
            wanted = replace(wanted, begun_at=asked_at or wanted.begun_at)
            snapshots.begin(self.flow, services, wanted, _said(context, params, "a snapshot"))
        self.log.info("flow %s: snapshot %d begins; the flow's runs move its rows", self.flow.name, wanted.number)
        return wanted.number

    def _decided(self, context: Any, params: Any) -> dict[str, Any]:
        from databus.core.errors.checkpoint import CheckpointConflictError
        from databus.core.state.snapshot_progress import progress_of
        from databus.ops.services import open_services

        action = params["action"]
        with airflow_outcome(), open_services(self.flow, AirflowConnections(), records=False) as services:
            store, said = services.store, _said(context, params, f"the {action} of a snapshot")
            decide = {"pause": store.pause_snapshot, "resume": store.resume_snapshot, "cancel": store.cancel_snapshot}
            if action in decide:
                found = decide[action](self.flow.name, said.who, said.why)
            elif (shown := store.snapshot(self.flow.name)) is not None:
                found = shown
            else:
                raise CheckpointConflictError(
                    f"flow {self.flow.name} has no snapshot yet", hint="Action `begin` begins one."
                )
            progress = progress_of(found, services.clock.now())
        self.log.info("flow %s: %s", self.flow.name, progress.text)
        return progress.to_json()

    def _waited(self, number: int) -> dict[str, Any]:
        """Return what became of a snapshot; while it is unfinished, leave the worker."""
        from databus.core.state.snapshot_progress import progress_of
        from databus.ops.services import open_services
        from databus.ops.snapshots import shortfalls

        name = self.flow.name
        with airflow_outcome(), open_services(self.flow, AirflowConnections()) as services:
            found = services.store.snapshot(name)
            if found is None or found.number != number:
                raise AirflowFailException(
                    f"flow {name}: snapshot {number} has ended, and is not the last one any more: whether all its rows "
                    f"were read is not known here. `databus checkpoint history {name}` shows who ended or followed it."
                )
            progress = progress_of(found, services.clock.now())
            lacks = shortfalls(self.flow, services, found) if progress.ended else []
        self.log.info("flow %s: %s", name, progress.text)
        if not progress.ended:
            from databus.airflow.snapshots.trigger import SnapshotTrigger

            self.defer(trigger=SnapshotTrigger(self.flow, number, self.poll_s), method_name="ended")
        if found.cancelled:
            raise AirflowSkipException(f"flow {name}: a person ended it: {progress.text}")
        if lacks:
            raise AirflowFailException(f"flow {name}: {progress.text}, but not well: {'; '.join(lacks)}")
        return progress.to_json()


def _said(context: Any, params: Any, what: str) -> Any:
    from databus.ops.checkpoint.amend import Attribution

    who = getattr(context["dag_run"], "triggering_user_name", None) or "Airflow"
    return Attribution(str(who), params["reason"] or f"asked for by run {context['run_id']}", what=what)


def snapshot_dag(flow: Flow, options: dict[str, Any]) -> DAG:
    """Return the snapshot DAG of a flow; it stands beside the flow's own and is found by Airflow with it.

    Args:
        flow: the flow.
        options: arguments of the flow's DAG that hold here as well, but for its schedule and deadlines.
    """
    own = {
        "dag_id": dag_name(flow.name),
        "description": f"Snapshot of {flow.name}: rows of its tables as they stand, beside its stream",
        "schedule": None,
        "max_active_runs": 8,  # one waits for the end, others pause, resume or cancel
        "is_paused_upon_creation": False,
        "params": snapshot_params(flow.name),
        "tags": {"databus", "snapshot"},
        "doc_md": _documentation(flow),
    }
    return dag_beside(flow, TASK, options, own, SnapshotOperator)


def _documentation(flow: Flow) -> str:
    return (
        f"Reads tables of **{flow.name}** as they stand, while its stream goes on: each row comes once more.\n\n"
        "* `begin` waits, without a worker, until all rows are delivered; the log shows rows, rate and time left\n"
        "* `show` logs how far it is; `pause`, `resume` and `cancel` decide on the one under way\n"
        "* a task that fails, is killed or is marked leaves the snapshot as it is: only `cancel` ends it\n"
        "* a run fails where a table was dropped meanwhile, or rows are in quarantine; it is skipped where a person "
        "cancelled the snapshot\n\n"
        f"`databus snapshot show {flow.name}` shows the same, table by table."
    )
