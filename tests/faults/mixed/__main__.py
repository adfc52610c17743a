"""`make faults-mixed`: play mixed faults on clusters of its own, print timeline and table, keep the report."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from databus.sandbox import Sandbox, SandboxOptions
from tests.faults.mixed.cluster import CONNECTIONS, ENGINE, SERVERS
from tests.faults.mixed.faults import EVERY, FAULTS, ON_SPARK
from tests.faults.mixed.loop import MixedLoop
from tests.faults.mixed.step_clock import StepClock
from tests.faults.report import RESULTS, say
from tests.faults.world import World


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.mixed", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", nargs="*", default=[], help="only these faults")
    parser.add_argument("--ports-from", type=int, default=29_200)
    parser.add_argument("--home", type=Path, help="folder of servers that stay up; default: servers of its own")
    parser.add_argument("--spark", action="store_true", help="tasks run in a real Spark Connect server: a slow loop")
    options = parser.parse_args()
    if unknown := set(options.kinds) - EVERY.keys():
        parser.error(f"no fault {', '.join(unknown)}; there are {', '.join(EVERY)}")
    # Servers that are started again and again on few cores: the second compiler would cost more than it gives.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    logging.getLogger("databus").setLevel(logging.ERROR)  # what the oracle's own connections meet is no news
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # servers and mounts are cleared away on the way out
    with tempfile.TemporaryDirectory(prefix="databus-mixed-") as made:
        sandbox = Sandbox(
            options.home or Path(made),
            ports_from=options.ports_from,
            options=SandboxOptions(spark_driver_memory="1g"),
        )
        try:
            sandbox.up((*SERVERS, ENGINE) if options.spark else SERVERS)
            return _play(sandbox, Path(made) / "work", options)
        finally:
            if options.home is None:
                sandbox.destroy()


def _play(sandbox: Sandbox, folder: Path, options: argparse.Namespace) -> int:
    sys.stdout.write(f"seed {options.seed}, {options.minutes:g} minutes\n")
    clock, small = StepClock(folder), os.getuid() == 0
    with World(sandbox, folder, small_disk=small, servers=CONNECTIONS, environment=clock.environment) as world:
        name = f"mixed_{os.getpid()}_{options.seed}"
        loop = MixedLoop(world, clock, name, options.seed, say, on_spark=options.spark)
        file = RESULTS / f"mixed-{options.seed}.json"
        kinds = options.kinds or tuple(ON_SPARK if options.spark else FAULTS)
        try:
            report = loop.play(kinds, options.rounds, time.monotonic() + options.minutes * 60)
        finally:
            loop.close()
            loop.report.keep(file, world.log)
    sys.stdout.write(f"{report.summary()}; report: {file}\n")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
