"""Airflow: API server, scheduler, DAG processor and triggerer, each a process of its own."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from databus.core.errors.config import SandboxError
from databus.sandbox.connections import databus_environment
from databus.sandbox.process import Command, python_environment
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults, get_json

_BEATING = ("scheduler", "triggerer", "dag_processor")
_COMPONENTS = ("metadatabase", *_BEATING)


def unhealthy_components(health: dict[str, Any], since: datetime | None) -> list[str]:
    """Return the components that are not well in an answer of `/api/v2/monitor/health`, or silent since `since`."""
    bad = []
    for part in _COMPONENTS:
        report = health.get(part) or {}
        heartbeat = report.get(f"latest_{part}_heartbeat")
        if report.get("status") != "healthy":
            bad.append(f"{part} is {report.get('status')}")
        elif (
            part in _BEATING and since is not None and (heartbeat is None or datetime.fromisoformat(heartbeat) < since)
        ):
            bad.append(f"{part} has not beaten since its start")
    return bad


_TASKS_AT_A_TIME = "8"


@dataclass(frozen=True)
class Airflow(ServerDefaults):
    """Airflow on SQLite with the local executor; every visitor is admin, on the loopback address only."""

    def install(self, context: Context) -> Path:
        """The interpreter's own Airflow, checked against the version that the images use."""
        wanted = context.versions["AIRFLOW_VERSION"]
        try:
            installed = metadata.version("apache-airflow")
        except metadata.PackageNotFoundError:
            installed = "no version"
        if installed != wanted:
            raise SandboxError(
                f"apache-airflow {installed} is installed in this Python environment, {wanted} is wanted",
                hint=f"Install it: pip install 'apache-airflow=={wanted}', with Airflow's constraints.",
                code="sandbox_program_missing",
            )
        return Path(sys.executable)

    def prepare(self, context: Context) -> None:
        """Make its folders and secrets, and its database the first time."""
        for folder in (context.data, self._dags(context), self._plugins(context)):
            folder.mkdir(parents=True, exist_ok=True)
        self._write_secrets(context)
        done_file = context.data / f"migrated-{context.versions['AIRFLOW_VERSION']}"
        if done_file.exists():
            return
        command = self._command(context, "migrate", "db", "migrate")
        done = subprocess.run(
            command.argv, cwd=context.data, env=command.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
            raise SandboxError(f"{context.name}: airflow db migrate failed:\n{tail}")
        done_file.touch()

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Four processes, and further schedulers; the first one serves the logs of all tasks."""
        port = str(context.ports["api"])
        further = range(2, context.options.airflow_schedulers + 1)
        return (
            self._command(context, "api-server", "api-server", "--host", context.host, "--port", port),
            self._command(context, "scheduler", "scheduler"),
            *(self._command(context, f"scheduler-{n}", "scheduler", "--skip-serve-logs") for n in further),
            self._command(context, "dag-processor", "dag-processor"),
            self._command(context, "triggerer", "triggerer"),
        )

    def check_health(self, context: Context) -> None:
        """`GET /api/v2/monitor/health` calls all four components healthy, by a heartbeat of this start.

        Airflow counts a component as healthy for 30 s after its last heartbeat, also when it has been killed since.
        """
        health = get_json(context.host, context.ports["api"], "/api/v2/monitor/health")
        if bad := unhealthy_components(health, context.started_at):
            raise NotHealthyError(", ".join(bad))

    def environment(self, context: Context) -> dict[str, str]:
        """Settings of all processes (Airflow 3.3 "Configuration Reference"); the user's win."""
        base_url = f"http://{context.host}:{context.ports['api']}"
        transport = {"type": "file", "log_file_path": str(self.lineage_file(context)), "append": True}
        settings = {
            "CORE__DAGS_FOLDER": str(self._dags(context)),
            "CORE__PLUGINS_FOLDER": str(self._plugins(context)),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": _TASKS_AT_A_TIME,
            # The local executor takes any number of tasks, and runs them as they came (ADR 34).
            "CORE__DEFAULT_POOL_TASK_SLOT_COUNT": _TASKS_AT_A_TIME,
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "API__HOST": context.host,
            "API__PORT": str(context.ports["api"]),
            "API__BASE_URL": base_url,
            "API__WORKERS": "1",
            "CORE__EXECUTION_API_SERVER_URL": f"{base_url}/execution/",
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{context.data / 'airflow.db'}",
            "LOGGING__BASE_LOG_FOLDER": str(context.data / "logs"),
            "LOGGING__WORKER_LOG_SERVER_PORT": str(context.ports["worker-log"]),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(context.ports["trigger-log"]),
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
            "OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "OPENLINEAGE__NAMESPACE": "databus",
        } | self._read_secrets(context)
        return {
            **python_environment(),
            **databus_environment(context.others.values(), context.folder.parent),
            "AIRFLOW_HOME": str(context.data),
            # setproctitle would overwrite the environment by which the sandbox knows its processes.
            "SPT_NOENV": "1",
            **{f"AIRFLOW__{key}": value for key, value in settings.items()},
            **context.options.airflow_env,
        }

    def lineage_file(self, context: Context) -> Path:
        """OpenLineage events, one JSON document a line."""
        return context.folder / "openlineage.ndjson"

    def _command(self, context: Context, role: str, *arguments: str) -> Command:
        argv = (sys.executable, "-m", "airflow", *arguments)
        return Command(role, argv, context.folder, context.logs / f"{role}.log", self.environment(context))

    def _dags(self, context: Context) -> Path:
        return (context.options.dags_folder or context.data / "dags").absolute()

    def _plugins(self, context: Context) -> Path:
        return (context.options.plugins_folder or context.data / "plugins").absolute()

    def _secrets_file(self, context: Context) -> Path:
        return context.data / "secrets.json"

    def _write_secrets(self, context: Context) -> None:
        """Keys that all processes, and all later starts, must share; readable by their owner only."""
        file = self._secrets_file(context)
        if file.exists():
            return
        keys = {
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode("ascii"),
            "API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
            "API__SECRET_KEY": secrets.token_urlsafe(32),
        }
        temporary = file.with_suffix(".new")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            json.dump(keys, handle)
        temporary.replace(file)

    def _read_secrets(self, context: Context) -> dict[str, str]:
        keys: dict[str, str] = json.loads(self._secrets_file(context).read_text(encoding="utf-8"))
        return keys


AIRFLOW = Airflow(
    "airflow",
    {"api": 18080, "worker-log": 18793, "trigger-log": 18794},
    after_others=True,
    credentials=("anonymous admin",),
    ready_within_s=300.0,
)
