"""Real servers behind fault proxies, runs of the path on them, and the ends of their ZooKeeper sessions."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pymysql
from kazoo.client import KazooClient

from databus import Flow
from databus.sandbox import Sandbox
from databus.sandbox.accounts import ROOT
from databus.sandbox.connections import airflow_connections
from databus.testing.tcp_proxy import ProxyGroup

SINGLE = {"zookeeper": "zookeeper_default", "kafka": "kafka_east", "mysql": "mysql_shop"}
"""Servers of the fast loop, and the connections that lead to them."""

SESSION_TIMEOUT_S = 3.0
_QUIET = logging.getLogger("tests.faults.kazoo")
_QUIET.setLevel(logging.CRITICAL)


@dataclass
class Run:
    """One run of the path: a driver process and its executors, a process group.

    Attributes:
        number: counts the runs.
        pid: the driver; also the group.
        events: what it told, in order; each has event, at, pid and further facts.
        status: exit code once the driver has ended.
    """

    number: int
    pid: int
    events: list[dict[str, Any]] = field(default_factory=list)
    status: int | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the events of one name so far."""
        with self.changed:
            return [e for e in self.events if e["event"] == event]

    def wait_for(self, *events: str, timeout_s: float, count: int = 1) -> dict[str, Any] | None:
        """Wait for the n-th of some events; None when the driver ended before, or in vain."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while True:
                found = [e for e in self.events if e["event"] in events]
                if len(found) >= count:
                    return found[count - 1]
                left = deadline - time.monotonic()
                if left <= 0 or self.status is not None:
                    return None
                self.changed.wait(min(left, 0.5))

    def wait_end(self, timeout_s: float) -> int | None:
        """Wait until the driver has ended; return its exit code."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while self.status is None and time.monotonic() < deadline:
                self.changed.wait(0.5)
            return self.status

    @property
    def executors(self) -> list[int]:
        """Process ids of the executors."""
        told = self.told("executors")
        return list(told[0]["pids"]) if told else []

    def signal_group(self, number: int) -> None:
        """Send a signal to the driver and its executors."""
        with suppress(ProcessLookupError):
            if self.pid > 0:
                os.killpg(self.pid, number)


