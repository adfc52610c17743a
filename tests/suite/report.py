"""Report of a whole run of the full tier, kept in docs/ with the commit it is of."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.suite.steady import commit

FILE = "DATABUS_TEST_REPORT"
"""Variable that names the file which is written when the run ends."""


class Report:
    """Writes what a run came to."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = {kind: terminalreporter.stats.get(kind, []) for kind in ("passed", "failed", "error", "skipped")}
        lines = [
            "# The last whole run of the full tier",
            "",
            "`make test-full` writes this page.",
            "",
            f"* commit `{commit()}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "* " + ", ".join(f"{len(reports)} {kind}" for kind, reports in counts.items()),
            f"* {(time.monotonic() - self._began) / 60:.1f} minutes, {os.cpu_count()} cores",
            *(f"* {kind}: `{report.nodeid}`" for kind in ("failed", "error") for report in counts[kind]),
        ]
        self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Write the report where the variable asks for it."""
    file = os.environ.pop(FILE, None)
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(Path(file)), "report")
