"""Progress of a run on the terminal: each file as it begins, failures as they happen, no dots that name nothing."""

from __future__ import annotations

import time

import pytest


class RunProgress:
    """Lines like `12:31  34 %  tests/integration/test_kill.py`."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._began = time.monotonic()
        self._begun: set[str] = set()
        self._done = 0
        self._all = 0

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._all = len(ids)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._all = self._all or len(session.items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = nodeid.partition("::")[0]
        if file not in self._begun:
            self._begun.add(file)
            self._line(file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._done += report.when == "teardown"
        if report.failed:
            self._line(f"FAILED in {report.when}: {report.nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        # Without a letter the terminal draws no dot; categories and words are pytest's own.
        if hasattr(report, "wasxfail") or report.skipped:
            return None
        if report.passed:
            return ("passed", "", "PASSED") if report.when == "call" else ("", "", "")
        return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")

    def _line(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        share = 100 * self._done // self._all if self._all else 0
        self._terminal.ensure_newline()
        self._terminal.write_line(f"{minutes:3d}:{seconds:02d} {share:3d} %  {text}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Tell progress so where a person reads: not in a run's processes, nor where -q or -v asks for more or less."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.get_verbosity() == 0 and not hasattr(config, "workerinput"):
        terminal.showfspath = False  # pytest's own line of a file, which one process writes, would double it
        config.pluginmanager.register(RunProgress(terminal), "run-progress")
