"""Debezium as the peer: a connector in the sandbox's Kafka Connect worker that moves the same tables to topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from databus.bench.delays import topic_ends
from databus.bench.processes import CpuMeter
from databus.core.errors.config import SandboxError
from databus.sandbox import Sandbox
from databus.sandbox.accounts import REPLICATION

TABLE = "bench.orders"
_POLL_S = 0.05
_LOOK_S = 2.0
SETTINGS = {
    "snapshot.mode": "never",
    "max.batch.size": "8192",
    "max.queue.size": "32768",
    "poll.interval.ms": "10",
    "include.schema.changes": "false",
}
"""Throughput before delay; reads from the first log file, which holds the CREATE TABLE. Exactly-once is off."""

DEFAULTS = {
    "snapshot.mode": "never",
    "include.schema.changes": "false",
    "producer.override.linger.ms": "5",
    "producer.override.batch.size": "16384",
}
"""Debezium's and Kafka's own defaults for all that decides the delay; the worker's producer settings are undone."""


@dataclass(frozen=True)
class PeerRun:
    """Result of one run of the peer.

    Attributes:
        rows: messages that became readable.
        seconds: from the start of the connector to the last message readable.
        first_row_s: from the start to the first.
        cpu_seconds: of the Connect worker.
        rss_mb: memory of the worker at the end.
    """

    rows: int
    seconds: float
    first_row_s: float
    cpu_seconds: float
    rss_mb: float


class DebeziumPeer:
    """Debezium connector; stopped and started again, it resumes where it was.

    Attributes:
        topics: one for each table, in their order.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        name: str = "peer",
        tables: Sequence[str] = (TABLE,),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._tables, self._settings = tables, SETTINGS if settings is None else settings
        status = {server.name: server for server in sandbox.status()}
        self._mysql, self._kafka, self._worker = status["mysql"], status["kafka"], status["debezium"]
        self._name, self.topics = name, tuple(f"{name}.{table}" for table in tables)
        self._history = self._worker.data_folder / f"{name}.history"

    def stop(self) -> None:
        """Stop the connector with its threads, and keep its offset."""
        self._request("PUT", f"/connectors/{self._name}/stop")
        self._await_state("STOPPED")

    def delete(self) -> None:
        """Delete the connector; its topics stay."""
        self._request("DELETE", f"/connectors/{self._name}")

    def catch_up(self, rows: int, within_s: float, *, known: int = 0) -> PeerRun:
        """Start the connector, and wait until the topics hold so many messages.

        Args:
            rows: messages of all runs.
            within_s: seconds that it gets.
            known: messages of earlier runs; 0 makes the connector.

        Raises:
            SandboxError: the connector failed, or the time is up.
        """
        return self.timed(self._resume if known else self.create, rows, within_s, known=known)

    def timed(self, begin: Callable[[], object], rows: int, within_s: float, *, known: int = 0) -> PeerRun:
        """Wait until the topics hold so many messages.

        Args:
            begin: called when the time begins; makes the connector send them.
            rows: messages that the topics then hold.
            within_s: seconds that it gets.
            known: messages of them that are there already.

        Raises:
            SandboxError: the connector failed, or the time is up.
        """
        meter = CpuMeter([self._worker.pid or 0])
        began, first, looked = time.perf_counter(), 0.0, 0.0
        with topic_ends(self._kafka.address, self.topics) as ends:
            begin()
            while True:
                seen = sum(ends())
                passed = time.perf_counter() - began
                first = passed if not first and seen > known else first
                if seen >= rows:
                    return PeerRun(seen - known, passed, first, meter.seconds(), meter.peak_rss_mb())
                if passed > looked + _LOOK_S:
                    looked = passed
                    self._require_running(f"{seen} of {rows} messages after {passed:.0f} s")
                if passed > within_s:
                    raise SandboxError(f"Debezium: {seen} of {rows} messages after {passed:.0f} s", hint=self._trace())
                time.sleep(_POLL_S)

    def create(self) -> None:
        """Make the connector, which starts."""
        self._request("POST", "/connectors", {"name": self._name, "config": self._config()})

    def _resume(self) -> None:
        self._request("PUT", f"/connectors/{self._name}/resume")

    def _config(self) -> dict[str, str]:
        return dict(self._settings) | {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "tasks.max": "1",
            "database.hostname": self._mysql.host,
            "database.port": str(self._mysql.port),
            "database.user": REPLICATION.user,
            "database.password": REPLICATION.password.get_secret_value(),
            "database.server.id": "5401",
            "database.ssl.mode": "disabled",
            "topic.prefix": self._name,
            "database.include.list": ",".join(sorted({table.partition(".")[0] for table in self._tables})),
            "table.include.list": ",".join(self._tables),
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self._history),
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
        }

    def _await_state(self, wanted: str, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while True:
            state = self._status()["connector"]["state"]
            if state == wanted:
                return
            if time.monotonic() > deadline:
                raise SandboxError(f"Debezium: the connector is {state}, not {wanted}", hint=self._trace())
            time.sleep(_POLL_S)

    def _require_running(self, how_far: str) -> None:
        """Look at the connector's tasks.

        Raises:
            SandboxError: one of them failed.
        """
        if any(task["state"] == "FAILED" for task in self._status().get("tasks", [])):
            raise SandboxError(f"Debezium: its task failed: {how_far}", hint=self._trace())

    def _trace(self) -> str:
        tasks = self._status().get("tasks", [])
        return next((task["trace"][:500] for task in tasks if "trace" in task), "See: databus sandbox logs debezium")

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = self._request("GET", f"/connectors/{self._name}/status")
        return status

    def _request(self, method: str, path: str, body: object = None) -> Any:
        connection = HTTPConnection(self._worker.host, self._worker.port, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise SandboxError(f"Debezium: {method} {path} answers {response.status}: {answer[:300].decode()}")
        return json.loads(answer) if answer else None
