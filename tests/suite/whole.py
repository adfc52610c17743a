"""Whether a run was whole: each file was collected, each test that was is reported, and no process was lost.

pytest-xdist ends with 0 where a process dies that holds no test (`--max-worker-restart=0`), and never looks at how one
ended that had said it was done.
"""

from __future__ import annotations

import faulthandler
import signal
import tempfile
import time
from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

_NAME = "whole-run"

_ENDS_WITHIN_S = 60.0
"""Seconds that an interrupted run's processes have to stop their servers: pytest-xdist interrupts them again after 5,
and kills them after 10."""

_KILLED_AFTER_S = 10.0
"""Pytest-xdist's own bound (NodeManager.EXIT_TIMEOUT) for a process that had said it was done."""

_STANDS_AFTER_S = 6.0
"""Seconds after its last test from which a process that goes on notes where it stands."""

_STANDS = "stands_in"
"""Of what a process is given: the file for that."""

_LINES = 40
"""Of where a process stood, as they are told."""


class Whole:
    """Counts tests and processes; a run that was not whole fails, and says why."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: Collection[str] = ()
        self._uncollected: list[str] = []
        self._ended: set[str] = set()
        self._lost: dict[str, str] = {}
        self._gateways: list[Any] = []
        self._nodes: list[Any] = []
        self._notes: list[str] = []
        self._standing: dict[str, Path] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.why = ""
        """Why the run was cut off, once it has ended; "" where it was not."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        self._gateways.append(gateway)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="databus-stands-")
        self._standing[node.gateway.id] = Path(self._folder.name, node.gateway.id)
        node.workerinput[_STANDS] = str(self._standing[node.gateway.id])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        self._nodes.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        if error is not None:
            self._lost[node.gateway.id] = "ended before it was done"

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._collected = ids

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # the controller of several processes has none
            self._collected = [item.nodeid for item in session.items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._uncollected.append(report.nodeid or "the tests")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when not in ("setup", "call"):  # "???" where its process was lost
            self._ended.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, trylast=True)  # around pytest-xdist's, which waits for the processes
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None]:
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            self._let_processes_end()
        began = time.monotonic()
        yield
        self._look_at_processes(patient=time.monotonic() - began < _KILLED_AFTER_S)
        self.why = self._why(session, exitstatus)
        if self.why and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for note in self._notes:
            terminalreporter.write_line(note, yellow=True)
        if self.why:
            terminalreporter.write_sep("=", f"cut off: {self.why}", red=True)
        if self._folder is not None:
            self._folder.cleanup()

    def _why(self, session: pytest.Session, exitstatus: int) -> str:
        found = [f"process {name} {how}" for name, how in sorted(self._lost.items())]
        found += [f"{file} could not be collected" for file in self._uncollected]
        stopped = session.shouldfail or session.shouldstop
        if stopped or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            found.append(str(stopped or pytest.ExitCode(exitstatus).name.lower().replace("_", " ")))
        elif not self._config.option.collectonly and (missing := len(set(self._collected) - self._ended)):
            found.append(f"{missing} of {len(set(self._collected))} tests did not run")
        return ", ".join(found)

    def _look_at_processes(self, *, patient: bool) -> None:
        """Note how each process ended: one may die after its last test, as Python ends."""
        for gateway in self._gateways:
            code = gateway._io.popen.poll()
            if gateway.id in self._lost:
                self._lost[gateway.id] += f" ({_how(code)})"
            elif code == -signal.SIGKILL and not patient:
                self._notes.append(f"process {gateway.id} did not end after its last test, and was killed")
                self._notes += self._stood(gateway.id)
            elif code:
                self._lost[gateway.id] = f"died as it ended, after its last test ({_how(code)})"

    def _stood(self, process: str) -> list[str]:
        """Return where a process that did not end stood, thread by thread."""
        file = self._standing.get(process)
        return file.read_text(encoding="utf-8").splitlines()[:_LINES] if file is not None and file.exists() else []

    def _let_processes_end(self) -> None:
        """Wait for processes that were interrupted too, as a terminal does it: they stop their servers now."""
        until = time.monotonic() + _ENDS_WITHIN_S
        for node in self._nodes:
            try:
                node.shutdown()
                node.channel.waitclose(max(0.0, until - time.monotonic()))
            except KeyboardInterrupt:
                return  # asked for once more: at once
            except Exception as error:  # noqa: BLE001 - what a process died of is no matter here; it has ended
                self._notes.append(f"process {node.gateway.id}: {error or type(error).__name__}")


class Ending:
    """Has a process of a run note where it stands, where it goes on after its last test."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        faulthandler.dump_traceback_later(_STANDS_AFTER_S, file=self._file.open("w", encoding="utf-8"))


def _how(code: int | None) -> str:
    return signal.Signals(-code).name if code and code < 0 else f"exit code {code}"


def watched(config: pytest.Config) -> Whole:
    """Return what watches a run, at most one of each; not for a run's processes, which report to their controller."""
    found: Whole | None = config.pluginmanager.get_plugin(_NAME)
    if found is None:
        found = Whole(config)
        config.pluginmanager.register(found, _NAME)
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Watch each run; its processes note where they stand at the end."""
    given: dict[str, str] | None = getattr(config, "workerinput", None)
    if given is None:
        watched(config)
    elif _STANDS in given:
        config.pluginmanager.register(Ending(Path(given[_STANDS])), "ending")
