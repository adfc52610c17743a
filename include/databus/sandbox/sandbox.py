"""The sandbox: real servers on this machine, started and stopped without containers."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox import process as processes
from databus.sandbox.cache import file_lock
from databus.sandbox.launch import log_tail, make_ready, spawn_all, wait_healthy
from databus.sandbox.os_user import remove_folder
from databus.sandbox.ports import LOOPBACK, default_ports, free_ports, is_free
from databus.sandbox.progress import Progress, ProgressEvent, ProgressStep, log_progress
from databus.sandbox.servers.catalog import in_order, server_named
from databus.sandbox.servers.protocol import Context, NotHealthyError, Server
from databus.sandbox.state import (
    STATE_FILE,
    SandboxOptions,
    SandboxState,
    StoredProcess,
    StoredServer,
    load_state,
    save_state,
)
from databus.sandbox.status import ServerState, ServerStatus, status_of
from databus.sandbox.versions import load_versions


class Sandbox:
    """The servers of one home folder.

    Any process may open the same home: what was started is on disk. Operations that change something exclude each other
    between processes; `status`, `address` and `logs` never wait.
    """

    def __init__(self, home: Path, ports_from: int | None = None, options: SandboxOptions | None = None) -> None:
        """Open a sandbox; starts nothing.

        Args:
            home: folder of state, configuration, logs and data; made when the first server starts.
            ports_from: choose free ports counted up from this number; None for each server's default ports.
            options: choices for the servers; None for those of the last start.
        """
        self.home = home.absolute()
        self._ports_from = ports_from
        self._options = options
        self._thread_lock = threading.Lock()
        self._state = load_state(self._state_file) or SandboxState()

    # --- up and down ---

    def up(self, names: Iterable[str], progress: Progress = log_progress) -> list[ServerStatus]:
        """Start servers and wait until each is healthy.

        Those that run already are left alone; those that are dead, degraded or paused are started anew with their data.
        Independent servers start in parallel; Airflow starts when the others are up, with connections to all that this
        home knows; one that is started here for the first time later needs a restart of Airflow.

        Raises:
            SandboxError: a server is unknown, or could not be fetched or started; it is stopped again, others stay up.
        """
        wanted = in_order(names)
        with self._changing():
            if self._options is not None:
                self._update(lambda state: state.model_copy(update={"options": self._options}))
            for late in (False, True):
                self._start_together([server for server in wanted if server.after_others is late], progress)
        return [status for status in self.status() if status.name in {server.name for server in wanted}]

    def down(self, names: Iterable[str] | None = None, progress: Progress = log_progress) -> None:
        """Stop servers, by default all that this home has started, and nothing else; data and ports are kept.

        Raises:
            SandboxError: a process outlived SIGKILL.
        """
        with self._changing():
            wanted = in_order(self._state.servers if names is None else names)
            known = [server for server in wanted if server.name in self._state.servers]
            for late in (True, False):
                self._together(
                    [server for server in known if server.after_others is late],
                    lambda server: self._stop(server, progress),
                )

    def destroy(self, progress: Progress = log_progress) -> None:
        """Stop all servers and delete what they wrote, also data kept outside the home."""
        self.down(progress=progress)
        with self._changing():
            for stored in self._state.servers.values():
                remove_folder(stored.data_folder.parent)
                shutil.rmtree(stored.folder, ignore_errors=True)
            shutil.rmtree(self.home / "tls", ignore_errors=True)
            self._state_file.unlink(missing_ok=True)
            self._state = SandboxState()

    # --- looking ---

    def status(self) -> list[ServerStatus]:
        """All servers that were ever started in this home, in the order of the catalog."""
        state = self._read()
        return [status_of(state.servers[server.name]) for server in in_order(state.servers)]

    def status_of(self, name: str) -> ServerStatus:
        """Return the status of one server.

        Raises:
            SandboxError: it was not started here.
        """
        return status_of(self._stored(name))

    def check(self, name: str) -> None:
        """Ask a server whether it is well, as a client would.

        Raises:
            SandboxError: it is not, or was not started.
        """
        stored = self._stored(name)
        server = server_named(name)
        try:
            server.check_health(self._context(server, stored, log_progress))
        except NotHealthyError as error:
            raise SandboxError(
                f"{name}: {error}", hint=f"Restart it: databus sandbox restart {name}", code="sandbox_server_unhealthy"
            ) from None

    def address(self, name: str) -> str:
        """`host:port` of a server for its clients; comma-separated for a cluster."""
        return status_of(self._stored(name)).address

    def logs(self, name: str, lines: int = 100, process: str | None = None) -> str:
        """The last lines of a server's output, of its first process or of the one with this role."""
        chosen = self._chosen(self._stored(name), process)
        return log_tail(chosen[0].log, lines) if chosen else ""

    # --- one server, for tests ---

    def restart(self, name: str, process: str | None = None, progress: Progress = log_progress) -> ServerStatus:
        """Stop a server in order (or one of its processes, by role), start it again on its ports, wait for health."""
        with self._changing():
            stored, server = self._stored(name), server_named(name)
            chosen = self._chosen(stored, process)
            left = processes.stop_all(_identities(chosen), self._mark(name, process), server.stops_within_s)
            _require_none(name, left)
            self._start(server, progress, threading.Event())
        return status_of(self._stored(name))

    def kill(self, name: str, process: str | None = None) -> None:
        """SIGKILL a server with all its processes, or one of them by its role; returns when they are gone."""
        with self._changing():
            chosen = self._chosen(self._stored(name), process)
            _require_none(name, processes.kill_all(_identities(chosen), self._mark(name, process)))

    def pause(self, name: str, process: str | None = None) -> None:
        """SIGSTOP a server: it keeps its connections and answers nothing."""
        self._signal(name, process, signal.SIGSTOP)

    def resume(self, name: str, process: str | None = None) -> None:
        """SIGCONT a paused server."""
        self._signal(name, process, signal.SIGCONT)

    # --- within ---

    @property
    def _state_file(self) -> Path:
        return self.home / STATE_FILE

    def _read(self) -> SandboxState:
        return load_state(self._state_file) or self._state

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with file_lock(self.home / ".lock"):
            self._state = self._read()
            yield

    def _update(self, change: Callable[[SandboxState], SandboxState]) -> None:
        with self._thread_lock:
            self._state = change(self._state)
            save_state(self._state_file, self._state)

    def _put(self, stored: StoredServer) -> None:
        self._update(lambda state: state.with_server(stored))

    def _stored(self, name: str) -> StoredServer:
        server_named(name)
        stored = self._read().servers.get(name)
        if stored is None:
            raise SandboxError(
                f"{name} was not started in {self.home}",
                hint=f"Start it: databus sandbox up {name}",
                code="sandbox_server_unknown",
            )
        return stored

    def _mark(self, name: str, process: str | None = None) -> str:
        mark = f"{self._state.sandbox_id}:{name}"
        return mark if process is None else f"{mark}:{process}"

    @staticmethod
    def _chosen(stored: StoredServer, role: str | None) -> tuple[StoredProcess, ...]:
        chosen = tuple(process for process in stored.processes if role in {None, process.role})
        if not chosen and role is not None:
            roles = ", ".join(process.role for process in stored.processes)
            raise SandboxError(f"{stored.name} has no process {role!r}", hint=f"Its processes: {roles or 'none'}.")
        return chosen

    def _signal(self, name: str, process: str | None, number: signal.Signals) -> None:
        with self._changing():
            chosen = self._chosen(self._stored(name), process)
            for member in processes.members(_identities(chosen), self._mark(name, process)):
                processes.send(member, number)

    def _context(self, server: Server, stored: StoredServer, progress: Progress) -> Context:
        # Also those that are down just now: their addresses stay, and a restart must not lose the connections to them.
        others = {name: status_of(other) for name, other in self._state.servers.items() if name != server.name}
        return Context(
            name=server.name,
            folder=stored.folder,
            data=stored.data_folder,
            ports=stored.ports,
            versions=load_versions(),
            options=self._state.options,
            progress=progress,
            others=others,
            host=stored.host,
        )

    def _start_together(self, servers: Sequence[Server], progress: Progress) -> None:
        cancelled = threading.Event()
        idle = []
        for server in servers:
            stored = self._state.servers.get(server.name)
            if stored is not None and status_of(stored).state is ServerState.RUNNING:
                continue
            # Ports are given out one server after the other, before any of them listens.
            self._put(self._reserve(server, stored))
            idle.append(server)
        self._together(idle, lambda server: self._start(server, progress, cancelled), cancelled)

    def _reserve(self, server: Server, stored: StoredServer | None) -> StoredServer:
        if stored is not None:
            left = processes.stop_all(_identities(stored.processes), self._mark(server.name), server.stops_within_s)
            _require_none(server.name, left)
            if all(is_free(port) for port in stored.ports.values()):
                return stored.model_copy(update={"processes": ()})
        if self._ports_from is None:
            ports = default_ports(server.name, server.default_ports)
        else:
            others = (other for name, other in self._state.servers.items() if name != server.name)
            taken = {port for other in others for port in other.ports.values()}
            ports = free_ports(server.default_ports, self._ports_from, taken)
        folder = self.home / server.name
        folder.mkdir(parents=True, exist_ok=True)
        return StoredServer(
            name=server.name,
            wanted="down",
            host=LOOPBACK,
            ports=ports,
            folder=folder,
            data_folder=stored.data_folder if stored is not None else server.data_folder(folder),
            credentials=server.credentials,
        )

    def _start(self, server: Server, progress: Progress, cancelled: threading.Event) -> None:
        """Bring all processes of a server up; those that live are kept."""
        stored = self._state.servers[server.name]
        living = tuple(process for process in stored.processes if processes.is_alive(process.identity))
        roles = {process.role for process in living}

        def record(started: tuple[StoredProcess, ...]) -> None:
            self._put(stored.model_copy(update={"wanted": "up", "processes": (*living, *started)}))

        try:
            context = make_ready(server, self._context(server, stored, progress))
            commands = tuple(command for command in server.commands(context) if command.role not in roles)
            progress(ProgressEvent(server.name, ProgressStep.START))
            context = replace(context, started_at=datetime.now(UTC))
            started = spawn_all(server, commands, self._mark(server.name), record)
            wait_healthy(server, context, (*living, *started), cancelled)
        except BaseException:
            progress(ProgressEvent(server.name, ProgressStep.FAILED))
            self._stop(server, progress)
            raise
        progress(ProgressEvent(server.name, ProgressStep.READY, server.address(context.ports, context.host)))

    def _stop(self, server: Server, progress: Progress) -> None:
        stored = self._state.servers[server.name]
        progress(ProgressEvent(server.name, ProgressStep.STOP))
        left = processes.stop_all(_identities(stored.processes), self._mark(server.name), server.stops_within_s)
        _require_none(server.name, left)
        self._put(stored.model_copy(update={"wanted": "down"}))
        progress(ProgressEvent(server.name, ProgressStep.STOPPED))

    @staticmethod
    def _together(
        servers: Sequence[Server], work: Callable[[Server], None], cancelled: threading.Event | None = None
    ) -> None:
        """Do `work` for all servers at once; one failure does not stop the others, all failures are raised."""
        if not servers:
            return
        with ThreadPoolExecutor(max_workers=len(servers), thread_name_prefix="sandbox") as pool:
            try:
                futures = [pool.submit(work, server) for server in servers]
                errors = [error for future in futures if (error := future.exception()) is not None]
            except BaseException:
                if cancelled is not None:
                    cancelled.set()
                raise
        known = [error for error in errors if isinstance(error, SandboxError)]
        for error in errors:
            if not isinstance(error, SandboxError):
                raise error
        if len(known) == 1:
            raise known[0]
        if known:
            text = "\n".join(error.message for error in known)
            raise SandboxError(f"{len(known)} servers failed:\n{text}", hint=known[0].hint, code=known[0].code)


def _identities(stored: Sequence[StoredProcess]) -> list[processes.ProcessIdentity]:
    return [process.identity for process in stored]


def _require_none(name: str, left: Sequence[processes.ProcessIdentity]) -> None:
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise SandboxError(
            f"{name}: processes {pids} outlived SIGKILL", hint="They wait for a device; try again later."
        )
