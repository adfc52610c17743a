"""Stream service (`databus stream`): Kafka's topics over HTTP."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox.process import Command, python_environment
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults, get_json


@dataclass(frozen=True)
class Stream(ServerDefaults):
    """The service over all topics of the sandbox's Kafka, on the loopback address only; all may write and read."""

    def install(self, context: Context) -> Path:
        """Return this environment's interpreter, once it is known to have the service's packages.

        Raises:
            SandboxError: it has them not.
        """
        missing = [name for name in ("confluent_kafka", "httptools", "starlette", "uvicorn") if find_spec(name) is None]
        if missing:
            raise SandboxError(
                f"{context.name} needs {', '.join(missing)}, which this Python environment has not",
                hint="Install them: pip install 'databus[stream]'",
                code="sandbox_program_missing",
            )
        return Path(sys.executable)

    def prepare(self, context: Context) -> None:
        """Make the data folder, which stays empty: what the service knows is in Kafka.

        Raises:
            SandboxError: no Kafka was started in the same sandbox.
        """
        context.other("kafka", "serves the topics of Kafka")
        context.data.mkdir(parents=True, exist_ok=True)

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        kafka, own = context.others["kafka"].address, self.address(context.ports, context.host)
        argv = (sys.executable, "-m", "databus.cli.main", "stream", kafka, "--listen", own, "--name", "sandbox")
        return (Command("server", argv, context.folder, context.logs / "server.log", python_environment()),)

    def check_health(self, context: Context) -> None:
        """The service says that it is the one that writes."""
        if get_json(context.host, context.ports["http"], "/health") != {"healthy": True}:
            raise NotHealthyError("another instance has taken it over")


STREAM = Stream("stream", {"http": 18470}, after_others=True, ready_within_s=60.0, stops_within_s=45.0)
