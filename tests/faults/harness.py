"""The fast loop: runs of the real path, one fault after the other, and the oracle after each."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

import psutil

from databus import Flow, Kafka, MysqlBinlog
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.connections import Connection
from databus.core.flow import Mode
from tests.faults.changes import ChangeWriter
from tests.faults.oracle import TopicOracle, Verdict, judge_history
from tests.faults.report import Report
from tests.faults.runs import STUCK_S, FlowRuns
from tests.faults.schedule import Fault
from tests.faults.world import SESSION_TIMEOUT_S, Run, World

_BACKLOG = 300
"""The writer waits while so many changes were not yet seen."""

ZOMBIES = ("zombie driver", "zombie both", "zombie executor", "late initialiser")
_ORPHANS = ("zombie executor", "late initialiser")


class Writer(Protocol):
    """Writes to the source until it is stopped.

    Attributes:
        full: asked before each transaction whether to wait.
        total: how much there is to be seen of what was written so far.
        transactions: number of committed transactions.
    """

    full: Callable[[], bool]
    total: int
    transactions: int

    def start(self) -> None: ...

    def stop(self) -> None:
        """Stop after the transaction in hand; raises what went wrong."""

    def snapshot(self) -> Any:
        """Return what was written, for the oracle's `settle`."""

    def close(self) -> None: ...


class Oracle(Protocol):
    """Reads what arrives, and judges it.

    Attributes:
        verdict: what was found.
    """

    verdict: Verdict

    @property
    def seen(self) -> int:
        """How much has arrived."""

    def poll(self, patience_s: float = 5.0) -> int:
        """Read on; return how many records came."""

    def settle(self, expected: Any) -> None:
        """Compare all that was seen with all that was written."""

    def close(self) -> None: ...


