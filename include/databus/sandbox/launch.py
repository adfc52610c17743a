"""Server launch: from nothing to healthy."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox.process import Command, is_alive, spawn
from databus.sandbox.progress import ProgressEvent, ProgressStep
from databus.sandbox.servers.protocol import Context, NotHealthyError, Server
from databus.sandbox.state import StoredProcess

logger = logging.getLogger(__name__)

_POLL_S = 0.2
Record = Callable[[tuple[StoredProcess, ...]], None]


def make_ready(server: Server, context: Context) -> Context:
    """Fetch the program and write its configuration; the context then knows where the program is."""
    context.progress(ProgressEvent(server.name, ProgressStep.INSTALL))
    context = context.installed_at(server.install(context))
    context.progress(ProgressEvent(server.name, ProgressStep.PREPARE))
    server.prepare(context)
    return context


def spawn_all(server: Server, commands: tuple[Command, ...], mark: str, record: Record) -> tuple[StoredProcess, ...]:
    """Start processes, and record each at once: a crash of this process leaves none that is not known.

    Args:
        server: whose processes they are.
        commands: what to start.
        mark: of the server; the role is added to it.
        record: is given all processes started so far.
    """
    started: tuple[StoredProcess, ...] = ()
    for command in commands:
        try:
            process = spawn(command, f"{mark}:{command.role}")
        except OSError as error:
            raise SandboxError(f"{server.name}: {command.argv[0]} cannot be run: {error}") from error
        stored = StoredProcess(
            role=command.role,
            pid=process.pid,
            start_ticks=process.start_ticks,
            boot_id=process.boot_id,
            log=command.log,
        )
        started = (*started, stored)
        record(started)
        logger.debug("%s: %s has pid %s", server.name, command.role, process.pid)
    return started


def wait_healthy(
    server: Server, context: Context, processes: tuple[StoredProcess, ...], cancelled: threading.Event
) -> None:
    """Ask until the server says that it is well.

    Raises:
        SandboxError: one of its processes ended, the time was up, or another thread cancelled; the message ends
            with its log.
    """
    deadline = time.monotonic() + server.ready_within_s
    while True:
        for process in processes:
            if not is_alive(process.identity):
                raise SandboxError(
                    f"{server.name}: {process.role} ended while starting. Its log ends:\n{log_tail(process.log)}",
                    hint=f"The whole log: {process.log}",
                    code="sandbox_server_died",
                )
        try:
            server.check_health(context)
        except NotHealthyError as error:
            reason = str(error)
        else:
            return
        if cancelled.is_set():
            raise SandboxError(f"{server.name}: start was cancelled", code="sandbox_cancelled")
        if time.monotonic() > deadline:
            tail = log_tail(processes[0].log)
            raise SandboxError(
                f"{server.name}: not healthy after {server.ready_within_s:.0f} s ({reason}). Its log ends:\n{tail}",
                hint=f"The whole log: {processes[0].log}",
                code="sandbox_server_unhealthy",
            )
        context.progress(ProgressEvent(server.name, ProgressStep.WAIT, reason.splitlines()[0][:120]))
        cancelled.wait(_POLL_S)


def log_tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        with log.open(encoding="utf-8", errors="replace") as handle:
            return "".join(deque(handle, maxlen=lines)).rstrip("\n")
    except FileNotFoundError:
        return ""
