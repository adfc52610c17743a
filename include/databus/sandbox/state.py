"""Sandbox state on disk: a later process can show and stop what an earlier one began.

`state.json` in the home folder is replaced whole by a rename, so that a reader never sees half of it. It holds no
passwords.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from databus.core.errors.config import SandboxError
from databus.sandbox.process import ProcessIdentity

FORMAT_VERSION = 1


class _StoredModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredProcess(_StoredModel):
    """Stored process that was started.

    Attributes:
        role: its name within the server.
        log: file of its output.
    """

    role: str
    pid: int
    start_ticks: int
    boot_id: str
    log: Path

    @property
    def identity(self) -> ProcessIdentity:
        """Process identity, which distinguishes it from a later process with the same pid."""
        return ProcessIdentity(self.pid, self.start_ticks, self.boot_id)


class StoredServer(_StoredModel):
    """Stored server.

    Attributes:
        wanted: the state that was last asked for.
        host: address that it listens on.
        ports: purpose → TCP port, kept over a stop so that addresses stay.
        processes: those of the last start.
        folder: its folder below the home.
        data_folder: where its data is.
        credentials: names of the accounts, without passwords.
    """

    name: str
    wanted: Literal["up", "down"] = "up"
    host: str
    ports: dict[str, int]
    processes: tuple[StoredProcess, ...] = ()
    folder: Path
    data_folder: Path
    credentials: tuple[str, ...] = ()


class SandboxOptions(_StoredModel):
    """Choices for the servers of one sandbox; stored with it, so that a later restart makes the same ones.

    Attributes:
        spark_master: master URL of the Spark Connect server.
        spark_driver_memory: heap of its driver, in Java's notation.
        spark_conf: further Spark settings, which win over the sandbox's own.
        dags_folder: Airflow's DAG files; None for an empty folder in the home.
        plugins_folder: Airflow's plugins; None for an empty folder in the home.
        airflow_env: further environment of the Airflow processes, which wins over the sandbox's own.
        airflow_schedulers: how many schedulers run side by side; more than one need a database that can lock rows.
        sql_options: server name ("mysql", "mariadb") → options of its my.cnf, which win over the sandbox's own.
    """

    spark_master: str = "local[2]"
    spark_driver_memory: str = "3g"
    spark_conf: dict[str, str] = Field(default_factory=dict)
    dags_folder: Path | None = None
    plugins_folder: Path | None = None
    airflow_env: dict[str, str] = Field(default_factory=dict)
    airflow_schedulers: int = Field(default=1, ge=1)
    sql_options: dict[str, dict[str, str]] = Field(default_factory=dict)


class SandboxState(_StoredModel):
    """Sandbox state: everything that survives the process.

    Attributes:
        v: version of this format.
        sandbox_id: mark that every started process carries in its environment.
        servers: by name.
        options: choices of the last start.
    """

    v: Annotated[int, Field(ge=FORMAT_VERSION, le=FORMAT_VERSION)] = FORMAT_VERSION
    sandbox_id: str = Field(default_factory=lambda: uuid.uuid4().hex)
    servers: dict[str, StoredServer] = Field(default_factory=dict)
    options: SandboxOptions = Field(default_factory=SandboxOptions)

    def with_server(self, server: StoredServer) -> SandboxState:
        """A copy in which `server` replaces the one of its name."""
        return self.model_copy(update={"servers": {**self.servers, server.name: server}})

    def without_server(self, name: str) -> SandboxState:
        """A copy that does not know `name`."""
        return self.model_copy(update={"servers": {k: v for k, v in self.servers.items() if k != name}})


STATE_FILE = "state.json"


def homes_below(folder: Path) -> list[Path]:
    """Return the folders directly below a folder in which a sandbox was started."""
    return sorted(file.parent for file in folder.glob(f"*/{STATE_FILE}"))


def load_state(path: Path) -> SandboxState | None:
    """The stored state; None where nothing was ever started.

    Raises:
        SandboxError: the file is not one of this version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return SandboxState.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SandboxError(
            f"{path} cannot be read: {place}: {first['msg']}",
            hint="Restore the file, or stop its servers by hand and delete it.",
            code="sandbox_state_invalid",
        ) from None


def save_state(path: Path, state: SandboxState) -> None:
    """Replace the stored state; atomic, and on disk when it returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".state.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(state.model_dump_json(indent=2) + "\n")
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