class World:
    """Servers, proxies, and the process that forks runs; a context manager."""

    def __init__(
        self,
        sandbox: Sandbox,
        folder: Path,
        mutants: tuple[str, ...] = (),
        *,
        small_disk: bool = False,
        servers: Mapping[str, str] = SINGLE,
        environment: Mapping[str, str] | None = None,
    ):
        """Open proxies and start the forking process; the servers run already.

        Args:
            sandbox: the servers.
            folder: logs, segments and records.
            mutants: planted bugs of the runs.
            small_disk: put the segment store on a small disk of its own that can be filled (needs root).
            servers: servers that stand behind proxies → the connections that lead there.
            environment: further variables of the runs' processes.
        """
        self.sandbox, self.folder = sandbox, folder
        self.segments = folder / "segments"
        self.segments.mkdir(parents=True, exist_ok=True)
        self._small_disk = small_disk
        if small_disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.segments)], check=True)
        self.proxies = {name: ProxyGroup(sandbox.address(name), kafka=name.startswith("kafka")) for name in servers}
        self.environment = airflow_connections(sandbox.status())
        for name, conn_id in servers.items():
            self._redirect(f"AIRFLOW_CONN_{conn_id.upper()}", self.proxies[name])
        self.log = folder / "runs.log"
        self._runs: dict[int, Run] = {}
        self._numbers = 0
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._events = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._address = str(folder / f"e{os.getpid()}.sock")
        Path(self._address).unlink(missing_ok=True)
        self._events.bind(self._address)
        self._closing = False
        errors = (folder / "zygote.log").open("ab")
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote", self._address, *mutants],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", **(environment or {})},
        )  # fmt: skip
        errors.close()
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._read_answers, self._read_events)
        ]
        for thread in self._threads:
            thread.start()
        if "ready" not in self._answers.get(timeout=180):
            self.close()
            raise RuntimeError((folder / "zygote.log").read_text()[-2000:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all runs and everything this object started."""
        for run in list(self._runs.values()):
            if run.status is None:
                run.signal_group(signal.SIGKILL)
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.close()
        self._zygote.wait(30)
        self._closing = True
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"{}", self._address)
        for thread in self._threads:
            thread.join()
        self._zygote.stdout.close()
        self._events.close()
        Path(self._address).unlink(missing_ok=True)
        for proxy in self.proxies.values():
            proxy.close()
        if self._small_disk:
            subprocess.run(["umount", "--lazy", str(self.segments)], check=True)

    def open_proxies(self, name: str, addresses: str, *, kafka: bool) -> ProxyGroup:
        """Put proxies before a further server, which need not be of this sandbox."""
        self.proxies[name] = ProxyGroup(addresses, kafka=kafka)
        return self.proxies[name]

    def fill_disk(self) -> None:
        """Leave no byte of the segment store's disk; nothing where it is not a small one."""
        if not self._small_disk:
            return
        with suppress(OSError), (self.segments / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1 << 16))
        with suppress(OSError), (self.segments / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(b"0")

    def free_disk(self) -> None:
        """Make room again."""
        (self.segments / "filler").unlink(missing_ok=True)

    def sql(self) -> pymysql.connections.Connection[Any]:
        """Connect to the source, not through its proxy."""
        host, port = self.sandbox.address("mysql").split(":")
        return pymysql.connect(
            host=host, port=int(port), user=ROOT.user, password="", autocommit=True, charset="utf8mb4",
            connect_timeout=5, read_timeout=60,
        )  # fmt: skip

    def start(self, flow: Flow, **command: Any) -> Run:
        """Start a run; `command` may hold batching, limits, point, installation."""
        return self._command(flow, **command)

    def _command(self, flow: Flow, **command: Any) -> Run:
        self._numbers += 1
        number = self._numbers
        message = {
            "run": number,
            "log": str(self.log),
            "flow": flow.to_json(),
            "connections": self.environment,
            "executors": max(getattr(spec, "slots", 1) for spec in flow.sinks),
            "batching": {"max_rows": 40, "max_seconds": 0.3},
            "limits": {"max_seconds": 60, "lease_wait_s": 20},
            "settings": {
                "installation": "faults",
                "segment_store": str(self.segments),
                "records_url": f"sqlite:///{self.folder / 'records.db'}",
            },
            **command,
        }
        assert self._zygote.stdin is not None
        # The run tells nothing before its process id is known: events are looked up by run number.
        run = Run(number, 0)
        self._runs[number] = run
        self._zygote.stdin.write(json.dumps(message) + "\n")
        self._zygote.stdin.flush()
        answer = self._answers.get(timeout=300)
        if answer.get("run") != number:
            raise RuntimeError(f"{answer}: {(self.folder / 'zygote.log').read_text()[-2000:]}")
        run.pid = answer.get("started", 0)
        if not run.pid:
            del self._runs[number]
        return run

    def warm(self, flow: Flow) -> None:
        """Let the forking process load compiled kernels by reading some changes; the source must hold some."""
        self._command(flow, warm=True)

    def expire(self, run: Run) -> None:
        """End the run's ZooKeeper sessions at once, as their time-out would a little later."""
        for event in run.told("session"):
            client = KazooClient(
                self.sandbox.address("zookeeper"),
                client_id=(event["id"], bytes.fromhex(event["password"])),
                timeout=4,
                logger=_QUIET,
            )
            with suppress(Exception):
                client.start(5)
            with suppress(Exception):
                client.stop()
            client.close()

    def _redirect(self, variable: str, proxies: ProxyGroup) -> None:
        value = json.loads(self.environment[variable])
        if value["conn_type"] == "kafka":
            value["extra"] = {**value["extra"], "bootstrap.servers": proxies.address}
        elif "hosts" in value.get("extra", {}):
            value["extra"]["hosts"] = proxies.address
        else:
            value.update(host="127.0.0.1", port=proxies.members[0].port)
        if value["conn_type"] == "zookeeper":
            value["extra"] = {**value.get("extra", {}), "session_timeout_s": SESSION_TIMEOUT_S}
        self.environment[variable] = json.dumps(value)

    def _read_answers(self) -> None:
        assert self._zygote.stdout is not None
        for line in self._zygote.stdout:
            answer = json.loads(line)
            if "exited" not in answer:
                self._answers.put(answer)
                continue
            for run in list(self._runs.values()):
                if run.pid == answer["exited"]:
                    with run.changed:
                        run.status = answer["status"]
                        run.changed.notify_all()
        self._answers.put({})

    def _read_events(self) -> None:
        while True:
            event = json.loads(self._events.recv(65_536))
            if self._closing:
                return
            run = self._runs[event["run"]]
            event["at"] = time.time()  # by the clock that is right
            with run.changed:
                run.events.append(event)
                run.changed.notify_all()
