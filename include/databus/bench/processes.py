"""Servers of a benchmark run, and CPU time of processes that do a piece of work."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from databus.sandbox import Sandbox, SandboxOptions


class CpuMeter:
    """Counts the CPU seconds of some process trees from its making on.

    Args:
        pids: roots of the trees.
        own: whether this process, without its children, counts too.
    """

    def __init__(self, pids: Iterable[int], *, own: bool = False) -> None:
        self._roots = [psutil.Process(pid) for pid in pids]
        self._own = own
        self._began, self._began_own = self._trees(), time.process_time()
        self._began_roots = self._of_roots()

    def seconds(self) -> float:
        """Return the CPU seconds used since the start."""
        own = time.process_time() - self._began_own if self._own else 0.0
        return self._trees() - self._began + own

    def of_roots(self) -> float:
        """Return what the roots alone used since the start, without the processes that they began."""
        return self._of_roots() - self._began_roots

    def peak_rss_mb(self) -> float:
        """Return the resident memory of the trees now, in MiB."""
        return sum(self._each(lambda p: p.memory_info().rss)) / 2**20

    def _trees(self) -> float:
        def used(process: psutil.Process) -> float:
            times = process.cpu_times()
            # What ended children used is counted by their parent, once it has waited for them.
            return float(times.user + times.system + times.children_user + times.children_system)

        return sum(self._each(used))

    def _of_roots(self) -> float:
        used = [root.cpu_times() for root in self._roots]
        return sum(float(times.user + times.system) for times in used)

    def _each(self, ask: object) -> list[float]:
        found: list[float] = []
        for root in self._roots:
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found.append(ask(process))  # type: ignore[operator]
        return found


@contextmanager
def fresh_servers(
    names: Sequence[str],
    say: Callable[[str], None],
    ports_from: int,
    options: Callable[[Path], SandboxOptions] = lambda _home: SandboxOptions(),
) -> Iterator[Sandbox]:
    """Start servers in a temporary folder, the sandbox's `home`; destroy them and the folder at the end.

    Args:
        names: the servers, as `databus sandbox up` knows them.
        say: called with the servers that start.
        ports_from: free ports are taken from this number on.
        options: choices for the servers, by the sandbox's home.

    Raises:
        SandboxError: a server failed.
    """
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)  # database servers run as users of their own
        sandbox = Sandbox(home, ports_from=ports_from, options=options(home))
        try:
            say(f"starting {', '.join(names)}")
            sandbox.up(names)
            yield sandbox
        finally:
            sandbox.destroy()


def path_servers(*, debezium: bool, registry: bool = False) -> tuple[str, ...]:
    """Return the servers of the path from a binlog to Kafka, with the peer's and a schema registry or without."""
    more = {"debezium": debezium, "apicurio": registry}
    return ("zookeeper", "kafka", "mysql", "spark", *(name for name, wanted in more.items() if wanted))
