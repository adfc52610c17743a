"""`make faults ROUNDS=n SEED=s`: play faults on servers of its own, print the table, keep the report."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from databus.core.flow import Mode
from databus.sandbox import Sandbox, SandboxOptions
from tests.faults.harness import Harness
from tests.faults.report import RESULTS, say
from tests.faults.schedule import schedule
from tests.faults.world import World


def command(
    harness: type[Harness],
    head: str,
    rounds: int,
    ports_from: int,
    about: str | None = __doc__,
    program: str = "faults",
) -> int:
    """Play faults as the command line says; return the exit code.

    Args:
        harness: plays them on one flow.
        head: beginning of the flow's name.
        rounds: how many, unless the command line says it.
        ports_from: first port of the servers, likewise.
        about: what the command is for.
        program: name of the command, of its folder and of its report.
    """
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many minutes, 0 for no bound")
    parser.add_argument("--server-share", type=float, default=0.1)
    parser.add_argument("--kinds", nargs="*", default=[], help="only these faults, e.g. 'zombie driver'")
    parser.add_argument("--ports-from", type=int, default=ports_from)
    parser.add_argument("--home", type=Path, help="folder of servers that stay up; default: servers of its own")
    parser.add_argument("--mode", choices=get_args(Mode), default="standard", help="of the flow: live is the live lane")
    parser.add_argument("--mutant", nargs="*", default=[])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # servers and mounts are cleared away on the way out
    with tempfile.TemporaryDirectory(prefix=f"databus-{program}-") as made:
        home = options.home or Path(made)
        sandbox = Sandbox(home, ports_from=options.ports_from, options=SandboxOptions())
        sandbox.up(("zookeeper", "kafka", "mysql"))
        try:
            return _play(sandbox, Path(made) / "work", options, harness, (head, program))
        finally:
            if options.home is None:
                sandbox.destroy()


def _play(
    sandbox: Sandbox, folder: Path, options: argparse.Namespace, made: type[Harness], names: tuple[str, str]
) -> int:
    faults = schedule(options.rounds, options.seed, options.server_share, tuple(options.kinds))
    until = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    sys.stdout.write(f"seed {options.seed}, {len(faults)} rounds\n")
    with World(sandbox, folder, tuple(options.mutant), small_disk=os.getuid() == 0) as world:
        harness = made(world, f"{names[0]}_{os.getpid()}_{options.seed}", options.seed, say, options.mode)
        try:
            report = harness.play(faults, until)
        finally:
            harness.close()
            file = RESULTS / f"{names[1]}-{options.seed}.json"
            harness.report.keep(file, world.log)
    sys.stdout.write(f"{report.summary()}; {report.facts}; report: {file}\n")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(command(Harness, "faults", 100, 29_000))