class Harness:
    """One flow, its writer, its oracle and its report."""

    written_before = 60
    """Transactions that are written before the flow is there."""

    def __init__(
        self,
        world: World,
        name: str,
        seed: int,
        tell: Callable[[str], None] = lambda _line: None,
        mode: Mode = "standard",
    ):
        writer = ChangeWriter(world.sql, name, seed)
        source = writer.create()
        writer.write(self.written_before)
        flow = Flow(
            name=name,
            source=self._read_from(source),
            sinks=(
                Kafka(
                    conn_id="kafka_east",
                    topic=name,
                    partitions=5,
                    slots=2,
                    chunk_rows=10,
                    timeout=timedelta(seconds=20),
                ),
            ),
            mode=mode,
        )
        self._open(world, flow, seed, tell, (writer, self._oracle_of(world.sandbox.address("kafka"), writer)))
        world.warm(flow.model_copy(update={"source": source}))  # one that has something to read

    def _read_from(self, source: MysqlBinlog) -> MysqlBinlog:
        """Return the flow's source, of one that reads all that was written."""
        return source

    def _oracle_of(self, bootstrap: str, writer: ChangeWriter) -> Oracle:
        """Return who judges what arrives in the topic, which has the name of the writer's database."""
        return TopicOracle(bootstrap, writer.database)

    def _open(
        self, world: World, flow: Flow, seed: int, tell: Callable[[str], None], given: tuple[Writer, Oracle]
    ) -> None:
        self.world, self.flow, self.name, self._tell = world, flow, flow.name, tell
        self.report = Report(seed)
        self.writer, self.oracle = given
        host, _, port = world.sandbox.address("zookeeper").partition(":")
        self._store = ZooKeeperCheckpoints(
            Connection(conn_id="oracle", conn_type="zookeeper", host=host, port=int(port))
        )
        self.runs = FlowRuns(world, self.flow, self.report, self._relieve)
        self.writer.full = lambda: self.writer.total - self.oracle.seen > _BACKLOG

    def close(self) -> None:
        """Stop the writer and all runs."""
        for run in self.runs.all:
            run.signal_group(signal.SIGKILL)
        try:
            self.writer.stop()
        finally:
            self.writer.close()
            self.oracle.close()
            self._store.close()
            self._drop()

    def _drop(self) -> None:
        with suppress(Exception), self.world.sql() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {self.name}")

    def play(self, faults: Sequence[Fault], until: float = float("inf")) -> Report:
        """Play the faults until one leaves a finding or the monotonic clock passes `until`; then settle.

        Every change that was written is compared at the end.
        """
        self.writer.start()
        for number, fault in enumerate(faults):
            if time.monotonic() > until or not self.report.clean:
                break
            self.runs.fault = fault.kind
            self.report.note(f"round {number}: {fault}")
            self._round(fault)
            self.report.rounds[fault.kind] += 1
            self.judge()
            if number % 20 == 19:
                self._tell(
                    f"{number + 1} rounds, {self.oracle.seen} changes seen, {len(self.report.findings)} findings"
                )
        self.runs.fault = "at the end"
        self.settle()
        return self.report

    def _relieve(self) -> None:
        """Read on when the writer waits for the oracle."""
        if self.writer.full():
            self.oracle.poll()

    def judge(self) -> None:
        """Let the oracle read on, and take over what it found."""
        self.oracle.poll()
        self.report.take(self.oracle.verdict, self.runs.fault)

    def settle(self) -> None:
        """Stop the writer, let the path catch up, and compare every change."""
        self.writer.stop()
        deadline = time.monotonic() + 3 * STUCK_S
        while True:
            run = self.runs.start(until_caught_up=True, max_rows=5000)
            status = run.wait_end(STUCK_S)
            self.report.note_end(run)
            if status == 0 and any(e["lag"] == 0 for e in run.told("ended")):
                break
            self.world.expire(run)
            if time.monotonic() > deadline:
                self.report.find("stuck", self.runs.fault, f"no run catches up: {run.events[-1]}")
                return
        # A transaction's end becomes visible a moment after the broker has answered its commit.
        deadline = time.monotonic() + STUCK_S / 3
        while self.oracle.poll(30) or (self.oracle.seen < self.writer.total and time.monotonic() < deadline):
            time.sleep(0.1)
        self.oracle.settle(self.writer.snapshot())
        self._check_history(self.runs.fault, 1000)
        self.report.take(self.oracle.verdict, self.runs.fault)
        self.report.facts.update(
            changes=self.writer.total, transactions=self.writer.transactions, runs=len(self.runs.all)
        )

    # --- rounds ---

    def _round(self, fault: Fault) -> None:
        if fault.kind in ZOMBIES:
            self._zombie_round(fault)
        elif fault.kind.startswith("kill"):
            self._kill_round(fault)
        else:
            self._server_round(fault)

    def _kill_round(self, fault: Fault) -> None:
        run = self.runs.start(fault, action="kill")
        if fault.point:
            if run.wait_for("point", timeout_s=5) is None:
                # The point was not passed so often: killed where it stands.
                self.report.note(f"run {run.number}: {fault.point} not passed {fault.hit} times")
                run.signal_group(signal.SIGKILL)
            elif fault.kind == "kill at executor point":
                run.wait_end(30)  # the driver hears of its executor's end and ends in order
        else:
            run.wait_for("claimed", timeout_s=30)
            time.sleep(fault.after_s)
            if fault.kind == "kill driver":
                _signal(run.pid, signal.SIGKILL)
            elif fault.kind == "kill both":
                run.signal_group(signal.SIGKILL)
            else:
                _signal(run.executors[self.runs.slot(fault)], signal.SIGKILL)
        ended = time.time()
        if fault.kind == "kill executor" and self.runs.ended(run, 30) is None:
            self.report.find("stuck", fault.kind, f"run {run.number} goes on without its executor")
            run.signal_group(signal.SIGKILL)
        run.wait_end(30)
        self.report.note_end(run)
        self.runs.recovered(run)
        self.runs.owe(fault.kind, ended)
        self.world.expire(run)

    def _zombie_round(self, fault: Fault) -> None:
        """Stop a holder, let another take over and commit, and wake the first."""
        run = self.runs.start(fault, action="stop")
        passed = bool(fault.point) and run.wait_for("point", timeout_s=5) is not None
        if fault.point and not passed:
            self.report.note(f"run {run.number}: {fault.point} not passed {fault.hit} times")
        if not fault.point:
            run.wait_for("claimed", timeout_s=30)
            time.sleep(fault.after_s)
        slot = self.runs.slot(fault)
        stopping = {"zombie driver": [run.pid], **dict.fromkeys(_ORPHANS, run.executors[slot : slot + 1])}
        for pid in stopping.get(fault.kind, [run.pid, *run.executors]):
            if not passed:
                _signal(pid, signal.SIGSTOP)
            _wait_stopped(pid)
        if fault.kind in _ORPHANS:
            _signal(run.pid, signal.SIGKILL)  # an orphan: its driver is gone, its task goes on later
            run.wait_end(10)
        self.runs.recovered(run)
        stopped = time.time()
        if fault.timed_out:
            time.sleep(SESSION_TIMEOUT_S + 1.5)
        else:
            self.world.expire(run)
        self.runs.owe(fault.kind, stopped + (SESSION_TIMEOUT_S + 1.5 if fault.timed_out else 0))
        heir = self.runs.committing(fault.commits)
        woken = time.time()
        deadline = time.monotonic() + 45
        while True:  # again and again: it may stop itself at its point only now
            run.signal_group(signal.SIGCONT)
            if run.wait_end(0.5) is not None or time.monotonic() > deadline:
                break
        if heir is not None:  # the new holder goes on, whatever the woken one did
            heir = self.runs.committing(1, heir)
        self._judge_zombie(run, fault.kind, woken)
        if heir is not None:
            self.runs.stop_in_order(heir)

    def _judge_zombie(self, run: Run, kind: str, woken: float) -> None:
        """A woken run must end, and must not have moved anything."""
        if run.status is None:
            self.report.find("zombie", kind, f"run {run.number} does not end after it was woken")
            run.signal_group(signal.SIGKILL)
        self._check_history(kind)
        told = [e for name in ("refused", "found", "wrote", "failed") for e in run.told(name) if e["at"] > woken]
        # "wrote" is told by one that was stopped behind its commit; whether a row came twice, the oracle tells.
        self.report.fates.update(f"{kind}: {e['event']} {e.get('code', '')}" for e in told)
        self.report.fates["zombies"] += 1
        self.report.note_end(run, "zombie: ")

    def _check_history(self, kind: str, last: int = 60) -> None:
        """What was committed follows one from the other, and no epoch commits after a newer one did."""
        for found, text in judge_history(self._store.history(self.name, last)):
            self.report.find(found, kind, text)

    def _server_round(self, fault: Fault) -> None:
        server, _, what = fault.kind.partition(" ")
        if server == "disk":
            self._disk_round(fault)
            return
        run = self.runs.committing(1) or self.runs.start()
        time.sleep(fault.after_s / 2)
        self._befall(server, what, fault)
        self.runs.owe(fault.kind, time.time())
        run = self.runs.committing(1, run) or run
        self.runs.stop_in_order(run)

    def _befall(self, server: str, what: str, fault: Fault) -> None:
        """Let the fault befall a server, and end it."""
        sandbox, proxy = self.world.sandbox, self.world.proxies[server]
        if what == "killed":
            sandbox.kill(server)
            time.sleep(fault.lasts_s)
            sandbox.up([server], progress=_quiet)
        elif what == "restarted":
            sandbox.restart(server, progress=_quiet)
        elif what == "paused":
            sandbox.pause(server)
            time.sleep(fault.lasts_s)
            sandbox.resume(server)
        elif what == "cut":
            for _ in range(3):
                proxy.cut()
                time.sleep(fault.lasts_s / 10)
        else:
            if what == "delayed":
                proxy.delay(0.2)
            else:
                proxy.stop("to" if what == "hears not" else "from")
            time.sleep(fault.lasts_s)
            proxy.heal()

    def _disk_round(self, fault: Fault) -> None:
        """Fill the disk that segments are staged on, and make room again."""
        run = self.runs.committing(1)
        self.world.fill_disk()
        time.sleep(1 + fault.lasts_s)
        self.world.free_disk()
        self.runs.owe(fault.kind, time.time())
        run = self.runs.committing(1, run)
        if run is not None:
            self.runs.stop_in_order(run)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_stopped(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            time.sleep(0.005)


def _quiet(_event: object) -> None:
    pass
