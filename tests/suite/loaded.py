"""A sample of the server tests beside two busy loops: what waits for times instead of conditions fails here first.

`python -m tests.suite.loaded [pytest's arguments]`; the tests are chosen by the paths they take, a few minutes in all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.suite import child
from tests.suite.steady import ROOT

SAMPLE = (
    "tests/integration/checkpoints/test_sessions.py",
    "tests/integration/test_binlog_relay.py",
    "tests/integration/test_cli.py",
    "tests/integration/test_kafka_flows.py",
    "tests/integration/test_kill.py",
    "tests/integration/test_live_lane.py",
    "tests/integration/test_mirror_faults.py",
    "tests/integration/test_quarantine_kills.py",
    "tests/integration/test_sink_kafka_faults.py",
    "tests/integration/test_sink_search_faults.py",
    "tests/integration/test_takeover.py",
    "tests/integration/test_watch.py",
    "tests/integration/test_zookeeper_ensemble.py",
)
LOOPS = 2


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep as many cores busy as there are loops; they end with this process, however it ends."""
    running = [
        subprocess.Popen([sys.executable, "-c", f"import os\nwhile os.getppid() == {os.getpid()}: pass"])
        for _ in range(loops)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the sample, one process beside the loops."""
    with busy(LOOPS):
        return child.run([sys.executable, "-m", "pytest", *SAMPLE, *arguments], ROOT)


if __name__ == "__main__":
    sys.exit(child.interruptible(lambda: main(sys.argv[1:])))
