"""A few calls of Airflow's REST API, as an operator's script would make them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

import httpx

from databus.core.errors.config import SandboxError

_BUSY = {httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.CONFLICT}
_BUSY_S = 60.0


class AirflowApi:
    """Airflow's public API v2, logged in as the simple auth manager's all-admin user; a context manager."""

    def __init__(self, address: str):
        """Log in.

        Args:
            address: `host:port` of the API server.
        """
        self.root = f"http://{address}"
        token = httpx.get(f"{self.root}/auth/token", timeout=30).raise_for_status().json()["access_token"]
        self._client = httpx.Client(
            base_url=f"{self.root}/api/v2", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )

    def __enter__(self) -> AirflowApi:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def dags(self) -> list[str]:
        """Return the ids of all DAGs that the server knows."""
        return [d["dag_id"] for d in self._get("/dags", limit=500)["dags"]]

    def wait_for(self, dags: Collection[str], within_s: float) -> None:
        """Wait until Airflow has read the files of these DAGs.

        Raises:
            SandboxError: it has not found them all in time; the hint holds the errors of files it could not read.
        """
        deadline = time.monotonic() + within_s
        while missing := set(dags) - set(self.dags()):
            if time.monotonic() > deadline:
                errors = "; ".join(
                    f"{e['filename']}: {e['stack_trace'].splitlines()[-1]}" for e in self.import_errors()
                )
                raise SandboxError(
                    f"Airflow has not found {', '.join(sorted(missing))}", hint=f"Import errors: {errors or 'none'}."
                )
            time.sleep(1)

    def import_errors(self) -> list[dict[str, Any]]:
        """Return DAG files that could not be read."""
        return list(self._get("/importErrors")["import_errors"])

    def pause(self, dag: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        self._client.patch(f"/dags/{dag}", json={"is_paused": paused}).raise_for_status()

    def pool(self, name: str, slots: int) -> None:
        """Make a pool, or give it another number of slots."""
        answer = self._client.post("/pools", json={"name": name, "slots": slots})
        # Airflow takes a changed pool only whole.
        whole = {"pool": name, "slots": slots, "include_deferred": False}
        if answer.status_code == httpx.codes.CONFLICT:
            answer = self._client.patch(f"/pools/{name}", json=whole)
        answer.raise_for_status()

    def add_connection(self, conn_id: str, connection: Mapping[str, Any]) -> None:
        """Add a connection to Airflow's database, as its form does; fields are named as in the JSON form."""
        self._client.post("/connections", json={"connection_id": conn_id, **connection}).raise_for_status()

    def trigger(self, dag: str, conf: dict[str, Any] | None = None) -> str:
        """Start a run and return its id."""
        body = {"logical_date": None, "conf": conf or {}}
        return str(self._client.post(f"/dags/{dag}/dagRuns", json=body).raise_for_status().json()["dag_run_id"])

    def params(self, dag: str) -> dict[str, Any]:
        """Return the fields of a DAG's trigger form, as the form gets them."""
        return dict(self._get(f"/dags/{dag}/details")["params"])

    def backfill(self, dag: str, interval: tuple[str, str], conf: dict[str, Any], max_active_runs: int = 1) -> int:
        """Create a backfill over the data intervals that begin from one time to another, inclusive; return its id.

        Intervals that have a run which is over are run again; Airflow's default leaves them out.

        Airflow answers 503 while its database is locked, and 409 while another backfill of the DAG goes on (it takes
        note twice a minute of one that is over), both times having done nothing: it is asked again for a minute.
        """
        body = {
            "dag_id": dag,
            "from_date": interval[0],
            "to_date": interval[1],
            "dag_run_conf": conf,
            "max_active_runs": max_active_runs,
            "reprocess_behavior": "completed",
        }
        deadline = time.monotonic() + _BUSY_S
        while (answer := self._client.post("/backfills", json=body)).status_code in _BUSY:
            if time.monotonic() > deadline:
                break
            time.sleep(1)
        return int(answer.raise_for_status().json()["id"])

    def clear(self, dag: str, run: str) -> None:
        """Clear a run, as the UI's button does: its tasks run again."""
        self._client.post(f"/dags/{dag}/dagRuns/{run}/clear", json={"dry_run": False}).raise_for_status()

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """Return a DAG's runs, newest first."""
        return list(self._get(f"/dags/{dag}/dagRuns", order_by="-run_after", limit=100)["dag_runs"])

    def run(self, dag: str, run: str) -> dict[str, Any]:
        """Return one run."""
        return self._get(f"/dags/{dag}/dagRuns/{run}")

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a run by task id."""
        found = self._get(f"/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {t["task_id"]: t for t in found}

    def log(self, dag: str, run: str, task: str, attempt: int = 1) -> str:
        """Return a task's log as text."""
        answer = self._get(f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}", full_content="true")
        return "\n".join(str(line.get("event", line)) for line in answer["content"])

    def graph(self, dag: str) -> dict[str, list[str]]:
        """Return task id → the tasks that follow it."""
        return {t["task_id"]: t["downstream_task_ids"] for t in self._get(f"/dags/{dag}/tasks")["tasks"]}

    def test_connection(self, conn_id: str, conn_type: str, host: str, port: int) -> tuple[bool, str]:
        """Press the Test button of a connection's form; the server allows it by `[core] test_connection`."""
        body = {"connection_id": conn_id, "conn_type": conn_type, "host": host, "port": port}
        answer = self._client.post("/connections/test", json=body).raise_for_status().json()
        return bool(answer["status"]), str(answer["message"])

    def set_task_state(self, dag: str, run: str, task: str, state: str) -> None:
        """Mark a task, as the UI's buttons do; a running one is stopped."""
        self._client.patch(
            f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}", json={"new_state": state}
        ).raise_for_status()

    def run_address(self, dag: str, run: str) -> str:
        """Return the address of a run's page."""
        return f"{self.root}/dags/{dag}/runs/{run}"

    def _get(self, path: str, **parameters: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.get(path, params=parameters).raise_for_status().json()
        return answer
