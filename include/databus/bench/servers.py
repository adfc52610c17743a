"""Servers of one benchmark run: started for it, and removed with all that they wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from databus.sandbox import Sandbox, SandboxOptions


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
        say: is told which servers start.
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


def path_servers(*, debezium: bool) -> tuple[str, ...]:
    """Return the servers of the path from a binlog to Kafka, with the peer's or without."""
    return ("zookeeper", "kafka", "mysql", "spark", *(("debezium",) if debezium else ()))
