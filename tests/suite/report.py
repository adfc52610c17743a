"""Report of a whole run of the full tier, or of its two halves, kept in docs/ with the commit each is of."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.suite.steady import LIST, NO_COMMIT, REPORT, ROOT, commit
from tests.suite.whole import Whole, watched

HALVES = ("not full", "full")
"""Values of `-m` with which two runs take each test once between them; a run without `-m` takes all."""

KINDS = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
"""What is counted."""

NAMED = ("failed", "error", "skipped", "xfailed", "xpassed")

_SOME = ("keyword", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "collectonly", "setuponly", "setupplan")
"""Options of pytest that take only some tests, or run none of them."""

_HEAD = "# The last whole run of the full tier\n\n`make test-full` writes this page, a half of it with `HALF=`.\n"
_TITLE = '## `-m "{}"`\n'
_PART = re.compile(r'(?m)^## `-m "(.+)"`\n')
_NOT_RUN = "* not run at this commit\n"


def page(kept: str, selection: str, part: str, at: str) -> str:
    """Return the page after a run.

    Args:
        kept: the page before it.
        selection: the run's `-m`; "" for all tests.
        part: what the run came to, as lines that begin with a star; the first names the commit.
        at: the commit; a half that was run at another one is taken off.
    """
    if selection not in HALVES:
        return f"{_HEAD}\n{part}"
    pieces = _PART.split(kept)
    parts = dict(zip(pieces[1::2], (text.strip() + "\n" for text in pieces[2::2]), strict=True))
    found = {half: text for half, text in parts.items() if text.startswith(_of(at))} | {selection: part}
    return "\n".join([_HEAD, *(f"{_TITLE.format(half)}\n{found.get(half, _NOT_RUN)}" for half in HALVES)])


def outcome(counts: Mapping[str, list[str]], at: str, minutes: float) -> str:
    """Return the lines of a run: commit, counts, minutes, what failed and what was skipped."""
    lines = [
        f"{_of(at)}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "* " + ", ".join(f"{len(tests)} {kind}" for kind, tests in counts.items()),
        f"* {minutes:.1f} minutes, {os.cpu_count()} cores",
        *(f"* {kind}: `{test}`" for kind in NAMED for test in counts[kind]),
    ]
    return "\n".join(lines) + "\n"


def _of(at: str) -> str:
    return f"* commit `{at}`"


def code(root: Path = ROOT) -> str:
    """Return the commit that a run is of, and that the files differ from it where they do."""
    at = commit(root)
    if at == NO_COMMIT:
        return at
    told = subprocess.run(
        ["git", "status", "--porcelain", "--", ".", ":!docs/test_full.md", f":!docs/{LIST.name}"],
        cwd=root, check=False, capture_output=True, text=True,
    )  # fmt: skip
    return at + (" with changes" if told.stdout.strip() else "")


class Report:
    """Writes what a run came to; of one that was cut off, nothing."""

    def __init__(self, file: Path, selection: str, whole: Whole) -> None:
        self._file, self._selection, self._whole = file, selection, whole
        self._began = time.monotonic()
        self._at = code()  # what is run is what is there at the start

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._whole.why:
            terminalreporter.write_line(f"no report into {self._file}: the run was cut off", yellow=True)
            return
        stats = terminalreporter.stats
        counts = {kind: [str(report.nodeid) for report in stats.get(kind, [])] for kind in KINDS}
        part = outcome(counts, self._at, (time.monotonic() - self._began) / 60)
        kept = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        self._file.write_text(page(kept, self._selection, part, self._at), encoding="utf-8")


class _NoReport:
    """Says at the end that nothing was written; a warning would be an error, and end the run as it begins."""

    def __init__(self, file: str) -> None:
        self._file = file

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"no report into {self._file}: only some tests run", yellow=True)


def pytest_configure(config: pytest.Config) -> None:
    """Write the report where the variable asks for it, and the run takes all tests or one of the halves."""
    file = os.environ.pop(REPORT, None)
    if not file or hasattr(config, "workerinput"):
        return
    selection = str(config.option.markexpr)
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    if chosen or selection not in ("", *HALVES) or any(getattr(config.option, option, None) for option in _SOME):
        config.pluginmanager.register(_NoReport(file), "report")
        return
    config.pluginmanager.register(Report(Path(file), selection, watched(config)), "report")
