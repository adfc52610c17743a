"""`make faults-mirror`: faults on a mirror between two clusters of its own, print the table, keep the report."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from databus.sandbox import Sandbox, SandboxOptions
from tests.faults.mirror.harness import SERVER_FAULTS, MirrorHarness, name_of
from tests.faults.mirror.world import MirrorWorld, Side
from tests.faults.report import RESULTS, say
from tests.faults.schedule import TASK_FAULTS, schedule

_KAFKA = {1: "kafka", 3: "kafka-3"}
_PORTS_APART = 400


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.mirror", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many minutes, 0 for no bound")
    parser.add_argument("--server-share", type=float, default=0.25)
    parser.add_argument("--kinds", nargs="*", default=[], help="only these faults, e.g. 'target link down'")
    parser.add_argument("--source-brokers", type=int, choices=sorted(_KAFKA), default=3)
    parser.add_argument("--target-brokers", type=int, choices=sorted(_KAFKA), default=3)
    parser.add_argument("--ports-from", type=int, default=29_400)
    parser.add_argument("--home", type=Path, help="folder of servers that stay up; default: servers of its own")
    parser.add_argument("--mutant", nargs="*", default=[])
    options = parser.parse_args()
    if unknown := set(options.kinds) - {*TASK_FAULTS, *SERVER_FAULTS}:
        parser.error(f"no fault {', '.join(sorted(unknown))}; there are {', '.join((*TASK_FAULTS, *SERVER_FAULTS))}")
    # Brokers that are started again and again on few cores: the second compiler would cost more than it gives.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    logging.getLogger("databus").setLevel(logging.ERROR)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # servers are cleared away on the way out
    with tempfile.TemporaryDirectory(prefix="databus-faults-mirror-") as made:
        home = options.home or Path(made)
        # Two sandboxes: each has a cluster of three of its own.
        east = Sandbox(home / "source", ports_from=options.ports_from, options=SandboxOptions())
        west = Sandbox(home / "target", ports_from=options.ports_from + _PORTS_APART, options=SandboxOptions())
        source = Side(east, _KAFKA[options.source_brokers], options.source_brokers)
        target = Side(west, _KAFKA[options.target_brokers], options.target_brokers)
        try:
            east.up(("zookeeper", source.server))
            west.up((target.server,))
            return _play(Path(made) / "work", source, target, options)
        finally:
            if options.home is None:
                east.destroy()
                west.destroy()


def _play(folder: Path, source: Side, target: Side, options: argparse.Namespace) -> int:
    faults = schedule(options.rounds, options.seed, options.server_share, tuple(options.kinds), SERVER_FAULTS)
    until = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    sys.stdout.write(f"seed {options.seed}, {len(faults)} rounds\n")
    with MirrorWorld(source.sandbox, folder, source, target, tuple(options.mutant)) as world:
        harness = MirrorHarness(world, name_of(options.seed), options.seed, say)
        try:
            report = harness.play(faults, until)
        finally:
            harness.close()
            file = RESULTS / f"mirror-{options.seed}.json"
            harness.report.keep(file, world.log)
    sys.stdout.write(f"{report.summary()}; report: {file}\n")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
